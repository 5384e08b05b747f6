"""Files of a query's state that are cut, missing or changed, with real Spark."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.status import Cause
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import QueryState
from penstock.driver.jvm import Jvm
from testkit.driver.in_process_driver import running
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import COUNTS, MICRO_BATCH, STATE_IN_FILES

STORES: dict[str, dict[str, str]] = {"files": STATE_IN_FILES, "rocksdb": {}}


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def change(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(bytes(content))


def newest(partition: Path, count: int = 1) -> list[Path]:
    """The newest files of a store."""
    files = [*partition.glob("*.delta"), *partition.glob("*.changelog")]
    return sorted(files, key=lambda file: int(file.stem))[-count:]


def partitions(checkpoint: Path) -> list[Path]:
    return sorted(it for it in checkpoint.glob("state/0/*") if it.name.isdecimal())


def flow_of(
    topics: Topics, source: str, sink: str, conf: dict[str, str] | None = None
) -> ContinuousStream:
    more: dict[str, Any] = {"transform": COUNTS, "outputMode": "update", "sparkConf": conf or {}}
    return number_flow(topics, source, sink, MICRO_BATCH, **more)


@pytest.mark.parametrize(
    ("store", "harm"),
    [
        ("rocksdb", cut),
        ("files", Path.unlink),
        pytest.param("rocksdb", Path.unlink, marks=pytest.mark.full),
        pytest.param("files", cut, marks=pytest.mark.full),
    ],
)
def test_the_newest_batch_whose_state_is_whole_counts(
    store: str, harm: Callable[[Path], None], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """In one partition two versions are lost. In the end each number is counted as often as it was
    sent, and what came since that batch comes twice.
    """
    source, sink = topics.make(), topics.make(1)
    flow = flow_of(topics, source, sink, STORES[store])
    with running(flow, jvm, tmp_path) as driver:
        for batch in range(1, 7):
            topics.send(source, range(20))
            driver.wait_committed(20 * batch)
    before = driver.last.epoch
    assert before is not None
    for file in newest(partitions(tmp_path)[1], 2):
        harm(file)
    with running(flow, jvm, tmp_path) as driver:
        topics.send(source, range(20))
        report = driver.wait_ready()
        driver.wait_committed(140)
        assert report.last_repair is not None
        assert (report.last_repair.reason, report.last_repair.cause) == ("LostState", Cause.DAMAGE)
        assert "state/0/1" in report.last_repair.message
        assert f"continues from epoch {before - 2}" in report.last_repair.message
        assert driver.last.query_restarts == 0
    counts = topics.last_values(sink)
    assert counts == dict.fromkeys(range(20), 7)
    with running(flow, jvm, tmp_path) as driver:
        topics.send(source, range(20))
        driver.wait_committed(160)
        assert driver.last.last_repair is None


@pytest.mark.parametrize("harm", [change, Path.unlink])
def test_a_stream_without_whole_state_stops_and_says_what_to_do(
    harm: Callable[[Path], None], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Nothing is whole; or the file has its length, and only Spark finds out."""
    source, sink = topics.make(), topics.make()
    flow = flow_of(topics, source, sink)
    with running(flow, jvm, tmp_path) as driver:
        for records in (100, 200):
            topics.send(source, range(100))
            driver.wait_committed(records)
    written = Counter(topics.received(sink))
    for partition in partitions(tmp_path):
        for file in newest(partition, 1 if harm is change else 10):
            harm(file)
    topics.send(source, range(100))
    with running(flow, jvm, tmp_path) as driver:
        report = driver.wait_failure("CheckpointDamaged")
        assert report.state is QueryState.FAILED
        assert report.last_failure is not None
        assert report.last_failure.permanent
        assert report.last_failure.message.endswith("or begin another checkpoint.generation.")
        assert report.next_retry_time is not None
        assert 25 < (report.next_retry_time - report.last_failure.time).total_seconds() < 35
        time.sleep(5)
        assert {it.last_failure for it in driver.reports} <= {None, report.last_failure}
        assert (driver.last.state, driver.last.query_restarts) == (QueryState.FAILED, 0)
        assert not driver.health.ready
    assert Counter(topics.received(sink)) == written
