"""The runtime without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from penstock.driver.environment import LocalEnvironment
from penstock.driver.jvm import Jvm
from penstock.driver.supervision.runtime import QueryRuntime
from testkit.streams.streams import stream

VERY_LONG = 6_000.0
"""Seconds; longer than a test may take."""


class Query:
    """Commits epoch 8 when isActive is read, if `commits` is given."""

    def __init__(self, commits: Path | None, active: bool = True) -> None:
        self._commits = commits
        self._active = active

    @property
    def isActive(self) -> bool:
        if self._commits is not None:
            (self._commits / "8").touch()
        return self._active


def runtime_with(has_query: Query, folder: Path) -> QueryRuntime:
    """A runtime with a query that has committed epoch 7."""
    runtime = QueryRuntime(stream(), LocalEnvironment(folder), cast(Jvm, None))
    runtime._query = has_query  # type: ignore[assignment]
    (folder / "commits").mkdir()
    (folder / "commits" / "7").touch()
    return runtime


def test_a_stop_waits_for_the_next_commit(tmp_path: Path) -> None:
    """Records after a commit are replayed: right after a commit there are almost none."""
    runtime = runtime_with(Query(tmp_path / "commits"), tmp_path)
    runtime.wait_for_commit(VERY_LONG)
    assert runtime.progress.committed_epoch() == 8


@pytest.mark.parametrize(("active", "seconds"), [(True, 0.0), (False, VERY_LONG)])
def test_a_stop_does_not_wait_without_a_commit(
    active: bool, seconds: float, tmp_path: Path
) -> None:
    runtime_with(Query(None, active), tmp_path).wait_for_commit(seconds)
