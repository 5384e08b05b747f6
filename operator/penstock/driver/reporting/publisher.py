"""Publishes the report as an annotation of the pod, without ever making the supervisor wait."""

from __future__ import annotations

import logging
import threading
import time

from penstock.contract.driver_report import DriverReport
from penstock.contract.naming import ANNOTATION_REPORT
from penstock.driver.kubernetes_api import Api
from penstock.driver.logs import log_event
from penstock.driver.reporting.report import NUMBERS_INTERVAL_SECONDS, as_annotation, is_due

_RETRY_SECONDS = 3.0


class ReportPublisher:
    """Takes every report, and patches the pod with those that are due, from its own thread."""

    def __init__(self, api: Api, pod_name: str) -> None:
        self._api = api
        self._pod_name = pod_name
        self._latest: DriverReport | None = None
        self._changed = threading.Event()
        self._idle = threading.Event()
        threading.Thread(target=self._keep_publishing, name="reporter", daemon=True).start()

    def publish(self, report: DriverReport) -> None:
        """Hands a report over; comes back at once."""
        if report != self._latest:
            self._latest = report
            self._idle.clear()
            self._changed.set()

    def flush(self, seconds: float) -> None:
        """Waits, within bounds, until the newest report is out."""
        self._idle.wait(seconds)

    def _keep_publishing(self) -> None:
        published: DriverReport | None = None
        published_at = 0.0
        was_well = True
        while True:
            # A report of numbers alone comes due later, so look again at the slow beat.
            self._changed.wait(NUMBERS_INTERVAL_SECONDS)
            self._changed.clear()
            report = self._latest
            if report is None or not is_due(report, published, time.monotonic() - published_at):
                self._idle.set()
                continue
            try:
                self._api.annotate(self._pod_name, ANNOTATION_REPORT, as_annotation(report))
            except Exception as error:  # the API server's troubles are not the query's
                if was_well:
                    log_event("the report was not published", logging.WARNING, error=str(error))
                was_well = False
                time.sleep(_RETRY_SECONDS)
                self._changed.set()
            else:
                published, published_at, was_well = report, time.monotonic(), True
                if report is self._latest:
                    self._idle.set()
