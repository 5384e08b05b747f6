"""A file of a query's state that is cut or missing, with real Spark: nothing is repaired."""

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
from testkit.streams.streams import MICRO_BATCH

COUNTS = {
    "sql": "SELECT CAST(count(*) AS STRING) AS value FROM source GROUP BY CAST(value AS STRING)"
}


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("harm", [cut, Path.unlink])
def test_a_stream_with_damaged_state_stops_and_says_what_to_do(
    harm: Callable[[Path], None], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink, MICRO_BATCH, transform=COUNTS, outputMode="update")
    with running(flow, jvm, tmp_path) as driver:
        for records in (100, 200):
            topics.send(source, range(100))
            driver.wait_committed(records)
    written = Counter(topics.received(sink))
    for partition in tmp_path.glob("state/0/*"):
        if partition.name.isdecimal():
            harm(max(partition.glob("*.delta"), key=lambda file: int(file.stem)))
    topics.send(source, range(100))
    with running(flow, jvm, tmp_path) as driver:
        report = driver.wait_failure("CheckpointDamaged")
        assert report.state is QueryState.FAILED
        assert report.last_failure is not None
        assert report.last_failure.permanent
        assert report.last_failure.message.endswith("Restore the checkpoint's volume.")
        assert report.next_retry_time is not None
        assert 25 < (report.next_retry_time - report.last_failure.time).total_seconds() < 35
        time.sleep(5)
        assert {it.last_failure for it in driver.reports} <= {None, report.last_failure}
        assert (driver.last.state, driver.last.query_restarts) == (QueryState.FAILED, 0)
        assert not driver.health.ready
    assert Counter(topics.received(sink)) == written
