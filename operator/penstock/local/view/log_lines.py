"""Log lines instead of the live view: for pipes, files and CI."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator

from penstock.contract.driver_report import DriverReport
from penstock.driver import logs
from penstock.driver.logs import say
from penstock.driver.reporting.report import is_due
from penstock.local.view.rates import Progress
from penstock.local.view.rows import Facts


class Plain:
    """Says what changes at once, and numbers every ten seconds, on stderr."""

    def __init__(self, facts: Callable[[str], Facts]) -> None:
        self._facts = facts
        self._said: DriverReport | None = None
        self._said_at = 0.0

    @property
    def complaint(self) -> str:
        """Nothing: every line was shown."""
        return ""

    def see(self, progress: Progress) -> None:
        """Says what is due."""
        report, now = progress.report, time.monotonic()
        if report is None or progress.ended or not is_due(report, self._said, now - self._said_at):
            return
        self._said, self._said_at = report, now
        facts: dict[str, object] = report.model_dump(
            mode="json",
            by_alias=True,
            exclude_none=True,
            include={"state", "epoch", "lag", "partitions", "registered_cores", "query_restarts"},
        )
        rate = progress.rate()
        if rate is not None:
            facts["rowsPerSecond"] = round(rate, 1)
        say("stream", logging.INFO, **facts)

    @contextlib.contextmanager
    def __call__(self) -> Iterator[Plain]:
        logs.set_up()
        facts = self._facts("")
        beside = {label: value for label, value in facts.beside if label != "log"}
        say("run", logging.INFO, stream=facts.name, trigger=facts.trigger, **beside)
        yield self
