"""What outlives a process: the supervisor's memory in a file beside the checkpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.contract.driver_report import QueryState
from penstock.driver.checkpoint.storage.volume import VolumeFiles
from penstock.driver.supervision.history import History, HistoryFile
from penstock.driver.supervision.next_action import Action, first_state
from penstock.driver.supervision.observation import nothing_observed
from penstock.driver.supervision.phases import State
from penstock.driver.supervision.reported_state import describe
from testkit.driver.observations import POLICY, action


def test_max_attempts_counts_across_processes(tmp_path: Path) -> None:
    """The supervisor's memory ends with its process."""
    policy = replace(POLICY, max_attempts=3)
    file = HistoryFile(VolumeFiles(tmp_path), "hash")
    assert first_state(file.read(), policy, 0.0) == State()
    file.write(History().for_next_process(policy))  # this process crashes
    assert first_state(file.read(), policy, 0.0) == State(history=History(attempts=1))
    file.write(History(attempts=2).for_next_process(policy))  # so does a later one
    state = first_state(file.read(), policy, 0.0)
    assert describe(state, nothing_observed(0.0), policy)[0] is QueryState.FAILED
    assert action(state, nothing_observed(1e9), policy) is Action.WAIT


def test_a_later_process_knows_what_this_one_has_learned(tmp_path: Path) -> None:
    """A spec that has proved itself stays so, and a slow query or a poison record is remembered."""
    file = HistoryFile(VolumeFiles(tmp_path), "hash")
    known = History(
        proved=True, poison_failures=4, stalls=2, slowest_progress=100.0, uncommitted_seconds=9.0
    )
    file.write(known.for_next_process(POLICY))
    assert file.read() == replace(known, attempts=1, slowest_progress=128.0)
    # A query that is not slow needs no memory, and no write for each epoch.
    assert History(slowest_progress=1.5).for_next_process(POLICY).slowest_progress == 0.0


def test_the_memory_of_an_earlier_version_is_known(tmp_path: Path) -> None:
    """Before divisions of state were counted, it said nothing of them."""
    file = HistoryFile(VolumeFiles(tmp_path), "hash")
    file.write(History(proved=True, attempts=3, divisions=1))
    path = tmp_path / "penstock" / "supervisor.json"
    stored = json.loads(path.read_text())
    del stored["divisions"]
    path.write_text(json.dumps(stored))
    assert file.read() == History(proved=True, attempts=3)


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"spec": "hash"}', "\0"])
def test_a_broken_memory_is_forgotten(text: str, tmp_path: Path) -> None:
    file = HistoryFile(VolumeFiles(tmp_path), "hash")
    file.write(History(proved=True))
    assert HistoryFile(VolumeFiles(tmp_path), "another spec").read() == History()
    assert file.read() == History(proved=True)
    (tmp_path / "penstock" / "supervisor.json").write_text(text)
    assert file.read() == History()
