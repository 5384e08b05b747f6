"""What `penstock run` shows: rates and ages from successive reports, and the rows. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from penstock.api.modes import Mode
from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.driver_report import DriverReport, QueryState

Row = tuple[str, str]

# The rate covers the commits of the last ten seconds, and always at least two commits.
_WINDOW_SECONDS = 10.0
_MAX_VALUE_LENGTH = 500
STOPPED = "Stopped"


@dataclass(frozen=True)
class SeenCommit:
    """A committed epoch, and when its report arrived."""

    at: float
    """Monotonic seconds."""
    epoch: int
    records: float | None
    """Source records that this run has committed so far; None if it does not count them."""


@dataclass(frozen=True)
class Progress:
    """The newest report, and the recent commits."""

    report: DriverReport | None = None
    commits: tuple[SeenCommit, ...] = ()
    failed: bool = False
    """The query has failed permanently."""
    completed: bool = False
    ended: bool = False
    """The driver has stopped."""

    latency: float | None = None
    """Mean seconds from a record's timestamp to its commit, of the sampled records."""

    def with_report(
        self,
        report: DriverReport,
        now: float,
        records: float | None = None,
        latency: float | None = None,
        *,
        waits: bool = False,
    ) -> Progress:
        """The progress after one more report and the metrics that came with it.

        `waits`: the driver goes on if it says that it looks again after a permanent failure.
        """
        ends = report.state is QueryState.FAILED and not (waits and report.next_retry_time)
        commits = self.commits
        if report.epoch is not None and (not commits or commits[-1].epoch != report.epoch):
            commits = _recent((*commits, SeenCommit(now, report.epoch, records)), now)
        return replace(
            self,
            report=report,
            commits=commits,
            latency=latency,
            failed=self.failed or ends,
            completed=self.completed or report.state is QueryState.COMPLETED,
        )

    def rate(self) -> float | None:
        """Records per second between the commits; None before two commits with counts.

        >>> commits = SeenCommit(0, 4, 100), SeenCommit(2, 5, 400), SeenCommit(10, 9, 600)
        >>> Progress(commits=commits).rate()
        50.0
        """
        if len(self.commits) < 2:
            return None
        first, last = self.commits[0], self.commits[-1]
        if first.records is None or last.records is None:
            return None
        return max(0, last.records - first.records) / max(last.at - first.at, 1e-3)

    def since_commit(self, now: float) -> float | None:
        """Seconds since this run's last commit; None before its first."""
        committed = self.report is not None and self.report.committed
        return now - self.commits[-1].at if committed and self.commits else None


def _recent(commits: tuple[SeenCommit, ...], now: float) -> tuple[SeenCommit, ...]:
    recent = tuple(commit for commit in commits if now - commit.at <= _WINDOW_SECONDS)
    return recent if len(recent) >= 2 else commits[-2:]


@dataclass(frozen=True)
class RunInfo:
    """What the driver's reports do not contain."""

    name: str
    trigger: str
    stated_rate: str = ""
    """The rows per second that the spec sets, for a source that generates them."""
    extra_rows: tuple[Row, ...] = ()
    """Rows about the broker and the feed, and about the paths of the run."""
    last_warning: str = ""
    """The last warning or error of the log."""


def state_of(progress: Progress) -> str:
    """The state to show: the driver's own, or `Stopped` after its end."""
    if progress.failed:
        return QueryState.FAILED
    if progress.ended:
        return QueryState.COMPLETED if progress.completed else STOPPED
    return QueryState.STARTING if progress.report is None else progress.report.state


def view_rows(progress: Progress, info: RunInfo, monotonic: float, clock: datetime) -> list[Row]:
    """All rows below the line with name and state, in order; empty ones are left out.

    >>> waiting = DriverReport(spec_hash="", state=QueryState.WAITING_FOR_CORES, epoch=7)
    >>> dict(view_rows(Progress(waiting), RunInfo("fraud", ""), 0.0, datetime.now()))
    {'epoch': '7 in the checkpoint', 'restarts': '0'}
    """
    report = progress.report
    rows: list[Row] = []
    if report is not None:
        rows = [
            ("epoch", _epoch(report, progress.since_commit(monotonic))),
            ("rows", _rate(progress, info)),
            ("lag", "" if report.lag is None else f"{report.lag:,} records"),
            ("latency", _latency(progress)),
            ("cores", _cores(report)),
            ("restarts", _restarts(report)),
            ("last failure", _failure(report)),
            ("next retry", _retry(report, clock)),
        ]
    rows += [*info.extra_rows, ("last warning", info.last_warning)]
    return [(label, _shorten(value)) for label, value in rows if value]


def describe_trigger(spec: StreamSpec) -> str:
    interval = spec.trigger.interval
    match spec.trigger.mode:
        case Mode.CONTINUOUS:
            return f"continuous, an epoch every {interval}"
        case Mode.REAL_TIME:
            return f"real-time, a batch every {interval}"
        case Mode.MICRO_BATCH:
            return f"micro-batch, a batch every {interval}"
        case Mode.ASYNC:
            return f"micro-batch, a batch every {interval}, asynchronous progress tracking"
        case Mode.AVAILABLE_NOW:
            return "available now: ends when all input is read"


def stated_rate(spec: StreamSpec) -> str:
    """The rate that the spec sets for source.rate, which does not count its rows."""
    rate = spec.source.rate
    return "" if rate is None else f"{rate.rows_per_second:,} per second, set by source.rate"


def _epoch(report: DriverReport, since_commit: float | None) -> str:
    if report.epoch is None:
        return "none committed yet" if report.state is QueryState.RUNNING else ""
    if since_commit is None:
        return f"{report.epoch:,} in the checkpoint"
    return f"{report.epoch:,}, committed {since_commit:.0f} s ago"


def _rate(progress: Progress, info: RunInfo) -> str:
    if state_of(progress) != QueryState.RUNNING:
        return ""
    rate = progress.rate()
    return info.stated_rate if rate is None else f"{rate:,.{0 if rate >= 10 else 1}f} per second"


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
    if report.next_retry_time is None:
        return ""
    return f"in {max(0.0, (report.next_retry_time - clock).total_seconds()):.0f} s"


def _shorten(value: str) -> str:
    return value if len(value) <= _MAX_VALUE_LENGTH else f"{value[:_MAX_VALUE_LENGTH]}..."
