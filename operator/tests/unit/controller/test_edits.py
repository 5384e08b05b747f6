"""An edit of a running stream: its driver asks Spark first, and never for long."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from penstock.api.v1alpha1.status import EditVerdict, LastFailure
from penstock.cluster import kinds
from penstock.contract.driver_report import QueryState
from penstock.controller.edits import ANSWER_WITHIN
from testkit.controller import samples
from testkit.controller.fake_cluster import KEY, FakeCluster
from testkit.controller.fake_kubernetes_api import Killed

EDIT: dict[str, Any] = {"transform": {"sql": "SELECT key, value.x AS value FROM source"}}
REFUSAL = LastFailure(
    reason="InvalidExtractBaseFieldType", message="no field x.", permanent=True, time=samples.T0
)
JUDGED = EditVerdict(generation=1)
REFUSED = EditVerdict(generation=2, refusal=REFUSAL)
TAKEN = EditVerdict(generation=2)


@pytest.fixture
def cluster() -> FakeCluster:
    """A running stream, whose driver judges edits."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    cluster.report(edit=JUDGED)
    cluster.settle()
    return cluster


def rolled_out(cluster: FakeCluster) -> bool:
    """Whether the StatefulSet has the edited spec."""
    cluster.reconcile()
    owner = cluster.api.one(kinds.STATEFUL_SET, "flags-driver")
    wanted = owner["spec"]["template"]["metadata"]["annotations"]["penstock.dev/spec-hash"]
    return bool(wanted != cluster.drivers_started[0])


def reasons(cluster: FakeCluster) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in cluster.status.conditions}


def test_nothing_is_replaced_before_spark_takes_the_edit(cluster: FakeCluster) -> None:
    cluster.apply(**EDIT)
    assert not rolled_out(cluster)
    assert reasons(cluster)["Ready"] == ("True", "SpecNotApplied")
    assert reasons(cluster)["Reconciling"] == ("True", "JudgingEdit")
    assert reasons(cluster)["Stalled"] == ("False", "NotStalled")
    assert len(cluster.api.of_kind(kinds.CONFIG_MAP)) == 1
    cluster.report(edit=TAKEN)
    assert rolled_out(cluster)
    cluster.settle()
    assert reasons(cluster)["Ready"] == ("True", "Running")
    assert len(cluster.drivers_started) == 2


def test_a_refused_edit_leaves_the_stream_as_it_is(cluster: FakeCluster) -> None:
    before = cluster.children()
    cluster.apply(**EDIT)
    cluster.report(edit=REFUSED)
    cluster.settle()
    assert cluster.children() == before
    assert len(cluster.drivers_started) == 1
    assert reasons(cluster)["Ready"] == ("True", "SpecNotApplied")
    assert reasons(cluster)["Stalled"] == ("True", REFUSAL.reason)
    assert cluster.condition("Stalled").message == "no field x. The last valid spec keeps running"
    assert cluster.condition("Ready").observed_generation == 1
    assert REFUSAL.reason in [each["reason"] for each in cluster.api.events]
    assert cluster.reconcile() == []


def test_a_refused_edit_stays_refused_when_the_driver_restarts(cluster: FakeCluster) -> None:
    """Its next process needs time to plan, and another cause may be reported meanwhile."""
    cluster.apply(**EDIT)
    cluster.report(edit=REFUSED)
    cluster.settle()
    cluster.restart_operator()
    cluster.annotate("penstock.dev/pause-reconciliation", "true")
    cluster.settle()
    cluster.annotate("penstock.dev/pause-reconciliation", "false")
    assert cluster.pod is not None
    cluster.api.remove(cluster.pod)
    cluster.settle()
    assert len(set(cluster.drivers_started)) == 1
    assert len(cluster.drivers_started) == 2
    assert reasons(cluster)["Stalled"] == ("True", REFUSAL.reason)
    cluster.report(edit=TAKEN)  # what was missing is there now
    cluster.settle()
    assert len(set(cluster.drivers_started)) == 2
    assert reasons(cluster)["Stalled"] == ("False", "NotStalled")
    assert cluster.status.internal is not None
    assert cluster.status.internal.edit is None


