"""Timeouts, back-off and limits for one spec. All durations are in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.engine import Engine, engine_of, trigger_interval_ms


@dataclass(frozen=True)
class RestartPolicy:
    """When to restart the query, and when to stop trying. All durations are in seconds."""

    interval: float
    """The trigger's interval: how often a commit is due."""
    continuous: bool = False
    """The continuous engine: every epoch commits, and every partition always has a task."""
    max_attempts: int | None = None
    """Failures in a row before a transient failure becomes permanent; None: no limit."""
    backoff_base: float = 1.0
    backoff_cap: float = 60.0
    stable_after: float = 60.0
    """Time without a failure after which the back-off starts again at its base."""
    recheck_interval: float = 30.0
    """Time between checks whether the cause of a permanent failure is gone."""
    max_stalls: int = 3
    """Stalls in a row before the process exits."""
    max_poison_failures: int = 10
    """Failures over a record in a row, without a commit between, before they are permanent."""
    step_timeout: float = 60.0
    """How long one step may take before the driver counts as hung."""

    @classmethod
    def from_spec(cls, spec: StreamSpec) -> RestartPolicy:
        """The policy of a spec."""
        return cls(
            interval=trigger_interval_ms(spec) / 1000,
            continuous=engine_of(spec) is Engine.CONTINUOUS,
            max_attempts=spec.restart.max_attempts,
            stable_after=milliseconds(spec.restart.stable_after) / 1000,
        )

    @property
    def commit_timeout(self) -> float:
        """How long a query with all its cores may go without a commit."""
        return max(60.0, 10 * self.interval)

    @property
    def cores_timeout(self) -> float:
        """How long a running query that lacks cores may go without a commit."""
        return max(300.0, self.commit_timeout)

    @property
    def stuck_commits_timeout(self) -> float:
        """How long offsets may be written without a commit."""
        return max(15.0, 3 * self.interval)

    @property
    def missing_tasks_timeout(self) -> float:
        """How long a partition may go without a task; Spark plans tasks between epochs only."""
        return max(30.0, 3 * self.interval)

    def backoff(self, attempts: int, jitter: float) -> float:
        """Exponential back-off with full jitter; `jitter` is in [0, 1)."""
        return jitter * min(self.backoff_cap, self.backoff_base * 2.0 ** min(attempts - 1, 30))
