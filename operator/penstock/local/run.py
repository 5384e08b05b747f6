"""Runs the driver, shows it, and says at the end how it went."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver import main
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.environment import Local
from penstock.driver.reporting.metrics import PREFIX, Metrics
from penstock.local.kafka.side_tasks import Company
from penstock.local.messages import tell
from penstock.local.view.log_lines import Plain
from penstock.local.view.rates import Progress
from penstock.local.view.rows import Facts, stated_rate, trigger_in_words
from penstock.local.workspace import Home, shown

if TYPE_CHECKING:
    from penstock.local.view.terminal import Screen


def drive(
    stream: ContinuousStream,
    environment: Local,
    home: Home,
    company: Company | None,
    *,
    plain: bool,
) -> int:
    """Runs until it is told to stop, the work is done, or the query has failed for good."""
    presenter = _presenter(stream, home, company, plain)
    watch = _Watch(stream, home, presenter, company)
    with presenter():
        beside = None if company is None else company.beside
        code = main.run(stream, environment, watch, beside, watch.stop, watch.metrics)
        watch.ended()
    return _farewell(code, watch.progress, presenter.complaint, home)


class _Watch:
    """Keeps what the reports tell; ends the run when the query has ended by itself."""

    def __init__(
        self,
        stream: ContinuousStream,
        home: Home,
        presenter: Plain | Screen,
        company: Company | None,
    ) -> None:
        self._counts = stream.spec.source.kafka is not None
        self._checkpoint = CheckpointFolder(home.checkpoint)
        self._presenter = presenter
        self._company = company
        self.metrics = Metrics()
        self.progress = Progress()
        self.stop = threading.Event()

    def __call__(self, report: DriverReport) -> None:
        records = self._number("committed_records_total") if self._counts else None
        samples = self._number("record_commit_latency_seconds_count")
        waited = self._number("record_commit_latency_seconds_sum")
        latency = waited / samples if samples else None
        self.progress = self.progress.seen(report, time.monotonic(), records, latency)
        self._presenter.see(self.progress)
        if self._company is not None and report.state is QueryState.RUNNING:
            self._company.running()
        if self.progress.failed or self.progress.completed:
            self.stop.set()

    def _number(self, name: str) -> float:
        return self.metrics.registry.get_sample_value(f"{PREFIX}_{name}") or 0.0

    def ended(self) -> None:
        """The driver has stopped: what was committed last stands in the checkpoint."""
        report = self.progress.report
        if report is not None:
            report = report.model_copy(
                update={"epoch": self._checkpoint.epoch(), "committed": False, "lag": None}
            )
        self.progress = replace(self.progress, report=report, ended=True)
        self._presenter.see(self.progress)


def _presenter(
    stream: ContinuousStream, home: Home, company: Company | None, plain: bool
) -> Plain | Screen:
    def facts(complaint: str) -> Facts:
        where = (("checkpoint", shown(home.checkpoint)), ("log", shown(home.log)))
        beside = () if company is None else company.rows()
        return Facts(
            stream.metadata.name,
            trigger_in_words(stream.spec),
            stated_rate(stream.spec),
            (*beside, *where),
            complaint,
        )

    if plain or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return Plain(facts)
    if importlib.util.find_spec("rich") is None:
        tell("log lines, for the live view is not installed: pip install 'penstock[local]'")
        return Plain(facts)
    from penstock.local.view.terminal import Screen

    return Screen(home.log, facts)


def _farewell(code: int, progress: Progress, complaint: str, home: Home) -> int:
    failure = None if progress.report is None else progress.report.last_failure
    if progress.failed and failure is not None:
        tell(f"{failure.reason}: {failure.message}")
    elif code != 0 and complaint:
        tell(f"{complaint}\nmore in {shown(home.log)}")
    return 1 if progress.failed else code
