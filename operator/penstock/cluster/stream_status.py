"""The status of a stream as the API server holds it. Pure."""

from __future__ import annotations

from datetime import datetime

from pydantic import ValidationError

from penstock.api.v1alpha1.status import Condition, StreamStatus
from penstock.cluster import fields
from penstock.cluster.kinds import Manifest
from penstock.contract import naming


def parse_status(raw: Manifest) -> StreamStatus:
    """The status, without the fields that cannot be read: one must not hide the others."""
    found = dict(fields.mapping(raw.get("status")))
    while found:
        try:
            return StreamStatus.model_validate(found)
        except ValidationError as error:
            readable = {name: found[name] for name in found if name not in _top_level(error)}
            found = readable if len(readable) < len(found) else {}
    return StreamStatus()


def _top_level(error: ValidationError) -> set[int | str]:
    return {each["loc"][0] for each in error.errors() if each["loc"]}


def find_condition(status: StreamStatus, kind: str) -> Condition | None:
    """The condition of this type."""
    return next((each for each in status.conditions if each.type == kind), None)


def status_written(raw: Manifest) -> datetime | None:
    """When the operator last wrote the status; None if it never did."""
    times = [
        fields.timestamp(entry.get("time"))
        for entry in fields.mappings(fields.at(raw, "metadata", "managedFields"))
        if entry.get("manager") == naming.FIELD_MANAGER and entry.get("subresource") == "status"
    ]
    return max((each for each in times if each is not None), default=None)
