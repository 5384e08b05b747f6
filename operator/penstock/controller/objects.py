"""The kinds of objects the operator meets, and how one of them is referred to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.api import group_version

# A Kubernetes object as the API gives and takes it.
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind of namespaced object, and where the API serves it."""

    api_version: str
    kind: str
    plural: str

    @property
    def group(self) -> str:
        """The API group; the core group's name is empty."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version within the group."""
        return self.api_version.rpartition("/")[2]


STREAM = Kind(group_version.API_VERSION, group_version.KIND, group_version.PLURAL)
POD = Kind("v1", "Pod", "pods")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")
ROLE_BINDING = Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
EVENT = Kind("events.k8s.io/v1", "Event", "events")

# What belongs to a stream and is watched for its sake.
CHILDREN = (SERVICE_ACCOUNT, ROLE_BINDING, CONFIG_MAP, CLAIM, STATEFUL_SET, POD)

_BY_NAME = {(kind.api_version, kind.kind): kind for kind in (STREAM, *CHILDREN, EVENT)}


@dataclass(frozen=True, order=True)
class Key:
    """The namespace and name of a stream: what the work queue holds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Ref:
    """One object, this incarnation of it and no later one of the same name."""

    kind: Kind
    namespace: str
    name: str
    uid: str


def kind_of(manifest: Manifest) -> Kind:
    """The kind a manifest says it is."""
    return _BY_NAME[(manifest["apiVersion"], manifest["kind"])]


def ref_to(manifest: Manifest) -> Ref:
    """A reference to an object that was read from the API."""
    meta = manifest["metadata"]
    return Ref(kind_of(manifest), meta["namespace"], meta["name"], meta["uid"])


def labels_of(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    """An object's labels; none is an empty mapping."""
    return manifest["metadata"].get("labels") or {}


def annotations_of(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    """An object's annotations; none is an empty mapping."""
    return manifest["metadata"].get("annotations") or {}


def owners_of(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """An object's owner references."""
    return manifest["metadata"].get("ownerReferences") or []


def is_going(manifest: Mapping[str, Any]) -> bool:
    """Whether its deletion has begun."""
    return manifest["metadata"].get("deletionTimestamp") is not None
