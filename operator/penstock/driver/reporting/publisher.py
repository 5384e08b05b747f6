"""Publishes the report as an annotation of the pod, in a thread: the supervisor never waits."""

from __future__ import annotations

import logging
import threading
import time

from penstock.contract.driver_report import NUMBERS, NUMBERS_INTERVAL_SECONDS, DriverReport
from penstock.contract.naming import ANNOTATION_REPORT
from penstock.driver.kubernetes.api import Api
from penstock.driver.logs import log_event

_RETRY_SECONDS = 3.0


class ReportPublisher:
    """Takes every report, and patches the pod with the reports that are due."""

    def __init__(self, api: Api, pod_name: str) -> None:
        self._api = api
        self._pod_name = pod_name
        self._latest: DriverReport | None = None
        self._published: tuple[DriverReport, float] | None = None
        """The last one on the pod, and when; None if there is none, or somebody has changed it."""
        self._changed = threading.Event()
        self._idle = threading.Event()
        threading.Thread(target=self._run, name="reporter", daemon=True).start()

    def publish(self, report: DriverReport) -> None:
        """Takes a report; returns at once."""
        if report != self._latest:
            self._latest = report
            self._idle.clear()
            self._changed.set()

    def flush(self, seconds: float) -> None:
        """Waits up to `seconds` until the newest report is published."""
        self._idle.wait(seconds)

    def check_published(self, annotation: str | None) -> None:
        """Publishes again if the pod has another report than this driver's last one.

        A report that was published since the pod was read is published twice.
        """
        published = self._published
        if published is not None and annotation != as_annotation(published[0]):
            self._published = None
            self._changed.set()

    def _run(self) -> None:
        succeeded = True
        while True:
            # A report that changes only numbers becomes due later.
            self._changed.wait(NUMBERS_INTERVAL_SECONDS)
            self._changed.clear()
            report = self._latest
            published, at = self._published or (None, 0.0)
            if report is None or not is_due(report, published, time.monotonic() - at):
                self._idle.set()
                continue
            try:
                self._api.annotate(self._pod_name, ANNOTATION_REPORT, as_annotation(report))
            except Exception as error:  # a failure of the API server must not stop the query
                if succeeded:
                    log_event("the report was not published", logging.WARNING, error=str(error))
                succeeded = False
                time.sleep(_RETRY_SECONDS)
                self._changed.set()
            else:
                self._published, succeeded = (report, time.monotonic()), True
                if report is self._latest:
                    self._idle.set()


def as_annotation(report: DriverReport) -> str:
    """The report as JSON, without unknown values."""
    return report.model_dump_json(by_alias=True, exclude_none=True)


def is_due(report: DriverReport, last: DriverReport | None, seconds_since_last: float) -> bool:
    """Whether to publish: a change of state at once, changed numbers after an interval."""
    if last is None:
        return True
    if report == last:
        return False
    return (
        _transition(report) != _transition(last) or seconds_since_last >= NUMBERS_INTERVAL_SECONDS
    )


def _transition(report: DriverReport) -> DriverReport:
    return report.model_copy(update=dict.fromkeys(NUMBERS))
