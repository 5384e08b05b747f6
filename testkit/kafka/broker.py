"""A real Kafka broker on loopback, for tests without a cluster. It starts in a few seconds."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from penstock.local.kafka.broker import Broker, free_ports
from testkit.kafka.jars import kafka_jars

__all__ = ["Broker", "OtherCluster", "free_ports", "running_broker"]


class OtherCluster(Broker):
    """A broker of another cluster than all others here."""

    cluster_id = "penstockOtherTestAAAAA"


@contextlib.contextmanager
def running_broker(kind: type[Broker] = Broker) -> Iterator[Broker]:
    """A broker without topics, removed with all its data at the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-kafka-"))
    broker: Broker | None = None
    try:
        broker = kind(folder, kafka_jars())
        broker.start()
        yield broker
    finally:
        if broker is not None:
            broker.kill()
        shutil.rmtree(folder, ignore_errors=True)
