"""The results of tests that are worth reading: times and counts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

RecordFigure = Callable[[str, object], None]


class Figures:
    """The plugin of pytest: the fixture, and a section with all figures at the end of the run."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._began = time.time()

    @pytest.fixture
    @staticmethod
    def record_figure(record_property: Callable[[str, object], None]) -> RecordFigure:
        """Adds a result of the test to the JUnit report and to the terminal's output."""

        def record(name: str, value: object) -> None:
            # As text: a worker of a divided run cannot send any object to the terminal's process.
            record_property(name, str(round(value, 1) if isinstance(value, float) else value))

        return record

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            test = report.nodeid.rpartition("::")[2]
            self._lines += [f"{test}: {name}: {value}" for name, value in report.user_properties]

    def _times(self) -> list[str]:
        """How long `make test` took to prepare and to test, if it runs the tests."""
        started = os.environ.get("PENSTOCK_TEST_STARTED")
        if started is None:
            return []
        preparation, tests = self._began - int(started), time.time() - self._began
        return [f"make test: preparation {preparation:.0f} s, tests {tests:.0f} s"]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines = self._times() + self._lines
        if lines:
            terminalreporter.section("figures")
        for line in lines:
            terminalreporter.line(line)
