"""The objects of a stream: what they contain, and what they must not contain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock.api import group_version
from penstock.api.quantities import amount
from penstock.cluster.kinds import Manifest
from penstock.cluster.objects import Claim, Object
from penstock.contract import naming
from penstock.controller.children import checkpoint_claim, rbac_and_network, revision
from penstock.controller.children.stateful_set import driver_stateful_set
from penstock.driver.environment import pod_environment
from penstock.driver.kubernetes.followed_stream import StreamDocument
from testkit.controller import samples


def container() -> Manifest:
    found: Manifest = driver_stateful_set(samples.desired())["spec"]["template"]["spec"][
        "containers"
    ][0]
    return found


def test_the_config_map_holds_what_the_user_has_set_and_the_image() -> None:
    """And no default, which another version of the operator might have otherwise."""
    document = revision.config_map(samples.desired())["data"][naming.SPEC_FILE]
    mine = samples.stream()
    assert yaml.safe_load(document) == {**mine, "spec": {**mine["spec"], "image": samples.IMAGE}}
    assert StreamDocument(document).stream.spec.image == samples.IMAGE


def test_the_driver_has_a_token_whatever_its_service_account_says() -> None:
    """Without one it cannot start, and says no more than that a file is missing."""
    template = {"spec": {"automountServiceAccountToken": False}}
    desired = samples.desired(serviceAccountName="etl", driver={"podTemplate": template})
    spec = driver_stateful_set(desired)["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is True


def test_a_pod_never_reads_a_document_that_needs_another_pod() -> None:
    one, other = samples.desired(), samples.desired(executor={"cores": 2})
    assert one.spec_hash != other.spec_hash
    maps = [revision.config_map(each) for each in (one, other)]
    assert maps[0]["metadata"]["name"] != maps[1]["metadata"]["name"]


@pytest.mark.parametrize("volume", [{"size": "9Gi"}, {"reclaimPolicy": "Delete"}])
def test_a_change_of_the_volume_does_not_change_the_drivers_document(
    volume: dict[str, str],
) -> None:
    changed = samples.desired(checkpoint={"volume": volume})
    assert changed.document == samples.desired().document


def test_the_image_of_the_spec_overrides_the_operators() -> None:
    assert samples.desired(image="mine:1").image == "mine:1"
    assert samples.desired().image == samples.IMAGE


def test_annotation_variable_and_config_map_have_the_same_hash() -> None:
    desired = samples.desired()
    template = driver_stateful_set(desired)["spec"]["template"]
    env = {each["name"]: each.get("value") for each in container()["env"]}
    assert Object(template).annotations[naming.ANNOTATION_POD_HASH] == desired.pod_hash
    assert env[naming.ENV_POD_HASH] == desired.pod_hash
    volumes = template["spec"]["volumes"]
    (config,) = [each["configMap"]["name"] for each in volumes if "configMap" in each]
    assert config == revision.config_map(desired)["metadata"]["name"]


def test_the_pod_meets_the_restricted_security_standard() -> None:
    pod = driver_stateful_set(samples.desired())["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_users_are_the_clusters_choice_if_an_administrator_says_so() -> None:
    """Those of the image are in no namespace's range where each has its own, as in OpenShift."""
    free = replace(samples.desired(), settings=replace(samples.SETTINGS, fixed_user=False))
    context, usual = (
        driver_stateful_set(each)["spec"]["template"]["spec"]["securityContext"]
        for each in (free, samples.desired())
    )
    assert usual == {**context, "runAsUser": 185, "runAsGroup": 185, "fsGroup": 185}
    assert context["runAsNonRoot"] is True


def test_memory_has_a_limit_and_cpu_has_none_by_default() -> None:
    resources = container()["resources"]
    assert resources["requests"] == {"cpu": "500m", "memory": "1024Mi"}
    assert resources["limits"] == {"memory": "1024Mi"}


def test_the_driver_pod_gets_the_requests_and_limits_of_the_spec() -> None:
    """With a CPU limit, a driver fits into a namespace whose quota is on limits.cpu."""
    desired = samples.desired(
        driver={
            "resources": {
                "requests": {"cpu": 1, "memory": "1Gi"},
                "limits": {"cpu": "1500m", "memory": 2**31},
            }
        }
    )
    (made,) = driver_stateful_set(desired)["spec"]["template"]["spec"]["containers"]
    assert made["resources"] == {
        "requests": {"cpu": "1", "memory": "1024Mi"},
        "limits": {"cpu": "1500m", "memory": "2048Mi"},
    }


def test_a_broken_revision_can_be_replaced() -> None:
    """Under OrderedReady the StatefulSet controller would first wait until it is ready."""
    assert driver_stateful_set(samples.desired())["spec"]["podManagementPolicy"] == "Parallel"


