"""Builder of the driver's StatefulSet, and of what ties its pod to it. Pure."""

from __future__ import annotations

from typing import Any

from penstock.api import group_version
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.objects import Claim, StatefulSet
from penstock.contract import naming, sizing
from penstock.contract.pod_merge import merge_pod_template
from penstock.contract.secrets import secret_mounts, secret_volumes
from penstock.controller.children.checkpoint_claim import first_start
from penstock.controller.children.diff import content_hash
from penstock.controller.children.revision import Revision, labels, metadata

# The hash of the pod template as an operator has built it. The server adds defaults to it.
_ANNOTATION_TEMPLATE = f"{group_version.GROUP}/template"
# Who runs the containers, and to which group volumes belong.
_USERS = ("runAsUser", "runAsGroup", "fsGroup")


def driver_stateful_set(
    desired: Revision, claim: Claim | None = None, *, has_finished: bool = False
) -> Manifest:
    """The StatefulSet that runs at most one driver, even if a node is lost; none if it is
    suspended, or if its query `has_finished` and the driver is not to stay.

    `claim` is the claim of the checkpoint if it exists.

    Under the policy OrderedReady the StatefulSet controller would wait for a broken pod to become
    ready before it replaces it, which is forever. Hence Parallel.
    """
    name = naming.driver_name(desired.name)
    spec = desired.stream.spec
    template = merge_pod_template(spec.driver.pod_template, _pod(desired, claim))
    annotations = {_ANNOTATION_TEMPLATE: content_hash(template)[:16]}
    if has_finished and not spec.suspend:
        annotations[naming.ANNOTATION_FINISHED] = "true"
    if desired.checkpoint_location:  # else the claim, which lives longer, says it
        annotations |= first_start(desired)
    return {
        "apiVersion": kinds.STATEFUL_SET.api_version,
        "kind": kinds.STATEFUL_SET.kind,
        "metadata": {**metadata(desired, name), "annotations": annotations},
        "spec": {
            "replicas": 0 if spec.suspend or has_finished else 1,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": labels(desired)},
            "template": template,
        },
    }


def is_of_another_operator(built: Manifest, observed: StatefulSet) -> bool:
    """Whether another version of the operator, or one with other settings, has applied it.

    Then the pod template stays while the pod runs: an upgrade of the operator restarts no driver. A
    new hash, a new StatefulSet or a new pod gets this version's template.
    """
    ours = StatefulSet(built)
    theirs = observed.annotations.get(_ANNOTATION_TEMPLATE)
    is_another = theirs not in (None, ours.annotations[_ANNOTATION_TEMPLATE])
    return ours.pod_hash == observed.pod_hash and is_another


def with_template_of(built: Manifest, observed: StatefulSet) -> Manifest:
    """The StatefulSet with the pod template that runs; the rest of it is still looked after."""
    theirs = {_ANNOTATION_TEMPLATE: observed.annotations[_ANNOTATION_TEMPLATE]}
    meta = built["metadata"]
    return {
        **built,
        "metadata": {**meta, "annotations": {**meta["annotations"], **theirs}},
        "spec": {**built["spec"], "template": observed.template},
    }


def scaled_to_zero(observed: StatefulSet) -> Manifest:
    """The StatefulSet as it is, but without a driver: for a stream whose spec cannot be applied."""
    meta = observed.manifest["metadata"]
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    return {
        "apiVersion": kinds.STATEFUL_SET.api_version,
        "kind": kinds.STATEFUL_SET.kind,
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {**observed.manifest["spec"], "replicas": 0},
    }


def _pod(desired: Revision, claim: Claim | None) -> Manifest:
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
    """The code of a Python transform; optional, so the driver can report a missing one."""
    python = desired.stream.spec.transform.python
    if python is None or python.config_map is None:
        return []
    ref = python.config_map
    items = [{"key": ref.key, "path": ref.key}]
    config_map = {"name": ref.name, "optional": True, "items": items}
    return [{"name": "python", "configMap": config_map}]


def _python_mounts(desired: Revision) -> list[Manifest]:
    python = desired.stream.spec.transform.python
    if python is None or python.config_map is None:
        return []
    path = f"{naming.PYTHON_DIR}/{python.config_map.name}"
    return [{"name": "python", "mountPath": path, "readOnly": True}]


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
