"""What of the engine can be seen without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from penstock.driver.environment import LocalEnvironment
from penstock.driver.jvm import Jvm
from penstock.driver.supervision.runtime import QueryRuntime
from testkit.streams.streams import stream

FOR_EVER = 6_000.0
"""Longer than a test may take."""


class Query:
    """Commits an epoch when it is looked at, if it commits at all."""

    def __init__(self, commits: Path | None, active: bool = True) -> None:
        self._commits = commits
        self._active = active

    @property
    def isActive(self) -> bool:
        if self._commits is not None:
            (self._commits / "8").touch()
        return self._active


def runtime_with(has_query: Query, folder: Path) -> QueryRuntime:
    """An engine that believes in a query, which has committed epoch 7."""
    runtime = QueryRuntime(stream(), LocalEnvironment(folder), cast(Jvm, None))
    runtime._query = has_query  # type: ignore[assignment]
    (folder / "commits").mkdir()
    (folder / "commits" / "7").touch()
    return runtime


def test_a_stop_waits_for_the_next_commit(tmp_path: Path) -> None:
    """What is written after a commit comes twice: right after it, that is next to nothing."""
    runtime = runtime_with(Query(tmp_path / "commits"), tmp_path)
    runtime.wait_for_commit(FOR_EVER)
    assert runtime.progress.committed_epoch() == 8


@pytest.mark.parametrize(("active", "seconds"), [(True, 0.0), (False, FOR_EVER)])
def test_a_stop_does_not_wait_for_a_commit_that_will_not_come(
    active: bool, seconds: float, tmp_path: Path
) -> None:
    runtime_with(Query(None, active), tmp_path).wait_for_commit(seconds)
