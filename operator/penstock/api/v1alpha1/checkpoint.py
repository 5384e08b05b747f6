"""Where the progress of a stream is stored."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from penstock.api.conditions import ValidationRule, cel_string, cel_text, cel_unchanged, in_cel_only
from penstock.api.v1alpha1.base import ByteQuantity, SpecObject, text_like

VOLUME_SIZE = "1Gi"

_REMEDY = "delete the stream and its PersistentVolumeClaim, and apply the stream again"


_NEW_SIZE, _OLD_SIZE = (
    cel_text(f"{each}.checkpoint.volume.size", cel_string(VOLUME_SIZE))
    for each in ("self", "oldSelf")
)

# Rules of the whole spec: a rule of the volume could be evaded by removing `checkpoint` in one
# update and adding it in the next, because a rule on an update needs both values.
UPDATE_RULES: tuple[ValidationRule, ...] = (
    ValidationRule(
        in_cel_only(cel_unchanged("checkpoint.volume.storageClassName")),
        f"checkpoint.volume.storageClassName cannot be changed, added or removed: {_REMEDY}",
    ),
    ValidationRule(
        # A malformed size breaks a rule of its own.
        in_cel_only(
            f"!isQuantity({_NEW_SIZE}) || "
            f"quantity({_NEW_SIZE}).compareTo(quantity({_OLD_SIZE})) >= 0"
        ),
        f"checkpoint.volume.size cannot shrink (default: {VOLUME_SIZE}): keep the old size "
        f"or more, or {_REMEDY}",
    ),
)


class CheckpointVolume(SpecObject):
    """A PersistentVolumeClaim that belongs to the stream, not to its pod."""

    size: ByteQuantity = Field(
        VOLUME_SIZE,
        description=f"Its size; the logs are small. It can grow, if the storage class allows, and "
        f"never shrinks. Default: {VOLUME_SIZE}.",
        examples=[VOLUME_SIZE],
    )
    storage_class_name: (
        Annotated[
            str,
            text_like(
                r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
                "takes a-z, 0-9, '-' and '.', and begins and ends with a letter or a digit",
                max_length=253,
            ),
        ]
        | None
    ) = Field(
        None,
        description="Its storage class. Default: the cluster's default class.",
    )
    reclaim_policy: Literal["Retain", "Delete"] = Field(
        "Retain",
        description=(
            "What happens to the volume when the stream is deleted. Retain: it stays, and a new "
            "stream with the same name continues from it. Delete: it is deleted as well. "
            "Default: Retain."
        ),
    )
    adopt: bool = Field(
        False,
        description="Whether to use an existing PersistentVolumeClaim `<name>-checkpoint` that "
        "Penstock did not create, such as a restored one. It is then deleted with the stream "
        "under Delete. Default: false.",
    )


class Checkpoint(SpecObject):
    """Where the stream's progress is stored."""

    volume: CheckpointVolume = Field(
        CheckpointVolume(),
        description=f"A volume for this stream alone. Default: {VOLUME_SIZE}, retained.",
    )
