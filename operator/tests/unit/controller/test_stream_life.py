"""The life of a stream with the whole operator, against a cluster in memory."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.api import group_version
from penstock.api.v1alpha1.status import Cores, LastFailure, Restarts, StreamState
from penstock.cluster import kinds
from penstock.cluster.objects import Object
from penstock.cluster.rest_api import ApiError
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster

CLAIM = f"PersistentVolumeClaim {samples.NAME}-checkpoint"
FAILURE = LastFailure(reason="TopicMissing", message="no topic", permanent=True, time=samples.T0)


def volume(**fields: Any) -> dict[str, Any]:
    return {"checkpoint": {"volume": fields}}


def test_a_stream_gets_its_objects_and_becomes_ready(cluster: FakeCluster) -> None:
    config = naming.config_name(samples.NAME, cluster.pod_hash)
    assert cluster.children() == {
        "ServiceAccount flags-driver", "Role flags-driver", "RoleBinding flags-driver",
        "NetworkPolicy flags-driver", "StatefulSet flags-driver", "Pod flags-driver-0",
        f"ConfigMap {config}", CLAIM,
    }  # fmt: skip
    assert cluster.state == StreamState.RUNNING
    assert [(each.type, each.status) for each in cluster.status.conditions] == [
        ("Ready", "True"), ("Reconciling", "False"), ("Stalled", "False"),
        ("Warning", "False"),
    ]  # fmt: skip
    assert cluster.status.cores == Cores(registered=4, desired=4)


def test_a_settled_stream_is_not_written_again(cluster: FakeCluster) -> None:
    """A second reconcile, a restarted operator or the same manifest write nothing."""
    assert cluster.reconcile() == []
    cluster.restart_operator()
    cluster.apply()
    assert cluster.reconcile() == []


def test_a_streams_labels_and_annotations_are_not_copied_to_its_objects() -> None:
    """Argo CD would prune an object that carries its tracking labels."""
    cluster = FakeCluster()
    raw = samples.stream()
    raw["metadata"] |= {
        "labels": {"app.kubernetes.io/instance": "argo"},
        "annotations": {"argocd.argoproj.io/tracking-id": "argo"},
    }
    cluster.api.put(raw)
    cluster.settle()
    for each in cluster.api.objects.values():
        if each["kind"] != group_version.KIND:
            assert "argo" not in str(each)


@pytest.mark.parametrize(("policy", "stays"), [("Retain", {CLAIM}), ("Delete", set())])
def test_deleting_a_stream_leaves_only_a_retained_claim(policy: str, stays: set[str]) -> None:
    cluster = FakeCluster()
    cluster.apply(**volume(reclaimPolicy=policy))
    cluster.settle()
    cluster.delete()
    cluster.settle()
    assert cluster.children() == stays


def test_deletion_works_while_the_operator_is_away(cluster: FakeCluster) -> None:
    """There is no finalizer, and the garbage collector deletes the objects."""
    cluster.delete()
    for _ in range(5):
        cluster.step()
    assert cluster.children() == {CLAIM}


def test_a_stream_of_the_same_name_continues_from_a_retained_claim(cluster: FakeCluster) -> None:
    before = cluster.api.one(kinds.CLAIM, "flags-checkpoint")["metadata"]["uid"]
    cluster.delete()
    cluster.settle()
    cluster.apply()
    cluster.settle()
    assert cluster.api.one(kinds.CLAIM, "flags-checkpoint")["metadata"]["uid"] == before
    assert cluster.state == StreamState.RUNNING
    assert "CheckpointFound" in [each["reason"] for each in cluster.api.events]


def test_a_stream_applied_again_waits_until_the_deleted_one_is_removed() -> None:
    """Otherwise it would take over a checkpoint that is being deleted, or the old driver."""
    cluster = FakeCluster()
    cluster.apply(**volume(reclaimPolicy="Delete"))
    cluster.settle()
    cluster.delete()
    cluster.apply(**volume(reclaimPolicy="Delete"))
    assert "apply StatefulSet" not in cluster.reconcile()
    assert cluster.condition("Ready").reason == "WaitingForDeletion"
    old_claim = cluster.api.one(kinds.CLAIM, "flags-checkpoint")["metadata"]["uid"]
    cluster.settle()
    assert cluster.state == StreamState.RUNNING
    assert cluster.api.one(kinds.CLAIM, "flags-checkpoint")["metadata"]["uid"] != old_claim


def test_a_paused_stream_counts_nothing_of_the_deleted_one_of_its_name() -> None:
    """Progress that is not its own would make its checkpoint look lost."""
    cluster = FakeCluster()
    cluster.apply(**volume(reclaimPolicy="Delete"))
    cluster.settle()
    cluster.delete()
    cluster.apply(**volume(reclaimPolicy="Delete"))
    cluster.annotate(naming.ANNOTATION_PAUSE, "true")
    cluster.reconcile()
    assert cluster.condition("Reconciling").reason == "ReconciliationPaused"
    assert cluster.status.epoch is None
    cluster.annotate(naming.ANNOTATION_PAUSE, "false")
    cluster.settle()
    assert cluster.state == StreamState.RUNNING


def test_an_edit_replaces_the_driver_and_removes_the_old_config_map(cluster: FakeCluster) -> None:
    before = cluster.pod_hash
    cluster.apply(executor={"cores": 2})
    cluster.reconcile()
    assert cluster.condition("Ready").status == "False"
    assert cluster.condition("Ready").reason == "RollingOut"
    # The old pod's container may restart at any time, and reads its ConfigMap again.
    assert len(cluster.api.of_kind(kinds.CONFIG_MAP)) == 2
    cluster.step()
    assert cluster.pod is None
    cluster.reconcile()
    assert cluster.condition("Ready").reason == "RollingOut"
    assert cluster.state == StreamState.STARTING
    cluster.settle()
    assert cluster.pod_hash != before
    assert cluster.state == StreamState.RUNNING
    assert len(cluster.api.of_kind(kinds.CONFIG_MAP)) == 1
    assert cluster.status.restarts is not None
    assert cluster.status.restarts.total == 0


@pytest.mark.parametrize("edit", [{"executor": {"cores": 2}}, {"suspend": True}])
def test_two_quick_edits_are_no_failure_of_the_pod_that_they_replace(
    edit: dict[str, Any], cluster: FakeCluster
) -> None:
    """The second one leads back to the first spec, so the pods before and after are of one."""
    first = cluster.pod
    cluster.apply(**edit)
    cluster.reconcile()
    cluster.step()
    cluster.apply()
    cluster.settle()
    assert cluster.pod != first
    assert cluster.status.restarts is not None
    assert (cluster.status.restarts.total, cluster.status.last_failure) == (0, None)
    assert cluster.pod is not None
    cluster.api.remove(cluster.pod)
    cluster.settle()
    assert cluster.status.restarts.pod == 1
    assert cluster.status.last_failure is not None
    assert cluster.status.last_failure.reason == "DriverPodReplaced"


def test_an_edit_while_the_operator_is_away_is_rolled_out_when_it_returns(
    cluster: FakeCluster,
) -> None:
    cluster.apply(executor={"cores": 2})
    for _ in range(5):
        cluster.step()
    cluster.restart_operator()
    cluster.settle()
    assert len(cluster.drivers_started) == 2
    assert cluster.status.observed_generation == 2
    assert cluster.state == StreamState.RUNNING


def test_a_change_of_the_volume_does_not_restart_the_query(cluster: FakeCluster) -> None:
    cluster.apply(**volume(size="2Gi", reclaimPolicy="Delete"))
    cluster.settle()
    claim = cluster.api.one(kinds.CLAIM, "flags-checkpoint")
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert Object(claim).owners
    assert len(cluster.drivers_started) == 1
    cluster.apply(**volume(size="1Gi"))
    cluster.settle()
    claim = cluster.api.one(kinds.CLAIM, "flags-checkpoint")
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert not Object(claim).owners
    assert len(cluster.drivers_started) == 1


def test_an_invalid_spec_creates_nothing_and_recovers_when_corrected() -> None:
    cluster = FakeCluster()
    cluster.apply(**samples.AGGREGATE)
    cluster.settle()
    assert cluster.children() == set()
    stalled = cluster.condition("Stalled")
    assert stalled.status == "True"
    assert "Aggregate" in stalled.message
    assert cluster.condition("Reconciling").status == "False"
    cluster.apply()
    cluster.settle()
    assert cluster.state == StreamState.RUNNING


@pytest.mark.proves(19)
def test_an_invalid_edit_does_not_disturb_the_running_stream(cluster: FakeCluster) -> None:
    before = cluster.children()
    cluster.apply(**samples.AGGREGATE)
    cluster.settle()
    assert cluster.children() == before
    assert len(cluster.drivers_started) == 1
    stalled, ready = cluster.condition("Stalled"), cluster.condition("Ready")
    assert (stalled.status, ready.status, cluster.state) == ("True", "True", "Running")
    assert "keeps running" in stalled.message
    assert ready.reason == "SpecNotApplied"  # which `kubectl get` shows beside True
    # So `kubectl wait --for=condition=Ready` does not take the bad edit for applied.
    assert ready.observed_generation < stalled.observed_generation
    for state in (QueryState.RESTARTING, QueryState.RUNNING):  # nor after a blip of what runs
        cluster.report(state=state)
        cluster.reconcile()
        ready = cluster.condition("Ready")
        assert ready.status == str(state is QueryState.RUNNING)
        assert ready.observed_generation < stalled.observed_generation
    cluster.apply()
    cluster.settle()
    assert cluster.condition("Ready").observed_generation > stalled.observed_generation
    assert cluster.condition("Ready").reason == "Running"
    assert cluster.state == StreamState.RUNNING
    assert len(cluster.drivers_started) == 1


def test_a_stream_that_forbids_the_cores_it_needs_starts_no_driver() -> None:
    """Its query would wait for cores forever, without an error."""
    cluster = FakeCluster()
    rate = {"source": {"rate": {"numPartitions": 3}}, "sink": {"console": {}}, "transform": {}}
    cluster.apply(**rate, executor={"maxInstances": 2})
    cluster.settle()
    assert cluster.children() == set()
    assert cluster.condition("Stalled").reason == "TooFewExecutorsAllowed"


def test_a_problem_that_the_schema_does_not_find_is_reported_with_its_field() -> None:
    cluster = FakeCluster()
    cluster.apply(trigger={"continuous": {"checkpointInterval": "soon"}})
    cluster.settle()
    assert cluster.condition("Stalled").reason == "InvalidSpec"
    assert "spec.trigger.continuous.checkpointInterval" in cluster.condition("Stalled").message


def test_a_permanent_failure_stalls_without_restarts_until_the_spec_changes(
    cluster: FakeCluster,
) -> None:
    cluster.report(state=QueryState.FAILED, last_failure=FAILURE)
    cluster.put_pod(
        samples.report(cluster.applied_hash, state=QueryState.FAILED, last_failure=FAILURE),
        conditions=[{"type": "Ready", "status": "False"}],
    )
    cluster.settle()
    assert cluster.state == StreamState.STALLED
    assert cluster.condition("Stalled").reason == "TopicMissing"
    assert cluster.condition("Ready").status == "False"
    assert len(cluster.drivers_started) == 1
    cluster.apply(executor={"cores": 2})
    cluster.settle()
    assert cluster.state == StreamState.RUNNING


def test_the_operator_replaces_a_broken_pod_that_the_stateful_set_keeps(
    cluster: FakeCluster,
) -> None:
    """It is the only pod that the operator deletes. The rollout replaces a ready one."""
    cluster.keeps_unready_pods = True
    cluster.put_pod(
        samples.report(cluster.applied_hash, state=QueryState.FAILED, last_failure=FAILURE),
        conditions=[{"type": "Ready", "status": "False"}],
    )
    cluster.settle()
    assert "delete Pod" not in cluster.api.writes
    cluster.apply(executor={"cores": 2})
    cluster.settle()
    assert cluster.state == StreamState.RUNNING
    assert cluster.api.writes.count("delete Pod") == 1
    cluster.apply(executor={"cores": 4})
    cluster.settle()
    assert cluster.state == StreamState.RUNNING
    assert cluster.api.writes.count("delete Pod") == 1


@pytest.mark.proves("failures.md#the-api-server-rejects-the-drivers-token")
def test_a_pod_whose_service_account_was_made_again_is_replaced_once(cluster: FakeCluster) -> None:
    """Its token is of the account that is gone."""
    account = cluster.api.one(kinds.SERVICE_ACCOUNT, "flags-driver")
    cluster.api.remove(account)
    cluster.clock.advance(11)
    assert cluster.reconcile() == ["apply ServiceAccount"]
    cluster.clock.advance(11)
    assert cluster.reconcile() == ["delete Pod", "event", "status"]
    ready = cluster.condition("Ready")
    assert (ready.status, ready.reason) == ("False", "ServiceAccountRecreated")
    assert cluster.api.events[-1]["reason"] == "ServiceAccountRecreated"
    cluster.settle()
    assert cluster.state == StreamState.RUNNING
    assert cluster.status.restarts == Restarts(total=1, pod=1)
    assert cluster.api.writes.count("delete Pod") == 1


def test_what_a_driver_does_without_is_a_warning_as_long_as_it_does() -> None:
    """A transaction that stays open in its source, for one: it is Ready, and has no lag."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    cluster.report(warning={"reason": "SourceHeldByTransaction", "message": "partition 0 of in"})
    cluster.settle()
    warning = cluster.condition("Warning")
    assert (warning.status, warning.reason) == ("True", "SourceHeldByTransaction")
    assert cluster.condition("Ready").status == "True"
    assert cluster.api.events[-1]["reason"] == "SourceHeldByTransaction"
    cluster.report(warning=None)
    cluster.settle()
    assert cluster.condition("Warning").status == "False"


