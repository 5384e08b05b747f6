"""pytest fixtures that operator/tests and e2e share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

RecordFigure = Callable[[str, object], None]


@pytest.fixture
def record_figure(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> RecordFigure:
    """Prints a result of the test (a time, a count) and adds it to the JUnit report."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def record(name: str, value: object) -> None:
        figure = round(value, 1) if isinstance(value, float) else value
        record_property(name, figure)
        with capture.global_and_fixture_disabled():
            print(f"\n{request.node.name}: {name}: {figure}", end="", flush=True)

    return record
