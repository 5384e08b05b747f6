"""A driver's process that starts itself anew, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.api.v1alpha1.status import LastFailure
from penstock.driver.process_restart import EarlierProcesses

FAILURE = LastFailure(
    reason="DriverKilled",
    message="killed",
    permanent=False,
    time=datetime(2026, 11, 26, tzinfo=UTC),
)
# Ends at once, `lived` seconds after it began, as it says.
PROCESS = """
import os, pathlib, subprocess, sys, psutil
from penstock.driver import process_restart
log, lived = pathlib.Path(sys.argv[1]), float(sys.argv[2])
earlier = process_restart.EarlierProcesses.of(os.environ)
was = earlier.failure and earlier.failure.reason
left = psutil.Process().children()
print(os.getpid(), earlier.restarts, was, log.read_text() == "", len(left), flush=True)
subprocess.Popen(["sleep", "60"]).kill()
log.write_text(sys.argv[3])
if earlier.restarts < 9:
    process_restart.restart(lived, log)
print("the kubelet")
"""


def processes(log: Path, lived: float, message: str) -> list[list[str]]:
    """What each process in a container has printed."""
    log.touch()
    command = [sys.executable, "-c", PROCESS, str(log), str(lived), message]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [line.split() for line in done.stdout.splitlines() if not line.startswith("{")]


def test_a_process_that_does_not_live_long_is_left_to_the_kubelet(tmp_path: Path) -> None:
    """Which then reads why. One that starts anew knows why itself, and leaves no dead child."""
    message = FAILURE.model_dump_json(by_alias=True)
    *printed, last = processes(tmp_path / "log", 5.0, message)
    pid = printed[0][0]
    assert printed == [
        [pid, "0", "None", "True", "0"],
        *([pid, str(n), "DriverKilled", "True", "0"] for n in (1, 2, 3)),
    ]
    assert last == ["the", "kubelet"]
    assert (tmp_path / "log").read_text() == message


def test_one_that_lives_starts_itself_each_time(tmp_path: Path) -> None:
    """Also without a message that it can read."""
    *printed, _ = processes(tmp_path / "log", 60.0, "no JSON")
    assert [line[1:3] for line in printed] == [[str(n), "None"] for n in range(10)]


def test_what_an_environment_says_that_is_damaged_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PENSTOCK_EARLIER_PROCESSES", '{"restarts": "many"}')
    assert EarlierProcesses.of(os.environ) == EarlierProcesses()
