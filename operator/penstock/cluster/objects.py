"""Objects that the API server returned, each parsed in one place: any field may be odd or absent.

What is asked of an object is an attribute here, so that nobody else digs in manifests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from penstock.cluster.kinds import Key, Kind, Manifest, Ref, kind_of
from penstock.cluster.lenient_fields import (
    MAX_MESSAGE_CHARACTERS,
    at,
    count,
    mapping,
    mappings,
    reason,
    text,
    texts,
    timestamp,
)
from penstock.contract import naming
from penstock.contract.stream_defaults import NO_DEFAULTS, StreamDefaults

_FINALIZERS_OF_KUBERNETES = frozenset(
    {"foregroundDeletion", "orphan", "kubernetes.io/pvc-protection"}
)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Object:
    """An object of any kind."""

    manifest: Manifest

    @property
    def kind(self) -> Kind:
        return kind_of(self.manifest)

    @property
    def name(self) -> str:
        return text(at(self.manifest, "metadata", "name"))

    @property
    def namespace(self) -> str:
        """Empty if it is in none."""
        return text(at(self.manifest, "metadata", "namespace"))

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def uid(self) -> str:
        return text(at(self.manifest, "metadata", "uid"))

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, self.namespace, self.name, self.uid)

    @property
    def version(self) -> str:
        """The resourceVersion."""
        return text(at(self.manifest, "metadata", "resourceVersion"))

    @property
    def generation(self) -> int:
        return count(at(self.manifest, "metadata", "generation"))

    @cached_property
    def labels(self) -> Mapping[str, str]:
        return texts(at(self.manifest, "metadata", "labels"))

    @cached_property
    def annotations(self) -> Mapping[str, str]:
        return texts(at(self.manifest, "metadata", "annotations"))

    @property
    def owners(self) -> list[Mapping[str, Any]]:
        return mappings(at(self.manifest, "metadata", "ownerReferences"))

    def is_owned_by(self, uid: str) -> bool:
        return any(owner.get("uid") == uid for owner in self.owners)

    @property
    def created(self) -> datetime:
        return timestamp(at(self.manifest, "metadata", "creationTimestamp")) or LONG_AGO

    @property
    def terminating(self) -> bool:
        return at(self.manifest, "metadata", "deletionTimestamp") is not None

    @property
    def finalizers(self) -> tuple[str, ...]:
        """Who must agree before Kubernetes removes it; without what Kubernetes itself does."""
        finalizers = at(self.manifest, "metadata", "finalizers")
        names = map(text, finalizers if isinstance(finalizers, list) else ())
        return tuple(name for name in names if name and name not in _FINALIZERS_OF_KUBERNETES)

    @property
    def managed(self) -> list[Mapping[str, Any]]:
        """Which client wrote what of it, and when."""
        return mappings(at(self.manifest, "metadata", "managedFields"))

    def is_written_by(self, manager: str) -> bool:
        """Whether a client has written this very object, and not one of its name before it."""
        return any(entry.get("manager") == manager for entry in self.managed)

    def written_by(self, manager: str, subresource: str = "") -> datetime | None:
        """When a client last wrote it; None if it never did."""
        times = [
            timestamp(entry.get("time"))
            for entry in self.managed
            if entry.get("manager") == manager and text(entry.get("subresource")) == subresource
        ]
        return max(filter(None, times), default=None)

    def condition(self, kind: str) -> Mapping[str, Any]:
        """The condition of this type in the status; empty without one."""
        conditions = mappings(at(self.manifest, "status", "conditions"))
        return next((condition for condition in conditions if condition.get("type") == kind), {})

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.name}"


@dataclass(frozen=True)
class Claim(Object):
    @property
    def phase(self) -> str:
        """Pending, Bound or Lost."""
        return text(at(self.manifest, "status", "phase"))

    @property
    def capacity(self) -> str:
        return text(at(self.manifest, "status", "capacity", "storage"))

    @property
    def requested(self) -> Any:
        """The quantity that it asks for."""
        return at(self.manifest, "spec", "resources", "requests", "storage")

    @property
    def storage_class(self) -> str:
        return text(at(self.manifest, "spec", "storageClassName"))

    @property
    def shared(self) -> bool:
        """Whether several nodes can mount its volume at once."""
        modes = at(self.manifest, "spec", "accessModes")
        return isinstance(modes, list) and "ReadWriteMany" in modes


@dataclass(frozen=True)
class ControllerRevision(Object):
    """A spec of the past."""

    @property
    def revision(self) -> int:
        """Its number: the higher, the later."""
        return count(self.manifest.get("revision"))

    @property
    def names_image(self) -> bool:
        """Whether the spec itself named the image that is in the record."""
        return self.annotations.get(naming.ANNOTATION_NAMES_IMAGE) == "true"


def owned_by(uid: str, records: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """The records of this very stream, the latest first."""
    own = (record for record in records if record.is_owned_by(uid))
    return sorted(own, key=lambda each: (each.revision, each.created), reverse=True)


@dataclass(frozen=True)
class StatefulSet(Object):
    @property
    def scaled_to_zero(self) -> bool:
        """Whether it is to run no driver."""
        return bool(at(self.manifest, "spec", "replicas") == 0)

    @property
    def has_finished(self) -> bool:
        """Whether it runs no driver because the query has finished, and not for a person."""
        return self.scaled_to_zero and naming.ANNOTATION_FINISHED in self.annotations

    @property
    def selector(self) -> Mapping[str, str]:
        """The labels of the pods that it owns."""
        return texts(at(self.manifest, "spec", "selector", "matchLabels"))

    @property
    def template(self) -> Any:
        return at(self.manifest, "spec", "template")

    @property
    def pod_hash(self) -> str:
        """The hash of what its pods depend on."""
        return self._of_template(naming.ANNOTATION_POD_HASH)

    @property
    def checkpoint_location(self) -> str:
        """Where in an object store its driver has the checkpoint; empty if it has a volume."""
        return self._of_template(naming.ANNOTATION_CHECKPOINT)

    @property
    def stream_defaults(self) -> StreamDefaults:
        """The operator's defaults that its driver has; none if they cannot be read."""
        for container in mappings(at(self.template, "spec", "containers")):
            for variable in mappings(container.get("env")):
                if variable.get("name") == naming.ENV_STREAM_DEFAULTS:
                    try:
                        return StreamDefaults.from_json(text(variable.get("value")))
                    except ValueError:
                        return NO_DEFAULTS
        return NO_DEFAULTS

    def _of_template(self, annotation: str) -> str:
        return texts(at(self.template, "metadata", "annotations")).get(annotation, "")

    @property
    def update_revision(self) -> str:
        """The newest revision; empty until its controller has seen the newest template."""
        seen = at(self.manifest, "status", "observedGeneration")
        is_current = seen is not None and seen == at(self.manifest, "metadata", "generation")
        return text(at(self.manifest, "status", "updateRevision")) if is_current else ""


