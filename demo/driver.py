"""The driver of the demo: `penstock run` as a process that can be killed with its JVM."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import psutil

from penstock.contract.driver_report import QueryState
from penstock.local.tools.child_process import ChildProcess
from testkit.wait import wait_for

_STOP_SECONDS = 60.0


class DriverEnded(RuntimeError):
    """The driver has ended by itself; the message has the end of its log."""


class Driver:
    """One driver over one checkpoint; it may be started again and again."""

    def __init__(self, folder: Path, stream: Path, bootstrap: str) -> None:
        self._folder = folder
        options = ["--plain", "--bootstrap-servers", bootstrap]
        options += ["--checkpoint", str(folder / "checkpoint")]
        self._arguments = ["run", *options, str(stream)]
        self._process: ChildProcess | None = None
        self._starts = 0

    @property
    def shown_command(self) -> list[str]:
        return ["penstock", *self._arguments]

    def start(self) -> None:
        self._starts += 1
        self._process = ChildProcess(
            [sys.executable, "-m", "penstock.cli", *self._arguments],
            log=self._folder / f"driver-{self._starts}.log",
        )

    def wait_running(self) -> None:
        """Waits until its query runs; raises WaitTimeout or DriverEnded if it does not."""
        wait_for("the query runs", self._is_running, detail=lambda: self._child.last_lines())

    def summary(self) -> str:
        """Its partitions, cores and epoch, as it last logged them."""
        report = self._reports()[-1]
        return (
            f"{report.get('partitions')} partitions, {report.get('registeredCores')} cores, "
            f"epoch {report.get('epoch', 0)}"
        )

    def kill(self) -> None:
        """Ends the process and its JVM at once, as a power cut would."""
        if self._process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended
            for child in reversed(psutil.Process(self._process.pid).children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        self._process.kill()

    def stop(self) -> None:
        """Stops it as Ctrl-C does."""
        self._child.stop(_STOP_SECONDS)

    @property
    def _child(self) -> ChildProcess:
        assert self._process is not None
        return self._process

    def _is_running(self) -> bool:
        if not self._child.running:
            raise DriverEnded(
                f"the driver has ended. The end of its log:\n{self._child.last_lines()}"
            )
        reports = self._reports()
        return bool(reports) and reports[-1].get("state") == QueryState.RUNNING

    def _reports(self) -> list[dict[str, Any]]:
        lines = self._child.log.read_text(errors="replace").splitlines()
        # The last line may be half written.
        whole = [line for line in lines if line.startswith("{") and line.endswith("}")]
        entries = [json.loads(line) for line in whole]
        return [entry for entry in entries if entry.get("message") == "stream"]
