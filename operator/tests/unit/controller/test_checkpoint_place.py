"""A checkpoint in an object store: no claim, no volume, and it stays where it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.cluster import kinds
from penstock.contract import naming
from penstock.contract.stream_defaults import StreamDefaults
from penstock.driver.kubernetes.followed_stream import StreamDocument
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster

STORE = {"location": "s3a://bucket/prefix"}
KEYED = {
    **STORE,
    "accessKeyIdSecret": {"name": "keys", "key": "id"},
    "secretAccessKeySecret": {"name": "keys", "key": "secret"},
}
LOCATION = "s3a://bucket/prefix/default/flags"
CLAIM = naming.checkpoint_claim_name(samples.NAME)


def in_store(**store: Any) -> dict[str, Any]:
    return {"checkpoint": {"objectStore": store or STORE}}


def have(cluster: FakeCluster, **checkpoint: Any) -> None:
    """The operator is installed with other defaults for checkpoints."""
    defaults = StreamDefaults({"checkpoint": checkpoint} if checkpoint else {})
    cluster.settings = replace(samples.SETTINGS, stream_defaults=defaults)
    cluster.restart_operator()


def starting(offsets: str) -> dict[str, Any]:
    kafka = {**samples.stream()["spec"]["source"]["kafka"], "startingOffsets": offsets}
    return {"source": {"kafka": kafka}}


def next_pod(cluster: FakeCluster, **spec: Any) -> None:
    """An edit that replaces the pod, so that it gets the defaults of now."""
    cluster.apply(**spec, executor={"cores": 2})
    cluster.settle()


def place(cluster: FakeCluster) -> str:
    """Where the driver that runs has its checkpoint, as it reads that itself."""
    owner = cluster.api.one(kinds.STATEFUL_SET, naming.driver_name(cluster.key.name))
    (container,) = owner["spec"]["template"]["spec"]["containers"]
    variables = {it["name"]: it.get("value", "") for it in container["env"]}
    defaults = StreamDefaults.from_json(variables.get(naming.ENV_STREAM_DEFAULTS, ""))
    name = naming.config_name(cluster.key.name, variables[naming.ENV_POD_HASH])
    text = cluster.api.one(kinds.CONFIG_MAP, name)["data"][naming.SPEC_FILE]
    store = StreamDocument(text, defaults).stream.spec.checkpoint.object_store
    mounts = [it["name"] for it in container["volumeMounts"]]
    assert ("checkpoint" in mounts) is (store is None)
    return store.location if store else "volume"


@pytest.fixture
def cluster() -> FakeCluster:
    """With one running stream in an object store."""
    cluster = FakeCluster()
    cluster.apply(**in_store())
    cluster.settle()
    return cluster


@pytest.mark.proves(28)
def test_a_stream_in_an_object_store_has_no_claim(cluster: FakeCluster) -> None:
    assert cluster.state == "Running"
    assert not cluster.api.of_kind(kinds.CLAIM)
    assert place(cluster) == STORE["location"]
    assert cluster.status.effective is not None
    assert cluster.status.effective.checkpoint_location == LOCATION
    assert "claim" not in str([cluster.stream["status"], cluster.api.events]).lower()
    next_pod(cluster, **in_store())
    assert cluster.state == "Running"
    assert not cluster.api.of_kind(kinds.CLAIM)


@pytest.mark.parametrize("spec", [samples.AGGREGATE, {"colour": "blue"}])
def test_what_runs_is_assessed_while_an_edit_is_refused(
    cluster: FakeCluster, spec: dict[str, Any]
) -> None:
    """Also if it is not ready: no claim is missing."""
    cluster.apply(**in_store(), **spec)
    cluster.put_pod(conditions=[{"type": "Ready", "status": "False"}])
    cluster.reconcile()
    assert cluster.condition("Stalled").reason != "CheckpointMissing"
    assert cluster.condition("Ready").reason == "DriverNotReady"


def test_a_claim_of_its_name_is_nothing_to_it(cluster: FakeCluster) -> None:
    """An earlier stream's, or somebody else's; neither adopted, nor deleted, nor waited for."""
    before = cluster.api.put(
        {
            "apiVersion": "v1",
            "kind": kinds.CLAIM.kind,
            "metadata": {
                "name": CLAIM,
                "namespace": "default",
                "labels": {naming.LABEL_STREAM: samples.NAME},
                "deletionTimestamp": cluster.clock.text(),
            },
            "spec": {"resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        }
    )
    next_pod(cluster, **in_store())
    assert cluster.state == "Running"
    assert cluster.condition("Warning").status == "False"
    cluster.delete()
    cluster.settle()
    cluster.apply(**in_store())
    cluster.settle()
    assert cluster.state == "Running"
    assert place(cluster) == STORE["location"]
    assert cluster.api.one(kinds.CLAIM, CLAIM) == before


def test_an_edit_of_where_a_stream_starts_is_warned_of(cluster: FakeCluster) -> None:
    """Without a claim, the StatefulSet says where it began."""
    next_pod(cluster, **in_store(), **starting("earliest"))
    assert cluster.condition("Warning").reason == "StartingOffsetsIgnored"
    next_pod(cluster, **in_store())
    assert cluster.condition("Warning").status == "False"


def test_a_default_store_is_for_the_streams_that_name_no_place() -> None:
    for own, wanted in (
        ({}, STORE["location"]),
        (in_store(location="s3a://own"), "s3a://own"),
        ({"checkpoint": {"volume": {}}}, "volume"),
    ):
        cluster = FakeCluster()
        have(cluster, objectStore=KEYED)
        cluster.apply(**own)
        cluster.settle()
        assert place(cluster) == wanted
        assert bool(cluster.api.of_kind(kinds.CLAIM)) is (wanted == "volume")


def test_a_default_volume_is_none_of_a_stream_in_an_object_store(cluster: FakeCluster) -> None:
    have(cluster, volume={"size": "2Gi"})
    next_pod(cluster, **in_store())
    assert place(cluster) == STORE["location"]


def test_an_own_store_takes_nothing_of_the_default_one() -> None:
    """Its credentials would go to another store."""
    defaults = StreamDefaults({"checkpoint": {"objectStore": KEYED, "generation": 1}})
    own = {"objectStore": {"location": "s3a://own"}}
    under = defaults.under({"spec": {"checkpoint": own}})["spec"]["checkpoint"]
    assert under == {"objectStore": {"location": "s3a://own"}, "generation": 1}


@pytest.mark.proves(8)
@pytest.mark.parametrize("loses_status", [False, True])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"objectStore": STORE}),
        ({"objectStore": KEYED}, {}),
        ({"objectStore": KEYED}, {"objectStore": {"location": "s3a://other"}}),
        ({"objectStore": KEYED}, {"volume": {"storageClassName": "fast"}}),
        ({"volume": {"storageClassName": "fast"}}, {"objectStore": STORE}),
    ],
    ids=["store added", "store removed", "another store", "store to volume", "volume to store"],
)
def test_a_stream_stays_where_its_checkpoint_is_whatever_the_defaults_are(
    before: dict[str, Any], after: dict[str, Any], loses_status: bool
) -> None:
    """Its next pod has the place of the first, and nothing restarts until then."""
    cluster = FakeCluster()
    have(cluster, **before)
    cluster.apply()
    cluster.settle()
    first, pod = place(cluster), cluster.pod
    have(cluster, **after)
    if loses_status:
        stream = cluster.stream
        del stream["status"]
        cluster.api.put(stream)
    cluster.settle()
    assert pod is not None
    assert cluster.pod is not None
    assert cluster.pod["metadata"]["uid"] == pod["metadata"]["uid"]
    next_pod(cluster)
    assert cluster.pod["metadata"]["uid"] != pod["metadata"]["uid"]
    assert cluster.state == "Running"
    assert place(cluster) == first


def test_other_keys_of_the_default_store_come_with_the_next_pod() -> None:
    """They restart nothing before."""
    cluster = FakeCluster()
    have(cluster, objectStore=STORE)
    cluster.apply()
    cluster.settle()
    pod_hash = cluster.pod_hash
    have(cluster, objectStore=KEYED)
    cluster.settle()
    assert cluster.pod_hash == pod_hash
    next_pod(cluster)
    assert cluster.pod is not None
    names = [it.get("secret", {}).get("secretName") for it in cluster.pod["spec"]["volumes"]]
    assert "keys" in names


def test_a_retained_volume_is_continued_under_a_default_store() -> None:
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    cluster.delete()
    cluster.settle()
    have(cluster, objectStore=STORE)
    cluster.apply()
    cluster.settle()
    assert place(cluster) == "volume"
    assert "CheckpointFound" in [each["reason"] for each in cluster.api.events]


@pytest.mark.proves(8)
@pytest.mark.parametrize(
    ("defaults", "before", "after", "at", "to"),
    [
        ({"objectStore": STORE}, {}, {"checkpoint": {"volume": {}}}, LOCATION, "on a volume"),
        ({}, {}, in_store(), "on a volume", LOCATION),
        ({}, in_store(), {}, LOCATION, "on a volume"),
    ],
    ids=["volume added", "store added", "store removed"],
)
def test_a_spec_that_moves_the_checkpoint_is_refused(
    defaults: dict[str, Any], before: dict[str, Any], after: dict[str, Any], at: str, to: str
) -> None:
    """By the operator, where the API server cannot know it, or has an older CRD."""
    cluster = FakeCluster()
    have(cluster, **defaults)
    cluster.apply(**before)
    cluster.settle()
    next_pod(cluster, **after)
    stalled = cluster.condition("Stalled")
    assert (stalled.status, stalled.reason) == ("True", "CheckpointElsewhere")
    assert stalled.message.index(at) < stalled.message.index(to)
    assert cluster.condition("Ready").status == "True"
    cluster.apply(**before)
    cluster.settle()
    assert cluster.condition("Stalled").status == "False"
