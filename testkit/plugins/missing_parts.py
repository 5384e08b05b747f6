"""Skips the tests whose parts this machine lacks: loudly, and never in CI."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import pytest


class MissingParts:
    """The plugin of pytest. `lacking` says why the tests of a marker cannot run, by marker."""

    def __init__(self, lacking: Callable[[], Mapping[str, str]]) -> None:
        self._ask = lacking
        self._skipped: Counter[str] = Counter()

    @cached_property
    def _lacking(self) -> Mapping[str, str]:
        return {} if in_ci() else self._ask()

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        """Skips every test of a marker whose parts are missing."""
        for item in items:
            for marker in list(item.iter_markers()):
                if marker.name in ("real", "cluster") and marker.name in self._lacking:
                    item.add_marker(pytest.mark.skip(reason=self._lacking[marker.name]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts here, because the workers of pytest-xdist print nothing."""
        if report.skipped and isinstance(report.longrepr, tuple):
            why = report.longrepr[2].removeprefix("Skipped: ")
            if why in self._lacking.values():
                self._skipped[why] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._skipped:
            terminalreporter.section("NOT TESTED: this machine lacks something", red=True)
            for why, count in self._skipped.items():
                terminalreporter.line(f"{count} tests skipped. {why}")


def in_ci() -> bool:
    """Whether this is a run of CI, which must test everything. The usual variable: CI=true."""
    return os.environ.get("CI", "") not in ("", "0", "false")