def test_another_edit_corrects_a_refused_one_also_without_a_driver(cluster: FakeCluster) -> None:
    cluster.apply(**EDIT)
    cluster.report(edit=REFUSED)
    cluster.settle()
    cluster.report(state=QueryState.FAILED, last_failure=REFUSAL)
    cluster.apply(executor={"cores": 2})
    assert rolled_out(cluster)


def test_the_spec_that_runs_needs_no_answer(cluster: FakeCluster) -> None:
    cluster.apply(**EDIT)
    cluster.report(edit=REFUSED)
    cluster.settle()
    cluster.apply()
    cluster.settle()
    assert reasons(cluster)["Ready"] == ("True", "Running")
    assert reasons(cluster)["Stalled"] == ("False", "NotStalled")
    assert len(cluster.drivers_started) == 1


def test_a_driver_that_does_not_answer_is_not_waited_for(cluster: FakeCluster) -> None:
    cluster.apply(**EDIT)
    assert not rolled_out(cluster)
    cluster.restart_operator()
    cluster.clock.advance(ANSWER_WITHIN.total_seconds() - 1)
    assert not rolled_out(cluster)
    cluster.clock.advance(1)
    assert rolled_out(cluster)


async def test_the_operator_is_back_when_the_wait_ends(cluster: FakeCluster) -> None:
    cluster.apply(**EDIT)
    cluster.clock.advance(10)
    wait = await cluster.reconciler.reconcile(KEY)
    assert wait == ANSWER_WITHIN - timedelta(seconds=10)


@pytest.mark.parametrize(
    ("edit", "report", "ready"),
    [
        (EDIT, {"edit": None}, True),  # an older driver
        (EDIT, {"edit": JUDGED, "state": QueryState.RESTARTING}, True),
        (EDIT, {"edit": JUDGED, "state": QueryState.FAILED, "last_failure": REFUSAL}, True),
        (EDIT, {"edit": JUDGED}, False),
        ({**EDIT, "image": "another:image"}, {"edit": JUDGED}, True),
        ({**EDIT, "image": "another:image"}, {"edit": REFUSED}, True),
    ],
)
def test_only_a_healthy_driver_of_the_same_image_is_asked(
    cluster: FakeCluster, edit: dict[str, Any], report: dict[str, Any], ready: bool
) -> None:
    """An edit mends a stream that does not run, at once."""
    made = samples.report(cluster.running_hash, **report)
    status = {"status": "True" if ready else "False", "type": "Ready"}
    cluster.put_pod(made, conditions=[status])
    cluster.apply(**edit)
    assert rolled_out(cluster)


def test_a_stream_is_stopped_without_a_question(cluster: FakeCluster) -> None:
    cluster.apply(**EDIT, suspend=True)
    cluster.settle()
    assert cluster.pod is None
    cluster.apply(**EDIT)  # who resumes it wants this spec
    assert rolled_out(cluster)


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("verdict", [REFUSED, TAKEN])
def test_the_operator_may_die_at_any_write(verdict: EditVerdict, side: str) -> None:
    for number in range(1, 12):
        cluster = FakeCluster()
        cluster.apply()
        cluster.settle()
        cluster.report(edit=JUDGED)
        cluster.settle()
        cluster.api.kill_at = (len(cluster.api.writes) + number, side)
        for step in (
            partial(cluster.apply, **EDIT),
            cluster.reconcile,
            partial(cluster.report, edit=verdict),
            cluster.settle,
        ):
            try:
                step()
            except Killed:
                cluster.api.kill_at = None
                cluster.restart_operator()
        cluster.settle()
        assert len(set(cluster.drivers_started)) == (1 if verdict is REFUSED else 2)
        assert reasons(cluster)["Ready"][0] == "True"
        assert reasons(cluster)["Stalled"][0] == str(verdict is REFUSED)
