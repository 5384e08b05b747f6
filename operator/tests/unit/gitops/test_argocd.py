"""Health and actions of a stream in Argo CD: in its Lua 5.1, on statuses of the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from lupa.lua51 import LuaRuntime, lua_type

from penstock.api.v1alpha1.status import LastFailure, StreamState
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.controller.objects import Manifest
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster
from testkit.paths import CHECKOUT

KIND = "penstock.dev_ContinuousStream"
PATCH = yaml.safe_load((CHECKOUT / "examples/gitops/argocd/argocd-cm.yaml").read_text())["data"]
HEALTH = PATCH[f"resource.customizations.health.{KIND}"]
ACTIONS = yaml.safe_load(PATCH[f"resource.customizations.actions.{KIND}"])
DEFINITIONS = {each["name"]: each["action.lua"] for each in ACTIONS["definitions"]}
FAILURE = LastFailure(reason="Boom", message="boom", permanent=False, time=samples.T0)


def run(script: str, stream: Manifest) -> Any:
    """What a script returns for a stream."""
    lua = LuaRuntime()
    lua.globals().obj = lua.table_from(stream, recursive=True)
    return _plain(lua.execute(script))


def _plain(value: Any) -> Any:
    if lua_type(value) != "table":
        return value
    keys = list(value)
    if keys and keys == list(range(1, len(keys) + 1)):
        return [_plain(value[key]) for key in keys]
    return {key: _plain(value[key]) for key in keys}


def settled(cluster: FakeCluster) -> None:
    """The stream runs."""


def suspended(cluster: FakeCluster) -> None:
    cluster.apply(suspend=True)
    cluster.settle()


def paused(cluster: FakeCluster) -> None:
    cluster.annotate(naming.ANNOTATION_PAUSE, "true")
    cluster.settle()


def edited(cluster: FakeCluster) -> None:
    cluster.apply(executor={"cores": 2})


def edited_with_an_invalid_spec(cluster: FakeCluster) -> None:
    cluster.apply(**samples.AGGREGATE)
    cluster.settle()


def rolling_out(cluster: FakeCluster) -> None:
    edited(cluster)
    cluster.reconcile()
    cluster.reconcile()


def restarting(cluster: FakeCluster) -> None:
    cluster.report(state=QueryState.RESTARTING, last_failure=FAILURE, committed=False)
    cluster.settle()


def waiting_for_cores(cluster: FakeCluster) -> None:
    cluster.report(state=QueryState.WAITING_FOR_CORES, committed=False)
    cluster.settle()


def completed(cluster: FakeCluster) -> None:
    cluster.report(state=QueryState.COMPLETED)
    cluster.settle()


def stalled(cluster: FakeCluster) -> None:
    failure = FAILURE.model_copy(update={"permanent": True})
    cluster.report(state=QueryState.FAILED, last_failure=failure)
    cluster.settle()


@pytest.mark.parametrize(
    ("cause", "status", "words"),
    [
        (settled, "Healthy", "Running"),
        (completed, "Healthy", "Completed"),
        (suspended, "Suspended", "Suspended"),
        (paused, "Suspended", "ReconciliationPaused"),
        (edited, "Progressing", "not looked at"),
        (rolling_out, "Progressing", "RollingOut"),
        (waiting_for_cores, "Progressing", "WaitingForCores"),
        (restarting, "Degraded", "Boom"),
        (stalled, "Degraded", "Boom"),
        (edited_with_an_invalid_spec, "Degraded", "UnsupportedOperation"),
    ],
)
def test_health(cause: Callable[[FakeCluster], None], status: str, words: str) -> None:
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    cause(cluster)
    found = run(HEALTH, cluster.stream)
    assert found["status"] == status
    assert words in found["message"]


def test_a_stream_without_a_status_is_progressing() -> None:
    assert run(HEALTH, samples.stored())["status"] == "Progressing"


def act(cluster: FakeCluster, action: str) -> None:
    """Clicks on an action that Argo CD offers."""
    assert run(ACTIONS["discovery.lua"], cluster.stream)[action]["disabled"] is False
    cluster.apply(**run(DEFINITIONS[action], cluster.stream)["spec"])
    cluster.settle()


def test_every_action_does_what_it_says(cluster: FakeCluster) -> None:
    offered = run(ACTIONS["discovery.lua"], cluster.stream)
    assert offered.keys() == DEFINITIONS.keys()
    revision = cluster.running_hash
    act(cluster, "restart")
    assert cluster.running_hash != revision
    act(cluster, "suspend")
    assert cluster.state == StreamState.SUSPENDED
    assert run(ACTIONS["discovery.lua"], cluster.stream)["suspend"]["disabled"] is True
    act(cluster, "resume")
    assert cluster.state == StreamState.RUNNING


@pytest.fixture
def cluster() -> FakeCluster:
    """A cluster with one running stream."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    return cluster
