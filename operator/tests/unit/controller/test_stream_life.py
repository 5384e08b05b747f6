"""A stream's life with the operator as a whole, against a cluster in memory."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.api import group_version
from penstock.api.v1alpha1.status import LastFailure, StreamState
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.controller import objects
from penstock.controller.kubernetes_api import ApiError
from testkit.controller import samples
from testkit.controller.fake_cluster import World

CLAIM = f"PersistentVolumeClaim {samples.NAME}-checkpoint"
FAILURE = LastFailure(reason="TopicMissing", message="no topic", permanent=True, time=samples.T0)


@pytest.fixture
def world() -> World:
    """A cluster with one stream that runs."""
    world = World()
    world.apply()
    world.settle()
    return world


def volume(**fields: Any) -> dict[str, Any]:
    return {"checkpoint": {"volume": fields}}


def test_a_stream_gets_its_objects_and_becomes_ready(world: World) -> None:
    config = naming.config_name(samples.NAME, world.running_hash)
    assert world.children() == {
        "ServiceAccount flags-driver", "RoleBinding flags-driver", "StatefulSet flags-driver",
        "Pod flags-driver-0", f"ConfigMap {config}", CLAIM,
    }  # fmt: skip
    assert world.state == StreamState.RUNNING
    assert [(each.type, each.status) for each in world.status.conditions] == [
        ("Ready", "True"), ("Reconciling", "False"), ("Stalled", "False"),
    ]  # fmt: skip
    assert world.status.cores == "4/4"


def test_a_settled_stream_is_left_alone(world: World) -> None:
    """Neither a second look nor a restarted operator nor the same manifest writes anything."""
    assert world.reconcile() == []
    world.restart_operator()
    world.apply()
    assert world.reconcile() == []


def test_nothing_of_the_streams_own_labels_or_annotations_reaches_its_objects() -> None:
    """Argo CD would take an object with its tracking marks for its own, and prune it."""
    world = World()
    raw = samples.stream()
    raw["metadata"] |= {
        "labels": {"app.kubernetes.io/instance": "argo"},
        "annotations": {"argocd.argoproj.io/tracking-id": "argo"},
    }
    world.cluster.put(raw)
    world.settle()
    for each in world.cluster.objects.values():
        if each["kind"] != group_version.KIND:
            assert "argo" not in str(each)


@pytest.mark.parametrize(("policy", "stays"), [("Retain", {CLAIM}), ("Delete", set())])
def test_deleting_a_stream_leaves_only_a_retained_claim(policy: str, stays: set[str]) -> None:
    world = World()
    world.apply(**volume(reclaimPolicy=policy))
    world.settle()
    world.delete()
    world.settle()
    assert world.children() == stays


def test_deleting_works_while_the_operator_is_away(world: World) -> None:
    """No finalizer waits for it, and Kubernetes' garbage collector does the rest."""
    world.delete()
    for _ in range(5):
        world.turn()
    assert world.children() == {CLAIM}


def test_a_stream_of_the_same_name_goes_on_from_a_retained_claim(world: World) -> None:
    before = world.cluster.one(objects.CLAIM, "flags-checkpoint")["metadata"]["uid"]
    world.delete()
    world.settle()
    world.apply()
    world.settle()
    assert world.cluster.one(objects.CLAIM, "flags-checkpoint")["metadata"]["uid"] == before
    assert world.state == StreamState.RUNNING
    assert "CheckpointFound" in [each["reason"] for each in world.cluster.events]


def test_a_stream_applied_anew_waits_until_the_deleted_one_is_gone() -> None:
    """Else it would take over a checkpoint that is about to go, or meet the old driver."""
    world = World()
    world.apply(**volume(reclaimPolicy="Delete"))
    world.settle()
    world.delete()
    world.apply(**volume(reclaimPolicy="Delete"))
    assert "apply StatefulSet" not in world.reconcile()
    assert world.condition("Ready").reason == "WaitingForDeletion"
    old_claim = world.cluster.one(objects.CLAIM, "flags-checkpoint")["metadata"]["uid"]
    world.settle()
    assert world.state == StreamState.RUNNING
    assert world.cluster.one(objects.CLAIM, "flags-checkpoint")["metadata"]["uid"] != old_claim


def test_an_edit_rolls_the_driver_and_removes_the_old_document(world: World) -> None:
    before = world.running_hash
    world.apply(executor={"cores": 2})
    world.reconcile()
    assert world.condition("Ready").status == "False"
    assert world.condition("Ready").reason == "RollingOut"
    world.settle()
    assert world.running_hash != before
    assert world.state == StreamState.RUNNING
    assert len(world.cluster.of_kind(objects.CONFIG_MAP)) == 1
    assert world.status.restarts is not None
    assert world.status.restarts.total == 0