@pytest.mark.parametrize(
    "refused",
    [
        samples.AGGREGATE,
        {"checkpoint": {"objectStore": {"location": "s3a://bucket/checkpoints"}}},
    ],
    ids=["invalid", "its checkpoint elsewhere"],
)
def test_a_pod_with_an_account_of_the_user_is_replaced_when_that_is_made_again(
    refused: dict[str, Any],
) -> None:
    cluster = FakeCluster()
    account: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "payments", "namespace": "default"},
    }
    made = cluster.api.put(account)
    cluster.apply(serviceAccountName="payments")
    cluster.settle()
    cluster.api.remove(made)
    cluster.clock.advance(60)  # no watch shows it
    cluster.settle()
    assert cluster.state == StreamState.RUNNING
    assert cluster.condition("Warning").reason == "ServiceAccountMissing"
    assert cluster.api.writes.count("delete Pod") == 0
    cluster.api.put(account)
    cluster.clock.advance(60)
    # Also while the newest spec is refused: the pod is made again from the last valid one.
    cluster.apply(serviceAccountName="payments", **refused)
    cluster.settle()
    assert cluster.state == StreamState.RUNNING
    assert "ServiceAccountRecreated" in [each["reason"] for each in cluster.api.events]
    assert cluster.condition("Warning").reason != "ServiceAccountMissing"
    assert len(cluster.drivers_started) == 2


