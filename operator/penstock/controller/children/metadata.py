"""Builders of the objects that make up a stream, except the driver's StatefulSet. Pure."""

from __future__ import annotations

from typing import Any

from penstock.api import group_version
from penstock.contract import naming
from penstock.controller import objects
from penstock.controller.children.desired_stream import Wanted
from penstock.controller.objects import Manifest


def owner_reference(wanted: Wanted) -> dict[str, Any]:
    """What makes Kubernetes delete an object with its stream, also while no operator runs."""
    return {
        "apiVersion": group_version.API_VERSION,
        "kind": group_version.KIND,
        "name": wanted.name,
        "uid": wanted.uid,
        "controller": True,
        # True would need the right to update finalizers, and buys nothing here.
        "blockOwnerDeletion": False,
    }


def metadata(wanted: Wanted, name: str) -> Manifest:
    """The metadata of an object of the stream; nothing of the stream's own is copied to it."""
    return {
        "name": name,
        "namespace": wanted.namespace,
        "labels": naming.stream_labels(wanted.name, naming.COMPONENT_DRIVER),
        "ownerReferences": [owner_reference(wanted)],
    }


def _object(kind: objects.Kind, wanted: Wanted, name: str) -> Manifest:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata(wanted, name),
    }
