"""A large state is divided anew on the cluster: all that was counted stays counted."""

from __future__ import annotations

from functools import partial

import pytest

from penstock.contract import naming
from testkit.cluster.install import Installation
from testkit.cluster.stream import Stopwatch, Stream, small_stream
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.topics import Topics
from testkit.kubernetes.kubectl import Kube
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import MICRO_BATCH, kafka_to_kafka
from testkit.wait import wait_for

pytestmark = [pytest.mark.full, pytest.mark.timeout(1500)]

KEYS = range(200_000)
PRODUCER_QUEUE = 50_000
# A kilobyte of state for each key, which does not compress away.
LARGE_COUNTS = """
SELECT key, CAST(count(*) AS STRING) AS value FROM (
  SELECT CAST(value AS STRING) AS key,
    array_join(transform(sequence(1, 32), n -> md5(concat(CAST(value AS STRING), n))), '') AS large
  FROM source)
GROUP BY key HAVING length(max(large)) = 1024
"""
# What RocksDB gets in an executor of 896Mi.
OF_896MI = {"spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "96"}


@pytest.mark.proves("checkpoints.md#state")
def test_counts_are_exact_after_a_large_state_was_divided_anew(
    installation: Installation, kube: Kube, topic: str, record_figure: RecordFigure
) -> None:
    """From 4 partitions to 9, and from those to 3."""
    external, source, sink = installation.kafka.external, f"{topic}-in", f"{topic}-out"
    create_topics(external, {source: 2, sink: 1})
    topics, stream = Topics(external), Stream(kube, "large")
    spec = kafka_to_kafka(
        installation.kafka.internal, source, sink, MICRO_BATCH,
        transform={"sql": LARGE_COUNTS}, outputMode="update", sparkConf=OF_896MI,
    )  # fmt: skip
    large = small_stream(stream.name, spec)
    # The volumes of the tests' cluster are in memory (kind's /tmp), and count for who writes them.
    large["spec"]["executor"]["memoryOverhead"] = "1536Mi"
    large["spec"]["executor"]["resources"]["requests"]["memory"] = "2Gi"
    kube.apply(large)
    stream.wait_ready()

    def has_partitions(number: int) -> bool:
        return bool(stream.status().get("statePartitions") == number)

    def has_counted(times: int) -> bool:
        return topics.last_values(sink) == dict.fromkeys(KEYS, times)

    for sends, partitions in enumerate([4, 9, 3], 1):
        if sends > 1:
            watch = Stopwatch()
            stream.edit(checkpoint={"statePartitions": partitions})
            stream.wait_for(f"{partitions} partitions", partial(has_partitions, partitions), 600)
            stream.wait_ready()
            record_figure(f"seconds until Ready with {partitions} partitions", watch.seconds)
        for first in range(0, len(KEYS), PRODUCER_QUEUE):
            topics.send(source, KEYS[first : first + PRODUCER_QUEUE])
        wait_for(
            "the exact counts",
            partial(has_counted, sends),
            300,
            detail=lambda: f"{len(topics.last_values(sink))} of {len(KEYS)}",
        )
    used = kube.run("exec", stream.driver_pod, "--", "du", "-sm", naming.CHECKPOINT_DIR).split()[0]
    record_figure("MB of the checkpoint", int(used))
    assert stream.restarts("query") == 0
    assert stream.restarts("pod") == 0