def test_a_stream_runs_again_after_a_permanent_failure_is_resolved(cluster: FakeCluster) -> None:
    cluster.report(state=QueryState.FAILED, last_failure=FAILURE)
    cluster.settle()
    cluster.report(last_failure=FAILURE)
    cluster.settle()
    assert cluster.state == StreamState.RUNNING
    assert cluster.status.last_failure == FAILURE.model_copy(
        update={"revision": cluster.applied_hash}
    )


def test_a_missing_driver_is_reported_at_once(cluster: FakeCluster) -> None:
    pod = cluster.pod
    assert pod is not None
    cluster.api.remove(pod)
    cluster.reconcile()
    assert cluster.condition("Ready").status == "False"
    assert cluster.state == StreamState.RESTARTING
    cluster.settle()
    assert cluster.state == StreamState.RUNNING
    assert cluster.status.restarts is not None
    assert cluster.status.restarts.pod == 1
    assert cluster.status.last_failure is not None
    assert cluster.status.last_failure.reason == "DriverPodReplaced"


@pytest.mark.proves(8)
def test_a_lost_checkpoint_stalls_the_stream_instead_of_a_fresh_start(cluster: FakeCluster) -> None:
    cluster.api.remove(cluster.api.one(kinds.CLAIM, "flags-checkpoint"))
    cluster.settle()
    assert not cluster.api.has(kinds.CLAIM, "flags-checkpoint")
    assert cluster.condition("Stalled").reason == "CheckpointMissing"


