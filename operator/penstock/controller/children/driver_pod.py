"""Builder of the driver's pod. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.cluster.kinds import Manifest
from penstock.cluster.objects import Claim
from penstock.contract import naming, sizing
from penstock.contract.secrets import secret_mounts, secret_volumes
from penstock.controller.children.revision import Revision, labels

# Who runs the containers, and to which group volumes belong.
_USERS = ("runAsUser", "runAsGroup", "fsGroup")


def driver_pod(desired: Revision, claim: Claim | None) -> Manifest:
    """The pod without the user's template; `claim` is that of the checkpoint if it exists."""
    location = desired.checkpoint_location
    return {
        "metadata": {
            "labels": labels(desired),
            "annotations": {
                naming.ANNOTATION_POD_HASH: desired.pod_hash,
                **({naming.ANNOTATION_CHECKPOINT: location} if location else {}),
            },
        },
        "spec": _pod_spec(desired, claim),
    }


def _pod_spec(desired: Revision, claim: Claim | None) -> Manifest:
    spec = desired.stream.spec
    pull_secrets = [{"name": secret.name} for secret in spec.image_pull_secrets]
    return {
        **({"imagePullSecrets": pull_secrets} if pull_secrets else {}),
        "serviceAccountName": desired.service_account,
        # Also for an account that mounts none by default: the driver cannot start without it.
        "automountServiceAccountToken": True,
        # Spark or Kafka could mistake the variables of a service for their own.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": naming.GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            **(dict.fromkeys(_USERS, naming.RUN_AS_USER) if desired.settings.fixed_user else {}),
            # To walk through a large checkpoint would take longer than the rest of the start.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(desired, claim)],
        "volumes": [
            {
                "name": "spec",
                "configMap": {"name": naming.config_name(desired.name, desired.pod_hash)},
            },
            *_checkpoint_volumes(desired),
            {"name": "tmp", "emptyDir": {}},
            {"name": "work", "emptyDir": {}},
            *secret_volumes(spec),
            *_python_volumes(desired),
        ],
    }


def _checkpoint_volumes(desired: Revision) -> list[Manifest]:
    """None with an object store."""
    if desired.checkpoint_location:
        return []
    claim = {"claimName": naming.checkpoint_claim_name(desired.name)}
    return [{"name": "checkpoint", "persistentVolumeClaim": claim}]


def _checkpoint_mounts(desired: Revision) -> list[Manifest]:
    if desired.checkpoint_location:
        return []
    return [{"name": "checkpoint", "mountPath": naming.CHECKPOINT_DIR}]


def _python_volumes(desired: Revision) -> list[Manifest]:
    """The code of Python functions; optional, so the driver can report a missing one."""
    return [
        {
            "name": volume,
            "configMap": {
                "name": name,
                "optional": True,
                "items": [{"key": key, "path": key} for key in keys],
            },
        }
        for volume, name, keys in _python_texts(desired)
    ]


def _python_mounts(desired: Revision) -> list[Manifest]:
    return [
        {"name": volume, "mountPath": f"{naming.PYTHON_DIR}/{name}", "readOnly": True}
        for volume, name, _ in _python_texts(desired)
    ]


def _python_texts(desired: Revision) -> Iterator[tuple[str, str, list[str]]]:
    """A volume's name for each ConfigMap with Python, the ConfigMap's, and the keys in it."""
    refs = [it.config_map for it in desired.stream.spec.python_functions]
    names = dict.fromkeys(ref.name for ref in refs if ref is not None)
    for number, name in enumerate(names):
        keys = {ref.key for ref in refs if ref is not None and ref.name == name}
        yield f"python-{number}" if number else "python", name, sorted(keys)


def _container(desired: Revision, claim: Claim | None) -> Manifest:
    return {
        "name": naming.DRIVER_CONTAINER,
        "image": desired.image,
        "args": ["driver"],
        "env": [
            _from_field(naming.ENV_POD_NAME, "metadata.name"),
            _from_field(naming.ENV_POD_IP, "status.podIP"),
            {"name": naming.ENV_POD_HASH, "value": desired.pod_hash},
            *_pod_uid(desired),
            # Never of a claim of Penstock's own, which is ReadWriteOnce.
            *_flag(naming.ENV_SHARED_CHECKPOINT, claim is not None and claim.shared),
            *_flag(naming.ENV_ANY_USER, not desired.settings.fixed_user),
            *_stream_defaults(desired),
        ],
        "ports": [
            _port("probes", naming.PROBES_PORT),
            _port("metrics", naming.METRICS_PORT),
            _port("driver", naming.DRIVER_PORT),
            _port("blocks", naming.BLOCK_MANAGER_PORT),
        ],
        "resources": _resources(desired),
        # A JVM on a busy machine can take more than a minute to answer its first request.
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
            *_checkpoint_mounts(desired),
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod's own
            {"name": "work", "mountPath": naming.WORK_DIR},
            *secret_mounts(desired.stream.spec),
            *_python_mounts(desired),
        ],
    }


def _pod_uid(desired: Revision) -> list[dict[str, Any]]:
    """By which a driver knows whether the lease of an object store is that of its own pod."""
    is_needed = bool(desired.checkpoint_location)
    return [_from_field(naming.ENV_POD_UID, "metadata.uid")] if is_needed else []


def _flag(name: str, is_set: bool) -> list[dict[str, Any]]:
    return [{"name": name, "value": "true"}] if is_set else []


def _stream_defaults(desired: Revision) -> list[dict[str, Any]]:
    defaults = desired.settings.stream_defaults
    if not desired.checkpoint_location:
        # The driver's document, without live fields, does not say that the stream has a volume.
        defaults = defaults.with_object_store(None)
    if not defaults.spec:
        return []
    return [{"name": naming.ENV_STREAM_DEFAULTS, "value": defaults.as_json()}]


def _resources(desired: Revision) -> Manifest:
    spec = desired.stream.spec
    cpu, memory = sizing.driver_cpu(spec), sizing.driver_memory(spec)
    limits = {"memory": f"{memory.limit}Mi"}
    if cpu.limit is not None:
        limits["cpu"] = cpu.limit
    return {"requests": {"cpu": cpu.request, "memory": f"{memory.request}Mi"}, "limits": limits}


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": naming.PROBES_PORT},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": 5,
    }
