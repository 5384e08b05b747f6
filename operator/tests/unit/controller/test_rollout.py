"""An edit that does not become Ready is given up for the last spec that was."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from penstock.api.problem import NOT_JUDGED
from penstock.api.v1alpha1.status import EditVerdict, LastFailure
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.rest_api import ApiError
from penstock.contract.driver_report import QueryState
from penstock.controller import reconciler
from penstock.controller.observation import parse_stream
from penstock.controller.operator_settings import Settings
from penstock.controller.rollout import _KEPT
from penstock.controller.situation import ObservedStream
from penstock.validation import spec_check, text_sandbox
from penstock.validation.text_sandbox import Judge
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster
from testkit.controller.fake_kubernetes_api import Killed

QUERY: dict[str, Any] = {"transform": {"sql": "SELECT key, value FROM source"}}
POD: dict[str, Any] = {"executor": {"cores": 2}}
EDITS = pytest.mark.parametrize("edit", [QUERY, POD], ids=["query", "pod"])
BROKEN = LastFailure(reason="Boom", message="it broke.", permanent=True, time=samples.T0)


@pytest.fixture
def cluster() -> FakeCluster:
    """A stream that is Ready."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    return cluster


def steps(cluster: FakeCluster, count: int = 6) -> None:
    """What happens within a second or two."""
    for _ in range(count):
        cluster.reconcile()
        cluster.step()


def fails(cluster: FakeCluster, edit: dict[str, Any], state: QueryState, **report: Any) -> None:
    """The driver starts with the edit, and says that of it."""
    cluster.fails_with[edited_hash(cluster, edit)] = {"state": state, **report}
    cluster.apply(**edit)
    steps(cluster)


def edited_hash(cluster: FakeCluster, edit: dict[str, Any]) -> str:
    return samples.desired(**edit).spec_hash


def spec_hash(cluster: FakeCluster) -> str | None:
    effective = cluster.status.effective
    return effective.revision if effective else None


def records(cluster: FakeCluster) -> set[str]:
    found = cluster.api.of_kind(kinds.CONTROLLER_REVISION)
    return {each["metadata"]["name"] for each in found}


def conditions(cluster: FakeCluster) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in cluster.status.conditions}


def last_ready(cluster: FakeCluster) -> str | None:
    rollout = cluster.status.rollout
    return rollout.last_ready_revision if rollout else None


def test_a_spec_that_is_ready_is_recorded_once(cluster: FakeCluster) -> None:
    first = spec_hash(cluster)
    assert records(cluster) == {f"{samples.NAME}-{first}"}
    assert cluster.status.rollout is not None
    assert cluster.status.rollout.start_time is None
    cluster.apply(**QUERY)
    cluster.settle()
    assert last_ready(cluster) == spec_hash(cluster) != first
    assert len(records(cluster)) == 2
    cluster.apply()
    cluster.settle()
    numbers = {
        each["metadata"]["name"]: each["revision"]
        for each in cluster.api.of_kind(kinds.CONTROLLER_REVISION)
    }
    assert max(numbers, key=lambda name: numbers[name]) == f"{samples.NAME}-{first}", "again"
    assert len(records(cluster)) == 2


def test_only_the_newest_records_are_kept(cluster: FakeCluster) -> None:
    for number in range(_KEPT + 3):
        cluster.apply(queryName=f"query-{number}")
        cluster.settle()
    assert len(records(cluster)) == _KEPT
    assert f"{samples.NAME}-{spec_hash(cluster)}" in records(cluster)


def test_how_long_another_pod_took_is_kept_by_edits_that_need_none(cluster: FakeCluster) -> None:
    def took() -> int | None:
        rollout = cluster.status.rollout
        return rollout.pod_seconds if rollout is not None else None

    cluster.missing_images.add("slow:image")
    cluster.apply(image="slow:image")
    steps(cluster)
    cluster.clock.advance(40)
    cluster.missing_images.clear()
    steps(cluster)
    cluster.settle()
    assert took() in range(40, 45)
    cluster.clock.advance(60)
    cluster.apply(image="slow:image", **QUERY)
    cluster.settle()
    assert last_ready(cluster) == spec_hash(cluster)
    assert took() in range(40, 45)


