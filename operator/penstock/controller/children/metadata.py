"""The metadata that all objects of a stream share. Pure."""

from __future__ import annotations

from typing import Any

from penstock.api import group_version
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.contract import naming
from penstock.controller.children.desired_stream import DesiredStream


def owner_reference(desired: DesiredStream) -> dict[str, Any]:
    """Makes Kubernetes delete an object with its stream, even while no operator runs."""
    return {
        "apiVersion": group_version.API_VERSION,
        "kind": group_version.KIND,
        "name": desired.name,
        "uid": desired.uid,
        "controller": True,
        # True would need the right to update finalizers, and has no use here.
        "blockOwnerDeletion": False,
    }


def labels(desired: DesiredStream) -> dict[str, str]:
    """The labels of an object of the stream, and those of its driver's pod."""
    class_name = desired.stream.spec.class_name
    return naming.stream_labels(desired.name, naming.COMPONENT_DRIVER, class_name)


def metadata(desired: DesiredStream, name: str) -> Manifest:
    """The metadata of an object of the stream. The stream's own labels are not copied to it."""
    return {
        "name": name,
        "namespace": desired.namespace,
        "labels": labels(desired),
        "ownerReferences": [owner_reference(desired)],
    }


def build_object(kind: kinds.Kind, desired: DesiredStream, name: str) -> Manifest:
    """An object of the stream with its metadata and no content."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata(desired, name),
    }
