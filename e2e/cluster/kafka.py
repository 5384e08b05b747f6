"""Kafka for tests: a broker on loopback (``local_broker``), or one in the cluster."""

from e2e.cluster.broker import LocalBroker, local_broker

__all__ = ["LocalBroker", "local_broker"]