@pytest.mark.parametrize("build", [
    rbac_and_network.service_account, rbac_and_network.role, rbac_and_network.role_binding,
    rbac_and_network.network_policy,
    revision.config_map, driver_stateful_set,
])  # fmt: skip
def test_the_objects_of_a_stream_are_deleted_with_it(build: Any) -> None:
    (owner,) = build(samples.desired())["metadata"]["ownerReferences"]
    assert owner["uid"] == "stream-1"
    assert owner["controller"] is True


@pytest.mark.parametrize(("policy", "owned"), [("Retain", False), ("Delete", True)])
def test_only_a_claim_under_delete_is_deleted_with_its_stream(policy: str, owned: bool) -> None:
    claim = checkpoint_claim.claim(
        samples.desired(checkpoint={"volume": {"reclaimPolicy": policy}})
    )
    assert ("ownerReferences" in claim["metadata"]) == owned


@pytest.mark.parametrize(
    ("found", "shared"),
    [
        (None, False),
        (Claim(checkpoint_claim.claim(samples.desired())), False),
        (Claim({"spec": {"accessModes": ["ReadWriteMany"]}}), True),
    ],
)
def test_the_driver_knows_whether_several_nodes_can_mount_its_volume(
    found: Claim | None, shared: bool
) -> None:
    """Only then may executors that write state run on other nodes than the driver's."""
    pod = driver_stateful_set(samples.desired(), found)["spec"]["template"]["spec"]
    environment = {
        each["name"]: each.get("value", "10.1.2.3") for each in pod["containers"][0]["env"]
    }
    made = pod_environment(environment, samples.desired().stream)
    assert made is not None
    assert made.shared_checkpoint is shared


@given(st.integers(1, 20), st.integers(1, 20), st.sampled_from([None, "fast", "slow"]))
def test_an_existing_claim_can_only_grow(asked: int, there: int, storage: str | None) -> None:
    """The rest of a claim is immutable. The API server would refuse any other value."""
    volume = {"size": f"{asked}Gi", "storageClassName": "asked"}
    found = {
        "spec": {
            "accessModes": ["ReadWriteOncePod"],
            "resources": {"requests": {"storage": f"{there}Gi"}},
            **({"storageClassName": storage} if storage else {}),
        }
    }
    claim = checkpoint_claim.claim(samples.desired(checkpoint={"volume": volume}))
    allowed = checkpoint_claim.claim_as_allowed(claim, Claim(found))["spec"]
    assert allowed["accessModes"] == ["ReadWriteOncePod"]
    assert allowed.get("storageClassName") == storage
    assert amount(allowed["resources"]["requests"]["storage"]) == max(asked, there) * 2**30


def test_a_new_claim_follows_the_spec() -> None:
    volume = {"size": "2Gi", "storageClassName": "fast"}
    claim = checkpoint_claim.claim(samples.desired(checkpoint={"volume": volume}))
    assert checkpoint_claim.claim_as_allowed(claim, None) == claim
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}},
        "storageClassName": "fast",
    }


def test_the_longest_name_fits_into_a_label() -> None:
    """controller-revision-hash, "<set>-<10 characters>", is a label of at most 63."""
    name = "s" * group_version.MAX_NAME
    assert len(f"{naming.driver_name(name)}-0123456789") <= 63


def in_store(**fields: Any) -> revision.Revision:
    return samples.desired(
        checkpoint={"objectStore": {"location": "s3a://bucket/prefix", **fields}}
    )


def test_the_pod_of_a_stream_in_an_object_store_has_no_volume_for_it() -> None:
    """And it knows its own UID, by which its driver takes its own lease over at once."""
    template = driver_stateful_set(in_store())["spec"]["template"]
    (made,) = template["spec"]["containers"]
    (uid,) = [each for each in made["env"] if each["name"] == naming.ENV_POD_UID]
    assert uid["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert all("persistentVolumeClaim" not in each for each in template["spec"]["volumes"])
    assert naming.CHECKPOINT_DIR not in [each["mountPath"] for each in made["volumeMounts"]]
    location = Object(template).annotations[naming.ANNOTATION_CHECKPOINT]
    assert location == "s3a://bucket/prefix/default/flags"


def test_the_keys_of_an_object_store_are_mounted_from_their_secrets() -> None:
    desired = in_store(
        accessKeyIdSecret={"name": "keys", "key": "id"},
        secretAccessKeySecret={"name": "more-keys", "key": "secret"},
    )
    pod = driver_stateful_set(desired)["spec"]["template"]["spec"]
    mounts = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    files = {
        f"{mounts[each['name']]}/{item['path']}"
        for each in pod["volumes"]
        if "secret" in each
        for item in each["secret"]["items"]
    }
    assert files == {
        f"{naming.SECRETS_DIR}/keys/id",
        f"{naming.SECRETS_DIR}/more-keys/secret",
    }


def test_the_pod_of_a_stream_on_a_volume_is_as_it_was() -> None:
    """An upgrade restarts nothing."""
    template = driver_stateful_set(samples.desired())["spec"]["template"]
    assert Object(template).annotations.keys() == {naming.ANNOTATION_POD_HASH}
    assert naming.ENV_POD_UID not in [each["name"] for each in container()["env"]]
