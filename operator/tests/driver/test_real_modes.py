"""Every engine of Spark with a real broker, and one checkpoint that goes from one to the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.driver.jvm import Jvm
from penstock.stream.status import QueryState
from tests.driver.running import Topics, running
from tests.driver.streams import (
    ASYNC,
    AVAILABLE_NOW,
    CONTINUOUS,
    MICRO_BATCH,
    RATE,
    REAL_TIME,
    kafka_sink,
    kafka_source,
    stream,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]


def flow(topics: Topics, source: str, sink: str, trigger: dict[str, Any], **spec: Any) -> Any:
    """Numbers from topic to topic."""
    return stream(
        kafka_source(topics.bootstrap, topics=[source], startingOffsets="earliest"),
        kafka_sink(topics.bootstrap, topic=sink),
        trigger=trigger,
        **spec,
    )


def test_one_checkpoint_through_every_engine(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """Any query can be restarted with any trigger: nothing is lost on the way."""
    source, sink, sent = topics.make(), topics.make(), 0
    for trigger in (CONTINUOUS, MICRO_BATCH, ASYNC, MICRO_BATCH, CONTINUOUS, ASYNC, REAL_TIME,
                    MICRO_BATCH):  # fmt: skip
        with running(flow(topics, source, sink, trigger), jvm, tmp_path) as driver:
            for _ in range(4):
                topics.send(source, range(sent, sent + 25))
                sent += 25
                topics.wait_received(sink, range(sent))
            report = driver.wait_ready()
            assert report.state is QueryState.RUNNING, trigger
            assert report.query_restarts == 0, trigger


def test_continuous_to_real_time(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    source, sink = topics.make(), topics.make()
    topics.send(source, range(50))
    with running(flow(topics, source, sink, CONTINUOUS), jvm, tmp_path) as driver:
        topics.wait_received(sink, range(50))
        driver.wait_ready()
    topics.send(source, range(50, 100))
    with running(flow(topics, source, sink, REAL_TIME), jvm, tmp_path) as driver:
        topics.wait_received(sink, range(100))
        assert driver.wait_ready().query_restarts == 0


def test_an_idle_micro_batch_query_is_ready(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """Without new records it commits nothing, for as long as it lasts: that is not being stuck."""
    source, sink = topics.make(), topics.make()
    idle = flow(topics, source, sink, MICRO_BATCH)
    topics.send(source, range(10))
    with running(idle, jvm, tmp_path) as driver:
        topics.wait_received(sink, range(10))
        epoch = driver.wait_ready().epoch
    with running(idle, jvm, tmp_path) as driver:
        again = driver.wait_ready()
        assert (again.state, again.epoch) == (QueryState.RUNNING, epoch)
        assert driver.engine.pulse().busy is False


def test_available_now_completes_and_holds_nothing(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink = topics.make(), topics.make()
    topics.send(source, range(40))
    with running(flow(topics, source, sink, AVAILABLE_NOW), jvm, tmp_path) as driver:
        report = driver.wait("completed", lambda report: report.state is QueryState.COMPLETED)
        assert report.last_failure is None
        driver.wait("released", lambda report: not driver.engine.has_session)
        assert driver.health.ready
        assert driver.last.state is QueryState.COMPLETED
    assert set(topics.received(sink)) == set(range(40))


def test_an_aggregate_with_a_watermark(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    source, sink = topics.make(), topics.make(1)
    sql = (
        "SELECT CAST(window.end AS STRING) AS key, CAST(count(*) AS STRING) AS value FROM source "
        "GROUP BY window(timestamp, '1 second')"
    )
    transform = {"sql": sql, "watermark": {"column": "timestamp", "delay": "1 second"}}
    counted = flow(topics, source, sink, MICRO_BATCH, transform=transform, outputMode="update")
    with running(counted, jvm, tmp_path) as driver:
        topics.send(source, range(30))
        driver.wait("counts", lambda report: sum(topics.received(sink).values()) > 0)
        assert driver.wait_ready().query_restarts == 0
        # A batch has as many tasks as there are cores, not 200.
        assert driver.engine.session is not None
        assert driver.engine.session.conf.get("spark.sql.shuffle.partitions") == "2"


def test_what_only_another_mode_takes_is_refused(jvm: Jvm, tmp_path: Path) -> None:
    """Rate has offsets of its own for each engine: said at once, not met in a loop."""
    with running(stream(RATE), jvm, tmp_path) as driver:
        driver.wait_ready()
    with running(stream(RATE, trigger=MICRO_BATCH), jvm, tmp_path) as driver:
        report = driver.wait("failed", lambda report: report.state is QueryState.FAILED)
        assert report.last_failure is not None
        assert report.last_failure.reason == "CheckpointOfAnotherMode"
        assert report.last_failure.permanent
