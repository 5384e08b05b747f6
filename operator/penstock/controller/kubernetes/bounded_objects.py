"""What the operator keeps of an object. A tenant may make each of them megabytes large.

Nothing that Penstock itself writes is as large as these bounds, so what is cut is somebody else's,
or a spec that is refused for its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.api import group_version
from penstock.cluster.kinds import Manifest
from penstock.cluster.lenient_fields import at, mapping
from penstock.contract import naming
from penstock.validation.rules import spec_size

SPEC_BYTES = "specBytes"
"""The field of a stream whose spec was cut: how many bytes it had."""
# Objects below this are not even measured.
SMALL_BYTES = 64 * 2**10
_MOST_BYTES = 512 * 2**10
# Who wrote an object and when is read, and whether it was the spec; which fields, a third of an
# object, is not.
_OF_MANAGED_FIELDS = ("manager", "operation", "subresource", "time")
# What is read also of a spec that cannot run.
_OF_SPEC = ("className", "suspend", "image", "checkpoint", "trigger", "rollout")
_OF_METADATA = (
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "finalizers", "ownerReferences", "labels", "annotations", "managedFields",
)  # fmt: skip
_SMALL_VALUE = 4 * 2**10
_MANY = 32


def slim(manifest: Manifest) -> Manifest:
    """The object without what nobody reads."""
    managed = at(manifest, "metadata", "managedFields")
    if not isinstance(managed, list):
        return manifest
    entries = [_slim_entry(entry) for entry in managed if isinstance(entry, dict)]
    return {**manifest, "metadata": {**manifest["metadata"], "managedFields": entries}}


def _slim_entry(entry: Manifest) -> Manifest:
    kept = {name: entry[name] for name in _OF_MANAGED_FIELDS if name in entry}
    of_spec = at(entry, "fieldsV1", "f:spec") is not None
    return {**kept, "fieldsV1": {"f:spec": {}}} if of_spec else kept


def bounded(manifest: Manifest, *, is_stream: bool = False) -> Manifest:
    """The object, or what is read of it if it is too large: never more than some 512 KiB."""
    slimmed = _without_large_annotations(slim(manifest))
    if is_stream and (size := spec_size.measure(slimmed.get("spec"))) > spec_size.MOST_BYTES:
        slimmed = {**slimmed, "spec": _small(slimmed.get("spec"), _OF_SPEC), SPEC_BYTES: size}
    return slimmed if spec_size.measure(slimmed) <= _MOST_BYTES else stub(slimmed)


def stub(manifest: Manifest) -> Manifest:
    """What an object is, without what is in it."""
    slimmed, meta = slim(manifest), mapping(manifest.get("metadata"))
    own = {name: slimmed[name] for name in ("apiVersion", "kind", SPEC_BYTES) if name in slimmed}
    if SPEC_BYTES in slimmed:
        own["spec"] = slimmed["spec"]
    kept = _small({**meta, "managedFields": []}, _OF_METADATA)
    for name in ("labels", "annotations"):
        kept[name] = {
            key: value
            for key, value in _first(mapping(meta.get(name))).items()
            if spec_size.measure(value) <= _SMALL_VALUE
        }
    managed = at(slimmed, "metadata", "managedFields")
    if isinstance(managed, list):
        kept["managedFields"] = managed[-_MANY:]
    return {**own, "metadata": kept}


def _first(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Some entries: ours before those of others."""
    ours = sorted(entries, key=lambda key: (not _is_ours(key), key))[:_MANY]
    return {key: entries[key] for key in ours}


def _is_ours(key: str) -> bool:
    return key.startswith(f"{group_version.GROUP}/") or key in naming.OWN_LABELS


def _small(values: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {
        name: value
        for name, value in mapping(values).items()
        if name in names and spec_size.measure(value) <= _SMALL_VALUE
    }


def _without_large_annotations(manifest: Manifest) -> Manifest:
    """Such as the whole object once more, which `kubectl apply` keeps there."""
    annotations = mapping(at(manifest, "metadata", "annotations"))
    kept = {
        key: value
        for key, value in annotations.items()
        if _is_ours(key) or spec_size.measure(value) <= _SMALL_VALUE
    }
    if len(kept) == len(annotations):
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": kept}}
