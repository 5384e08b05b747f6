"""Timeouts, back-off and limits for one spec. All durations are in seconds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.api.modes import Mode
from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.restart import Restart

# A query is late, and stalled, after this many times its slowest progress.
_LATE_FACTOR = 2.0
_STALL_FACTOR = 3.0
# Patience doubles no more often: a cause that has gone must be noticed some day, and a continuous
# run without a commit writes what comes twice all the time.
MAX_DOUBLINGS = 5
_MAX_DOUBLINGS_CONTINUOUS = 2
# What is over by so much, when a commit should have come, is worth a probe of the checkpoint.
_PROBE_SECONDS = 3.0
_PROBE_FACTOR = 1.5
# The pause after a run without a commit, as a part of the time since the last commit.
_PAUSE_FACTOR = 0.5


@dataclass(frozen=True)
class RestartPolicy:
    """When to restart the query, and when to stop trying. All durations are in seconds."""

    interval: float
    """The trigger's interval: how often a commit is due."""
    mode: Mode = Mode.MICRO_BATCH
    max_attempts: int | None = None
    """Failures in a row after which the user wants no more; None: no limit."""
    backoff_base: float = 1.0
    backoff_cap: float = 20.0
    waiting_cap: float = 10.0
    """The cap while no query is started: an attempt then costs a question to Kafka or to the API
    server, so what comes back is noticed soon."""
    stable_after: float = 60.0
    """Time without a failure after which the back-off starts again at its base."""
    recheck_interval: float = 30.0
    """Time until a failure that a retry alone does not repair is looked at again."""
    recheck_cap: float = 300.0
    """The same after several attempts that needed executors."""
    new_session_after: int = 5
    """After each so many failures in a row of a running query it gets new executors."""
    new_process_after: int = 60
    """After each so many of them the process exits: with the longest back-offs that is after ten
    minutes, when the kubelet has forgotten an earlier exit and starts it at once."""
    max_stalls: int = 3
    """After each so many stalls without a commit the process exits."""
    uncommitted_cap: float = 600.0
    """The longest pause after a run without a commit: how late it may be noticed that the cause has
    gone."""
    volume_recheck: float = 2.0
    """How often a query that was stopped because its checkpoint cannot be written looks again."""
    volume_patience: float = 300.0
    """How long its executors are kept meanwhile."""
    max_poison_failures: int = 10
    """Failures over a record in a row, without a commit between, before the stream gives up, or
    slows down if its spec has proved itself. Two over the same record are enough."""
    dead_letters_per_minute: int | None = None
    """How many records may be left out within a minute once two runs have failed over them; None:
    none ever."""
    min_patience: float = 60.0
    """How long a batch engine, and a query that starts, may show no progress at least."""
    unread_patience: float = 30.0
    """How long commits may leave out a record of the source at least: a consumer needs some seconds
    to connect, and a broker's quota may hold it up for as long."""
    cores_patience: float = 60.0
    """How long a micro-batch waits for all of its cores before it starts with fewer."""
    step_timeout: float = 60.0
    """How long one step may take before the driver counts as hung."""

    @classmethod
    def from_spec(cls, spec: StreamSpec) -> RestartPolicy:
        """The policy of a spec."""
        letters = None if spec.source.kafka is None else spec.source.kafka.dead_letters
        return cls(
            dead_letters_per_minute=None if letters is None else letters.max_per_minute,
            interval=spec.trigger.commit_interval_ms / 1000,
            mode=spec.trigger.mode,
        ).with_restart(spec.restart)

    def with_restart(self, restart: Restart) -> RestartPolicy:
        """The same with other limits of the spec, which may change while the query runs."""
        return replace(
            self,
            max_attempts=restart.max_attempts,
            stable_after=milliseconds(restart.stable_after) / 1000,
        )

    def allows_after(self, failures: int) -> bool:
        """Whether the user wants another attempt after so many failures in a row."""
        return self.max_attempts is None or failures < self.max_attempts

    @property
    def progress_interval(self) -> float:
        """How long a healthy query shows no progress: the length of a real-time batch, else 0."""
        return self.interval if self.mode is Mode.REAL_TIME else 0.0

    @property
    def late_after(self) -> float:
        """How long a query may show no progress and still be ready.

        A real-time batch ends on time, and shows nothing before: its rows are counted at its end
        (measured, Spark 4.2).
        """
        if self.mode is Mode.REAL_TIME:
            return self.interval + 15.0
        return 3 * self.interval + (5.0 if self.mode is Mode.CONTINUOUS else 15.0)

    @property
    def stall_after(self) -> float:
        """How long a query that has committed may show no progress.

        In continuous mode everything read until then is written twice. A stuck batch writes no
        more than its batch, so a batch engine gets a minute for a record, a state store or a sink
        that takes long.
        """
        if self.mode is Mode.REAL_TIME:
            return self.interval + self.min_patience
        committed = 5 * self.interval + 10
        return committed if self.mode is Mode.CONTINUOUS else max(self.min_patience, committed)

    @property
    def start_after(self) -> float:
        """How long a query may take to its first commit after a start.

        Executors load classes and compile code, and every client connects: 3 s on an idle machine,
        and ten times that on a busy one (measured).
        """
        return max(self.min_patience, self.stall_after)

    @property
    def unread_after(self) -> float:
        """How long commits may leave out a record of the source, and the query still be ready."""
        if self.mode is Mode.REAL_TIME:
            return self.interval + self.unread_patience
        return max(self.unread_patience, 3 * self.interval)

    @property
    def unread_restart_after(self) -> float:
        """How long commits may leave out a record before Spark restarts with new executors.

        It is not urgent: the other partitions are read, and nothing is written twice.
        """
        return max(2 * self.unread_patience, self.stall_after)

    @property
    def cores_timeout(self) -> float:
        """How long a running query that lacks cores may go without a commit."""
        return max(300.0, self.stall_after)

    def late_after_slowest(self, slowest: float) -> float:
        """How long a query with this slowest progress may show none and still be ready."""
        return max(self.late_after, self.progress_interval + _LATE_FACTOR * slowest)

    def stall_after_slowest(self, slowest: float) -> float:
        """The patience that this slowest progress gives a query, whatever its interval does."""
        return self.progress_interval + _STALL_FACTOR * slowest

    def patience_factor(self, stalls: int) -> int:
        """How much more patience a run gets after this many stalls without a commit."""
        continuous = self.mode is Mode.CONTINUOUS
        doublings = _MAX_DOUBLINGS_CONTINUOUS if continuous else MAX_DOUBLINGS
        return int(2 ** min(stalls, doublings))

    def is_probe_due(self, overdue: float, probed: float) -> bool:
        """Whether a commit is overdue for so long that the checkpoint is probed, if it was last
        probed when the commit was overdue for `probed` seconds.
        """
        return overdue > max(_PROBE_SECONDS, _PROBE_FACTOR * probed)

    def uncommitted_pause(self, uncommitted: float) -> float:
        """The pause after a run that has committed no records, `uncommitted` seconds after what it
        writes was first written.

        Each run writes again what the one before has written. With the pause a run ends at one
        and a half times the time of the one before, at least, so within D seconds without a commit
        there are no more than 1 + log(D / d, 1.5) such runs, if the first of them ends after d
        seconds; from the cap on, which is reached after twice its length, there is one more for
        each time of the cap.

        >>> policy = RestartPolicy(interval=1.0, mode=Mode.CONTINUOUS)
        >>> [policy.uncommitted_pause(seconds) for seconds in (4.0, 60.0, 1200.0, 86400.0)]
        [2.0, 30.0, 600.0, 600.0]
        """
        return min(self.uncommitted_cap, _PAUSE_FACTOR * uncommitted)

    def remaining_pause(self, uncommitted: float) -> float:
        """The same for a process that was started instead, when `uncommitted` holds the pause."""
        return self.uncommitted_pause(uncommitted / (1 + _PAUSE_FACTOR))

    def backoff(self, attempts: int, jitter: float, *, waiting: bool = False) -> float:
        """Exponential back-off with full jitter; `jitter` is in [0, 1). `waiting`: for a start."""
        cap = min(self.backoff_cap, self.waiting_cap) if waiting else self.backoff_cap
        return jitter * min(cap, self.backoff_base * 2.0 ** min(max(attempts - 1, 0), 30))

    def recheck_delay(self, rechecks: int) -> float:
        """The time until the next whole attempt after `rechecks` of them in a row."""
        grown = self.recheck_interval * 2.0 ** min(max(rechecks - 1, 0), 30)
        return min(grown, max(self.recheck_cap, self.recheck_interval))
