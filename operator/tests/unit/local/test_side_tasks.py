"""A local broker that does not start: the command says why."""

from __future__ import annotations

import argparse
import math
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.driver import main
from penstock.driver.environment import LocalEnvironment
from penstock.driver.reporting.http_server import Health
from penstock.local import command, run
from penstock.local.errors import CommandError
from penstock.local.kafka.broker import Broker
from penstock.local.kafka.side_tasks import SideTasks
from penstock.local.workspace import Workspace
from testkit.streams.streams import stream

_JAVA = f"""#!{sys.executable}
print("line 1\\nthe disk is full")
raise SystemExit(1)
"""


@pytest.fixture
def tasks(tmp_path: Path) -> SideTasks:
    """Those of a broker that ends at once."""
    java = tmp_path / "java"
    java.write_text(_JAVA)
    java.chmod(0o755)
    broker = Broker(tmp_path / "checkpoint.kafka", tmp_path, str(java))
    broker.start_process()
    return SideTasks(broker, {})


def _as_the_driver(*given: Any) -> int:
    """Opens the side tasks, and makes an exit code of any exception."""
    side_tasks: Callable[[Any], AbstractContextManager[object]] = given[3]
    try:
        with side_tasks(SimpleNamespace()):
            raise AssertionError("the broker runs")
    except Exception:
        return 1


def test_the_command_ends_with_the_end_of_the_brokers_log(
    tasks: SideTasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver itself reports only the first line of an exception."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(main, "run", _as_the_driver)
    workspace = Workspace(tmp_path / "checkpoint")

    def started(_: object) -> int:
        environment = LocalEnvironment(workspace.checkpoint)
        return run.run_driver(stream(), environment, workspace, tasks, plain=True)

    monkeypatch.setattr(command, "_run", started)
    with pytest.raises(CommandError) as raised:
        command.run(argparse.Namespace())
    assert raised.value.code == 2
    assert f"{tasks.broker.log}:\nline 1\nthe disk is full" in str(raised.value)


def test_the_side_tasks_have_their_own_limits_of_time() -> None:
    """The hang guard would end a broker's start, or a long feed, without its reason."""
    health = Health(iteration_timeout=60.0)
    health.last_iteration_at = before = time.monotonic() - 50
    seen = []

    class Tasks(nullcontext[None]):
        def __enter__(self) -> None:
            seen.append(health.iteration_timeout)

        def __exit__(self, *_: object) -> None:
            seen.append(health.iteration_timeout)

    with main._without_time_limit(health, Tasks()):
        assert health.iteration_timeout == 60.0
        assert health.last_iteration_at > before + 40
    assert seen == [math.inf, math.inf]
