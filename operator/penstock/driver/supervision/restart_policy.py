"""How long to wait for what, from the spec: back-off, patience, limits. Times are in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.engine import Engine, engine_of, trigger_interval_ms


@dataclass(frozen=True)
class Policy:
    """How long to wait for what."""

    interval: float
    """The trigger's own: how often a commit is due."""
    continuous: bool = False
    """Whether every epoch commits and every partition has a task that always runs."""
    max_attempts: int | None = None
    """Failures in a row before a passing one is permanent; None: never."""
    backoff_base: float = 1.0
    backoff_cap: float = 60.0
    stable_after: float = 60.0
    """After so long without a failure the back-off begins anew."""
    look_again: float = 30.0
    """The pace at which a cause that may vanish is looked at again."""
    stuck_at_most: int = 3
    """Restarts by the watchdog in a row, before the process is given up."""
    max_poison_failures: int = 10
    """Failures about a record in a row, without a commit between, before they are permanent."""
    step: float = 60.0
    """How long one step may take before the driver counts as hung."""

    @classmethod
    def of(cls, spec: StreamSpec) -> Policy:
        """What the spec asks for."""
        return cls(
            interval=trigger_interval_ms(spec) / 1000,
            continuous=engine_of(spec) is Engine.CONTINUOUS,
            max_attempts=spec.restart.max_attempts,
            stable_after=milliseconds(spec.restart.stable_after) / 1000,
        )

    @property
    def patience(self) -> float:
        """How long a query with all its cores may go without a commit."""
        return max(60.0, 10 * self.interval)

    @property
    def patience_for_cores(self) -> float:
        """How long a running query may go without a commit while it is short of cores."""
        return max(300.0, self.patience)

    @property
    def patience_with_commits(self) -> float:
        """How long offsets may be planned without one of them being committed."""
        return max(15.0, 3 * self.interval)

    @property
    def patience_for_tasks(self) -> float:
        """How long a partition may go without a task; Spark re-plans between epochs only."""
        return max(30.0, 3 * self.interval)

    def delay(self, attempts: int, jitter: float) -> float:
        """Exponential back-off with full jitter; `jitter` is in [0, 1)."""
        return jitter * min(self.backoff_cap, self.backoff_base * 2.0 ** min(attempts - 1, 30))
