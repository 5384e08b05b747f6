"""The driver's account of its query: what went wrong, what was mended, how things stand."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta

from penstock.api.v1alpha1.status import Failure, LastMending
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.contract.sizing import Size
from penstock.driver.checkpoint.repair import Repair
from penstock.driver.failures import Trouble
from penstock.driver.logs import say
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.reporting.report import last_mending
from penstock.driver.supervision import stall_detection
from penstock.driver.supervision.state import Sight, State
from penstock.driver.supervision.supervisor import Action


class Account:
    """Remembers what reports tell besides the moment's sight; logs and counts it as it comes."""

    def __init__(self, spec_hash: str, metrics: Metrics) -> None:
        self._spec_hash = spec_hash
        self._metrics = metrics
        self._failure: Failure | None = None
        self._next_retry: datetime | None = None
        self._mendings = 0
        self._last_mending: LastMending | None = None

    def note(self, trouble: Trouble, *, again: bool = False) -> None:
        """Remembers and logs a failure; one that a halted stream still has is no news."""
        failure = trouble.at(_now())
        known = self._failure
        if again and known is not None and known == failure.model_copy(update={"time": known.time}):
            return
        self._failure = failure
        say(
            "failure",
            logging.ERROR if trouble.permanent else logging.WARNING,
            reason=trouble.reason,
            cause=trouble.message,
            permanent=trouble.permanent,
        )

    def changed(self, before: State, after: State, action: Action) -> None:
        """What the supervisor has made of the last sight."""
        if after.trouble is not None and after.trouble is not before.trouble:
            self.note(after.trouble, again=before.halted)
            self._metrics.failed(after.trouble)
            if after.trouble.reason in stall_detection.FOUND:
                self._metrics.watchdog_acted(after.trouble.reason, action.name.lower())
        if after.restarts > before.restarts and after.trouble is not None:
            self._metrics.restarted(after.trouble.reason)
        if after.retry_at != before.retry_at:
            self._next_retry = None
            if after.retry_at is not None:
                self._next_retry = _now() + timedelta(seconds=after.retry_at - time.monotonic())

    def mended(self, repair: Repair) -> None:
        """The checkpoint was put right."""
        for each in repair.mendings:
            self._metrics.mended(each.kind)
        self._mendings += len(repair.mendings)
        self._last_mending = last_mending(repair, _now())

    def report(
        self,
        state: QueryState,
        message: str,
        known: State,
        sight: Sight,
        size: Size | None,
        lag: int | None,
    ) -> DriverReport:
        """How things stand; `size` is what was asked for."""
        return DriverReport(
            spec_hash=self._spec_hash,
            state=state,
            message=message,
            partitions=sight.partitions,
            executors=size.executors if size else None,
            registered_executors=sight.executors if sight.session else None,
            cores=sight.cores_wanted if sight.session else None,
            registered_cores=sight.cores if sight.session else None,
            epoch=sight.epoch,
            committed=known.committed and state is not QueryState.STOPPING,
            lag=lag if sight.query else None,
            query_restarts=known.restarts,
            last_failure=self._failure,
            next_retry=self._next_retry,
            checkpoint_mendings=self._mendings,
            last_mending=self._last_mending,
        )


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
