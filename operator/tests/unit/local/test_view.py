"""What the terminal shows, from reports alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.api.v1alpha1.status import LastFailure
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.local.view.log_tail import LogTail, complaint
from penstock.local.view.rates import Progress
from penstock.local.view.rows import Facts, rows, state_of, stated_rate, trigger_in_words
from testkit.streams.streams import ASYNC, AVAILABLE_NOW, CONTINUOUS, REAL_TIME, stream

FACTS = Facts("numbers", "continuous, an epoch each 1s", beside=(("log", "x.log"),))
CLOCK = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def report(epoch: int | None = None, **more: object) -> DriverReport:
    """A running query's report, but for what is said otherwise."""
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
    """The progress after reports at these moments, with what was committed by then."""
    progress = Progress()
    for now, each, records in reports:
        progress = progress.seen(each, now, records)
    return progress


def shown(progress: Progress, now: float = 0.0, facts: Facts = FACTS) -> dict[str, str]:
    return dict(rows(progress, facts, now, CLOCK))


def test_a_running_stream() -> None:
    progress = after((0, report(4), 0), (1, report(5, lag=12), 40), (2, report(6, lag=12), 100))
    assert state_of(progress) == "Running"
    assert shown(progress, 4.2) == {
        "epoch": "6, committed 2 s ago",
        "rows": "50 a second",
        "lag": "12 records",
        "cores": "2 for 2 partitions",
        "restarts": "0",
        "log": "x.log",
    }


def test_before_the_first_report_only_what_is_known() -> None:
    assert state_of(Progress()) == "Starting"
    assert shown(Progress()) == {"log": "x.log"}


def test_the_rate_is_that_of_the_last_seconds() -> None:
    """Old commits are forgotten, but for the one before the last."""
    fast = [(float(at), report(at), at * 1000.0) for at in range(5)]
    assert after(*fast).rate() == 1000
    slow = [(60.0, report(5), 4060.0), (61.0, report(6), 4061.0)]
    assert after(*fast, *slow).rate() == 1
    assert after(*fast, slow[0]).rate() == pytest.approx(60 / 56)


@pytest.mark.parametrize("records", [None, 5.0])
def test_there_is_no_rate_before_there_are_two_counts(records: float | None) -> None:
    """Nor one between commits of a source that does not count."""
    assert after((0, report(1), records)).rate() is None
    assert after((0, report(1), None), (1, report(2), records)).rate() is None


def test_an_epoch_of_an_earlier_run_is_not_this_ones() -> None:
    waiting = after((0, report(7, state=QueryState.STARTING, committed=False), None))
    assert shown(waiting)["epoch"] == "7 in the checkpoint"
    assert "rows" not in shown(waiting)


def test_a_source_that_states_its_rate() -> None:
    spec = stream().spec
    facts = Facts("numbers", "", stated_rate(spec))
    assert shown(after((0, report(1), None)), facts=facts)["rows"] == (
        "10 a second, made by the source"
    )


def test_latency_where_it_was_sampled() -> None:
    progress = Progress().seen(report(1), 0.0, latency=0.512)
    assert shown(progress)["latency"] == "0.51 s from a record's timestamp to its commit"


def test_a_failure_is_shown_with_its_cause_and_the_next_try() -> None:
    failure = LastFailure(reason="BrokerUnreachable", message="away", permanent=False, time=CLOCK)
    again = report(
        state=QueryState.RESTARTING,
        query_restarts=3,
        last_failure=failure,
        next_retry=CLOCK + timedelta(seconds=7),
    )
    seen = shown(after((0, again, None)))
    assert seen["restarts"] == "3"
    assert seen["last failure"] == f"{CLOCK.astimezone():%H:%M:%S} BrokerUnreachable: away"
    assert seen["next retry"] == "in 7 s"


def test_a_failure_for_good_stays_on_the_screen() -> None:
    """Though the driver says at the end that it is stopping."""
    failed = after(
        (0, report(state=QueryState.FAILED), None), (1, report(state=QueryState.STOPPING), None)
    )
    assert failed.failed
    assert state_of(failed) == "Failed"


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (CONTINUOUS, "continuous, an epoch each 1s"),
        (REAL_TIME, "real-time, a batch each 5s"),
        (ASYNC, "micro-batches, one each 0s, progress written beside them"),
        (AVAILABLE_NOW, "available now, then it ends"),
    ],
)
def test_modes_in_words(trigger: dict[str, object], words: str) -> None:
    source = {"kafka": {"bootstrapServers": "x:1", "topics": ["a"]}}
    sink = {"kafka": {"bootstrapServers": "x:1", "topic": "b"}}
    assert trigger_in_words(stream(source, sink, trigger=trigger).spec) == words


OURS = {"time": "2026-11-21T06:29:03.407+00:00", "message": "failure", "reason": "TopicMissing"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (json.dumps({**OURS, "level": "WARNING"}), "06:29:03 failure: TopicMissing"),
        (json.dumps({**OURS, "level": "INFO"}), None),
        ("2026-11-21T06:29:09.759Z ERROR Inbox: Ignoring error", "06:29:09 Inbox: Ignoring error"),
        ("2026-11-21T06:29:09.759Z INFO Inbox: fine", None),
        ("2026-11-21T06:29:09.759Z WARN ContinuousExecution: Disabling AQE since ...", None),
        ("2026-11-21T07:08:31.353Z WARN MicroBatchExecution: Disabling AQE since ...", None),
        ("\tat org.apache.spark.ERROR", None),
        ("{not JSON", None),
        ("{}", None),
        ("", None),
    ],
)
def test_complaints_of_the_log(line: str, said: str | None) -> None:
    assert complaint(line) == said


def test_the_last_complaint_of_a_log_that_grows(tmp_path: Path) -> None:
    """What was there before is another run's; a line counts once it is whole."""
    log = tmp_path / "x.log"
    log.write_text("2026-11-21T06:00:00Z ERROR A: old\n")
    tail = LogTail(log)
    assert tail.look() == ""
    with log.open("a") as file:
        file.write("2026-11-21T06:00:01Z WARN B: new\n2026-11-21T06:00:02Z WARN C: ha")
        file.flush()
        assert tail.look() == "06:00:01 B: new"
        file.write("lf\nmore\n")
    assert tail.look() == "06:00:02 C: half"
