"""What a stream owns, what it must not touch, when its checkpoint counts as lost, and who acts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.api.v1alpha1.status import StreamState
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.objects import Object
from penstock.cluster.rest_api import ApiError
from penstock.contract import naming
from testkit.controller import samples
from testkit.controller.fake_cluster import KEY, FakeCluster

CLAIM = f"PersistentVolumeClaim {samples.NAME}-checkpoint"


@pytest.fixture
def cluster() -> FakeCluster:
    """A cluster with one running stream, whose volume would be deleted with it."""
    cluster = FakeCluster()
    cluster.apply(**volume(reclaimPolicy="Delete"))
    cluster.settle()
    return cluster


def volume(**fields: Any) -> dict[str, Any]:
    return {"checkpoint": {"volume": fields}}


def foreign(kind: kinds.Kind, name: str) -> Manifest:
    """An object of somebody else."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "other"}},
        "spec": {"resources": {"requests": {"storage": "5Gi"}}},
    }


@pytest.mark.proves(30)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kinds.CLAIM, "flags-checkpoint"),
        (kinds.SERVICE_ACCOUNT, "flags-driver"),
        (kinds.ROLE_BINDING, "flags-driver"),
        (kinds.STATEFUL_SET, "flags-driver"),
    ],
)
def test_an_object_of_somebody_else_is_a_condition_and_is_not_touched(
    kind: kinds.Kind, name: str
) -> None:
    cluster = FakeCluster()
    before = cluster.api.put(foreign(kind, name))
    cluster.apply(**volume(reclaimPolicy="Delete"))
    cluster.settle()
    stalled = cluster.condition("Stalled")
    assert (stalled.status, stalled.reason) == ("True", "ForeignObject")
    assert f"{kind.kind} {name}" in stalled.message
    assert cluster.api.one(kind, name) == before
    assert cluster.state == StreamState.STALLED
    cluster.delete()
    cluster.settle()
    assert cluster.children() == {f"{kind.kind} {name}"}
    cluster.api.remove(cluster.api.one(kind, name))
    cluster.apply()
    cluster.settle()
    assert cluster.state == StreamState.RUNNING


def test_an_invalid_spec_says_nothing_about_the_driver_of_somebody_else() -> None:
    """No earlier spec of this stream is applied."""
    cluster = FakeCluster()
    cluster.api.put(foreign(kinds.STATEFUL_SET, "flags-driver"))
    cluster.apply(**samples.AGGREGATE)
    cluster.settle()
    stalled = cluster.condition("Stalled")
    assert (stalled.status, stalled.reason) == ("True", "UnsupportedOperation")
    assert "The last valid spec" not in stalled.message


@pytest.mark.proves(30)
def test_a_config_map_of_somebody_else_is_not_touched() -> None:
    """It has no label, so the operator does not see it before it writes."""
    cluster = FakeCluster()
    name = naming.config_name(samples.NAME, samples.desired().pod_hash)
    before = cluster.api.put(foreign(kinds.CONFIG_MAP, name))
    cluster.apply()
    cluster.settle()
    assert cluster.condition("Stalled").reason == "ForeignObject"
    assert cluster.api.one(kinds.CONFIG_MAP, name) == before


def test_the_spec_may_ask_for_a_claim_of_somebody_else() -> None:
    """Such as one that was restored from a snapshot."""
    cluster = FakeCluster()
    before = cluster.api.put(foreign(kinds.CLAIM, "flags-checkpoint"))
    cluster.apply(**volume(size="5Gi"))
    cluster.settle()
    assert "spec.checkpoint.volume.adopt" in cluster.condition("Stalled").message
    cluster.apply(**volume(size="5Gi", adopt=True))
    cluster.settle()
    assert cluster.state == StreamState.RUNNING
    claim = cluster.api.one(kinds.CLAIM, "flags-checkpoint")
    assert claim["metadata"]["uid"] == before["metadata"]["uid"]
    assert claim["metadata"]["labels"]["app"] == "other"


@pytest.mark.proves(9)
@pytest.mark.parametrize(
    "spec",
    [
        samples.AGGREGATE,
        {**samples.AGGREGATE, **volume(reclaimPolicy="Retain")},
        {"colour": "blue", **volume(reclaimPolicy="Retain", size="much")},
    ],
    ids=["default", "unsupported", "unreadable"],
)
def test_retain_is_honoured_in_an_invalid_edit(cluster: FakeCluster, spec: dict[str, Any]) -> None:
    cluster.apply(**spec)
    cluster.settle()
    assert cluster.condition("Stalled").status == "True"
    cluster.delete()
    cluster.settle()
    assert cluster.children() == {CLAIM}


def test_delete_in_an_invalid_edit_takes_no_effect_yet() -> None:
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    cluster.apply(**samples.AGGREGATE, **volume(reclaimPolicy="Delete"))
    cluster.settle()
    cluster.delete()
    cluster.settle()
    assert cluster.children() == {CLAIM}


def test_retain_is_honoured_although_everything_else_is_refused(cluster: FakeCluster) -> None:
    """Also for a stream that is being deleted already."""
    cluster.api.refuse = lambda each: (
        None
        if each["kind"] in (kinds.CLAIM.kind, kinds.STREAM.kind)
        else ApiError(403, "Forbidden", "exceeded quota")
    )
    cluster.apply(**volume(reclaimPolicy="Retain"), executor={"cores": 2})
    cluster.reconcile()
    assert not Object(cluster.api.one(kinds.CLAIM, "flags-checkpoint")).owners


