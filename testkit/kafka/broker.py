"""A real Kafka broker on loopback, for tests that need no cluster. Ready in a few seconds."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from penstock.local.kafka.broker import Broker, free_ports
from testkit import system_packages
from testkit.kafka.jars import kafka_jars

__all__ = ["LocalBroker", "free_ports", "local_broker"]


class LocalBroker(Broker):
    """The broker of `penstock run`, with the jars that the tests have."""

    def __init__(self, folder: Path) -> None:
        system_packages.require("java")
        super().__init__(folder, kafka_jars())


@contextlib.contextmanager
def local_broker() -> Iterator[LocalBroker]:
    """A fresh broker without topics, gone with all its data at the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-kafka-"))
    broker: LocalBroker | None = None
    try:
        broker = LocalBroker(folder)
        broker.start()
        yield broker
    finally:
        if broker is not None:
            broker.kill()
        shutil.rmtree(folder, ignore_errors=True)
