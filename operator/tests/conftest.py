"""One JVM and one broker for all the real tests of the driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.driver.jvm import Jvm
from testkit.kafka.broker import LocalBroker, local_broker
from testkit.kafka.jars import connector_jars
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import MICRO_BATCH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


@pytest.fixture(scope="module")
def shared(broker: LocalBroker) -> Topics:
    """Topics for a whole module."""
    return Topics(broker.bootstrap)


@pytest.fixture(scope="module")
def spark(
    jvm: Jvm, shared: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """One session for a whole module, whose tests start no driver's loop beside it."""
    from testkit.driver.bare_query import bare_session

    any_of = number_flow(shared, "any", "any", MICRO_BATCH)
    with bare_session(jvm, any_of, tmp_path_factory.mktemp("session")) as session:
        yield session
