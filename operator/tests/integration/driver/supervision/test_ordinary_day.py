"""Streams that are left alone: each trigger with ordinary traffic, for longer than any patience."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from testkit.driver.driver_process import Process, driver, is_expected
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import ASYNC, CONTINUOUS, MICRO_BATCH, REAL_TIME
from testkit.wait import wait_for

# Longer than RestartPolicy.min_patience, after which a query without progress is restarted, and
# much longer than the 18 s after which such a query is not ready.
_QUIET_SECONDS = float(os.environ.get("PENSTOCK_QUIET_SECONDS", "70"))
_SETTLED_SECONDS = 20.0
"""After this long a process has all the classes that it needs."""
_MAY_GROW = 15
"""How many more threads and files may be open in the end than ever in the first half."""
_COUNTS = {
    "sql": "SELECT CAST(window.end AS STRING) AS key, CAST(count(*) AS STRING) AS value "
    "FROM source GROUP BY window(timestamp, '1 second')",
    "watermark": {"column": "timestamp", "delay": "1 second"},
}
_PYTHON = {
    "python": {
        "function": "ordinary:transform",
        "inline": """
from pyspark.sql.functions import col, udf

def transform(source):
    same = udf(lambda value: value)
    return source.select("key", same(col("value").cast("string")).alias("value"))
