"""The pod template from which Spark makes the executors' pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract import naming
from penstock.contract.pod_merge import merge_pod_template
from penstock.contract.secrets import secret_mounts, secret_volumes
from penstock.driver.environment import PodEnvironment


def executor_template(
    environment: PodEnvironment,
    pod_uid: str,
    stream: ContinuousStream,
    rpc_secret: str,
    *,
    keeps_state: bool,
) -> dict[str, Any]:
    """The pod template of executors: what Spark has no settings for, and the user's template.

    - The driver's pod is the owner, so that Kubernetes deletes the executors with it. Spark sets
      the owner itself if it has spark.kubernetes.driver.pod.name, but then it waits a second for
      this pod to be Ready before it requests executors (measured), and the pod is not Ready
      before they work.
    - The security contexts meet the restricted Pod Security Standard.
    - Spark uses a volume whose name starts with spark-local-dir- as local storage (Running Spark
      on Kubernetes, "Local Storage") and does not mount another one.
    """
    spec = stream.spec
    ours: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": environment.pod_name,
                    "uid": pod_uid,
                    "controller": True,
                }
            ]
        },
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "executor",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "readOnlyRootFilesystem": True,
                    },
                    "volumeMounts": [
                        {"name": "spark-local-dir-1", "mountPath": "/tmp"},  # noqa: S108
                        {"name": "work", "mountPath": naming.WORK_DIR},
                        {"name": "rpc", "mountPath": naming.RPC_DIR, "readOnly": True},
                        *secret_mounts(spec),
                    ],
                }
            ],
            "volumes": [
                {"name": "spark-local-dir-1", "emptyDir": {}},
                {"name": "work", "emptyDir": {}},
                {"name": "rpc", "secret": {"secretName": rpc_secret}},
                *secret_volumes(spec),
            ],
        },
    }
    if spec.image_pull_secrets:
        ours["spec"]["imagePullSecrets"] = [{"name": it.name} for it in spec.image_pull_secrets]
    if keeps_state and spec.checkpoint.object_store is None:
        _add_checkpoint(ours["spec"], stream.metadata.name, environment)
    return merge_pod_template(spec.executor.pod_template, ours)


def _add_checkpoint(pod: dict[str, Any], name: str, environment: PodEnvironment) -> None:
    """Mounts the checkpoint, because executors write the state of a query themselves.

    A volume that can be mounted on one node only (ReadWriteOnce) needs executors on the driver's.
    """
    claim = {"claimName": naming.checkpoint_claim_name(name)}
    pod["volumes"].append({"name": "checkpoint", "persistentVolumeClaim": claim})
    mount = {"name": "checkpoint", "mountPath": naming.CHECKPOINT_DIR}
    pod["containers"][0]["volumeMounts"].append(mount)
    pod["securityContext"]["fsGroupChangePolicy"] = "OnRootMismatch"
    if environment.fixed_user:
        pod["securityContext"]["fsGroup"] = naming.RUN_AS_USER
    if environment.shared_checkpoint:
        return
    driver = {"matchLabels": naming.stream_labels(name, naming.COMPONENT_DRIVER)}
    near_driver = [{"labelSelector": driver, "topologyKey": "kubernetes.io/hostname"}]
    pod["affinity"] = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near_driver}
    }


def write_executor_template(file: Path, template: dict[str, Any]) -> None:
    """Writes the template to a file, which Spark may just read."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".draft")
    draft.write_text(yaml.safe_dump(template))
    draft.rename(file)
