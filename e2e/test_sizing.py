"""The number of executors follows the partitions: the cores always suffice."""

from __future__ import annotations

import pytest

from e2e.cluster_stream import KIND, Stream, small_stream
from e2e.install import Installation
from testkit.kafka.topic_admin import create_topics
from testkit.kubernetes.kubectl import Kube
from testkit.streams.streams import kafka_to_kafka

pytestmark = pytest.mark.timeout(900)

CORES_PER_EXECUTOR = 2


def test_cores_cover_the_partitions(installation: Installation, kube: Kube, topic: str) -> None:
    """Five partitions need three executors of two cores each; the stream is Ready with them."""
    partitions = 5
    sink = f"{topic}-out"
    create_topics(installation.kafka.external, {topic: partitions, sink: 1})
    stream = Stream(kube, "sized")
    kube.apply(small_stream(stream.name, kafka_to_kafka(installation.kafka.internal, topic, sink)))
    stream.wait_ready()
    executors = stream.executors()
    assert len(executors) == -(-partitions // CORES_PER_EXECUTOR)
    assert len(executors) * CORES_PER_EXECUTOR >= partitions
    status = stream.status()
    assert status["partitions"] == partitions
    cores = len(executors) * CORES_PER_EXECUTOR
    assert status["cores"] == {"registered": cores, "desired": cores}
    kube.delete(KIND, stream.name)
