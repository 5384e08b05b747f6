"""A stream whose days are played moment by moment, and shown by the real exporters.

What a driver and the operator would know at a moment is computed here; what they export of it, and
when, is the product's: `Metrics`, `OperatorMetrics`, and the intervals of reports and samples.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.api.v1alpha1.status import (
    Condition,
    Cores,
    Effective,
    Restarts,
    StreamState,
    StreamStatus,
)
from penstock.cluster.kinds import Key
from penstock.contract.driver_report import (
    NUMBERS_INTERVAL_SECONDS,
    DriverReport,
    QueryState,
)
from penstock.contract.naming import driver_pod_name
from penstock.controller.metrics import OperatorMetrics
from penstock.driver.checkpoint.progress import Commit, OffsetRange
from penstock.driver.reporting.metric_sampler import INTERVAL_SECONDS
from penstock.driver.reporting.metrics import Metrics
from testkit.operations.recorded_series import RecordedSeries

NAMESPACE = "shop"
DRIVERS = {"job": "penstock-drivers", "namespace": NAMESPACE}
# From the creation of a pod: until its page answers, and until its query runs.
_PAGE_AFTER = 15
_QUERY_AFTER = 30


class Topic:
    """One partition, with so many records a second between two moments."""

    def __init__(
        self, *rates: tuple[int, int, int], one_at: Sequence[int] = (), age: float = 0.0
    ) -> None:
        """`rates`: from, to, records a second; `one_at`: seconds in which one record comes.

        By its own timestamp a record is `age` seconds old when it comes.
        """
        moments = [*itertools.chain(*((start, end) for start, end, _ in rates)), *one_at, 0]
        self._start, end = min(moments), max(moments) + 1
        counts = [0] * (end - self._start)
        for start, stop, rate in rates:
            for second in range(start, stop):
                counts[second - self._start] += rate
        for second in one_at:
            counts[second - self._start] += 1
        self._ends = list(itertools.accumulate(counts))
        self._age = age

    def end(self, now: int) -> int:
        """The offset of the next record."""
        return self._ends[min(now - self._start, len(self._ends) - 1)] if now >= self._start else 0

    def timestamp(self, offset: int) -> float:
        return bisect.bisect_right(self._ends, offset) + self._start - self._age


@dataclass(frozen=True)
class Run:
    """A driver's pod, and where its query begins."""

    start: int
    end: int
    begins_at: int | None = None
    """Committed offset at its begin, for another generation; None: as the one before."""
    node: str = "a"


@dataclass(frozen=True)
class Query:
    """How a stream is made."""

    name: str
    mode: str
    interval: int
    """Seconds between commits; 0: as batches end."""
    capacity: int = 1000
    """Records that it processes in a second."""
    max_batch: int | None = None