def test_the_old_document_stays_while_the_old_pod_does(world: World) -> None:
    """Its container may be started anew at any time and reads the document again."""
    world.apply(executor={"cores": 2})
    world.reconcile()
    world.reconcile()
    assert len(world.cluster.of_kind(objects.CONFIG_MAP)) == 2


def test_an_edit_while_the_operator_is_away_is_rolled_out_when_it_is_back(world: World) -> None:
    world.apply(executor={"cores": 2})
    for _ in range(5):
        world.turn()
    world.restart_operator()
    world.settle()
    assert len(world.drivers_started) == 2
    assert world.status.observed_generation == 2
    assert world.state == StreamState.RUNNING


def test_a_change_of_the_volume_does_not_restart_the_query(world: World) -> None:
    world.apply(**volume(size="2Gi", reclaimPolicy="Delete"))
    world.settle()
    claim = world.cluster.one(objects.CLAIM, "flags-checkpoint")
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert objects.owners_of(claim)
    assert len(world.drivers_started) == 1
    world.apply(**volume(size="1Gi"))
    world.settle()
    claim = world.cluster.one(objects.CLAIM, "flags-checkpoint")
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert not objects.owners_of(claim)
    assert len(world.drivers_started) == 1


def test_a_bad_spec_creates_nothing_and_recovers_when_corrected() -> None:
    world = World()
    world.apply(**samples.AGGREGATE)
    world.settle()
    assert world.children() == set()
    stalled = world.condition("Stalled")
    assert stalled.status == "True"
    assert "Aggregate" in stalled.message
    assert world.condition("Reconciling").status == "False"
    world.apply()
    world.settle()
    assert world.state == StreamState.RUNNING


def test_a_bad_edit_leaves_the_running_stream_alone(world: World) -> None:
    before = world.children()
    world.apply(**samples.AGGREGATE)
    world.settle()
    assert world.children() == before
    assert len(world.drivers_started) == 1
    assert world.condition("Stalled").status == "True"
    assert "goes on running" in world.condition("Stalled").message
    world.apply()
    world.settle()
    assert world.state == StreamState.RUNNING
    assert len(world.drivers_started) == 1


def test_a_stream_that_forbids_the_cores_it_needs_starts_no_driver() -> None:
    """Its query would hang without a word (sizing)."""
    world = World()
    world.apply(source={"rate": {"numPartitions": 3}}, executor={"maxInstances": 2})
    world.settle()
    assert world.children() == set()
    assert world.condition("Stalled").reason == "TooFewExecutorsAllowed"


def test_what_the_schema_did_not_stop_is_named_with_its_field() -> None:
    world = World()
    world.apply(trigger={"continuous": {"checkpointInterval": "soon"}})
    world.settle()
    assert world.condition("Stalled").reason == "InvalidSpec"
    assert "spec.trigger.continuous.checkpointInterval" in world.condition("Stalled").message


def test_a_permanent_failure_stalls_without_a_loop_until_the_spec_changes(world: World) -> None:
    world.report(state=QueryState.FAILED, last_failure=FAILURE)
    world.put_pod(
        samples.report(world.running_hash, state=QueryState.FAILED, last_failure=FAILURE),
        conditions=[{"type": "Ready", "status": "False"}],
    )
    world.settle()
    assert world.state == StreamState.STALLED
    assert world.condition("Stalled").reason == "TopicMissing"
    assert world.condition("Ready").status == "False"
    assert len(world.drivers_started) == 1
    world.apply(executor={"cores": 2})
    world.settle()
    assert world.state == StreamState.RUNNING


def test_a_broken_pod_that_the_stateful_set_spares_is_replaced_all_the_same(world: World) -> None:
    """And it is the operator's only deletion of a pod: a ready one is left to the rollout."""
    world.spares_unready_pods = True
    world.put_pod(
        samples.report(world.running_hash, state=QueryState.FAILED, last_failure=FAILURE),
        conditions=[{"type": "Ready", "status": "False"}],
    )
    world.settle()
    assert "delete Pod" not in world.cluster.writes
    world.apply(executor={"cores": 2})
    world.settle()
    assert world.state == StreamState.RUNNING
    assert world.cluster.writes.count("delete Pod") == 1
    world.apply(executor={"cores": 4})
    world.settle()
    assert world.state == StreamState.RUNNING
    assert world.cluster.writes.count("delete Pod") == 1


