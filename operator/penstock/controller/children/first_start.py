"""Where a checkpoint began, on the object that lives as long as it is in use. Pure."""

from __future__ import annotations

from penstock.api import group_version
from penstock.cluster.kinds import Manifest
from penstock.cluster.objects import Object
from penstock.controller.children.diff import content_hash
from penstock.controller.children.revision import Revision

# A hash of the fields that count for a stream's first start only.
_ANNOTATION = f"{group_version.GROUP}/first-start"


def first_start(desired: Revision) -> dict[str, str]:
    """The annotation that says it."""
    return {_ANNOTATION: _hash(desired)}


def with_start_of(asked: Manifest, found: Object | None, *, begun: bool) -> Manifest:
    """The manifest with the start that was settled; `begun` says that it may be."""
    start = found.annotations.get(_ANNOTATION) if found is not None else None
    if start is None or not begun:
        return asked
    meta = asked["metadata"]
    annotations = {**meta.get("annotations", {}), _ANNOTATION: start}
    return {**asked, "metadata": {**meta, "annotations": annotations}}


def starts_elsewhere(desired: Revision, found: Object) -> bool:
    """Whether the spec says to start elsewhere than where the checkpoint began."""
    began = found.annotations.get(_ANNOTATION)
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
