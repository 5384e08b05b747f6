"""Rates and ages, computed from successive reports. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.contract.driver_report import DriverReport, QueryState

# The rate covers the commits of the last ten seconds, and always at least two commits.
_WINDOW_SECONDS = 10.0


@dataclass(frozen=True)
class Commit:
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
    commits: tuple[Commit, ...] = ()
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
    ) -> Progress:
        """The progress after one more report and the metrics that came with it."""
        commits = self.commits
        if report.epoch is not None and (not commits or commits[-1].epoch != report.epoch):
            commits = _recent((*commits, Commit(now, report.epoch, records)), now)
        return replace(
            self,
            report=report,
            commits=commits,
            latency=latency,
            failed=self.failed or report.state is QueryState.FAILED,
            completed=self.completed or report.state is QueryState.COMPLETED,
        )

    def rate(self) -> float | None:
        """Records per second between the commits; None before two commits with counts."""
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


def _recent(commits: tuple[Commit, ...], now: float) -> tuple[Commit, ...]:
    recent = tuple(each for each in commits if now - each.at <= _WINDOW_SECONDS)
    return recent if len(recent) >= 2 else commits[-2:]
