"""The operator's Prometheus metrics: about itself, and about each stream's status."""

from penstock.controller.metrics.operator_metrics import Metrics

__all__ = ["Metrics"]
