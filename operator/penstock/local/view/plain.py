"""--plain: log lines instead of the live view, for pipes, files and CI."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator

from penstock.contract.driver_report import DriverReport
from penstock.driver import logs
from penstock.driver.logs import log_event
from penstock.driver.reporting.publisher import is_due
from penstock.local.view.progress import Progress, RunInfo


class PlainView:
    """Logs each change at once, and numbers every ten seconds, on stderr."""

    def __init__(self, info: Callable[[str], RunInfo]) -> None:
        self._info = info
        self._last: DriverReport | None = None
        self._last_at = 0.0

    @property
    def last_warning(self) -> str:
        """Always empty: the user has already seen every line."""
        return ""

    def update(self, progress: Progress) -> None:
        report, now = progress.report, time.monotonic()
        if report is None or progress.ended or not is_due(report, self._last, now - self._last_at):
            return
        self._last, self._last_at = report, now
        values: dict[str, object] = report.model_dump(
            mode="json",
            by_alias=True,
            exclude_none=True,
            include={"state", "epoch", "lag", "partitions", "registered_cores", "query_restarts"},
        )
        rate = progress.rate()
        if rate is not None:
            values["rowsPerSecond"] = round(rate, 1)
        log_event("stream", logging.INFO, **values)

    @contextlib.contextmanager
    def open(self) -> Iterator[PlainView]:
        """Sets up logging and logs what is run, and where."""
        logs.set_up()
        info = self._info("")
        places = {label: value for label, value in info.extra_rows if label != "log"}
        log_event("run", logging.INFO, stream=info.name, trigger=info.trigger, **places)
        yield self
