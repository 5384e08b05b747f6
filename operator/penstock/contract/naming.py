"""Names, labels, annotations and paths that the operator and the driver must agree on."""

import hashlib

from penstock.api.group_version import GROUP

FIELD_MANAGER = "penstock"
DRIVER_FIELD_MANAGER = "penstock-driver"

LABEL_STREAM = f"{GROUP}/stream"
# The stream's class, on its objects: what operators of other classes need not watch.
LABEL_CLASS = f"{GROUP}/class"
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
OWN_LABELS = (LABEL_STREAM, LABEL_CLASS, LABEL_COMPONENT, LABEL_MANAGED_BY)
MANAGED_BY = "penstock"
COMPONENT_DRIVER = "driver"
COMPONENT_EXECUTOR = "executor"
# Not that of the driver, by whose labels the StatefulSet would adopt a record without an owner.
COMPONENT_REVISION = "revision"

# On the driver's pod: its report about the query, a driver_report.DriverReport as JSON.
ANNOTATION_REPORT = f"{GROUP}/report"
# On the pod template: the hash of what the pod depends on. A new hash makes a new driver pod.
ANNOTATION_POD_HASH = f"{GROUP}/pod-hash"
# On the pod template: where the checkpoint is, if that is in an object store.
ANNOTATION_CHECKPOINT = f"{GROUP}/checkpoint"

# On a ControllerRevision: "true" if the spec named the image, which the record has in any case.
ANNOTATION_NAMES_IMAGE = f"{GROUP}/names-image"

# On the StatefulSet: "true" if it has no driver because the query has finished.
ANNOTATION_FINISHED = f"{GROUP}/finished"

# On a stream: "true" if the operator must not change the stream's objects.
ANNOTATION_PAUSE = f"{GROUP}/pause-reconciliation"
# On the operator's own pods: its settings, which are mounted as a file from there.
ANNOTATION_SETTINGS = f"{GROUP}/settings"

# How the driver learns about its own pod (Kubernetes' downward API, and constants).
ENV_POD_NAME = "PENSTOCK_POD_NAME"
ENV_POD_IP = "PENSTOCK_POD_IP"
ENV_POD_HASH = "PENSTOCK_POD_HASH"
# Set if the checkpoint is in an object store: a driver's name is that of the driver before it.
ENV_POD_UID = "PENSTOCK_POD_UID"
# Set if the operator has any, as JSON.
ENV_STREAM_DEFAULTS = "PENSTOCK_STREAM_DEFAULTS"
# Set if several nodes can mount the checkpoint's volume at once.
ENV_SHARED_CHECKPOINT = "PENSTOCK_SHARED_CHECKPOINT"
# Set if the cluster chooses the users of pods.
ENV_ANY_USER = "PENSTOCK_ANY_USER"

DRIVER_CONTAINER = "driver"
# The user of the image, by number, because runAsNonRoot cannot check a name.
RUN_AS_USER = 185
SPEC_FILE = "stream.yaml"
SPEC_DIR = "/etc/penstock"
CHECKPOINT_DIR = "/var/lib/penstock/checkpoint"
WORK_DIR = "/opt/spark/work-dir"
# Not below SPEC_DIR, because nothing can be mounted inside a read-only volume. Each has a folder
# for each Secret or ConfigMap that the spec names, with a file for each key that it uses.
SECRETS_DIR = "/etc/penstock-secrets"
PYTHON_DIR = "/etc/penstock-python"
RPC_DIR = "/etc/penstock-rpc"
RPC_KEY = "secret"

# Fixed, so that network policies can name them. Probes and metrics have a port each, so that a
# policy can tell them apart.
DRIVER_PORT = 7078
BLOCK_MANAGER_PORT = 7079
PROBES_PORT = 8090
METRICS_PORT = 8091

# The driver pod's grace period: enough to stop a query cleanly, that is to commit its epoch and to
# release its executors.
GRACE_SECONDS = 60


def driver_name(stream: str) -> str:
    """The name of a stream's StatefulSet, ServiceAccount, Role, RoleBinding and NetworkPolicy."""
    return f"{stream}-driver"


def driver_pod_name(stream: str) -> str:
    """The name of the only pod of the StatefulSet."""
    return f"{driver_name(stream)}-0"


def config_name(stream: str, pod_hash: str) -> str:
    """The name of the ConfigMap with the document that a driver's pod of this hash reads."""
    return f"{stream}-spec-{pod_hash}"


def spec_hash(document: str) -> str:
    """The hash that names the spec in a driver's document: the revision in a status."""
    return hashlib.sha256(document.encode()).hexdigest()[:10]


def revision_name(stream: str, spec_hash: str) -> str:
    """The name of the ControllerRevision with a spec of this hash."""
    return f"{stream}-{spec_hash}"


def rpc_secret_name(stream: str, content_hash: str) -> str:
    """The name of the Secret for Spark's RPC with a content of this hash."""
    return f"{stream}-rpc-{content_hash}"


def checkpoint_claim_name(stream: str) -> str:
    """The name of the PersistentVolumeClaim of the checkpoint."""
    return f"{stream}-checkpoint"


def stream_labels(stream: str, component: str, class_name: str | None = None) -> dict[str, str]:
    """The labels of every object of a stream. Argo CD tracks objects by none of them."""
    return {
        LABEL_STREAM: stream,
        **({LABEL_CLASS: class_name} if class_name else {}),
        LABEL_COMPONENT: component,
        LABEL_MANAGED_BY: MANAGED_BY,
    }
