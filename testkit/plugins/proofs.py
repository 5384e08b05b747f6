"""A test that proves a claim of the documentation has to pass: whoever skips it proves nothing."""

from collections.abc import Generator

import pytest


class Proofs:
    """The plugin of pytest. docs/testing.md lists the tests of the marker: scripts.generate."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Makes a failure of a skip, of an expected failure, and of no parameters."""
        report = yield
        if report.skipped and item.get_closest_marker("proves"):
            report.outcome = "failed"
            report.longrepr = (
                f"docs/testing.md names it as proof, and it did not pass: {report.longrepr}"
            )
        return report
