"""The kinds of objects that Penstock reads and writes, and references to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from penstock.api import group_version

# A Kubernetes object in the form that the API reads and writes.
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    api_version: str
    kind: str
    plural: str

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    @property
    def root(self) -> str:
        """The path below which the API serves the group and version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", *subresource: str) -> str:
        """Where the API serves the objects of a namespace (of all if empty), or the named one.

        >>> POD.path("payments", "flags-driver-0", "log")
        '/api/v1/namespaces/payments/pods/flags-driver-0/log'
        """
        scope = ("namespaces", quote(namespace, "")) if namespace else ()
        return "/".join(
            (self.root, *scope, self.plural, *([quote(name, "")] if name else ()), *subresource)
        )


STREAM = Kind(group_version.API_VERSION, group_version.KIND, group_version.PLURAL)
POD = Kind("v1", "Pod", "pods")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")
CONTROLLER_REVISION = Kind("apps/v1", "ControllerRevision", "controllerrevisions")
ROLE = Kind("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
EVENT = Kind("events.k8s.io/v1", "Event", "events")
SECRET = Kind("v1", "Secret", "secrets")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
NODE = Kind("v1", "Node", "nodes")
NAMESPACE = Kind("v1", "Namespace", "namespaces")
RESOURCE_QUOTA = Kind("v1", "ResourceQuota", "resourcequotas")
ENDPOINT_SLICE = Kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
CRD = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")

# The kinds that belong to a stream; the operator watches them.
CHILDREN = (
    SERVICE_ACCOUNT,
    ROLE,
    ROLE_BINDING,
    NETWORK_POLICY,
    CONFIG_MAP,
    CLAIM,
    STATEFUL_SET,
    POD,
)

_OTHERS = (
    CONTROLLER_REVISION,
    EVENT,
    SECRET,
    DEPLOYMENT,
    LEASE,
    NODE,
    NAMESPACE,
    RESOURCE_QUOTA,
    ENDPOINT_SLICE,
    CRD,
)
_BY_NAME = {(kind.api_version, kind.kind): kind for kind in (STREAM, *CHILDREN, *_OTHERS)}


@dataclass(frozen=True, order=True)
class Key:
    """The namespace and name of a stream: the key in the work queue."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Ref:
    """One object by its UID, so not a later one of the same name."""

    kind: Kind
    namespace: str
    name: str
    uid: str


def kind_of(manifest: Manifest) -> Kind:
    return _BY_NAME[(manifest["apiVersion"], manifest["kind"])]