@pytest.mark.parametrize(
    ("checkpoint", "begins"),
    [
        ({"generation": 1, "startFrom": {"offsetsByPartition": {"payments": {"0": 7}}}}, True),
        ({"generation": 1, "startFrom": {"generation": 0}}, False),
        ({"startFrom": {"offsets": "earliest"}}, False),
    ],
    ids=["begins anew", "begins where another has arrived", "is the lost one"],
)
def test_a_lost_checkpoint_does_not_hold_a_generation_that_does_not_need_it(
    checkpoint: dict[str, Any], begins: bool, cluster: FakeCluster
) -> None:
    cluster.api.remove(cluster.api.one(kinds.CLAIM, "flags-checkpoint"))
    cluster.settle()
    generation = {"checkpoint_generation": checkpoint.get("generation", 0)}
    cluster.fails_with[samples.desired(checkpoint=checkpoint).spec_hash] = generation
    cluster.apply(checkpoint=checkpoint)
    cluster.settle()
    assert cluster.api.has(kinds.CLAIM, "flags-checkpoint") is begins
    stalled = cluster.condition("Stalled")
    assert stalled.reason == ("NotStalled" if begins else "CheckpointMissing")


def test_so_it_is_with_another_source_than_kafka() -> None:
    """Whose generations begin where the source does, and take no startFrom."""
    cluster = FakeCluster()
    rate: dict[str, Any] = {
        "source": {"rate": {"rowsPerSecond": 1}},
        "transform": {"sql": "SELECT value FROM source"},
        "sink": {"noop": {}},
    }
    cluster.apply(**rate)
    cluster.settle()
    cluster.report(checkpoint_generation=0, epoch=9)
    cluster.settle()
    cluster.api.remove(cluster.api.one(kinds.CLAIM, "flags-checkpoint"))
    cluster.settle()
    assert cluster.condition("Stalled").reason == "CheckpointMissing"
    cluster.apply(**rate, checkpoint={"generation": 1})
    cluster.settle()
    assert cluster.condition("Stalled").reason == "NotStalled"


