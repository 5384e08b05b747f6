"""Where a stream's checkpoint is: on a volume, or in an object store. Pure.

The API server refuses a spec that moves it. The operator's defaults may name a place too, and may
change. A stream that follows them stays where it is: its pod template has the location as an
annotation, and the defaults that its driver has; a retained claim shows that it is on a volume.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from penstock.api.v1alpha1 import ObjectStore
from penstock.cluster.lenient_fields import mapping
from penstock.contract import naming
from penstock.contract.stream_defaults import StreamDefaults, names_place
from penstock.controller.children.revision import Revision
from penstock.controller.observation import ObservedChildren, ObservedStream
from penstock.controller.status.outcome import NotApplied, checkpoint_elsewhere


def placed(
    stream: ObservedStream, children: ObservedChildren
) -> tuple[ObservedStream, ObservedChildren]:
    """The stream with its checkpoint where that is; without the claim, if that is no volume.

    A stream in an object store ignores a volume claim left by an earlier stream.
    """
    if not names_place(mapping(stream.manifest.get("spec"))):
        stream = _kept_in_place(stream, children)
    if _is_in_store(stream, children):
        children = replace(children, claim=None)
    return stream, children


def moved(
    stream: ObservedStream, desired: Revision, children: ObservedChildren
) -> NotApplied | None:
    """That the spec says another place than that of the checkpoint; None if it does not."""
    owner = children.stateful_set
    if owner is None or not owner.is_owned_by(stream.uid):
        return None
    was, wanted = owner.checkpoint_location, desired.checkpoint_location
    return None if was == wanted else checkpoint_elsewhere(was, wanted)


def _is_in_store(stream: ObservedStream, children: ObservedChildren) -> bool:
    """What runs decides, since a spec may be refused."""
    owner, desired = children.stateful_set, stream.desired
    if owner is not None and owner.is_owned_by(stream.uid):
        return bool(owner.checkpoint_location)
    if desired is not None:
        return bool(desired.checkpoint_location)
    return stream.names_object_store


def _kept_in_place(stream: ObservedStream, children: ObservedChildren) -> ObservedStream:
    """The stream with the place that it has had from defaults, whatever those are now."""
    desired, owner, claim = stream.desired, children.stateful_set, children.claim
    if desired is None:
        return stream
    if owner is not None and owner.is_owned_by(stream.uid):
        if owner.checkpoint_location == desired.checkpoint_location:
            return stream
        return replace(stream, desired=_in_store(desired, owner.stream_defaults))
    is_ours = claim is not None and claim.labels.get(naming.LABEL_STREAM) == stream.name
    if is_ours and desired.checkpoint_location:
        return replace(stream, desired=_in_store(desired, None))
    return stream


def _in_store(desired: Revision, defaults: StreamDefaults | None) -> Revision:
    """The revision with the object store of these defaults; with none, on a volume."""
    raw = defaults.object_store if defaults is not None else None
    store = _parsed(raw)
    spec = desired.stream.spec
    checkpoint = spec.checkpoint.model_copy(update={"object_store": store})
    spec = spec.model_copy(update={"checkpoint": checkpoint})
    ours = desired.settings.stream_defaults.with_object_store(raw if store is not None else None)
    return replace(
        desired,
        stream=desired.stream.model_copy(update={"spec": spec}),
        settings=replace(desired.settings, stream_defaults=ours),
    )


def _parsed(raw: Mapping[str, Any] | None) -> ObjectStore | None:
    try:
        return None if raw is None else ObjectStore.model_validate(raw)
    except ValidationError:
        return None  # of another version; `moved` says it
