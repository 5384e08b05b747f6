"""What the pods get from the spec: the user's template, Secrets, account and Python code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.cluster.kinds import Manifest
from penstock.contract import naming
from penstock.contract.pod_merge import merge_pod_template
from penstock.controller.children import rbac_and_network
from penstock.controller.children.stateful_set import driver_stateful_set
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster

SECURED: dict[str, Any] = {
    "kafka": {
        "bootstrapServers": "kafka:9093",
        "topics": ["in"],
        "tls": {
            "caSecret": {"name": "kafka.ca", "key": "ca.crt"},
            "clientSecret": {"name": "client"},
        },
        "sasl": {
            "mechanism": "SCRAM-SHA-512",
            "username": "fraud",
            "passwordSecret": {"name": "client", "key": "password"},
        },
        "secretOptions": {"kafka.client.rack": {"name": "other", "key": "rack"}},
    }
}


def template(**spec: Any) -> Manifest:
    made: Manifest = driver_stateful_set(samples.desired(**spec))["spec"]["template"]
    return made


def driver(**spec: Any) -> Manifest:
    (container,) = (
        each
        for each in template(**spec)["spec"]["containers"]
        if each["name"] == naming.DRIVER_CONTAINER
    )
    found: Manifest = container
    return found


def test_the_users_template_adds_fields_and_penstock_overrides_them() -> None:
    mine = {
        "metadata": {
            "labels": {"team": "fraud", naming.LABEL_STREAM: "another"},
            "annotations": {"a": "b", naming.ANNOTATION_POD_HASH: "forged"},
            "ownerReferences": [{"uid": "forged"}],
        },
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"operator": "Exists"}],
            "priorityClassName": "high",
            "serviceAccountName": "forged",
            "securityContext": {"runAsNonRoot": False, "supplementalGroups": [7]},
            "containers": [
                {
                    "name": naming.DRIVER_CONTAINER,
                    "image": "forged",
                    "env": [{"name": "A", "value": "b"}, {"name": naming.ENV_POD_IP, "value": "x"}],
                    "livenessProbe": {"exec": {"command": ["true"]}},
                    "volumeMounts": [
                        {"name": "data", "mountPath": "/data"},
                        {"name": "x", "mountPath": naming.CHECKPOINT_DIR, "subPath": "other"},
                    ],
                    "securityContext": {"readOnlyRootFilesystem": False},
                },
                {"name": "sidecar", "image": "sidecar:1"},
            ],
            "volumes": [
                {"name": "data", "emptyDir": {}},
                {"name": "checkpoint", "emptyDir": {}},
            ],
        },
    }
    # Validation refuses most of this before. The merge does not depend on that.
    pod = merge_pod_template(mine, template())
    meta, spec = pod["metadata"], pod["spec"]
    assert meta["labels"]["team"] == "fraud"
    assert meta["labels"][naming.LABEL_STREAM] == samples.NAME
    assert meta["annotations"]["a"] == "b"
    assert meta["annotations"][naming.ANNOTATION_POD_HASH] != "forged"
    assert "ownerReferences" not in meta
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["priorityClassName"] == "high"
    assert spec["serviceAccountName"] == naming.driver_name(samples.NAME)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["supplementalGroups"] == [7]
    container = spec["containers"][0]
    assert [each["name"] for each in spec["containers"]] == [naming.DRIVER_CONTAINER, "sidecar"]
    assert container["image"] == samples.IMAGE
    env = {each["name"]: each for each in container["env"]}
    assert env["A"]["value"] == "b"
    assert env[naming.ENV_POD_IP]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    # What both name is taken as a whole: with two sources the API server would refuse the pod.
    assert "value" not in env[naming.ENV_POD_IP]
    assert "exec" not in container["livenessProbe"]
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    assert mounts["/data"]["name"] == "data"
    assert mounts[naming.CHECKPOINT_DIR] == {
        "name": "checkpoint", "mountPath": naming.CHECKPOINT_DIR,
    }  # fmt: skip
    (checkpoint,) = [each for each in spec["volumes"] if each["name"] == "checkpoint"]
    assert "emptyDir" not in checkpoint
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_template_of_the_spec_is_used() -> None:
    mine = {"spec": {"nodeSelector": {"disk": "ssd"}}}
    assert template(driver={"podTemplate": mine})["spec"]["nodeSelector"] == {"disk": "ssd"}


def test_no_template_changes_nothing() -> None:
    ours = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "driver"}]}}
    assert merge_pod_template({}, ours) == ours


def test_secrets_are_mounted_with_the_keys_that_are_used() -> None:
    volumes = [each for each in template(source=SECURED)["spec"]["volumes"] if "secret" in each]
    items = {
        each["secret"]["secretName"]: [item["key"] for item in each["secret"]["items"]]
        for each in volumes
    }
    assert items == {
        "client": ["password", "tls.crt", "tls.key"],
        "kafka.ca": ["ca.crt"],
        "other": ["rack"],
    }
    # Optional, so the driver can report a missing Secret in the status.
    assert all(each["secret"]["optional"] for each in volumes)
    mounts = {each["name"]: each for each in driver(source=SECURED)["volumeMounts"]}
    for volume in volumes:
        mount = mounts[volume["name"]]
        assert mount["mountPath"] == f"{naming.SECRETS_DIR}/{volume['secret']['secretName']}"
        assert mount["readOnly"] is True


def test_a_secret_of_strimzi_is_mounted_with_its_own_keys() -> None:
    own = {"name": "user", "certKey": "user.crt", "keyKey": "user.key"}
    source = {"kafka": {**SECURED["kafka"], "tls": {"clientSecret": own}}}
    (volume,) = (
        each
        for each in template(source=source)["spec"]["volumes"]
        if each.get("secret", {}).get("secretName") == "user"
    )
    assert [it["key"] for it in volume["secret"]["items"]] == ["user.crt", "user.key"]


def test_no_environment_holds_a_secret() -> None:
    assert "secretKeyRef" not in json.dumps(template(source=SECURED))


def test_the_users_service_account_is_used() -> None:
    desired = samples.desired(serviceAccountName="mine")
    assert rbac_and_network.service_account(desired) is None
    assert rbac_and_network.role_binding(desired)["subjects"][0]["name"] == "mine"
    assert template(serviceAccountName="mine")["spec"]["serviceAccountName"] == "mine"
    cluster = FakeCluster()
    cluster.apply(serviceAccountName="mine")
    cluster.settle()
    assert not [each for each in cluster.children() if each.startswith("ServiceAccount ")]


def test_the_code_of_a_python_transform_is_mounted() -> None:
    ref = {"name": "code", "key": "clean.py"}
    transform = {"python": {"function": "clean:clean", "configMap": ref}}
    pod = template(transform=transform)
    (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == "python"]
    assert volume["configMap"]["name"] == "code"
    (mount,) = [
        each for each in driver(transform=transform)["volumeMounts"] if each["name"] == "python"
    ]
    assert mount["mountPath"] == f"{naming.PYTHON_DIR}/code"
    assert not [each for each in template()["spec"]["volumes"] if each["name"] == "python"]


@pytest.mark.parametrize("names", [["registry"], ["a", "b"]])
def test_image_pull_secrets_are_copied_to_the_pod(names: list[str]) -> None:
    secrets = [{"name": name} for name in names]
    assert template(imagePullSecrets=secrets)["spec"]["imagePullSecrets"] == secrets
    assert "imagePullSecrets" not in template()["spec"]