def test_a_changed_or_deleted_child_is_restored(cluster: FakeCluster) -> None:
    driver = cluster.api.one(kinds.STATEFUL_SET, "flags-driver")
    driver["spec"]["replicas"] = 2
    cluster.api.put(driver)
    cluster.api.remove(cluster.api.one(kinds.SERVICE_ACCOUNT, "flags-driver"))
    assert cluster.reconcile() == ["apply ServiceAccount", "apply StatefulSet"]
    assert cluster.api.one(kinds.STATEFUL_SET, "flags-driver")["spec"]["replicas"] == 1


def test_a_volume_that_cannot_grow_keeps_no_broken_pod(cluster: FakeCluster) -> None:
    """A larger volume is what the user tries first, and the wrong one of two edits."""
    cluster.keeps_unready_pods = True
    cluster.api.refuse = lambda manifest: (
        ApiError(403, "Forbidden", "no expansion")
        if manifest["kind"] == "PersistentVolumeClaim"
        else None
    )
    cluster.put_pod(
        samples.report(cluster.applied_hash, state=QueryState.FAILED, last_failure=FAILURE),
        conditions=[{"type": "Ready", "status": "False"}],
    )
    cluster.apply(**volume(size="2Gi"), executor={"cores": 2})
    cluster.settle()
    assert cluster.api.writes.count("delete Pod") == 1
    assert len(cluster.drivers_started) == 2
    assert len(cluster.api.of_kind(kinds.CONFIG_MAP)) == 1
    assert "no expansion" in cluster.condition("Stalled").message


