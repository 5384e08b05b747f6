"""One JVM and one broker for all the real tests of the driver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.cluster.jars import connector_jars
from e2e.cluster.kafka import LocalBroker, local_broker
from penstock.driver.jvm import Jvm
from tests.driver.running import Topics


@pytest.fixture(scope="session")
def class_path() -> str:
    """The connector's jars, which are baked into the image and not into pyspark."""
    return f"{connector_jars()}/*"


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    """A broker on loopback. Tests that stop it start it again."""
    with local_broker() as running:
        yield running


@pytest.fixture(scope="session")
def jvm(class_path: str) -> Iterator[Jvm]:
    """A JVM that tests start and stop their sessions in, one after the other."""
    running = Jvm.launch(1024, class_path, "127.0.0.1")
    yield running
    running.end()


@pytest.fixture
def topics(broker: LocalBroker) -> Topics:
    """Makes topics, and sends to and reads from them."""
    return Topics(broker.bootstrap)