def test_retain_is_honoured_in_the_foreground_deletion_of_a_stream(cluster: FakeCluster) -> None:
    cluster.apply(**volume(reclaimPolicy="Retain"))
    stream = cluster.stream
    stream["metadata"]["deletionTimestamp"] = cluster.clock.text()
    cluster.api.put(stream)
    cluster.reconcile()
    cluster.delete()
    cluster.settle()
    assert cluster.children() == {CLAIM}


@pytest.mark.proves(8)
@pytest.mark.parametrize("lost", ["the claim", "the claim and the status"])
def test_a_lost_checkpoint_never_leads_to_a_fresh_start(cluster: FakeCluster, lost: str) -> None:
    """An existing StatefulSet is evidence enough: its claim was created before it."""
    cluster.api.remove(cluster.api.one(kinds.CLAIM, "flags-checkpoint"))
    if "status" in lost:
        stream = cluster.stream
        del stream["status"]
        cluster.api.put(stream)
    pod = cluster.pod
    assert pod is not None
    cluster.api.remove(pod)
    cluster.settle()
    assert not cluster.api.has(kinds.CLAIM, "flags-checkpoint")
    assert cluster.condition("Stalled").reason == "CheckpointMissing"
    assert cluster.state == StreamState.STALLED


def test_a_claim_that_is_being_deleted_is_a_warning_while_the_stream_runs(
    cluster: FakeCluster,
) -> None:
    claim = cluster.api.one(kinds.CLAIM, "flags-checkpoint")
    claim["metadata"]["deletionTimestamp"] = cluster.clock.text()
    cluster.api.put(claim)
    cluster.settle()
    assert cluster.condition("Warning").reason == "CheckpointTerminating"
    assert cluster.condition("Ready").status == "True"
    assert "CheckpointTerminating" in [each["reason"] for each in cluster.api.events]


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
def test_a_stream_that_replaces_another_gets_nothing_of_its_record(
    cluster: FakeCluster, policy: str
) -> None:
    """As with `kubectl replace --force`, before anybody has looked: the same edit fails again.

    The fake API server takes no object with an owner that does not exist, for it would be deleted.
    """
    before = volume(reclaimPolicy=policy)
    edit = {**before, "executor": {"cores": 2}}
    cluster.breaks_with_cores = 2
    cluster.apply(**before)
    cluster.settle()
    for _ in range(2):
        cluster.apply(**edit)
        cluster.settle()
        assert cluster.condition("Stalled").reason == "RolledBack"
        claim = cluster.api.one(kinds.CLAIM, "flags-checkpoint")
        assert cluster.state == StreamState.RUNNING
        cluster.delete()
        cluster.apply(**before)
        cluster.settle()
        kept = cluster.api.one(kinds.CLAIM, "flags-checkpoint")["metadata"]["uid"]
        assert (kept == claim["metadata"]["uid"]) is (policy == "Retain")


def cluster_of(class_name: str) -> FakeCluster:
    """A cluster whose operator has this class."""
    cluster = FakeCluster()
    cluster.settings = replace(samples.SETTINGS, class_name=class_name)
    cluster.restart_operator()
    return cluster


@pytest.mark.parametrize(
    ("operator", "stream", "acts"),
    [
        ("", {}, True),
        ("blue", {"className": "blue"}, True),
        ("", {"className": "blue"}, False),
        ("blue", {}, False),
        ("blue", {"className": "green"}, False),
    ],
)
def test_only_the_operator_of_its_class_acts_on_a_stream(
    operator: str, stream: dict[str, str], acts: bool
) -> None:
    cluster = cluster_of(operator)
    cluster.apply(**stream)
    cluster.settle()
    assert bool(cluster.api.writes) is acts
    assert (KEY in cluster.metrics._streams.shown) is acts


@pytest.mark.parametrize("class_name", [None, "blue"])
def test_every_object_has_the_class_of_its_stream(class_name: str | None) -> None:
    """So the operators of other classes need not watch it. Executors have it from the driver."""
    cluster = cluster_of(class_name or "")
    cluster.apply(**({"className": class_name} if class_name else {}))
    cluster.settle()
    classes = {
        each["kind"]: Object(each).labels.get(naming.LABEL_CLASS)
        for kind in kinds.CHILDREN
        for each in cluster.api.of_kind(kind)
    }
    assert classes == {kind.kind: class_name for kind in kinds.CHILDREN}


def test_a_stream_applied_again_with_another_class_is_forgotten() -> None:
    cluster = cluster_of("")
    cluster.apply()
    cluster.settle()
    cluster.delete()
    cluster.apply(className="blue")
    assert cluster.reconcile() == []
    assert KEY not in cluster.metrics._streams.shown


def test_a_retained_checkpoint_gets_the_class_of_its_new_stream() -> None:
    """The stream continues under an operator of another class."""
    cluster = cluster_of("blue")
    cluster.apply(className="blue")
    cluster.settle()
    before = cluster.api.one(kinds.CLAIM, naming.checkpoint_claim_name(samples.NAME))
    cluster.delete()
    cluster.settle()
    cluster.settings = samples.SETTINGS
    cluster.restart_operator()
    cluster.apply()
    cluster.settle()
    after = cluster.api.one(kinds.CLAIM, naming.checkpoint_claim_name(samples.NAME))
    assert Object(after).uid == Object(before).uid
    assert Object(before).labels[naming.LABEL_CLASS] == "blue"
    assert naming.LABEL_CLASS not in Object(after).labels
