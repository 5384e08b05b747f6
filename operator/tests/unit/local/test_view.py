"""What the live view shows for given reports."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.api.v1alpha1.status import LastFailure
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.local.view.live import LogTail, warning_in
from penstock.local.view.progress import (
    Progress,
    RunInfo,
    describe_trigger,
    state_of,
    stated_rate,
    view_rows,
)
from testkit.streams.streams import ASYNC, AVAILABLE_NOW, CONTINUOUS, REAL_TIME, stream

INFO = RunInfo("numbers", "continuous, an epoch every 1s", extra_rows=(("log", "x.log"),))
CLOCK = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def report(epoch: int | None = None, **more: object) -> DriverReport:
    """The report of a running query, with changes."""
    fields = {
        "spec_hash": "local",
        "state": QueryState.RUNNING,
        "epoch": epoch,
        "committed": epoch is not None,
        "partitions": 2,
        "registered_cores": 2,
    }
    return DriverReport.model_validate(fields | more)


def after(*reports: tuple[float, DriverReport, float | None]) -> Progress:
    """The progress after reports, each with its time and the records committed by then."""
    progress = Progress()
    for now, each, records in reports:
        progress = progress.with_report(each, now, records)
    return progress


def shown(progress: Progress, now: float = 0.0, info: RunInfo = INFO) -> dict[str, str]:
    return dict(view_rows(progress, info, now, CLOCK))


def test_rows_of_a_running_stream() -> None:
    progress = after((0, report(4), 0), (1, report(5, lag=12), 40), (2, report(6, lag=12), 100))
    assert state_of(progress) == "Running"
    assert shown(progress, 4.2) == {
        "epoch": "6, committed 2 s ago",
        "rows": "50 per second",
        "lag": "12 records",
        "cores": "2 for 2 partitions",
        "restarts": "0",
        "log": "x.log",
    }


def test_the_rate_covers_the_last_ten_seconds() -> None:
    """Older commits are dropped, except the second to last."""
    fast = [(float(at), report(at), at * 1000.0) for at in range(5)]
    assert after(*fast).rate() == 1000
    slow = [(60.0, report(5), 4060.0), (61.0, report(6), 4061.0)]
    assert after(*fast, *slow).rate() == 1
    assert after(*fast, slow[0]).rate() == pytest.approx(60 / 56)


@pytest.mark.parametrize("records", [None, 5.0])
def test_a_rate_needs_two_commits_with_counts(records: float | None) -> None:
    assert after((0, report(1), records)).rate() is None
    assert after((0, report(1), None), (1, report(2), records)).rate() is None


FAILURE = LastFailure(reason="BrokerUnreachable", message="away", permanent=False, time=CLOCK)
AGAIN = report(
    state=QueryState.RESTARTING,
    query_restarts=3,
    last_failure=FAILURE,
    next_retry_time=CLOCK + timedelta(seconds=7),
)


@pytest.mark.parametrize(
    ("progress", "state", "rows"),
    [
        (Progress(), "Starting", {"log": "x.log"}),
        (
            after((0, report(7, state=QueryState.STARTING, committed=False), None)),
            "Starting",
            {"epoch": "7 in the checkpoint", "rows": None},
        ),
        (after((0, report(1), None)), "Running", {"rows": "10 per second, set by source.rate"}),
        (
            Progress().with_report(report(1), 0.0, latency=0.512),
            "Running",
            {"latency": "0.51 s from a record's timestamp to its commit"},
        ),
        (
            after((0, AGAIN, None)),
            "Restarting",
            {
                "restarts": "3",
                "last failure": f"{CLOCK.astimezone():%H:%M:%S} BrokerUnreachable: away",
                "next retry": "in 7 s",
            },
        ),
    ],
    ids=["no report", "earlier run", "stated rate", "latency", "failure"],
)
def test_rows(progress: Progress, state: str, rows: dict[str, str | None]) -> None:
    info = replace(INFO, stated_rate=stated_rate(stream().spec))
    seen = shown(progress, info=info)
    assert state_of(progress) == state
    assert {label: seen.get(label) for label in rows} == rows


def test_a_permanent_failure_stays_visible() -> None:
    """Although the driver's last report says Stopping."""
    failed = after(
        (0, report(state=QueryState.FAILED), None), (1, report(state=QueryState.STOPPING), None)
    )
    assert failed.failed
    assert state_of(failed) == "Failed"


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (CONTINUOUS, "continuous, an epoch every 1s"),
        (REAL_TIME, "real-time, a batch every 5s"),
        (ASYNC, "micro-batch, a batch every 0s, asynchronous progress tracking"),
        (AVAILABLE_NOW, "available now: ends when all input is read"),
    ],
)
def test_descriptions_of_triggers(trigger: dict[str, object], words: str) -> None:
    source = {"kafka": {"bootstrapServers": "x:1", "topics": ["a"]}}
    sink = {"kafka": {"bootstrapServers": "x:1", "topic": "b"}}
    assert describe_trigger(stream(source, sink, trigger=trigger).spec) == words


OURS = {"time": "2026-11-21T06:29:03.407+00:00", "message": "failure", "reason": "TopicMissing"}


def of_jvm(level: str, message: str, logger: str = "org.x.A", second: int = 9) -> str:
    """A line of the layout in log4j2.properties."""
    time = f"2026-11-21T06:29:{second:02}.759Z"
    return json.dumps({"time": time, "level": level, "logger": logger, "message": message})


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        (json.dumps({**OURS, "level": "WARNING"}), "06:29:03 failure: TopicMissing"),
        (json.dumps({**OURS, "level": "INFO"}), None),
        (of_jvm("ERROR", "Ignoring error", "org.x.Inbox"), "06:29:09 Inbox: Ignoring error"),
        (of_jvm("INFO", "fine"), None),
        ("OpenJDK 64-Bit Server VM warning: ERROR", None),
        ("{not JSON", None),
        ("{}", None),
        ("", None),
    ],
)
def test_warnings_in_log_lines(line: str, warning: str | None) -> None:
    assert warning_in(line) == warning


def test_the_last_warning_of_a_growing_log(tmp_path: Path) -> None:
    """Lines from before belong to another run; a line counts once it is complete."""
    log = tmp_path / "x.log"
    log.write_text(of_jvm("ERROR", "old") + "\n")
    tail = LogTail(log)
    assert tail.read_new() == ""
    with log.open("a") as file:
        half = of_jvm("WARN", "half", "C", 2)
        file.write(of_jvm("WARN", "new", "B", 1) + "\n" + half[:60])
        file.flush()
        assert tail.read_new() == "06:29:01 B: new"
        file.write(f"{half[60:]}\nmore\n")
    assert tail.read_new() == "06:29:02 C: half"