class PlayedStream:
    """Plays one stream; `at` must be called for each played moment in turn."""

    def __init__(
        self,
        query: Query,
        topic: Topic,
        runs: Sequence[Run],
        operator: OperatorMetrics,
        *,
        every: int,
        numbers_interval: float = NUMBERS_INTERVAL_SECONDS,
        committed: int = 0,
    ) -> None:
        """`every`: seconds from one played moment to the next, the least time of a batch."""
        self._every = every
        self.key = Key(NAMESPACE, query.name)
        self._query, self._topic, self._runs = query, topic, runs
        self._operator = operator
        self._numbers_interval = numbers_interval
        self._committed, self._epoch = committed, 0
        self._committed_at: float | None = None
        self._run: Run | None = None
        self._shown: StreamStatus | None = None
        self._numbers: Mapping[str, object] = {}
        self._reported: Mapping[str, object] = {}
        self._status_at = self._report_at = -1e9
        self._pods = 0
        self._at_once: tuple[StreamState, str, int] | None = None
        self._new_pod()

    def _new_pod(self) -> None:
        self.page = Metrics()
        self._batch: tuple[int, int, int] | None = None
        """Its begin, its end offset, and when it ends."""
        self._next_trigger = -(10**9)
        self._confirmed = self._completed = False
        self._newest = 0
        self._range: tuple[int, int] | None = None

    def at(self, now: int) -> None:
        run = next((it for it in self._runs if it.start <= now < it.end), None)
        if run is not self._run:
            self._run = run
            self._new_pod()
            if run is not None:
                self._pods += self._pods == 0 or run.begins_at is None
                if run.begins_at is not None:
                    self._committed, self._epoch = run.begins_at, 0
        state, reason = self._state(now)
        if self._run is not None and now - self._run.start >= _QUERY_AFTER:
            self._work(now)
            state, reason = self._state(now)
            if now % INTERVAL_SECONDS == 0:
                self._sample(now)
        if self._has_page(now):
            self.page.set_report(self._report(now, state))
        self._show(now, state, reason)

    def scrape(self, into: RecordedSeries, number: int, now: int) -> None:
        """Prometheus asks the driver's page, if there is one."""
        if self._run is not None and self._has_page(now):
            pod = driver_pod_name(self._query.name)
            target = {"name": self._query.name, "pod": pod, "instance": self._run.node}
            into.scrape(number, self.page.registry, {**DRIVERS, **target})

    def _has_page(self, now: int) -> bool:
        return self._run is not None and now - self._run.start >= _PAGE_AFTER

    def _state(self, now: int) -> tuple[StreamState, str]:
        run = self._run
        if run is None:
            last = max((it.end for it in self._runs if it.end <= now), default=None)
            stopping = last is not None and now - last < _PAGE_AFTER
            return (
                (StreamState.SUSPENDING, "Suspending")
                if stopping
                else (StreamState.SUSPENDED, "Suspended")
            )
        if now - run.start < _PAGE_AFTER:
            return StreamState.PENDING, "DriverStarting"
        if now - run.start < _QUERY_AFTER:
            return StreamState.STARTING, "QueryStarting"
        if self._completed:
            return StreamState.COMPLETED, "Completed"
        if not self._confirmed:
            return StreamState.STARTING, "WaitingForFirstEpoch"
        return StreamState.RUNNING, "Running"

    def _work(self, now: int) -> None:
        query, end = self._query, self._topic.end(now)
        if self._completed:
            return
        if query.mode in ("Continuous", "RealTime"):
            # It reads all the time, and commits what it has read in each interval.
            self._confirmed |= query.mode == "RealTime"
            if (now - self._runs[0].start) % query.interval == 0:
                lasts = max(query.interval, self._every)
                can = self._committed + query.capacity * lasts
                self._epoch += lasts // query.interval - 1
                self._commit(now, min(end, can), took=0.1)
            return
        if self._batch is not None:
            begun, until, ends = self._batch
            if now < ends:
                return
            self._batch = None
            self._commit(now, until, took=float(now - begun))
            self._next_trigger = begun + query.interval
        if now >= self._next_trigger:
            if end > self._committed:
                until = min(end, self._committed + (query.max_batch or end))
                lasts = max(self._every, (until - self._committed) // query.capacity)
                self._batch = now, until, now + lasts
            else:  # idle: it looks again and again
                self._confirmed = True
                self._completed = query.mode == "AvailableNow"
                self._next_trigger = now + query.interval

    def _commit(self, now: int, until: int, took: float) -> None:
        before, self._committed = self._committed, until
        self._epoch, self._committed_at, self._confirmed = self._epoch + 1, float(now), True
        offsets = ({"orders": {0: before}}, {"orders": {0: until}})
        self.page.observe_commit(
            Commit(self._epoch, now, took, offsets[1]), OffsetRange(*offsets, committed_at=now)
        )
        self._range = (before, until) if until > before else self._range

    def _sample(self, now: int) -> None:
        """As the driver's sampler does, and its question for the newest offsets."""
        self._newest = self._topic.end(now)
        lag = self._newest - self._committed
        oldest = self._topic.timestamp(self._committed) if lag > 0 else now
        self.page.set_lag_seconds(max(0.0, now - oldest))
        if self._range is not None and self._committed_at is not None:
            of = self._topic.timestamp(sum(self._range) // 2)
            self.page.observe_latency(max(0.0, self._committed_at - of))
            self._range = None

    def _report(self, now: int, state: StreamState) -> DriverReport:
        known = now - self._run.start >= _QUERY_AFTER if self._run else False
        of_query = {
            StreamState.RUNNING: QueryState.RUNNING,
            StreamState.COMPLETED: QueryState.COMPLETED,
        }
        return DriverReport(
            spec_hash="1",
            state=of_query.get(state, QueryState.STARTING),
            partitions=1,
            cores=1,
            registered_cores=1,
            lag=max(0, self._newest - self._committed) if known else None,
        )

    def _show(self, now: int, state: StreamState, reason: str) -> None:
        """Transitions at once; numbers as often as the driver reports, and the operator writes."""
        shown = self._shown
        if now - self._report_at >= NUMBERS_INTERVAL_SECONDS:
            self._report_at = now
            at = self._committed_at
            runs = state in (StreamState.RUNNING, StreamState.STARTING)
            self._reported = {
                "lag": max(0, self._newest - self._committed) if runs else None,
                "epoch": self._epoch or None,
                "last_commit_time": None if at is None else datetime.fromtimestamp(at, UTC),
            }
        at_once = (state, reason, self._pods)
        due = now - self._status_at >= self._numbers_interval or now % INTERVAL_SECONDS == 0
        if at_once == self._at_once and not due:
            return
        status = self._status(now, state, reason)
        is_new = shown is None or _with_numbers(status, self._numbers) != shown
        self._at_once = at_once
        if not is_new and now - self._status_at < self._numbers_interval:
            return
        self._status_at, self._numbers = now, self._reported
        self._shown = _with_numbers(status, self._numbers)
        self._operator.show(self.key, self._shown, float(self._query.interval))

    def again(self) -> None:
        """The operator shows it anew, after another one has."""
        if self._shown is not None:
            self._operator.show(self.key, self._shown, float(self._query.interval))

    def lead_by(self, operator: OperatorMetrics) -> None:
        self._operator = operator

    def _status(self, now: int, state: StreamState, reason: str) -> StreamStatus:
        ready = state in (StreamState.RUNNING, StreamState.COMPLETED)
        known = {it.type: it for it in self._shown.conditions} if self._shown else {}
        settled = ready or state is StreamState.SUSPENDED
        return StreamStatus(
            state=state,
            mode=self._query.mode,
            conditions=[
                _condition(known.get(kind), now, kind, is_true, why)
                for kind, is_true, why in (
                    ("Ready", ready, reason),
                    ("Reconciling", not settled, "UpToDate" if settled else reason),
                    ("Stalled", False, "NotStalled"),
                    ("Warning", False, "NoWarnings"),
                )
            ],
            partitions=1,
            cores=Cores(registered=1, desired=1) if ready else None,
            executors=1 if ready else None,
            effective=Effective(image="penstock:1"),
            restarts=Restarts(total=max(0, self._pods - 1), pod=max(0, self._pods - 1)),
        )


def _condition(
    before: Condition | None, now: int, kind: str, is_true: bool, reason: str
) -> Condition:
    status = "True" if is_true else "False"
    if before is not None and (before.status, before.reason) == (status, reason):
        return before
    return Condition.model_validate(
        {
            "type": kind,
            "status": status,
            "observedGeneration": 1,
            "lastTransitionTime": datetime.fromtimestamp(now, UTC),
            "reason": reason,
            "message": "why",
        }
    )


def _with_numbers(status: StreamStatus, numbers: Mapping[str, object]) -> StreamStatus:
    return status.model_copy(update=dict(numbers))
