"""The operator's Prometheus metrics: about itself, and about each stream's status."""

from penstock.controller.metrics.operator_metrics import OperatorMetrics

__all__ = ["OperatorMetrics"]
