"""What the terminal shows of a stream: labels and values, from what its reports tell. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.local.view.rates import Progress

Row = tuple[str, str]

_LONGEST = 500


@dataclass(frozen=True)
class Facts:
    """What does not change, or is not the driver's to know."""

    name: str
    trigger: str
    rate: str = ""
    """Rows a second that the source itself states."""
    beside: tuple[Row, ...] = ()
    """What runs beside: the broker, the feed; and where things are."""
    complaint: str = ""
    """The last warning or error of the log."""


STOPPED = "Stopped"


def state_of(progress: Progress) -> str:
    """The state in a word: the driver's, and one more for after it."""
    if progress.failed:
        return QueryState.FAILED
    if progress.ended:
        return QueryState.COMPLETED if progress.completed else STOPPED
    return QueryState.STARTING if progress.report is None else progress.report.state


def rows(progress: Progress, facts: Facts, monotonic: float, clock: datetime) -> list[Row]:
    """Everything to show below the name and the state, in order."""
    report = progress.report
    shown: list[Row] = []
    if report is not None:
        shown = [
            ("epoch", _epoch(report, progress.since_commit(monotonic))),
            ("rows", _rate(progress, facts)),
            ("lag", "" if report.lag is None else f"{report.lag:,} records"),
            ("latency", _latency(progress)),
            ("cores", _cores(report)),
            ("restarts", _restarts(report)),
            ("last failure", _failure(report)),
            ("next retry", _retry(report, clock)),
        ]
    shown += [*facts.beside, ("last warning", facts.complaint)]
    return [(label, _short(value)) for label, value in shown if value]


def trigger_in_words(spec: StreamSpec) -> str:
    """The mode, and how often it commits."""
    trigger = spec.trigger
    if trigger.continuous is not None:
        return f"continuous, an epoch each {trigger.continuous.checkpoint_interval}"
    if trigger.real_time is not None:
        return f"real-time, a batch each {trigger.real_time.batch_duration}"
    if trigger.micro_batch is not None:
        beside = trigger.micro_batch.async_progress
        how = "" if beside is None else ", progress written beside them"
        return f"micro-batches, one each {trigger.micro_batch.interval}{how}"
    return "available now, then it ends"


def stated_rate(spec: StreamSpec) -> str:
    """What a source that makes its rows says of their number; it keeps no count of them."""
    rate = spec.source.rate
    return "" if rate is None else f"{rate.rows_per_second:,} a second, made by the source"


def _epoch(report: DriverReport, since: float | None) -> str:
    if report.epoch is None:
        return "none committed yet" if report.state is QueryState.RUNNING else ""
    if since is None:
        return f"{report.epoch:,} in the checkpoint"
    return f"{report.epoch:,}, committed {since:.0f} s ago"


def _rate(progress: Progress, facts: Facts) -> str:
    if state_of(progress) != QueryState.RUNNING:
        return ""
    rate = progress.rate()
    return facts.rate if rate is None else f"{rate:,.{0 if rate >= 10 else 1}f} a second"


def _latency(progress: Progress) -> str:
    latency = progress.latency
    return "" if latency is None else f"{latency:.2f} s from a record's timestamp to its commit"


def _cores(report: DriverReport) -> str:
    if report.registered_cores is None:
        return ""
    return f"{report.registered_cores} for {report.partitions} partitions"


def _restarts(report: DriverReport) -> str:
    return str(report.query_restarts) if report.query_restarts or report.last_failure else "0"


def _failure(report: DriverReport) -> str:
    failure = report.last_failure
    if failure is None:
        return ""
    return f"{failure.time.astimezone():%H:%M:%S} {failure.reason}: {failure.message}"


def _retry(report: DriverReport, clock: datetime) -> str:
    if report.next_retry is None:
        return ""
    return f"in {max(0.0, (report.next_retry - clock).total_seconds()):.0f} s"


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."
