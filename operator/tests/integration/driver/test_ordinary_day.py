"""Streams that are left alone: each trigger, nearly idle, for longer than any patience."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from testkit.driver.driver_process import Process, driver
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import ASYNC, CONTINUOUS, MICRO_BATCH, REAL_TIME
from testkit.wait import wait_for

# Longer than RestartPolicy.min_patience, after which a query without progress is restarted, and
# much longer than the 18 s after which such a query is not ready.
_QUIET_SECONDS = 70.0
_COUNTS = {
    "sql": "SELECT CAST(window.end AS STRING) AS key, CAST(count(*) AS STRING) AS value "
    "FROM source GROUP BY window(timestamp, '1 second')",
    "watermark": {"column": "timestamp", "delay": "1 second"},
}
_STREAMS: dict[str, dict[str, Any]] = {
    "continuous": {"trigger": CONTINUOUS},
    "micro-batch": {"trigger": MICRO_BATCH},
    "micro-batch of 1 s": {"trigger": {"microBatch": {"interval": "1s"}}},
    "async": {"trigger": ASYNC},
    "real-time": {"trigger": REAL_TIME},
    "with state": {"trigger": MICRO_BATCH, "transform": _COUNTS, "outputMode": "update"},
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "streams",
    [
        pytest.param(["micro-batch of 1 s"], id="one"),  # most of its triggers find nothing
        pytest.param(list(_STREAMS), id="each", marks=pytest.mark.full),
    ],
)
def test_a_stream_that_is_left_alone_says_nothing(
    streams: list[str], topics: Topics, class_path: str, tmp_path: Path
) -> None:
    """A record, a long silence, another record: ready all the time, and not a word in the log."""
    sources = {name: topics.make() for name in streams}
    sinks = {name: topics.make() for name in streams}
    with ExitStack() as running:
        processes: dict[str, Process] = {}
        for name in streams:
            stream = _stream(topics, sources[name], sinks[name], _STREAMS[name])
            folder = tmp_path / name
            folder.mkdir()
            processes[name] = running.enter_context(driver(stream, folder, class_path))
            topics.send(sources[name], range(1))
        for process in processes.values():
            process.wait_ready()
        _wait_for_records(topics, sinks, 1)
        not_ready = _watch(processes, _QUIET_SECONDS)
        for source in sources.values():
            topics.send(source, range(1, 2))
        _wait_for_records(topics, sinks, 2)
        not_ready += _watch(processes, 2.0)
        said = {name: _said(process) for name, process in processes.items()}
    assert not_ready == []
    assert said == {name: [] for name in streams}
    for name in streams:
        assert any((tmp_path / name / "checkpoint/commits").iterdir()), name


def _stream(topics: Topics, source: str, sink: str, fields: dict[str, Any]) -> ContinuousStream:
    more = {name: value for name, value in fields.items() if name != "trigger"}
    return number_flow(topics, source, sink, fields["trigger"], **more)


def _wait_for_records(topics: Topics, sinks: dict[str, str], count: int) -> None:
    def all_arrived() -> bool:
        return all(topics.received(sink).total() >= count for sink in sinks.values())

    wait_for(f"{count} records of each stream", all_arrived)


def _watch(processes: dict[str, Process], seconds: float) -> list[tuple[str, float]]:
    """The streams that were not ready, and when, in seconds since the beginning."""
    started, not_ready = time.monotonic(), []
    while (since := time.monotonic() - started) < seconds:
        for name, process in processes.items():
            if process.probe("/readyz") != 200:
                not_ready.append((name, round(since, 1)))
        time.sleep(0.5)
    return not_ready


def _said(process: Process) -> list[str]:
    lines = process.log.read_text().splitlines()
    failures = [line for line in lines if '"message": "failure"' in line]
    starts = [line for line in lines if _step(line) == "start_query"]
    return failures + starts[1:] + process.warnings()


def _step(line: str) -> str | None:
    """The step that a line of the driver's own log begins."""
    try:
        step = json.loads(line).get("step")
    except ValueError:
        return None
    return None if step is None else str(step)
