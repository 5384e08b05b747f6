"""Runs the driver, shows its progress, and prints at the end why it failed."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver import main
from penstock.driver.checkpoint.progress import ProgressReader
from penstock.driver.checkpoint.storage.volume import VolumeFiles
from penstock.driver.environment import LocalEnvironment
from penstock.driver.failures import BROKER_UNREACHABLE
from penstock.driver.logs import log_event
from penstock.driver.reporting.metrics import PREFIX, Metrics
from penstock.local.errors import print_message, refusing
from penstock.local.kafka.local_kafka import LocalKafka
from penstock.local.options import RunOptions
from penstock.local.view.plain import PlainView
from penstock.local.view.progress import Progress, RunInfo, describe_trigger, stated_rate
from penstock.local.workspace import CHOOSE_FOLDER, Workspace, short_path

if TYPE_CHECKING:
    from penstock.local.view.live import LiveView


_NO_BROKER = (
    "To try the stream without its brokers, add --with-kafka, which starts one on this machine; "
    "--bootstrap-servers HOST:PORT takes another."
)
# Until then a query that runs has loaded the classes that it needs.
_LOADED_SECONDS = 5.0


def run_driver(
    stream: ContinuousStream,
    environment: LocalEnvironment,
    workspace: Workspace,
    kafka: LocalKafka | None,
    on_loaded: Callable[[], None],
    options: RunOptions,
) -> int:
    """Runs until a signal, the end of the work or a permanent failure; returns the exit code.

    With --wait, a failure whose cause may go away by itself ends nothing.

    `on_loaded` is called, perhaps twice, once a query that runs has loaded its classes. Raises
    BrokerError if the broker has not started.
    """
    view = _choose_view(stream, workspace, kafka, options.plain)
    checkpoint = environment.generation(stream.spec.checkpoint.generation)
    watcher = _ReportWatcher(stream, checkpoint, view, kafka, on_loaded, waits=options.wait)
    with contextlib.ExitStack() as undo:
        with refusing(workspace.log, CHOOSE_FOLDER):
            undo.enter_context(view.open())
        running = None if kafka is None else kafka.running
        code = main.run(stream, environment, watcher, running, watcher.stop, watcher.metrics)
        watcher.on_driver_end()
    if kafka is not None and kafka.failure is not None:
        raise kafka.failure
    return _print_outcome(code, watcher.progress, view.last_warning, workspace)


class _ReportWatcher:
    """Turns reports into progress; stops the driver when the query has ended by itself."""

    def __init__(
        self,
        stream: ContinuousStream,
        checkpoint: Path,
        view: PlainView | LiveView,
        kafka: LocalKafka | None,
        on_loaded: Callable[[], None],
        *,
        waits: bool,
    ) -> None:
        self._counts_records = stream.spec.source.kafka is not None
        self._committed_epoch = ProgressReader(VolumeFiles(checkpoint)).committed_epoch
        self._view = view
        self._kafka = kafka
        self._waits = waits
        self._hinted = False
        self._on_loaded = on_loaded
        self._timer: threading.Timer | None = None
        self.metrics = Metrics()
        self.progress = Progress()
        self.stop = threading.Event()

    def __call__(self, report: DriverReport) -> None:
        records = self._sample("committed_records_total") if self._counts_records else None
        samples = self._sample("record_commit_latency_seconds_count")
        seconds = self._sample("record_commit_latency_seconds_sum")
        latency = seconds / samples if samples else None
        self.progress = self.progress.with_report(
            self._with_hint(report), time.monotonic(), records, latency, waits=self._waits
        )
        self._view.update(self.progress)
        if report.state is QueryState.RUNNING and self._timer is None:
            self._timer = threading.Timer(_LOADED_SECONDS, self._on_loaded)
            self._timer.daemon = True
            self._timer.start()
        if self._kafka is not None and report.state is QueryState.RUNNING:
            self._kafka.on_query_running()
        if self._kafka is not None and self.progress.completed:
            self._kafka.on_query_completed()
        if self.progress.failed or self.progress.completed:
            self.stop.set()

    def _with_hint(self, report: DriverReport) -> DriverReport:
        """With what to do on a laptop, where the brokers of a manifest are often out of reach."""
        failure = report.last_failure
        is_hinted = failure is not None and failure.reason == BROKER_UNREACHABLE
        if failure is None or not is_hinted or self._kafka is not None or report.committed:
            return report
        if not self._hinted:
            log_event("hint", logging.WARNING, cause=_NO_BROKER)
            self._hinted = True
        message = f"{failure.message} {_NO_BROKER}"
        failure = failure.model_copy(update={"message": message})
        return report.model_copy(update={"last_failure": failure})

    def _sample(self, name: str) -> float:
        return self.metrics.registry.get_sample_value(f"{PREFIX}_{name}") or 0.0

    def on_driver_end(self) -> None:
        """Shows the final state, with the last committed epoch read from the checkpoint."""
        if self._timer is not None:
            self._timer.cancel()
            self._on_loaded()
        report = self.progress.report
        if report is not None:
            report = report.model_copy(
                update={
                    "epoch": self._committed_epoch(),
                    "committed": False,
                    "lag": None,
                }
            )
        self.progress = replace(self.progress, report=report, ended=True)
        self._view.update(self.progress)


def _choose_view(
    stream: ContinuousStream, workspace: Workspace, kafka: LocalKafka | None, plain: bool
) -> PlainView | LiveView:
    def info(last_warning: str) -> RunInfo:
        paths = (
            ("checkpoint", short_path(workspace.checkpoint)),
            ("log", short_path(workspace.log)),
        )
        task_rows = () if kafka is None else kafka.rows()
        return RunInfo(
            stream.metadata.name,
            describe_trigger(stream.spec),
            stated_rate(stream.spec),
            (*task_rows, *paths),
            last_warning,
        )

    if plain or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return PlainView(info)
    from penstock.local.view.live import LiveView

    return LiveView(workspace.log, info)


def _print_outcome(code: int, progress: Progress, last_warning: str, workspace: Workspace) -> int:
    failure = None if progress.report is None else progress.report.last_failure
    if progress.failed and failure is not None:
        print_message(f"{failure.reason}: {failure.message}")
    elif code != 0 and last_warning:
        print_message(f"{last_warning}\nmore in {short_path(workspace.log)}")
    return int(progress.failed or code != 0)
