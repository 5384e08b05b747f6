"""The PersistentVolumeClaim of the checkpoint, and where the checkpoint began. Pure."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from penstock.api import group_version, quantities
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.lenient_fields import mapping
from penstock.cluster.objects import Claim, Object
from penstock.contract import naming
from penstock.controller.children.diff import content_hash
from penstock.controller.children.revision import Revision, build_object

# A hash of the fields that count for a stream's first start only. It is on the object that lives as
# long as the checkpoint is in use: the claim, or the StatefulSet.
_ANNOTATION = f"{group_version.GROUP}/first-start"


def claim(desired: Revision) -> Manifest:
    """The claim of the checkpoint's volume. The stream owns it under Delete, not under Retain."""
    volume = desired.stream.spec.checkpoint.claimed_volume
    assert volume is not None, "a checkpoint in an object store has no claim"
    manifest = build_object(kinds.CLAIM, desired, naming.checkpoint_claim_name(desired.name))
    manifest["metadata"]["annotations"] = first_start(desired)
    if volume.reclaim_policy == "Retain":
        del manifest["metadata"]["ownerReferences"]
    manifest["spec"] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": volume.size}},
    }
    if volume.storage_class_name is not None:
        manifest["spec"]["storageClassName"] = volume.storage_class_name
    return manifest


def claim_as_allowed(manifest: Manifest, existing: Claim | None, *, begun: bool = True) -> Manifest:
    """The claim to apply: of an existing claim only the size may change, and only grow.

    The rest of an existing claim's spec is immutable. Server-side apply would try to remove a
    field that it once set, so the manifest repeats what the claim has. `begun` says that its
    checkpoint may have commits, so that where it began is settled.
    """
    if existing is None:
        return manifest
    manifest = with_start_of(manifest, existing, begun=begun)
    kept = ("accessModes", "storageClassName")
    has = mapping(existing.manifest.get("spec"))
    spec: Manifest = {field: has[field] for field in kept if field in has}
    sizes = (existing.requested, Claim(manifest).requested)
    spec["resources"] = {"requests": {"storage": max(sizes, key=_amount)}}
    return {**manifest, "spec": spec}


def without_owner(existing: Claim) -> Manifest:
    """The claim as it is, but so that it outlives its stream."""
    labels = existing.labels
    bare = {
        "apiVersion": kinds.CLAIM.api_version,
        "kind": kinds.CLAIM.kind,
        "metadata": {
            "name": existing.name,
            "namespace": existing.namespace,
            "labels": {name: labels[name] for name in naming.OWN_LABELS if name in labels},
        },
        "spec": {"resources": {"requests": {}}},
    }
    return claim_as_allowed(bare, existing)


def _amount(quantity: Any) -> Decimal:
    """A quantity as a number; below zero if it is none."""
    try:
        return quantities.amount(quantity)
    except ValueError:
        return Decimal(-1)


def first_start(desired: Revision) -> dict[str, str]:
    """The annotation that says it."""
    return {_ANNOTATION: _hash(desired)}


def with_start_of(manifest: Manifest, existing: Object | None, *, begun: bool) -> Manifest:
    """The manifest with the start that was settled; `begun` says that it may be."""
    start = existing.annotations.get(_ANNOTATION) if existing is not None else None
    if start is None or not begun:
        return manifest
    meta = manifest["metadata"]
    annotations = {**meta.get("annotations", {}), _ANNOTATION: start}
    return {**manifest, "metadata": {**meta, "annotations": annotations}}


def starts_elsewhere(desired: Revision, existing: Object) -> bool:
    """Whether the spec says to start elsewhere than where the checkpoint began."""
    began = existing.annotations.get(_ANNOTATION)
    return began is not None and began != _hash(desired)


def _hash(desired: Revision) -> str:
    """A hash of what the spec says about the first start."""
    kafka = desired.stream.spec.source.kafka
    if kafka is None:
        return "none"
    options = {name.casefold(): value for name, value in kafka.options.items()}
    starting = {name: options[name] for name in options if name.startswith("starting")}
    fields = (kafka.starting_offsets or "latest", kafka.starting_offsets_by_partition, starting)
    return content_hash(fields)[:10]
