"""One JVM, one broker and one object store for all tests of the driver with real parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.driver.jvm import Jvm, fast_start_options
from testkit.driver.fake_kubelet import Kubelet
from testkit.driver.hosts_file import HostsFile
from testkit.kafka.broker import Broker, running_broker
from testkit.kafka.jars import connector_jars
from testkit.kafka.topics import Topics, number_flow
from testkit.object_store.proxy import S3Proxy, s3_proxy
from testkit.object_store.server import LocalObjectStore, ObjectStore, object_store
from testkit.object_store.streams import CheckpointBucket
from testkit.postgres import Postgres, Tables, running_postgres
from testkit.streams.streams import MICRO_BATCH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def class_path() -> str:
    """The jars that are in the image and not in pyspark."""
    return f"{connector_jars()}/*"


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker on loopback. A test that stops it starts it again."""
    with running_broker() as running:
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A database server on loopback. A test that stops it starts it again."""
    with running_postgres() as running:
        yield running


@pytest.fixture
def tables(postgres: Postgres) -> Tables:
    """A schema of the test's own, and a user of it."""
    return Tables.made(postgres)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalObjectStore]:
    """An object store on loopback. A test makes a bucket of its own."""
    with object_store(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def proxy(s3: ObjectStore) -> Iterator[S3Proxy]:
    """What counts the store's requests, and breaks them."""
    with s3_proxy(s3) as serving:
        yield serving


@pytest.fixture
def bucket(s3: ObjectStore, proxy: S3Proxy, tmp_path: Path) -> CheckpointBucket:
    """For the checkpoints of a test's streams, which reach it through the proxy."""
    return CheckpointBucket.made(s3, tmp_path, proxy)


@pytest.fixture(scope="session")
def jvm_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What that JVM logs."""
    return tmp_path_factory.mktemp("jvm") / "jvm.log"


@pytest.fixture(scope="session")
def jvm_hosts(tmp_path_factory: pytest.TempPathFactory) -> HostsFile:
    """The names that the JVM can resolve; a test may change them."""
    return HostsFile(tmp_path_factory.mktemp("hosts") / "hosts")


@pytest.fixture(scope="session")
def jvm(class_path: str, jvm_log: Path, jvm_hosts: HostsFile) -> Iterator[Jvm]:
    """A JVM in which the tests start and stop their sessions, one after the other."""
    options = fast_start_options([jvm_hosts.java_option], 1024, cores=0)
    running = Jvm.launch(1024, class_path, "127.0.0.1", options, log=jvm_log)
    yield running
    running.end()


@pytest.fixture
def kubelet(class_path: str, tmp_path: Path) -> Iterator[Kubelet]:
    """A fake Kubernetes, with the pod of the driver of the stream `numbers`."""
    one = Kubelet(class_path, tmp_path)
    one.add("numbers-driver-0", {"app": "driver"})
    yield one
    one.close()


@pytest.fixture
def topics(broker: Broker) -> Topics:
    """Creates topics, and sends and reads numbered records."""
    return Topics(broker.bootstrap)


@pytest.fixture(scope="module")
def shared(broker: Broker) -> Topics:
    """The same for a whole module."""
    return Topics(broker.bootstrap)


@pytest.fixture(scope="module")
def spark(
    jvm: Jvm, shared: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """One session for a whole module. Its tests start no driver."""
    from testkit.driver.bare_query import bare_session

    stream = number_flow(shared, "any", "any", MICRO_BATCH)
    with bare_session(jvm, stream, tmp_path_factory.mktemp("session")) as session:
        yield session