def test_what_a_start_waited_for_is_no_time_of_a_pod(cluster: FakeCluster) -> None:
    """`penstock plan` says how long the next one takes, and a topic is there by then."""
    before = cluster.status.rollout
    waits = {"reason": "TopicMissing", "time": cluster.clock.time}
    missing = samples.FAILURE.model_copy(update=waits)
    fails(cluster, POD, QueryState.RESTARTING, last_failure=missing)
    cluster.clock.advance(173)
    cluster.fails_with.clear()
    cluster.report()
    steps(cluster)
    cluster.settle()
    assert last_ready(cluster) == spec_hash(cluster) == edited_hash(cluster, POD)
    assert before is not None
    assert cluster.status.rollout is not None
    assert cluster.status.rollout.pod_seconds == before.pod_seconds


@EDITS
def test_an_edit_that_fails_for_good_is_taken_back_at_once(
    cluster: FakeCluster, edit: dict[str, Any]
) -> None:
    before = spec_hash(cluster)
    fails(cluster, edit, QueryState.FAILED, last_failure=BROKEN)
    steps(cluster)
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")
    assert conditions(cluster)["Ready"] == ("True", "SpecNotApplied")
    assert cluster.condition("Ready").observed_generation == 1
    assert "Boom: it broke. Correct the spec" in cluster.condition("Stalled").message
    assert spec_hash(cluster) == before
    assert "RolledBack" in [each["reason"] for each in cluster.api.events]
    cluster.settle()
    assert cluster.reconcile() == []
    assert cluster.status.restarts is not None
    assert cluster.status.restarts.total == 0


@EDITS
def test_an_edit_that_is_not_ready_at_its_deadline_is_taken_back(
    cluster: FakeCluster, edit: dict[str, Any]
) -> None:
    before = spec_hash(cluster)
    fails(cluster, {**edit, "rollout": {"deadline": "2m"}}, QueryState.WAITING_FOR_CORES)
    cluster.clock.advance(119)
    steps(cluster)
    assert conditions(cluster)["Ready"][0] == "False"
    assert spec_hash(cluster) != before
    cluster.clock.advance(1)
    steps(cluster)
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")
    assert spec_hash(cluster) == before


def test_it_is_looked_at_by_its_deadline(cluster: FakeCluster) -> None:
    """However quiet all is until then."""
    fails(cluster, {**POD, "rollout": {"deadline": "7s"}}, QueryState.STARTING)
    again = cluster.reconcile_once()
    assert again is not None
    assert again <= timedelta(seconds=7)


def test_a_first_batch_may_take_as_long_as_it_takes(cluster: FakeCluster) -> None:
    fails(cluster, POD, QueryState.STARTING, query_runs=True)
    cluster.clock.advance(3600)
    steps(cluster)
    assert conditions(cluster)["Reconciling"] == ("True", "WaitingForFirstEpoch")


def test_the_division_of_a_large_state_may_too(cluster: FakeCluster) -> None:
    """What comes after it, such as the plan of the query, has the time of any edit."""
    fails(cluster, POD, QueryState.STARTING, repartitions_state=True)
    cluster.clock.advance(3600)
    steps(cluster)
    cluster.report(state=QueryState.STARTING, committed=False)
    steps(cluster)
    assert conditions(cluster)["Reconciling"] == ("True", "QueryStarting")
    cluster.clock.advance(3600)
    steps(cluster)
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")


def test_an_edit_of_one_that_divides_its_state_can_go_back(cluster: FakeCluster) -> None:
    before = spec_hash(cluster)
    fails(cluster, POD, QueryState.STARTING, repartitions_state=True)
    fails(cluster, {"executor": {"cores": 3}}, QueryState.STARTING)
    cluster.clock.advance(3600)
    steps(cluster)
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")
    cluster.settle()
    assert spec_hash(cluster) == before