def test_a_function_that_delays_records_causes_a_warning(cluster: FakeCluster) -> None:
    inline = """
from pyspark.sql.functions import udf

@udf("string")
def slow(value):
    return value

def clean(source):
    return source.select(slow("value").alias("value"))
"""
    cluster.apply(transform={"python": {"function": "mine:clean", "inline": inline}})
    cluster.settle()
    assert cluster.state == StreamState.RUNNING
    assert cluster.condition("Warning").status == "True"


def starting(offsets: str) -> dict[str, Any]:
    kafka = {**samples.stream()["spec"]["source"]["kafka"], "startingOffsets": offsets}
    return {"source": {"kafka": kafka}}


def test_an_edit_of_where_a_stream_starts_is_warned_of_once_it_has_commits(
    cluster: FakeCluster,
) -> None:
    cluster.apply(suspend=True)  # as someone does who wants to start over
    cluster.settle()
    cluster.apply(**starting("earliest"))
    for _ in range(2):
        cluster.settle()
        warning = cluster.condition("Warning")
        assert (warning.status, warning.reason) == ("True", "StartingOffsetsIgnored")
        assert "a checkpoint without commits" in warning.message
        assert "docs/how-to/rewind.md" in warning.message
        assert cluster.state == StreamState.RUNNING
    events = [each["reason"] for each in cluster.api.events]
    assert events.count("StartingOffsetsIgnored") == 1
    cluster.apply()
    cluster.settle()
    assert cluster.condition("Warning").status == "False"


def test_what_may_be_lost_is_the_reason_of_the_warning_before_what_is_ignored(
    cluster: FakeCluster,
) -> None:
    """An alert finds it by the reason."""
    cluster.apply(**starting("earliest"))
    cluster.settle()
    assert cluster.condition("Warning").reason == "StartingOffsetsIgnored"
    role = cluster.api.one(kinds.ROLE, "flags-driver")
    role["metadata"] |= {"deletionTimestamp": cluster.clock.text(), "finalizers": ["a/b"]}
    cluster.api.put(role)
    cluster.reconcile()
    warning = cluster.condition("Warning")
    assert warning.reason == "HeldByFinalizers"
    assert "docs/how-to/rewind.md" in warning.message


def test_an_edit_of_where_a_stream_starts_counts_before_its_first_commit() -> None:
    cluster = FakeCluster()
    cluster.apply()
    cluster.reconcile()
    cluster.apply(**starting("earliest"))
    cluster.settle()
    assert cluster.status.epoch is not None
    assert cluster.condition("Warning").status == "False"
    cluster.delete()  # and its claim stays
    cluster.settle()
    cluster.apply(**starting("latest"))
    cluster.settle()
    assert cluster.condition("Warning").reason == "StartingOffsetsIgnored"


_READ_FOR = {"WaitingForCores", "Completed", "Failed"}


@pytest.mark.parametrize("state", sorted(set(QueryState) - _READ_FOR))
def test_a_report_becomes_status_without_a_read(cluster: FakeCluster, state: QueryState) -> None:
    """And it is the status that a look at all objects gives. That a stream is stuck is looked at
    twice.
    """
    another = FakeCluster()
    another.apply()
    another.settle()
    for each in (cluster, another):
        each.reconcile()
        each.clock.advance(60)
        each.api.reads.clear()
        each.report(state=state, epoch=7, message="so")
    another.reconciler._known.clear()
    assert "status" in cluster.reconcile()
    assert cluster.api.reads == []
    another.reconcile()
    assert cluster.status == another.status


