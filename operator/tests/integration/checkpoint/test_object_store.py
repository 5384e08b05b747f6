"""Streams whose checkpoint is in an object store: real Spark, a real broker, a real S3 server."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.background_threads import repeat_in_background
from penstock.driver.jvm import Jvm
from testkit.driver.driver_process import driver, traffic
from testkit.driver.in_process_driver import running
from testkit.kafka.topics import Topics, number_flow
from testkit.object_store.proxy import S3Proxy
from testkit.object_store.streams import CheckpointBucket
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import (
    ASYNC,
    CONTINUOUS,
    COUNTS,
    MICRO_BATCH,
    OWN_COUNTS,
    REAL_TIME,
)
from testkit.wait import wait_for

MODES = {"C": CONTINUOUS, "M": MICRO_BATCH, "A": ASYNC, "R": REAL_TIME}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("tour", ["CM", pytest.param("CMRAC", marks=pytest.mark.full)])
def test_a_checkpoint_in_a_store_through_every_engine(
    tour: str,
    topics: Topics,
    jvm: Jvm,
    bucket: CheckpointBucket,
    proxy: S3Proxy,
    record_figure: RecordFigure,
) -> None:
    """As on a volume; and an epoch is two conditional PUTs, with nothing read or listed."""
    source, sink, duplicates = topics.make(), topics.make(), 0
    with traffic(topics, source) as sent:
        for mode in tour:
            flow = bucket.stream(number_flow(topics, source, sink, MODES[mode]))
            with running(flow, jvm, bucket.environment()) as driver:
                start = driver.wait_ready().epoch or 0
                driver.wait("two more commits", partial(_is_beyond, start + 1))
                proxy.reset()
                begun = driver.last.epoch or 0
                driver.wait("four more commits", partial(_is_beyond, begun + 4))
                epochs, counts = (driver.last.epoch or 0) - begun, proxy.counts
                assert driver.last.state is QueryState.RUNNING, mode
                assert driver.last.query_restarts == 0, mode
                repair = driver.last.last_repair
            assert repair is None or repair.reason != "Imported", repair
            received = topics.received(sink)
            before, duplicates = duplicates, sum(received.values()) - len(received)
            record_figure(f"{mode}: duplicates", duplicates - before)
            record_figure(f"{mode}: requests in {epochs} epochs", dict(counts))
    last = bucket.stream(number_flow(topics, source, sink, MICRO_BATCH))
    with running(last, jvm, bucket.environment()):
        topics.wait_received(sink, range(sent[0]))


def _is_beyond(epoch: int, report: DriverReport) -> bool:
    return (report.epoch or 0) > epoch


# So that there are snapshots within seconds.
SNAPSHOTS = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "transform",
    [
        pytest.param(COUNTS, id="SQL"),
        pytest.param(OWN_COUNTS, id="Python", marks=pytest.mark.full),
    ],
)
def test_state_counts_exactly_through_kills(
    transform: dict[str, Any],
    topics: Topics,
    class_path: str,
    bucket: CheckpointBucket,
    proxy: S3Proxy,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """At any moment; each time another driver loads the state, without a volume."""
    source, sink = topics.make(), topics.make(1)
    more: dict[str, Any] = {"transform": transform, "outputMode": "update", "sparkConf": SNAPSHOTS}
    flow = bucket.stream(number_flow(topics, source, sink, MICRO_BATCH, **more))
    sends = [0]

    def send() -> None:
        topics.send(source, range(20))
        sends[0] += 1

    pod = {naming.ENV_POD_UID: "pod"}
    with repeat_in_background(send, 0.2):
        for _ in range(3):
            with driver(flow, tmp_path, class_path, environment=pod) as process:
                process.wait_ready()
                proxy.reset()
                time.sleep(5)
                record_figure("requests in five seconds", dict(proxy.counts))
                process.kill()
    with driver(flow, tmp_path, class_path, environment=pod) as process:
        process.wait_ready()
        wait_for(
            "the exact counts",
            lambda: topics.last_values(sink) == dict.fromkeys(range(20), sends[0]),
            detail=lambda: f"{sends[0]}: {topics.last_values(sink)}",
        )
        assert process.stop() == 0
    files = bucket.files(flow)
    assert any(path.endswith(".zip") for path in files), "a snapshot"
    assert any(path.endswith(".changelog") for path in files)


def test_another_generation_begins_beside_the_first_and_back(
    topics: Topics, jvm: Jvm, bucket: CheckpointBucket
) -> None:
    source, sink = topics.make(), topics.make()

    def flow(**checkpoint: Any) -> ContinuousStream:
        return bucket.stream(number_flow(topics, source, sink, checkpoint=checkpoint))

    topics.send(source, range(50))
    with running(flow(), jvm, bucket.environment()) as driver:
        driver.wait_committed(50)
    again = {"generation": 1, "startFrom": {"offsets": "earliest"}}
    with running(flow(**again), jvm, bucket.environment()) as driver:
        driver.wait_committed(50)
    assert topics.received(sink) == Counter([*range(50), *range(50)])
    topics.send(source, range(50, 60))
    with running(flow(), jvm, bucket.environment()) as driver:
        driver.wait_committed(60)
    assert topics.received(sink) == Counter([*range(50), *range(60)])
    prefix = f"prefix/{flow().metadata.namespace}/{flow().metadata.name}/"
    keys = bucket.store.names(bucket.name, prefix)
    kept = {key.removeprefix(prefix).split("/")[0] for key in keys}
    assert kept == {"generation-0", "generation-1"}