def test_a_given_up_edit_is_not_tried_again_before_another_one(cluster: FakeCluster) -> None:
    """Neither after a restart of the operator, nor by an edit of a live field."""
    fails(cluster, POD, QueryState.FAILED, last_failure=BROKEN)
    cluster.settle()
    started = len(cluster.drivers_started)
    cluster.restart_operator()
    cluster.apply(**POD, restart={"maxAttempts": 3})
    cluster.settle()
    assert len(cluster.drivers_started) == started
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")
    cluster.fails_with.clear()
    cluster.apply(**POD, restartedAt="now")
    cluster.settle()
    assert conditions(cluster)["Stalled"] == ("False", "NotStalled")
    assert last_ready(cluster) == spec_hash(cluster)


def test_an_edit_back_to_what_runs_changes_no_object(cluster: FakeCluster) -> None:
    fails(cluster, POD, QueryState.FAILED, last_failure=BROKEN)
    cluster.settle()
    started = len(cluster.drivers_started)
    cluster.apply()
    cluster.settle()
    assert conditions(cluster)["Stalled"] == ("False", "NotStalled")
    assert len(cluster.drivers_started) == started


def test_an_invalid_spec_on_top_says_nothing_of_what_runs(cluster: FakeCluster) -> None:
    """What is applied does not."""
    fails(cluster, {**POD, "rollout": {"rollback": "Never"}}, QueryState.RESTARTING)
    cluster.apply(**samples.AGGREGATE)
    cluster.settle()
    assert "The last valid spec stays applied" in cluster.condition("Stalled").message


def test_never_means_never(cluster: FakeCluster) -> None:
    edit = {**POD, "rollout": {"rollback": "Never", "deadline": "1s"}}
    fails(cluster, edit, QueryState.FAILED, last_failure=BROKEN)
    cluster.settle()
    assert conditions(cluster)["Stalled"] == ("True", "Boom")
    assert cluster.status.rollout is not None
    assert cluster.status.rollout.failure is None


def test_never_ends_a_rollback(cluster: FakeCluster) -> None:
    """Who wants to look at what fails says so, and it is tried again."""
    fails(cluster, POD, QueryState.FAILED, last_failure=BROKEN)
    cluster.settle()
    cluster.apply(**POD, rollout={"rollback": "Never"})
    cluster.settle()
    assert conditions(cluster)["Stalled"] == ("True", "Boom")


def test_the_first_spec_has_nothing_to_go_back_to() -> None:
    cluster = FakeCluster()
    fails(cluster, POD, QueryState.FAILED, last_failure=BROKEN)
    cluster.settle()
    assert conditions(cluster)["Stalled"] == ("True", "Boom")


def test_what_was_ready_is_never_given_up(cluster: FakeCluster) -> None:
    cluster.apply(**POD)
    cluster.settle()
    cluster.report(state=QueryState.FAILED, last_failure=BROKEN)
    cluster.clock.advance(3600)
    cluster.settle()
    assert conditions(cluster)["Stalled"] == ("True", "Boom")


def test_without_a_record_the_edit_stays(cluster: FakeCluster) -> None:
    """Somebody has deleted it. Nothing is said that is not so."""
    (record,) = cluster.api.of_kind(kinds.CONTROLLER_REVISION)
    cluster.api.remove(record)
    fails(cluster, POD, QueryState.FAILED, last_failure=BROKEN)
    cluster.settle()
    assert conditions(cluster)["Stalled"] == ("True", "Boom")


def test_a_record_that_somebody_has_made_anew_is_not_run(cluster: FakeCluster) -> None:
    """It is not what its name says."""
    (record,) = cluster.api.of_kind(kinds.CONTROLLER_REVISION)
    cluster.api.put({**record, "data": {"spec": {**record["data"]["spec"], "queryName": "evil"}}})
    fails(cluster, POD, QueryState.FAILED, last_failure=BROKEN)
    cluster.settle()
    assert conditions(cluster)["Stalled"] == ("True", "Boom")


