"""The driver's account of its query: what went wrong, what was mended, how things stand."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta

from penstock.api.v1alpha1.status import LastFailure, LastRepair
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.contract.sizing import Size
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.failures import Failure
from penstock.driver.logs import say
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.reporting.report import last_repair
from penstock.driver.supervision import stall_detection
from penstock.driver.supervision.state import Observation, State
from penstock.driver.supervision.supervisor import Action


class Account:
    """Remembers what reports tell besides the moment's sight; logs and counts it as it comes."""

    def __init__(self, spec_hash: str, metrics: Metrics) -> None:
        self._spec_hash = spec_hash
        self._metrics = metrics
        self._failure: LastFailure | None = None
        self._next_retry: datetime | None = None
        self._repairs = 0
        self._last_repair: LastRepair | None = None

    def note(self, failure: Failure, *, again: bool = False) -> None:
        """Remembers and logs a failure; one that a halted stream still has is no news."""
        reported = failure.at(_now())
        known = self._failure
        if (
            again
            and known is not None
            and known == reported.model_copy(update={"time": known.time})
        ):
            return
        self._failure = reported
        say(
            "failure",
            logging.ERROR if failure.permanent else logging.WARNING,
            reason=failure.reason,
            cause=failure.message,
            permanent=failure.permanent,
        )

    def changed(self, before: State, after: State, action: Action) -> None:
        """What the supervisor has made of the last sight."""
        if after.failure is not None and after.failure is not before.failure:
            self.note(after.failure, again=before.halted)
            self._metrics.failed(after.failure)
            if after.failure.reason in stall_detection.FOUND:
                self._metrics.watchdog_acted(after.failure.reason, action.name.lower())
        if after.restarts > before.restarts and after.failure is not None:
            self._metrics.restarted(after.failure.reason)
        if after.retry_at != before.retry_at:
            self._next_retry = None
            if after.retry_at is not None:
                self._next_retry = _now() + timedelta(seconds=after.retry_at - time.monotonic())

    def repaired(self, repair: RepairPlan) -> None:
        """The checkpoint was put right."""
        for each in repair.repairs:
            self._metrics.repaired(each.kind)
        self._repairs += len(repair.repairs)
        self._last_repair = last_repair(repair, _now())

    def report(
        self,
        state: QueryState,
        message: str,
        known: State,
        observation: Observation,
        size: Size | None,
        lag: int | None,
    ) -> DriverReport:
        """How things stand; `size` is what was asked for."""
        return DriverReport(
            spec_hash=self._spec_hash,
            state=state,
            message=message,
            partitions=observation.partitions,
            executors=size.executors if size else None,
            registered_executors=observation.executors if observation.session else None,
            cores=observation.cores_wanted if observation.session else None,
            registered_cores=observation.cores if observation.session else None,
            epoch=observation.epoch,
            committed=known.committed and state is not QueryState.STOPPING,
            lag=lag if observation.query else None,
            query_restarts=known.restarts,
            last_failure=self._failure,
            next_retry=self._next_retry,
            checkpoint_repairs=self._repairs,
            last_repair=self._last_repair,
        )


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
