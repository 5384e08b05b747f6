"""The loop without Spark."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import cast

import pytest

from penstock.driver.environment import LocalEnvironment
from penstock.driver.jvm import Jvm
from penstock.driver.reporting.http_server import Health
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.supervision.durable_state import DurableState, DurableStateFile
from penstock.driver.supervision.loop import Loop
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.runtime import QueryRuntime
from testkit.streams.streams import stream


def test_a_full_disk_does_not_end_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet would restart it for ever. The state is stored later, and logged once."""
    jvm = cast(Jvm, None)
    runtime = QueryRuntime(stream(), LocalEnvironment(tmp_path), jvm)
    file = DurableStateFile(tmp_path, "hash")
    policy = RestartPolicy(1.0)
    loop = Loop(runtime, jvm, policy, "hash", Health(), Metrics(), print, file)
    monkeypatch.setattr("penstock.driver.supervision.loop._STORE_AGAIN_SECONDS", 0.0)
    (tmp_path / "penstock").write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        for attempts in (1, 2):
            loop._store(DurableState(attempts=attempts))
    assert len(caplog.records) == 1
    (tmp_path / "penstock").unlink()
    loop._store(DurableState(attempts=2))
    assert file.read() == DurableState(attempts=2)