NOT_JUDGED_SPECS: dict[str, dict[str, Any]] = {
    "Python in the image": {"transform": {"python": {"function": "mine:transform"}}},
    "Python of a newer version": {
        "image": "mine:1",
        "transform": {"python": {"function": "m:f", "inline": "def f(df): return df ~ 1"}},
    },
    "SQL that nests too deep": {
        "transform": {"sql": f"SELECT {'NOT ' * 15_000} true AS value FROM source"}
    },
    "a name that is made when the query runs": {
        "transform": {"sql": "SELECT IDENTIFIER('val' || 'ue') AS value FROM source"}
    },
    "an expression of Java": {
        "source": {"kafka": {"bootstrapServers": "kafka:9092", "topicPattern": "a\\p{Lu}+"}}
    },
}


@pytest.mark.proves("edits.md#an-edit-that-does-not-run")
@pytest.mark.parametrize("spec", NOT_JUDGED_SPECS.values(), ids=NOT_JUDGED_SPECS)
def test_a_spec_that_only_spark_can_judge_goes_back_as_any_other(spec: dict[str, Any]) -> None:
    """Such a verdict is final, and says nothing against the spec."""
    spec = {"trigger": {"microBatch": {}}, **spec}
    judged = spec_check.judge(samples.desired(**spec).stream.spec)
    assert NOT_JUDGED in [each.reason for each in judged if each.severity == "notice"]
    assert all(each.severity != "error" for each in judged)
    cluster = FakeCluster()
    cluster.apply(**spec)
    cluster.settle()
    before = spec_hash(cluster)
    fails(cluster, {**spec, **POD}, QueryState.FAILED, last_failure=BROKEN)
    cluster.settle()
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")
    assert spec_hash(cluster) == before
    cluster.restart_operator()
    cluster.settle()
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack"), "after a takeover"


