"""Builds the driver's reports, and logs and counts the events that they mention."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta

from penstock.api.v1alpha1.status import LastFailure, LastRepair
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.contract.sizing import Size
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.failures import Failure
from penstock.driver.kafka.offsets import Offsets, lag
from penstock.driver.logs import log_event
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.reporting.report import committed_offsets, last_repair
from penstock.driver.supervision import stall_detection
from penstock.driver.supervision.next_action import Action
from penstock.driver.supervision.observation import Observation, State

# Times are reported in whole seconds.
_ROUNDING = timedelta(seconds=2)


class ReportBuilder:
    """Remembers what reports contain beyond the current observation."""

    def __init__(self, spec_hash: str, metrics: Metrics) -> None:
        self._spec_hash = spec_hash
        self._metrics = metrics
        self._failure: LastFailure | None = None
        self._next_retry_time: datetime | None = None
        self._repairs = 0
        self._last_repair: LastRepair | None = None

    def record_failure(self, failure: Failure, *, repeated: bool = False) -> None:
        """Remembers and logs a failure.

        `repeated`: a recheck of a permanent failure found this one. If it is the same failure
        again, it is neither logged nor given a new time.
        """
        reported = failure.to_status(_now())
        known = self._failure
        if (
            repeated
            and known is not None
            and known == reported.model_copy(update={"time": known.time})
        ):
            return
        self._failure = reported
        log_event(
            "failure",
            logging.ERROR if failure.permanent else logging.WARNING,
            reason=failure.reason,
            cause=failure.message,
            permanent=failure.permanent,
        )

    def record_transition(self, before: State, after: State, action: Action) -> None:
        """Logs and counts what one decision of the supervisor changed."""
        if after.failure is not None and after.failure is not before.failure:
            self.record_failure(after.failure, repeated=before.failed_permanently)
            self._metrics.count_failure(after.failure)
            if after.failure.reason in stall_detection.DETECTED:
                self._metrics.count_stall_action(after.failure.reason, action.name.lower())
        if after.restarts > before.restarts and after.failure is not None:
            self._metrics.count_restart(after.failure.reason)
        self._next_retry_time = self._on_wall_clock(after.retry_at)

    def _on_wall_clock(self, retry_at: float | None) -> datetime | None:
        """The time of the next attempt. It changes with the attempt, or with the clock."""
        if retry_at is None:
            return None
        due = _now() + timedelta(seconds=round(retry_at - time.monotonic()))
        known = self._next_retry_time
        return known if known is not None and abs(due - known) <= _ROUNDING else due

    def record_repair(self, repair: RepairPlan) -> None:
        """Remembers and counts a repair of the checkpoint."""
        for each in repair.repairs:
            self._metrics.count_repair(each.kind)
        self._repairs += len(repair.repairs)
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
    ) -> DriverReport:
        """The report for this moment.

        `requested` is the size that Spark was asked for, `offsets` the committed and the newest
        offsets of a Kafka source, `committed_at` the time of the last commit since 1970.
        """
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
            epoch=observation.epoch,
            last_commit_time=None if committed_at is None else _whole_seconds(committed_at),
            committed=state.committed and query_state is not QueryState.STOPPING,
            lag=lag(*offsets) if offsets and observation.has_query else None,
            committed_offsets=committed,
            committed_offsets_omitted=omitted,
            query_restarts=state.restarts,
            last_failure=self._failure,
            next_retry_time=self._next_retry_time,
            checkpoint_repairs=self._repairs,
            last_repair=self._last_repair,
        )


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _whole_seconds(at: float) -> datetime:
    return datetime.fromtimestamp(int(at), UTC)
