"""A ContinuousStream as the API server holds it, whatever its spec and its status contain. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from pydantic import ValidationError

from penstock.api.v1alpha1.status import Condition, StreamStatus
from penstock.cluster.kinds import Manifest
from penstock.cluster.lenient_fields import at, mapping, text, timestamp
from penstock.cluster.objects import Object
from penstock.contract import naming

_NO = frozenset(("", "false", "no", "off", "0"))


@dataclass(frozen=True)
class Stream(Object):
    """A stream's metadata and status, and what even an invalid spec says."""

    @cached_property
    def status(self) -> StreamStatus:
        return _parse_status(self.manifest)

    @property
    def has_status(self) -> bool:
        """Whether the operator has reconciled this stream before."""
        return self.manifest.get("status") is not None

    @property
    def status_written(self) -> datetime | None:
        """When the operator last wrote the status; None if it never did."""
        return self.written_by(naming.FIELD_MANAGER, "status")

    @property
    def spec_edited(self) -> datetime:
        """When somebody last wrote the spec. Who writes labels and annotations alone does not."""
        times = [
            timestamp(entry.get("time"))
            for entry in self.managed
            if not entry.get("subresource") and at(entry, "fieldsV1", "f:spec") is not None
        ]
        return max(filter(None, times), default=self.created)

    def has_finished(self, revision: str) -> bool:
        """Whether this revision's query has read everything, and none has run since."""
        effective = self.status.effective
        is_known = effective is not None and effective.revision == revision
        return is_known and self.status.completion_time is not None

    @property
    def class_name(self) -> str:
        """The class of the operator that acts on it; empty if it names none."""
        return text(at(self.manifest, "spec", "className"))

    @property
    def image(self) -> str:
        """The image that its spec names; empty if it names none."""
        return text(at(self.manifest, "spec", "image"))

    @property
    def names_object_store(self) -> bool:
        """Whether its spec puts the checkpoint into an object store."""
        return at(self.manifest, "spec", "checkpoint", "objectStore") is not None

    @property
    def suspended(self) -> bool:
        """Whether a person wants no driver."""
        return at(self.manifest, "spec", "suspend") is True

    @property
    def paused(self) -> bool:
        """Whether a person wants the stream's objects left alone: by any word but a no."""
        word = self.annotations.get(naming.ANNOTATION_PAUSE, "")
        return word.strip().lower() not in _NO

    @property
    def brokers(self) -> dict[str, tuple[str, ...]]:
        """The Kafka servers of source and sink; without those that do not use Kafka."""
        spec = mapping(self.manifest.get("spec"))
        shared = at(spec, "kafka", "bootstrapServers")
        return {
            end: tuple(server.strip() for server in text(servers).split(",") if server.strip())
            for end in ("source", "sink")
            if at(spec, end, "kafka") is not None
            and (servers := at(spec, end, "kafka", "bootstrapServers") or shared)
        }


def find_condition(status: StreamStatus, kind: str) -> Condition | None:
    return next((condition for condition in status.conditions if condition.type == kind), None)


def holds(status: StreamStatus, kind: str) -> bool:
    condition = find_condition(status, kind)
    return condition is not None and condition.status == "True"


def not_ready_since(status: StreamStatus) -> datetime | None:
    """Since when a stream is not Ready; None if it is, or if that is not known."""
    ready = find_condition(status, "Ready")
    return None if ready is None or ready.status == "True" else ready.last_transition_time


def _parse_status(raw: Manifest) -> StreamStatus:
    """The status, without the fields that cannot be read: one must not hide the others."""
    readable = dict(mapping(raw.get("status")))
    while readable:
        try:
            return StreamStatus.model_validate(readable)
        except ValidationError as error:
            bad = {each["loc"][0] for each in error.errors() if each["loc"]}
            rest = {name: value for name, value in readable.items() if name not in bad}
            readable = rest if len(rest) < len(readable) else {}
    return StreamStatus()