@dataclass(frozen=True)
class Node(Object):
    @property
    def not_ready(self) -> str:
        """Why it is not Ready, in the words of Kubernetes; empty if it is."""
        ready = self.condition("Ready")
        return "" if ready.get("status") == "True" else text(ready.get("message")) or "no condition"


@dataclass(frozen=True)
class Quota(Object):
    @property
    def hard(self) -> Mapping[str, Any]:
        """What may be used of each resource."""
        return mapping(at(self.manifest, "status", "hard"))

    @property
    def used(self) -> Mapping[str, Any]:
        return mapping(at(self.manifest, "status", "used"))


@dataclass(frozen=True)
class Lease(Object):
    @property
    def renewed(self) -> datetime | None:
        return timestamp(at(self.manifest, "spec", "renewTime"))

    @property
    def lasts(self) -> timedelta:
        """Without a renewal for so long, another holder may take it."""
        return timedelta(seconds=count(at(self.manifest, "spec", "leaseDurationSeconds")))

    @property
    def holder(self) -> str:
        return text(at(self.manifest, "spec", "holderIdentity"))


@dataclass(frozen=True)
class Event:
    """What Kubernetes, the operator or the driver says about an object.

    A refused pod (a quota, Pod Security), a volume that cannot be provisioned and one that cannot
    be mounted are in no object's status, only in events.
    """

    uid: str
    """The UID of the object that it is about."""
    reason: str
    message: str
    time: datetime
    """When it was last observed."""
    kind: str = ""
    """The kind of that object."""
    name: str = ""
    is_warning: bool = True
    count: int = 1
    """How often it was observed."""

    @classmethod
    def parse(cls, raw: Manifest) -> Event:
        """Parses an Event of events.k8s.io, by whichever of its fields its author filled in."""
        times = (
            at(raw, "series", "lastObservedTime"),
            raw.get("deprecatedLastTimestamp"),
            raw.get("eventTime"),
            at(raw, "metadata", "creationTimestamp"),
        )
        counts = (at(raw, "series", "count"), raw.get("deprecatedCount"))
        return cls(
            uid=text(at(raw, "regarding", "uid")),
            reason=reason(raw.get("reason"), "Warning"),
            message=text(raw.get("note"))[:MAX_MESSAGE_CHARACTERS],
            time=next(filter(None, map(timestamp, times)), LONG_AGO),
            kind=text(at(raw, "regarding", "kind")),
            name=text(at(raw, "regarding", "name")),
            is_warning=raw.get("type") == "Warning",
            count=max(1, *map(count, counts)),
        )


def newest_warning(events: Iterable[Event], uid: str, since: datetime = LONG_AGO) -> Event | None:
    """The newest warning about the object with this UID, if there is one since then."""
    about = [
        event for event in events if event.is_warning and event.uid == uid and event.time >= since
    ]
    return max(about, key=lambda each: each.time, default=None)
