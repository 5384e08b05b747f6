"""What the driver reports: its annotation, its log of failures, and the termination message."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from penstock.api.v1alpha1.status import (
    MAX_COMMITTED_OFFSETS,
    CommittedOffset,
    LastFailure,
    LastRepair,
)
from penstock.contract.checkpoint_repairs import most_severe, summarize
from penstock.contract.driver_report import (
    DriverReport,
    QueryState,
    ReportedWarning,
)
from penstock.contract.sizing import Size
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.failures import DEAD_LETTER, Failure
from penstock.driver.kafka.offsets import Offsets, lag
from penstock.driver.logs import log_event
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.supervision.next_action import (
    Action,
    Event,
    NewFailure,
    NewInterruption,
    NewWarning,
    QueryRestarted,
)
from penstock.driver.supervision.observation import Observation
from penstock.driver.supervision.phases import State
from penstock.driver.supervision.stall_detection import DETECTED

# The kubelet keeps 4096 bytes of a termination message.
_MAX_TERMINATION_MESSAGE_CHARACTERS = 3000
# Times are reported in whole seconds.
_ROUNDING = timedelta(seconds=2)


class ReportBuilder:
    """Remembers what reports contain beyond the current observation."""

    def __init__(self, spec_hash: str, metrics: Metrics) -> None:
        self._spec_hash = spec_hash
        self._metrics = metrics
        self._failure: LastFailure | None = None
        self._next_retry_time: datetime | None = None
        self._last_repair: LastRepair | None = None
        self._handled: tuple[Offsets | None, int] = None, 0
        """What a batch after these commits has handled, at most."""

    def record(self, events: Iterable[Event], action: Action) -> None:
        """Remembers, logs and counts what has happened, and the action that was decided on."""
        for event in events:
            match event:
                case NewFailure(failure, repeated):
                    self.record_failure(failure, repeated=repeated)
                    self._count(failure, action)
                case NewInterruption(failure):
                    self.record_failure(failure)
                    self._count(failure, action)
                case NewWarning(warning):
                    self.record_warning(warning)
                case QueryRestarted(after):
                    self._metrics.count_restart(after.reason)

    def record_failure(self, failure: Failure, *, repeated: bool = False) -> None:
        """Remembers and logs a failure.

        `repeated`: a recheck of a permanent failure found this one. If it is the same failure
        again, it is neither logged nor given a new time.
        """
        reported, known = failure.to_status(_now()), self._failure
        same = known is not None and known == reported.model_copy(update={"time": known.time})
        if repeated and same:
            return
        self._failure = reported
        log_event(
            "failure",
            logging.ERROR if failure.permanent else logging.WARNING,
            reason=failure.reason,
            cause=failure.message,
            permanent=failure.permanent,
            record=reported.record,
        )
        if failure.record is not None:
            self._metrics.set_failed_record(failure.record)

    def record_warning(self, warning: Failure) -> None:
        """Remembers, logs and counts a warning, where failures are: users look there."""
        self._failure = warning.to_status(_now())
        self._metrics.count_failure(warning.reason, permanent=False)
        if warning.reason == DEAD_LETTER:
            self._metrics.count_dead_letter()
        log_event("warning", logging.WARNING, reason=warning.reason, cause=warning.message)

    def _count(self, failure: Failure, action: Action) -> None:
        self._metrics.count_failure(failure.reason, permanent=failure.permanent)
        if failure.reason in DETECTED:
            self._metrics.count_stall_action(failure.reason, action.name.lower())

    def record_repair(self, repair: RepairPlan) -> None:
        """Remembers and counts a repair of the checkpoint."""
        for made in repair.repairs:
            self._metrics.count_repair(made.kind)
        self._last_repair = last_repair(repair, _now())

    def build(
        self,
        query_state: QueryState,
        message: str,
        state: State,
        observation: Observation,
        requested: Size | None,
        offsets: tuple[Offsets, Offsets] | None,
        committed_at: float | None = None,
        *,
        repartitions_state: bool = False,
    ) -> DriverReport:
        """The report for this moment.

        `requested` is the size that Spark was asked for, `offsets` the committed and the newest
        offsets of a Kafka source, `committed_at` the time of the last commit since 1970.
        """
        self._next_retry_time = self._on_wall_clock(state.retry_at)
        committed, omitted = committed_offsets(offsets[0]) if offsets else (None, None)
        return DriverReport(
            spec_hash=self._spec_hash,
            state=query_state,
            message=message,
            partitions=observation.partitions,
            executors=requested.executors if requested else None,
            registered_executors=observation.registered_executors
            if observation.has_session
            else None,
            cores=observation.desired_cores if observation.has_session else None,
            registered_cores=observation.registered_cores if observation.has_session else None,
            state_partitions=observation.state_partitions,
            epoch=observation.epoch,
            last_commit_time=None if committed_at is None else _whole_seconds(committed_at),
            committed=state.committed and query_state is not QueryState.STOPPING,
            proved=state.history.proved,
            query_runs=state.query_runs and query_state is not QueryState.STOPPING,
            repartitions_state=repartitions_state,
            lag=self._unhandled(observation, offsets),
            committed_offsets=committed,
            committed_offsets_omitted=omitted,
            warning=_reported(observation.warning) if observation.has_query else None,
            query_restarts=state.history.restarts,
            last_failure=self._failure,
            next_retry_time=self._next_retry_time,
            last_repair=self._last_repair,
        )

    def _unhandled(
        self, observation: Observation, offsets: tuple[Offsets, Offsets] | None
    ) -> int | None:
        """Records of the source that the query has not handled: lag without what a batch has read.

        The commits of the observation are older than what it says of the batch, and so none of its
        records counts twice. Spark forgets at the end of a batch, before its commit, what it read.
        """
        if offsets is None or observation.offsets is None or not observation.has_query:
            self._handled = None, 0
            return None
        committed, of_batch = observation.offsets, observation.activity.handled
        if committed == self._handled[0]:
            of_batch = max(of_batch, self._handled[1])
        self._handled = committed, of_batch
        return max(0, lag(committed, offsets[1]) - of_batch)

    def _on_wall_clock(self, retry_at: float | None) -> datetime | None:
        """The time of the next attempt. It changes with the attempt, or with the clock."""
        if retry_at is None:
            return None
        due = _now() + timedelta(seconds=round(retry_at - time.monotonic()))
        known = self._next_retry_time
        return known if known is not None and abs(due - known) <= _ROUNDING else due


def _reported(warning: Failure | None) -> ReportedWarning | None:
    if warning is None:
        return None
    return ReportedWarning(reason=warning.reason, message=warning.message)


def committed_offsets(committed: Offsets) -> tuple[list[CommittedOffset], int | None]:
    """The first partitions by topic and number, and how many are left out (None: none)."""
    partitions = (
        CommittedOffset(topic=topic, partition=partition, offset=committed[topic][partition])
        for topic in sorted(committed)
        for partition in sorted(committed[topic])
    )
    omitted = sum(map(len, committed.values())) - MAX_COMMITTED_OFFSETS
    return list(itertools.islice(partitions, MAX_COMMITTED_OFFSETS)), max(0, omitted) or None


def last_repair(repair: RepairPlan, now: datetime) -> LastRepair:
    """The report of a repair: its most severe kind, and all kinds in the message."""
    first = most_severe(repair.repairs)
    onward = (
        "the stream starts without a commit"
        if repair.epoch is None
        else f"the stream continues from epoch {repair.epoch}"
    )
    return LastRepair(
        reason=first.kind,
        cause=first.cause,
        message=f"{summarize(repair.repairs)}; {onward}",
        time=now,
    )


def write_termination_message(path: Path | None, failure: LastFailure) -> None:
    """Writes the failure where the kubelet reads it; does nothing without a path."""
    if path is None:
        return
    short = failure.model_copy(
        update={"message": failure.message[:_MAX_TERMINATION_MESSAGE_CHARACTERS]}
    )
    try:
        path.write_text(short.model_dump_json(by_alias=True))
    except OSError as error:
        log_event("the termination message was not written", logging.WARNING, error=str(error))


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _whole_seconds(at: float) -> datetime:
    return datetime.fromtimestamp(int(at), UTC)
