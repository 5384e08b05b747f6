"""Files of a query's state that are cut, missing or changed, with real Spark."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.contract.driver_report import QueryState
from penstock.driver.jvm import Jvm
from testkit.driver.in_process_driver import running
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import COUNTS, MICRO_BATCH


def cut(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def change(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(bytes(content))


def newest(partition: Path, count: int = 1) -> list[Path]:
    """The newest files of a store, which are named VERSION_ATTEMPT."""
    files = partition.glob("*.changelog")
    return sorted(files, key=lambda file: int(file.name.partition("_")[0]))[-count:]


def partitions(checkpoint: Path) -> list[Path]:
    return sorted(it for it in checkpoint.glob("state/0/*") if it.name.isdecimal())


@pytest.mark.proves("checkpoints.md#damage")
@pytest.mark.parametrize("harm", [change, cut, empty, Path.unlink])
def test_a_stream_without_whole_state_stops_and_says_what_to_do(
    harm: Callable[[Path], None], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark finds out. A disk has done it, since no crash leaves a part of a file."""
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink, MICRO_BATCH, transform=COUNTS, outputMode="update")
    with running(flow, jvm, tmp_path) as driver:
        for records in (100, 200):
            topics.send(source, range(100))
            driver.wait_committed(records)
    written = Counter(topics.received(sink))
    for partition in partitions(tmp_path):
        for file in newest(partition, 10 if harm is Path.unlink else 1):
            harm(file)
    topics.send(source, range(100))
    with running(flow, jvm, tmp_path) as driver:
        report = driver.wait_failure("CheckpointDamaged")
        assert report.state is QueryState.FAILED
        assert report.last_failure is not None
        assert report.last_failure.permanent
        assert "or begin another checkpoint.generation" in report.last_failure.message
        assert report.next_retry_time is not None
        assert 25 < (report.next_retry_time - report.last_failure.time).total_seconds() < 35
        time.sleep(5)
        assert {it.last_failure for it in driver.reports} <= {None, report.last_failure}
        assert (driver.last.state, driver.last.query_restarts) == (QueryState.FAILED, 0)
        assert not driver.health.ready
    assert Counter(topics.received(sink)) == written
