"""Builder of the driver's StatefulSet. Pure."""

from __future__ import annotations

from typing import Any

from penstock.api.quantities import mebibytes
from penstock.contract import naming
from penstock.contract.pod_merge import laid_under
from penstock.contract.secrets import secret_mounts, secret_volumes
from penstock.controller import objects
from penstock.controller.children.desired_stream import Wanted
from penstock.controller.children.metadata import metadata
from penstock.controller.objects import Manifest

# Long enough to stop a query cleanly: commit the epoch, let the executors go.
_GRACE_SECONDS = 60


def driver_set(wanted: Wanted) -> Manifest:
    """At most one driver for a checkpoint, also across the loss of a node.

    Parallel, because under OrderedReady the StatefulSet controller waits for a broken pod to get
    ready before it replaces it with a corrected one, which is for ever.
    """
    name = naming.driver_name(wanted.name)
    return {
        "apiVersion": objects.STATEFUL_SET.api_version,
        "kind": objects.STATEFUL_SET.kind,
        "metadata": metadata(wanted, name),
        "spec": {
            "replicas": 1,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": _labels(wanted)},
            "template": laid_under(wanted.stream.spec.driver.pod_template, _pod(wanted)),
        },
    }


def _pod(wanted: Wanted) -> Manifest:
    return {
        "metadata": {
            "labels": _labels(wanted),
            "annotations": {naming.ANNOTATION_SPEC_HASH: wanted.spec_hash},
        },
        "spec": _pod_spec(wanted),
    }


def _labels(wanted: Wanted) -> dict[str, str]:
    return naming.stream_labels(wanted.name, naming.COMPONENT_DRIVER)


def _pod_spec(wanted: Wanted) -> Manifest:
    spec = wanted.stream.spec
    pull_secrets = [{"name": each.name} for each in spec.image_pull_secrets]
    return {
        **({"imagePullSecrets": pull_secrets} if pull_secrets else {}),
        "serviceAccountName": wanted.account,
        # A service's variables in the environment could be taken for Spark's or Kafka's own.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": naming.RUN_AS_USER,
            "runAsGroup": naming.RUN_AS_USER,
            "fsGroup": naming.RUN_AS_USER,
            # Walking a large checkpoint at each start would take longer than the start.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(wanted)],
        "volumes": [
            {
                "name": "spec",
                "configMap": {"name": naming.config_name(wanted.name, wanted.spec_hash)},
            },
            {
                "name": "checkpoint",
                "persistentVolumeClaim": {"claimName": naming.checkpoint_claim_name(wanted.name)},
            },
            {"name": "tmp", "emptyDir": {}},
            {"name": "work", "emptyDir": {}},
            *secret_volumes(spec),
            *_python_volumes(wanted),
        ],
    }


def _python_volumes(wanted: Wanted) -> list[Manifest]:
    """The text of a Python transform; the driver says so if it is not there."""
    python = wanted.stream.spec.transform.python
    if python is None or python.config_map is None:
        return []
    ref = python.config_map
    items = [{"key": ref.key, "path": ref.key}]
    config_map = {"name": ref.name, "optional": True, "items": items}
    return [{"name": "python", "configMap": config_map}]


def _python_mounts(wanted: Wanted) -> list[Manifest]:
    python = wanted.stream.spec.transform.python
    if python is None or python.config_map is None:
        return []
    path = f"{naming.PYTHON_DIR}/{python.config_map.name}"
    return [{"name": "python", "mountPath": path, "readOnly": True}]


def _container(wanted: Wanted) -> Manifest:
    driver = wanted.stream.spec.driver
    memory = f"{mebibytes(driver.memory) + mebibytes(driver.memory_overhead)}Mi"
    return {
        "name": naming.DRIVER_CONTAINER,
        "image": wanted.image,
        "args": ["driver"],
        "env": [
            _from_field(naming.ENV_POD_NAME, "metadata.name"),
            _from_field(naming.ENV_POD_IP, "status.podIP"),
            {"name": naming.ENV_SPEC_HASH, "value": wanted.spec_hash},
        ],
        "ports": [
            _port("http", naming.HTTP_PORT),
            _port("driver", naming.DRIVER_PORT),
            _port("blocks", naming.BLOCK_MANAGER_PORT),
        ],
        "resources": {
            "requests": {"cpu": driver.core_request, "memory": memory},
            "limits": {"memory": memory},
        },
        # A JVM on a busy machine takes a minute and more to answer its first request.
        "startupProbe": _probe("/livez", period=3, failures=100),
        "livenessProbe": _probe("/livez", period=10, failures=6),
        "readinessProbe": _probe("/readyz", period=2, failures=2),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "spec", "mountPath": naming.SPEC_DIR, "readOnly": True},
            {"name": "checkpoint", "mountPath": naming.CHECKPOINT_DIR},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod's own
            {"name": "work", "mountPath": naming.WORK_DIR},
            *secret_mounts(wanted.stream.spec),
            *_python_mounts(wanted),
        ],
    }


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": naming.HTTP_PORT},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": 5,
    }
