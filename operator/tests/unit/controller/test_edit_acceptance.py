"""An edit of a running stream: its driver asks Spark first, and never for long."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from penstock.api.v1alpha1.status import EditVerdict, LastFailure
from penstock.cluster import kinds
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.contract.edit_effects import ANSWER_WITHIN
from penstock.controller.edit_acceptance import TAKE_WITHIN
from testkit.controller import samples
from testkit.controller.fake_cluster import KEY, FakeCluster
from testkit.controller.fake_kubernetes_api import Killed

EDIT: dict[str, Any] = {"transform": {"sql": "SELECT key, value.x AS value FROM source"}}
# The same with what another pod is needed for.
OF_POD = {**EDIT, "executor": {"cores": 2}}
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


def is_applied(cluster: FakeCluster) -> bool:
    """Whether the edited spec is."""
    cluster.reconcile()
    owner = cluster.api.one(kinds.STATEFUL_SET, "flags-driver")
    template = owner["spec"]["template"]
    wanted = template["metadata"]["annotations"][naming.ANNOTATION_POD_HASH]
    documents = [each["data"][naming.SPEC_FILE] for each in cluster.api.of_kind(kinds.CONFIG_MAP)]
    is_edited = [EDIT["transform"]["sql"] in each for each in documents]
    return any(is_edited) and (wanted != cluster.drivers_started[0] or all(is_edited))


def settle_at_once(cluster: FakeCluster) -> None:
    for _ in range(4):
        cluster.reconcile()
        cluster.step()


def revision(cluster: FakeCluster) -> str | None:
    effective = cluster.status.effective
    return None if effective is None else effective.revision


def reasons(cluster: FakeCluster) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in cluster.status.conditions}


@pytest.mark.parametrize(("edit", "pods"), [(EDIT, 1), (OF_POD, 2)], ids=["query", "pod"])
def test_nothing_is_replaced_before_spark_takes_the_edit(
    cluster: FakeCluster, edit: dict[str, Any], pods: int
) -> None:
    before = revision(cluster)
    cluster.apply(**edit)
    assert not is_applied(cluster)
    assert reasons(cluster)["Ready"] == ("True", "SpecNotApplied")
    assert reasons(cluster)["Reconciling"] == ("True", "JudgingEdit")
    assert reasons(cluster)["Stalled"] == ("False", "NotStalled")
    assert len(cluster.api.of_kind(kinds.CONFIG_MAP)) == 1
    cluster.report(edit=TAKEN)
    assert is_applied(cluster)
    cluster.settle()
    assert reasons(cluster)["Ready"] == ("True", "Running")
    assert len(cluster.drivers_started) == pods
    assert len(cluster.api.of_kind(kinds.CONFIG_MAP)) == 1
    assert revision(cluster) != before


def test_what_ends_with_a_question_gets_no_full_stop(cluster: FakeCluster) -> None:
    refusal = REFUSAL.model_copy(update={"message": "no field x: did you mean y?"})
    cluster.apply(**EDIT)
    cluster.report(edit=REFUSED.model_copy(update={"refusal": refusal}))
    cluster.settle()
    assert cluster.condition("Stalled").message == (
        "no field x: did you mean y? The last valid spec keeps running"
    )


@pytest.mark.proves(19)
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
    assert is_applied(cluster)
    assert reasons(cluster)["Stalled"] == ("False", "NotStalled")
    assert cluster.status.internal is not None
    assert cluster.status.internal.edit is None


def test_another_edit_corrects_a_refused_one_also_without_a_driver(cluster: FakeCluster) -> None:
    cluster.apply(**EDIT)
    cluster.report(edit=REFUSED)
    cluster.settle()
    cluster.report(state=QueryState.FAILED, last_failure=REFUSAL)
    cluster.apply(**OF_POD)
    assert is_applied(cluster)


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
    assert not is_applied(cluster)
    cluster.restart_operator()
    cluster.clock.advance(ANSWER_WITHIN.total_seconds() - 1)
    assert not is_applied(cluster)
    cluster.clock.advance(1)
    assert is_applied(cluster)


def test_who_writes_annotations_alone_holds_no_edit_back(cluster: FakeCluster) -> None:
    """Such as a tool that does so twice a minute."""
    cluster.apply(**EDIT)
    for seconds in (0, 15, 15):
        assert not is_applied(cluster)
        cluster.annotate("example.com/seen", cluster.clock.text())
        cluster.clock.advance(seconds)
    assert is_applied(cluster)


async def test_the_operator_is_back_when_the_wait_ends(cluster: FakeCluster) -> None:
    cluster.apply(**EDIT)
    cluster.clock.advance(10)
    wait = await cluster.reconciler.reconcile(KEY)
    assert wait == ANSWER_WITHIN - timedelta(seconds=10)


@pytest.mark.parametrize(
    ("edit", "report", "ready"),
    [
        (EDIT, {"edit": None}, True),  # before its first look
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
    made = samples.report(cluster.applied_hash, **report)
    status = {"status": "True" if ready else "False", "type": "Ready"}
    cluster.put_pod(made, conditions=[status])
    cluster.apply(**edit)
    assert is_applied(cluster)


def test_a_stream_is_stopped_without_a_question(cluster: FakeCluster) -> None:
    cluster.apply(**EDIT, suspend=True)
    cluster.settle()
    assert cluster.pod is None
    cluster.apply(**EDIT)  # who resumes it wants this spec
    assert is_applied(cluster)


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("edit", [EDIT, OF_POD], ids=["query", "pod"])
@pytest.mark.parametrize("verdict", [REFUSED, TAKEN])
def test_the_operator_may_die_at_any_write(
    verdict: EditVerdict, edit: dict[str, Any], side: str
) -> None:
    for number in range(1, 12):
        cluster = FakeCluster()
        cluster.apply()
        cluster.settle()
        cluster.report(edit=JUDGED)
        cluster.settle()
        cluster.api.kill_at = (len(cluster.api.writes) + number, side)
        for step in (
            partial(cluster.apply, **edit),
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
        pods = 2 if edit is OF_POD and verdict is TAKEN else 1
        assert len(cluster.drivers_started) == pods
        assert is_applied(cluster) is (verdict is TAKEN)
        assert reasons(cluster)["Ready"][0] == "True"
        assert reasons(cluster)["Stalled"][0] == str(verdict is REFUSED)


def test_a_query_is_replaced_in_the_pod_that_runs(cluster: FakeCluster) -> None:
    """Until it is, the status says so, and is about what runs."""
    before = revision(cluster)
    cluster.takes_edits = False
    cluster.apply(**EDIT)
    cluster.report(edit=TAKEN)
    settle_at_once(cluster)
    assert is_applied(cluster)
    assert reasons(cluster)["Ready"] == ("True", "SpecNotApplied")
    assert reasons(cluster)["Reconciling"] == ("True", "ApplyingEdit")
    assert revision(cluster) == before
    cluster.takes_edits = True
    cluster.settle()
    assert reasons(cluster)["Ready"] == ("True", "Running")
    assert reasons(cluster)["Reconciling"] == ("False", "UpToDate")
    assert revision(cluster) == cluster.applied_hash != before
    assert len(cluster.drivers_started) == 1


def test_a_status_never_says_that_an_edit_is_done_before_it_is(cluster: FakeCluster) -> None:
    """Argo CD takes UpToDate of the newest generation for the end of a sync."""
    cluster.takes_edits = False
    cluster.apply(**EDIT)
    cluster.report(edit=TAKEN)
    cluster.reconcile()  # which applies it
    assert reasons(cluster)["Reconciling"] == ("True", "ApplyingEdit")


def test_a_driver_that_does_not_take_an_edit_is_replaced(cluster: FakeCluster) -> None:
    """Such as one that hangs, or plans for an hour. It is no restart, and happens once."""
    cluster.takes_edits = False
    cluster.apply(**EDIT)
    cluster.clock.advance(1)
    cluster.report(edit=TAKEN)
    settle_at_once(cluster)
    cluster.clock.advance(TAKE_WITHIN.total_seconds() - 1)
    settle_at_once(cluster)
    assert asyncio.run(cluster.reconciler.reconcile(KEY)) == timedelta(seconds=1)
    assert len(cluster.drivers_started) == 1
    cluster.clock.advance(1)
    cluster.settle()
    assert len(cluster.drivers_started) == 2
    assert len(set(cluster.drivers_started)) == 1
    assert reasons(cluster)["Ready"] == ("True", "Running")
    assert cluster.status.restarts is not None
    assert cluster.status.restarts.total == 0
    cluster.report(edit=TAKEN, spec_hash="of another")
    cluster.clock.advance(TAKE_WITHIN.total_seconds())
    cluster.settle()
    assert len(cluster.drivers_started) == 2


@pytest.mark.parametrize(
    ("report", "container", "replaced"),
    [
        ({}, {"state": {"waiting": {}}, "restartCount": 3}, True),
        ({}, {"state": {"running": {}}, "restartCount": 3}, False),
        (None, {"state": {"waiting": {}}}, False),  # it has read nothing yet
        (None, {"state": {"waiting": {}}, "restartCount": 3}, True),
        (None, {"state": {"running": {}}}, False),  # it has not said yet what it runs
    ],
)
def test_a_driver_that_cannot_take_an_edit_is_replaced_at_once(
    report: dict[str, Any] | None, container: dict[str, Any], replaced: bool
) -> None:
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    cluster.takes_edits = False
    cluster.clock.advance(1)
    if report is None:
        pod = cluster.api.one(kinds.POD, "flags-driver-0")
        del pod["metadata"]["annotations"][naming.ANNOTATION_REPORT]
        cluster.api.put(pod)
    made = None if report is None else samples.report(cluster.applied_hash, **report)
    cluster.put_pod(made, containerStatuses=[samples.container(**container)])
    started = len(cluster.drivers_started)
    cluster.clock.advance(1)
    cluster.apply(**EDIT)
    cluster.clock.advance(ANSWER_WITHIN.total_seconds())
    settle_at_once(cluster)
    assert is_applied(cluster)
    assert (len(cluster.drivers_started) > started) is replaced


@pytest.mark.parametrize(
    ("report", "pod"),
    [
        ({"state": QueryState.FAILED, "last_failure": REFUSAL}, {}),
        ({"state": QueryState.RESTARTING, "last_failure": REFUSAL}, {}),
        ({"state": QueryState.WAITING_FOR_CORES}, {}),
        ({}, {"conditions": [{"type": "Ready", "status": "False"}]}),
    ],
    ids=["failed", "restarting", "no-cores", "not-ready"],
)
def test_an_edit_that_mends_a_stream_is_in_progress(
    cluster: FakeCluster, report: dict[str, Any], pod: dict[str, Any]
) -> None:
    """However long the stream has not run: who waits for the edit must not give it up."""
    cluster.takes_edits = False
    cluster.put_pod(samples.report(cluster.applied_hash, **report), **pod)
    cluster.settle()
    cluster.clock.advance(3600)
    cluster.reconcile()
    cluster.apply(**EDIT)
    cluster.api.events.clear()
    settle_at_once(cluster)
    assert reasons(cluster)["Ready"] == ("False", "ApplyingEdit")
    assert reasons(cluster)["Reconciling"] == ("True", "ApplyingEdit")
    assert reasons(cluster)["Stalled"][0] == "False"
    assert [each for each in cluster.api.events if each["type"] == "Warning"] == []


@pytest.mark.parametrize("side", ["before", "after"])
def test_the_operator_may_die_while_it_replaces_a_driver(cluster: FakeCluster, side: str) -> None:
    """It deletes the pod, which is no restart. (The kubelet takes seconds to end it.)"""
    cluster.takes_edits = False
    cluster.clock.advance(1)
    cluster.apply(**EDIT)
    cluster.report(edit=TAKEN)
    settle_at_once(cluster)
    cluster.clock.advance(TAKE_WITHIN.total_seconds())
    cluster.api.kill_at = (len(cluster.api.writes) + 2, side)
    pod = cluster.pod
    assert pod is not None
    with pytest.raises(Killed):
        cluster.reconcile()
    assert cluster.api.writes[-1 if side == "before" else -2] == "delete Pod"
    cluster.api.kill_at = None
    pod["metadata"]["deletionTimestamp"] = cluster.clock.text()
    cluster.api.objects[kinds.POD.kind, "default", "flags-driver-0"] = pod
    cluster.restart_operator()
    cluster.reconcile()
    cluster.api.remove(cluster.api.one(kinds.POD, "flags-driver-0"))
    cluster.settle()
    assert len(cluster.drivers_started) == 2
    assert cluster.status.restarts is not None
    assert cluster.status.restarts.total == 0


def test_an_edit_that_is_taken_back_is_never_taken(cluster: FakeCluster) -> None:
    before = revision(cluster)
    cluster.takes_edits = False
    cluster.apply(**EDIT)
    cluster.report(edit=TAKEN)
    settle_at_once(cluster)
    assert cluster.applied_hash != before
    cluster.apply()
    cluster.report(edit=EditVerdict(generation=3), spec_hash=before)
    cluster.settle()
    assert cluster.applied_hash == before
    assert reasons(cluster)["Reconciling"] == ("False", "UpToDate")
    assert len(cluster.drivers_started) == 1