@pytest.mark.parametrize("spec", NOT_JUDGED_SPECS.values(), ids=NOT_JUDGED_SPECS)
def test_what_only_spark_can_judge_is_judged_once(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []

    def parse(raw: Manifest, settings: Settings) -> ObservedStream:
        parsed.append(raw)
        return parse_stream(raw, settings)

    cluster = FakeCluster()
    cluster.apply(trigger={"microBatch": {}}, **spec)
    cluster.settle()
    monkeypatch.setattr(reconciler, "parse_stream", parse)
    cluster.settle()
    assert parsed == []


def test_an_earlier_spec_that_cannot_be_judged_now_brings_no_edit_back(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes that judge texts may give no answer. What runs stays."""
    fails(cluster, POD, QueryState.FAILED, last_failure=BROKEN)
    cluster.settle()
    started = len(cluster.drivers_started)
    with monkeypatch.context() as patch:
        patch.setattr(text_sandbox, "_judge", lambda: Judge(1, ("false",)))
        cluster.restart_operator()
        steps(cluster)
        assert conditions(cluster)["Ready"][0] == "True"
    cluster.settle()
    assert len(cluster.drivers_started) == started
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")


def test_an_edit_goes_back_also_while_no_text_can_be_judged(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the stream was Ready with, Spark has taken."""
    before = spec_hash(cluster)
    monkeypatch.setattr(text_sandbox, "_judge", lambda: Judge(1, ("false",)))
    fails(cluster, POD, QueryState.FAILED, last_failure=BROKEN)
    cluster.settle()
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")
    assert spec_hash(cluster) == before


def test_an_edit_of_an_edit_that_does_not_run_goes_back_as_well(cluster: FakeCluster) -> None:
    """To what ran before both."""
    before = spec_hash(cluster)
    for cores in (2, 3):
        edit = {"executor": {"cores": cores}, "rollout": {"deadline": "2m"}}
        fails(cluster, edit, QueryState.RESTARTING, last_failure=samples.FAILURE)
    cluster.clock.advance(120)
    steps(cluster)
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")
    assert spec_hash(cluster) == before


def test_an_edit_of_a_revert_that_is_not_ready_yet_goes_back_as_well(
    cluster: FakeCluster,
) -> None:
    """A bad edit, its revert, and another bad edit before the pod of the revert runs."""
    before, cluster.keeps_unready_pods = spec_hash(cluster), True
    for cores in (2, 3):
        edit = {"executor": {"cores": cores}, "rollout": {"deadline": "2m"}}
        fails(cluster, edit, QueryState.RESTARTING, last_failure=samples.FAILURE)
        if cores == 2:
            cluster.apply(rollout={"deadline": "2m"})
            cluster.reconcile()
            assert conditions(cluster)["Ready"][0] == "False"
    cluster.clock.advance(120)
    steps(cluster, 12)
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")
    assert spec_hash(cluster) == before


def test_an_edit_of_what_broke_by_itself_stays(cluster: FakeCluster) -> None:
    """Also if that has once taken an edit back: it may be as good as what there was."""
    fails(cluster, POD, QueryState.RESTARTING, last_failure=samples.FAILURE)
    cluster.apply()
    cluster.settle()
    assert conditions(cluster)["Ready"][0] == "True"
    cluster.report(state=QueryState.RESTARTING, last_failure=samples.FAILURE)
    cluster.put_pod(conditions=[{"type": "Ready", "status": "False"}])
    cluster.settle()
    edit = {"executor": {"cores": 3}, "rollout": {"deadline": "2m"}}
    fails(cluster, edit, QueryState.RESTARTING, last_failure=samples.FAILURE)
    cluster.clock.advance(120)
    cluster.settle()
    assert conditions(cluster)["Stalled"][1] != "RolledBack"


def test_an_edit_soon_after_a_start_is_of_a_stream_that_was_ready(cluster: FakeCluster) -> None:
    """Although what it was Ready with has proved nothing yet, and mended what did not run."""
    cluster.report(state=QueryState.RESTARTING, last_failure=samples.FAILURE)
    cluster.put_pod(conditions=[{"type": "Ready", "status": "False"}])
    cluster.settle()
    fails(cluster, QUERY, QueryState.RUNNING, proved=False)
    fails(cluster, {**POD, "rollout": {"deadline": "2m"}}, QueryState.STARTING)
    cluster.clock.advance(120)
    steps(cluster)
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")


def test_a_suspended_stream_has_all_the_time(cluster: FakeCluster) -> None:
    edit = {**POD, "rollout": {"deadline": "1m"}}
    fails(cluster, edit, QueryState.WAITING_FOR_CORES)
    cluster.apply(**edit, suspend=True)
    cluster.settle()
    cluster.clock.advance(3600)
    cluster.apply(**edit)
    steps(cluster)
    assert conditions(cluster)["Stalled"] == ("False", "NotStalled")
    assert cluster.status.rollout is not None
    assert cluster.status.rollout.failure is None


def test_an_earlier_spec_that_runs_again_can_be_suspended(cluster: FakeCluster) -> None:
    fails(cluster, POD, QueryState.FAILED, last_failure=BROKEN)
    cluster.settle()
    cluster.apply(**POD, suspend=True)
    cluster.settle()
    assert cluster.pod is None
    assert cluster.state == "Suspended"


def test_a_new_default_image_that_does_not_run_is_taken_back(cluster: FakeCluster) -> None:
    """The stream has not been edited, and is of two images."""
    stays = spec_hash(cluster)
    cluster.settings = replace(samples.SETTINGS, spark_image="bad:image")
    cluster.missing_images.add("bad:image")
    cluster.restart_operator()
    steps(cluster)
    cluster.clock.advance(601)
    steps(cluster)
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")
    assert spec_hash(cluster) == stays


def test_a_query_that_is_ready_for_a_moment_has_proved_nothing(cluster: FakeCluster) -> None:
    """The first epoch of continuous mode holds no records."""
    before, fails_ = spec_hash(cluster), cluster.fails_with
    fails(cluster, QUERY, QueryState.RUNNING, proved=False)
    cluster.clock.advance(30)
    steps(cluster)
    assert conditions(cluster)["Ready"] == ("True", "Running")
    assert last_ready(cluster) == before
    fails_[edited_hash(cluster, QUERY)] = {"state": QueryState.FAILED, "last_failure": BROKEN}
    cluster.report(state=QueryState.FAILED, last_failure=BROKEN)
    steps(cluster)
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")
    assert spec_hash(cluster) == before


def test_a_query_without_records_counts_after_a_minute(cluster: FakeCluster) -> None:
    fails(cluster, QUERY, QueryState.RUNNING, proved=False)
    again = cluster.reconcile_once()
    assert again is not None
    assert again <= timedelta(minutes=1)
    cluster.clock.advance(60)
    steps(cluster)
    assert last_ready(cluster) == spec_hash(cluster)
    assert f"{samples.NAME}-{spec_hash(cluster)}" in records(cluster)


def test_an_edit_is_not_given_up_by_what_the_watches_have_yet_to_show(cluster: FakeCluster) -> None:
    """The pod is Ready, and the deadline passes while the cache has an older one."""
    edit = {**POD, "rollout": {"deadline": "1m"}}
    fails(cluster, edit, QueryState.STARTING)
    cluster.fall_behind()
    cluster.report(state=QueryState.RUNNING)
    cluster.put_pod(conditions=[{"type": "Ready", "status": "True"}])
    cluster.clock.advance(120)
    steps(cluster)
    assert cluster.status.rollout is not None
    assert cluster.status.rollout.failure is None
    assert last_ready(cluster) == edited_hash(cluster, edit)


def test_an_edit_of_a_stream_that_was_not_ready_is_not_undone_by_its_deadline(
    cluster: FakeCluster,
) -> None:
    """Whatever keeps both from running, what there was is no better."""
    cluster.report(state=QueryState.RESTARTING, last_failure=samples.FAILURE)
    cluster.settle()
    fails(cluster, POD, QueryState.RESTARTING, last_failure=samples.FAILURE)
    cluster.apply(executor={"cores": 3})  # another try
    cluster.fails_with[edited_hash(cluster, {"executor": {"cores": 3}})] = {
        "state": QueryState.RESTARTING
    }
    steps(cluster)
    cluster.clock.advance(3600)
    steps(cluster)
    assert cluster.status.rollout is not None
    assert cluster.status.rollout.failure is None


def test_a_record_that_is_refused_stops_nothing_and_is_written_later(cluster: FakeCluster) -> None:
    """By a quota, for example."""
    refused = ApiError(403, "Forbidden", "exceeded quota")
    cluster.api.refuse = lambda it: refused if it["kind"] == "ControllerRevision" else None
    cluster.apply(**POD)
    cluster.settle()
    assert conditions(cluster)["Ready"] == ("True", "Running")
    assert conditions(cluster)["Stalled"] == ("False", "NotStalled")
    assert last_ready(cluster) != spec_hash(cluster)
    assert len(cluster.api.of_kind(kinds.CONFIG_MAP)) == 1
    cluster.api.refuse = lambda _: None
    cluster.settle()
    assert last_ready(cluster) == spec_hash(cluster)


def test_what_the_driver_says_of_the_given_up_edit_keeps_nothing_from_running(
    cluster: FakeCluster,
) -> None:
    fails(cluster, QUERY, QueryState.FAILED, last_failure=BROKEN)
    cluster.settle()
    cluster.report(edit=EditVerdict(generation=2, refusal=BROKEN))
    (config,) = cluster.api.of_kind(kinds.CONFIG_MAP)
    cluster.api.remove(config)
    cluster.settle()
    assert len(cluster.api.of_kind(kinds.CONFIG_MAP)) == 1
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")


@EDITS
@pytest.mark.parametrize("side", ["before", "after"])
def test_an_operator_that_dies_at_any_write_of_a_rollback(
    cluster: FakeCluster, edit: dict[str, Any], side: str
) -> None:
    """There is never a driver of the edit again, nor two of one."""
    fails(cluster, edit, QueryState.FAILED, last_failure=BROKEN)
    before = samples.desired().spec_hash
    for number in range(1, 30):
        writes = len(cluster.api.writes)
        cluster.api.kill_at = (writes + 1, side)
        try:
            cluster.reconcile()
        except Killed:
            cluster.restart_operator()
        cluster.api.kill_at = None
        if number % 2:
            cluster.step()
    cluster.settle()
    assert spec_hash(cluster) == before
    assert conditions(cluster)["Stalled"] == ("True", "RolledBack")
    assert cluster.drivers_started.count(samples.desired(**edit).pod_hash) <= 1 + (edit is QUERY)


def test_without_a_record_an_edit_that_has_run_is_never_given_up(cluster: FakeCluster) -> None:
    """There is an older one to go back to: no reason to, a month later."""
    no = ApiError(403, "Forbidden", "exceeded quota: count/controllerrevisions.apps")
    cluster.api.refuse = lambda it: no if it["kind"] == "ControllerRevision" else None
    cluster.apply(**POD)
    cluster.settle()
    for _ in range(3):
        cluster.clock.advance(3600)
        steps(cluster, 1)
    cluster.report(state=QueryState.RESTARTING, query_restarts=1, last_failure=samples.FAILURE)
    for _ in range(3):
        cluster.clock.advance(3600)
        cluster.reconcile()
    assert spec_hash(cluster) == edited_hash(cluster, POD)
    assert cluster.condition("Stalled").status == "False"
    cluster.api.refuse = lambda _: None
    cluster.report(query_restarts=1)
    cluster.settle()
    assert cluster.status.rollout is not None
    assert cluster.status.rollout.last_ready_revision == edited_hash(cluster, POD)


def test_a_claim_that_cannot_grow_keeps_no_edit_from_its_rollout(cluster: FakeCluster) -> None:
    """A good one is what a bad one goes back to, and that one is given up."""
    no = ApiError(403, "Forbidden", "only dynamically provisioned pvc can be resized")
    cluster.api.refuse = lambda it: no if it["kind"] == "PersistentVolumeClaim" else None
    large: dict[str, Any] = {"checkpoint": {"volume": {"size": "50Gi"}}}
    cluster.apply(**large)
    cluster.settle()
    good = {**large, "queryName": "good"}
    cluster.apply(**good)
    cluster.settle()
    assert cluster.condition("Stalled").reason == "ApplyRefused"
    assert cluster.status.rollout is not None
    assert cluster.status.rollout.last_ready_revision == edited_hash(cluster, good)
    fails(cluster, {**large, **QUERY}, QueryState.FAILED, last_failure=BROKEN)
    cluster.clock.advance(60)
    steps(cluster)
    assert cluster.applied_hash == edited_hash(cluster, good)


def test_an_older_look_at_the_pod_says_nothing(cluster: FakeCluster) -> None:
    """The operator's own write is shown before the pod that it was about."""
    cluster.fall_behind()
    cluster.clock.advance(60)
    cluster.report(state=QueryState.RESTARTING, query_restarts=1, last_failure=samples.FAILURE)
    cluster.show_but(kinds.CLAIM)
    cluster.report(query_restarts=1)
    cluster.reconcile()
    assert cluster.condition("Ready").status == "True"
    cluster.show_but(kinds.POD)
    assert cluster.reconcile() == []
    assert cluster.condition("Ready").status == "True"


def test_a_claim_that_its_watch_has_yet_to_show_is_not_missing() -> None:
    cluster = FakeCluster()
    cluster.fall_behind()
    cluster.apply()
    cluster.show_but(kinds.CLAIM)
    cluster.reconcile()
    cluster.clock.advance(1)
    cluster.show_but(kinds.CLAIM)
    assert cluster.reconcile() == []
    assert cluster.condition("Stalled").status == "False"