""",
    }
}
_EDIT = {"sql": "SELECT key, value FROM source WHERE value IS NOT NULL"}
_ONE_SECOND = {"microBatch": {"interval": "1s"}}

# How many records a second begins with: none, or to one partition only.
Traffic = Callable[[int], int]


def _never(second: int) -> int:
    return 0


def _rarely(second: int) -> int:
    return 1 if second == 0 else 0


def _always(second: int) -> int:
    return 20


def _in_bursts(second: int) -> int:
    return 1_000 if second % 20 == 0 else 0


@dataclass(frozen=True)
class _Stream:
    trigger: dict[str, Any]
    traffic: Traffic = _rarely
    transform: dict[str, Any] | None = None
    partition: int | None = None
    """The only partition that gets records, but for the last one."""

    @property
    def spec(self) -> dict[str, Any]:
        if self.transform is _COUNTS:
            return {"transform": self.transform, "outputMode": "update"}
        return {} if self.transform is None else {"transform": self.transform}


_STREAMS = {
    "continuous": _Stream(CONTINUOUS),
    "continuous, nothing": _Stream(CONTINUOUS, _never),
    "continuous, a quiet partition": _Stream(CONTINUOUS, _always, partition=0),
    "micro-batch": _Stream(MICRO_BATCH),
    "micro-batch of 1 s": _Stream(_ONE_SECOND),
    "micro-batch of 1 s, nothing": _Stream(_ONE_SECOND, _never),
    "micro-batch, a quiet partition": _Stream(MICRO_BATCH, _always, partition=0),
    "async": _Stream(ASYNC),
    "real-time": _Stream(REAL_TIME),
    "real-time, bursts": _Stream(REAL_TIME, _in_bursts),
    "real-time, with state": _Stream(REAL_TIME, transform=_COUNTS),
    "with state": _Stream(MICRO_BATCH, transform=_COUNTS),
    "with state, bursts": _Stream(MICRO_BATCH, _in_bursts, _COUNTS),
    "in Python": _Stream(_ONE_SECOND, _in_bursts, _PYTHON),
}
# So few at once that two cores can keep each interval: a batch that takes longer is worth a line.
_GROUPS = {
    mode: [name for name in _STREAMS if name.startswith(words)]
    for mode, words in {
        "continuous": ("continuous",),
        "micro-batch": ("micro-batch",),
        "others": ("async", "real-time", "with state", "in Python"),
    }.items()
}


class _Running:
    """A stream, its topics, and what was sent."""

    def __init__(self, name: str, topics: Topics, folder: Path) -> None:
        self.name, self.stream, self._topics = name, _STREAMS[name], topics
        self._folder, self.source, self.sink = folder, topics.make(), topics.make()
        self.sent = 0
        self.process: Process
        self._usage: list[dict[str, int]] = []
        self._settled_lines = 0

    @contextmanager
    def running(self, class_path: str, edit: bool = False) -> Iterator[None]:
        spec = self.stream.spec
        if edit and self.stream.transform is None:
            spec = {"transform": _EDIT}
        flow = number_flow(self._topics, self.source, self.sink, self.stream.trigger, **spec)
        with driver(flow, self._folder, class_path) as self.process:
            yield

    def send(self, count: int, partition: int | None) -> None:
        if count:
            self._topics.send(self.source, range(self.sent, self.sent + count), partition)
            self.sent += count

    def wait_written(self) -> None:
        """Waits for all records; of those that are counted, for something."""
        if self.stream.transform is not _COUNTS:
            self._topics.wait_received(self.sink, range(self.sent))
        elif self.sent:
            wait_for("counts", lambda: self._topics.received(self.sink).total() > 0)

    def settle(self) -> None:
        """From now on every line is a fault."""
        self._settled_lines = len(self._log())

    def look(self) -> None:
        """Notes what the process has now."""
        self._usage.append(_usage(self.process))

    def faults(self, edited: bool) -> list[str]:
        """What it said, wrote or kept that a stream on an ordinary day does not."""
        log = self._log()
        faults = [line for line in log if '"message": "failure"' in line]
        faults += [line for line in log if _step(line) == "start_query"][1:]
        faults += [line for line in log[self._settled_lines :] if not is_expected(line)]
        faults += self.process.warnings()
        for name, now in self._usage[-1].items():
            half = [usage[name] for usage in self._usage[: len(self._usage) // 2]]
            if now > max(half) + _MAY_GROW:
                faults.append(f"{name}: {now}, before at most {max(half)}")
        if self.stream.transform is not _COUNTS:
            received = self._topics.received(self.sink)
            twice = sorted((received - Counter(received.keys())).elements())
            if twice and not edited:  # a stop may leave what was written after the last commit
                faults.append(f"twice: {twice}")
        if not any((self._folder / "checkpoint/commits").glob("[0-9]*")) and self.sent:
            faults.append("it has committed nothing")
        return faults

    def _log(self) -> list[str]:
        return self.process.log.read_text().splitlines()


@pytest.mark.proves(21)
@pytest.mark.timeout(1200 + 2 * _QUIET_SECONDS)
@pytest.mark.parametrize(
    ("names", "edited"),
    [
        pytest.param(["micro-batch of 1 s"], False, id="one"),  # most triggers find nothing
        *(
            pytest.param(
                names, edited, id=f"{mode}{'-after-an-edit' * edited}", marks=pytest.mark.full
            )
            for mode, names in _GROUPS.items()
            for edited in (False, True)
        ),
    ],
)
def test_a_stream_that_is_left_alone_says_nothing(
    names: list[str], edited: bool, topics: Topics, class_path: str, tmp_path: Path
) -> None:
    """Ready all the time, not a word in the log, nothing that grows, and every record once."""
    streams = []
    for number, name in enumerate(names):
        folder = tmp_path / str(number)
        folder.mkdir()
        streams.append(_Running(name, topics, folder))
    if edited:
        with ExitStack() as drivers:
            _start(streams, drivers, class_path)
            assert [it.process.stop() for it in streams] == [0] * len(streams)
    with ExitStack() as drivers:
        _start(streams, drivers, class_path, edit=edited)
        not_ready = _watch(streams)
        for it in streams:
            it.send(1, partition=1)
            it.wait_written()
        faults = {it.name: it.faults(edited) for it in streams}
    assert not_ready == []
    assert faults == {it.name: [] for it in streams}


def _start(
    streams: list[_Running], drivers: ExitStack, class_path: str, edit: bool = False
) -> None:
    for it in streams:
        drivers.enter_context(it.running(class_path, edit))
        it.send(it.stream.traffic(0), it.stream.partition)
    for it in streams:
        it.process.wait_ready()
        it.wait_written()


def _watch(streams: list[_Running]) -> list[tuple[str, float]]:
    """Sends the traffic of a while. The streams that were not ready, and when, in seconds."""
    started, not_ready, second, settled = time.monotonic(), [], 0, False
    while (since := time.monotonic() - started) < _QUIET_SECONDS:
        if since > second:
            second += 1
            for it in streams:
                it.send(it.stream.traffic(second), it.stream.partition)
        if since > _SETTLED_SECONDS and not settled:
            settled = True
            for it in streams:
                it.settle()
        for it in streams:
            it.look()
            if it.process.probe("/readyz") != 200:
                not_ready.append((it.name, round(since, 1)))
        time.sleep(0.3)
    return not_ready


def _usage(process: Process) -> dict[str, int]:
    """Threads and open files of its Python and its JVM."""
    parts = {"Python": process.process.pid, "JVM": process.jvm}
    threads = {f"threads of {part}": _threads(pid) for part, pid in parts.items()}
    return {
        f"files of {part}": psutil.Process(pid).num_fds() for part, pid in parts.items()
    } | threads


def _threads(pid: int) -> int:
    """Without those with which Spark forgets broadcasts after a collection of garbage.

    Of block-manager-storage-async-thread-pool there are up to 128, of block-manager-ask-thread-pool
    up to 100, and they end after a minute without work.
    """
    count = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            count += not (task / "comm").read_text().startswith("block-manager-")
    return count


def _step(line: str) -> str | None:
    """The step that a line of the driver's own log begins."""
    try:
        step = json.loads(line).get("step")
    except ValueError:
        return None
    return None if step is None else str(step)