@pytest.mark.parametrize(
    "change",
    [
        {"query_restarts": 1},
        {"state": QueryState.COMPLETED},
        {"state": QueryState.WAITING_FOR_CORES},
    ],
)
def test_what_counts_and_what_is_not_watched_is_read(
    cluster: FakeCluster, change: dict[str, Any]
) -> None:
    """A restart that an older report would count twice, an end after which the driver is let go,
    and the executors that cores wait for.
    """
    cluster.reconcile()
    cluster.api.reads.clear()
    cluster.report(**change)
    cluster.reconcile()
    assert "list Pod" in cluster.api.reads


def test_numbers_alone_are_written_about_every_thirty_seconds(cluster: FakeCluster) -> None:
    cluster.clock.advance(60)
    cluster.report(epoch=10)
    assert cluster.reconcile() == ["status"]
    cluster.clock.advance(3)
    cluster.report(epoch=13)
    assert cluster.reconcile() == []
    cluster.clock.advance(27)
    assert cluster.reconcile() == ["status"]
    assert cluster.status.epoch == 13


def test_numbers_are_rarer_with_thousands_of_streams(cluster: FakeCluster) -> None:
    """With three thousand, every ninety seconds. What else changes is written at once.

    Streams that do not run write none, however many a tenant has.
    """
    for number in range(4999):
        other = samples.stored()
        ready = {"type": "Ready", "status": str(number < 2999)}
        other["metadata"] |= {"name": f"other-{number}", "uid": str(number)}
        cluster.cache.put({**other, "status": {"conditions": [ready]}})
    cluster.clock.advance(120)
    cluster.report(epoch=10)
    assert cluster.reconcile() == ["status"]
    cluster.clock.advance(60)
    cluster.report(epoch=70)
    assert cluster.reconcile() == []
    cluster.clock.advance(30)
    assert cluster.reconcile() == ["status"]
    assert cluster.status.epoch == 70
    cluster.clock.advance(1)
    cluster.report(epoch=71, state=QueryState.WAITING_FOR_CORES)
    assert cluster.reconcile() != []


def test_the_time_of_the_last_commit_outlives_the_driver(cluster: FakeCluster) -> None:
    """An alert needs it most while no driver runs. The interval comes from the spec."""
    labels = {"namespace": "default", "name": "flags"}
    value = cluster.metrics.registry.get_sample_value
    cluster.clock.advance(60)
    cluster.report(epoch=10, last_commit_time=cluster.clock())
    committed = cluster.clock().timestamp()
    cluster.reconcile()
    assert value("penstock_stream_last_commit_timestamp_seconds", labels) == committed
    cluster.clock.advance(60)
    cluster.report(epoch=None, last_commit_time=None)
    cluster.reconcile()
    assert value("penstock_stream_last_commit_timestamp_seconds", labels) == committed
    assert value("penstock_stream_commit_interval_seconds", labels) == 1


def test_the_metrics_of_a_deleted_stream_are_removed(cluster: FakeCluster) -> None:
    labels = {"namespace": "default", "name": "flags", "state": "Running"}
    assert cluster.metrics.registry.get_sample_value("penstock_stream_state", labels) == 1
    cluster.delete()
    cluster.settle()
    assert cluster.metrics.registry.get_sample_value("penstock_stream_state", labels) is None


def test_an_edit_during_a_reconcile_is_reconciled_again(cluster: FakeCluster) -> None:
    """The API server refuses the status of a stream that has changed since it was read."""
    edits = iter([True])

    def edit_once(_: str, manifest: dict[str, Any]) -> None:
        if manifest["kind"] == "StatefulSet" and next(edits, False):
            cluster.apply(driver={"resources": {"limits": {"memory": "2Gi"}}})

    cluster.api.listeners.append(edit_once)
    cluster.apply(executor={"cores": 2})
    cluster.reconcile()
    assert cluster.status.observed_generation == 1
    cluster.settle()
    assert cluster.status.observed_generation == 3
    assert cluster.state == StreamState.RUNNING
