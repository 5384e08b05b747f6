"""Where progress is kept."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.api.rules import Rule, immutable
from penstock.api.v1alpha1.base import Memory, SpecObject


class CheckpointVolume(SpecObject):
    """A PersistentVolumeClaim that belongs to the stream, not to its pod."""

    rules = (
        Rule(
            cel="has(self.storageClassName) == has(oldSelf.storageClassName)",
            message="storageClassName cannot be added or removed once the volume exists: "
            "delete the stream and its PersistentVolumeClaim, and apply anew",
        ),
    )
    size: Memory = Field(
        "1Gi", description="Its size. The logs are small. Default: 1Gi.", examples=["1Gi"]
    )
    storage_class_name: str | None = Field(
        None,
        max_length=253,
        description="Its storage class. Default: the cluster's default class.",
        json_schema_extra={
            "x-kubernetes-validations": [
                immutable(
                    "storageClassName",
                    "delete the stream and its PersistentVolumeClaim, and apply anew",
                ).as_schema()
            ]
        },
    )
    reclaim_policy: Literal["Retain", "Delete"] = Field(
        "Retain",
        description=(
            "What happens to it when the stream is deleted. Retain: it stays, and a stream of the "
            "same name goes on from it. Delete: it goes too. Default: Retain."
        ),
    )


class Checkpoint(SpecObject):
    """Where the stream's progress is kept."""

    volume: CheckpointVolume = Field(
        CheckpointVolume(),
        description="A volume of the stream's own. Default: one of 1Gi, retained.",
    )
