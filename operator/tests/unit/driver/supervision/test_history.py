"""What outlives a process: the supervisor's memory in the notes beside the checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.driver_report import QueryState
from penstock.driver.failures import DriverError
from penstock.driver.supervision.history import History, NotedHistory
from penstock.driver.supervision.next_action import Action, first_state
from penstock.driver.supervision.observation import nothing_observed
from penstock.driver.supervision.phases import State
from penstock.driver.supervision.reported_state import describe
from testkit.driver.checkpoints import folder_at, note
from testkit.driver.observations import POLICY, action


def test_max_attempts_counts_across_processes(tmp_path: Path) -> None:
    """The supervisor's memory ends with its process."""
    policy = replace(POLICY, max_attempts=3)
    noted = NotedHistory(folder_at(tmp_path).notes, "hash")
    assert first_state(noted.read(), policy, 0.0) == State()
    noted.write(History().for_next_process(policy))  # this process crashes
    assert first_state(noted.read(), policy, 0.0) == State(history=History(attempts=1))
    noted.write(History(attempts=2).for_next_process(policy))  # so does a later one
    state = first_state(noted.read(), policy, 0.0)
    assert describe(state, nothing_observed(0.0), policy)[0] is QueryState.FAILED
    assert action(state, nothing_observed(1e9), policy) is Action.WAIT


def test_a_later_process_knows_what_this_one_has_learned(tmp_path: Path) -> None:
    """A spec that has proved itself stays so, and a slow query or a poison record is remembered."""
    noted = NotedHistory(folder_at(tmp_path).notes, "hash")
    known = History(
        proved=True, poison_failures=4, stalls=2, slowest_progress=100.0, uncommitted_seconds=9.0
    )
    noted.write(known.for_next_process(POLICY))
    assert noted.read() == replace(known, attempts=1, slowest_progress=128.0)
    # A query that is not slow needs no memory, and no write for each epoch.
    assert History(slowest_progress=1.5).for_next_process(POLICY).slowest_progress == 0.0


@pytest.mark.parametrize("broken", [{}, {"spec": "hash"}, {"attempts": -1}, {"stalls": "many"}])
def test_a_broken_memory_is_forgotten(broken: dict[str, Any], tmp_path: Path) -> None:
    folder = folder_at(tmp_path)
    noted = NotedHistory(folder.notes, "hash")
    noted.write(History(proved=True))
    assert NotedHistory(folder.notes, "another spec").read() == History()
    assert noted.read() == History(proved=True)
    known = dict(folder.notes.read().history or {})
    note(folder, history={**known, **broken} if broken.keys() & {"attempts", "stalls"} else broken)
    assert noted.read() == History()


def test_a_memory_that_is_damaged_is_left_as_it_is(tmp_path: Path) -> None:
    """What else is noted counts more: the start of the query says that it is damaged."""
    folder = folder_at(tmp_path)
    noted = NotedHistory(folder.notes, "hash")
    noted.write(History(proved=True))
    path = tmp_path / "penstock" / "notes.json"
    path.write_text("{")
    assert noted.read() == History()
    with pytest.raises(DriverError, match="is damaged"):
        noted.write(History(proved=True))
    assert path.read_text() == "{"