def test_a_permanent_failure_that_went_away_is_forgotten(world: World) -> None:
    world.report(state=QueryState.FAILED, last_failure=FAILURE)
    world.settle()
    world.report(last_failure=FAILURE)
    world.settle()
    assert world.state == StreamState.RUNNING
    assert world.status.last_failure == FAILURE


def test_a_missing_driver_is_seen_at_once(world: World) -> None:
    pod = world.pod
    assert pod is not None
    world.cluster.remove(pod)
    world.reconcile()
    assert world.condition("Ready").status == "False"
    assert world.state == StreamState.RESTARTING
    world.settle()
    assert world.state == StreamState.RUNNING
    assert world.status.restarts is not None
    assert world.status.restarts.pod == 1
    assert world.status.last_failure is not None
    assert world.status.last_failure.reason == "DriverPodReplaced"


def test_a_lost_checkpoint_is_loud_and_not_a_fresh_start(world: World) -> None:
    world.cluster.remove(world.cluster.one(objects.CLAIM, "flags-checkpoint"))
    world.settle()
    assert not world.cluster.has(objects.CLAIM, "flags-checkpoint")
    assert world.condition("Stalled").reason == "CheckpointMissing"


def test_a_child_that_was_changed_or_deleted_comes_back(world: World) -> None:
    driver = world.cluster.one(objects.STATEFUL_SET, "flags-driver")
    driver["spec"]["replicas"] = 2
    world.cluster.put(driver)
    world.cluster.remove(world.cluster.one(objects.SERVICE_ACCOUNT, "flags-driver"))
    assert world.reconcile() == ["apply ServiceAccount", "apply StatefulSet"]
    assert world.cluster.one(objects.STATEFUL_SET, "flags-driver")["spec"]["replicas"] == 1


def test_a_refused_object_is_told_of_and_recovers() -> None:
    """A quota, say: it is for people to lift, and the stream then goes on by itself."""
    world = World()
    world.cluster.refuse = lambda manifest: (
        ApiError(403, "Forbidden", "exceeded quota") if manifest["kind"] == "StatefulSet" else None
    )
    world.apply()
    world.settle()
    assert world.condition("Stalled").reason == "ApplyRefused"
    assert "exceeded quota" in world.condition("Stalled").message
    world.cluster.refuse = lambda _: None
    world.settle()
    assert world.state == StreamState.RUNNING


def test_a_volume_that_cannot_grow_holds_up_nothing_else(world: World) -> None:
    world.cluster.refuse = lambda manifest: (
        ApiError(403, "Forbidden", "no expansion")
        if manifest["kind"] == "PersistentVolumeClaim"
        else None
    )
    world.apply(**volume(size="2Gi"), executor={"cores": 2})
    world.settle()
    assert len(world.drivers_started) == 2


def test_a_function_that_delays_records_is_warned_of(world: World) -> None:
    inline = """
from pyspark.sql.functions import udf

@udf("string")
def slow(value):
    return value

def clean(source):
    return source.select(slow("value").alias("value"))
"""
    world.apply(transform={"python": {"function": "mine:clean", "inline": inline}})
    world.settle()
    assert world.state == StreamState.RUNNING
    assert world.condition("Warning").status == "True"


def test_numbers_alone_are_written_at_a_slow_beat(world: World) -> None:
    world.clock.advance(60)
    world.report(epoch=10)
    assert world.reconcile() == ["status"]
    world.clock.advance(3)
    world.report(epoch=13)
    assert world.reconcile() == []
    world.clock.advance(7)
    assert world.reconcile() == ["status"]
    assert world.status.epoch == 13


def test_metrics_of_a_stream_go_with_it(world: World) -> None:
    labels = {"namespace": "default", "name": "flags", "state": "Running"}
    assert world.metrics.registry.get_sample_value("penstock_stream_state", labels) == 1
    world.delete()
    world.settle()
    assert world.metrics.registry.get_sample_value("penstock_stream_state", labels) is None


def test_an_edit_in_the_middle_of_a_look_is_looked_at_again(world: World) -> None:
    """The status is refused for a stream that is no longer the one that was judged."""
    looks = iter([True])

    def edit_once(manifest: dict[str, Any]) -> None:
        if manifest["kind"] == "StatefulSet" and next(looks, False):
            world.apply(driver={"memory": "2Gi"})

    world.cluster.listeners.append(edit_once)
    world.apply(executor={"cores": 2})
    world.reconcile()
    assert world.status.observed_generation == 1
    world.settle()
    assert world.status.observed_generation == 3
    assert world.state == StreamState.RUNNING
