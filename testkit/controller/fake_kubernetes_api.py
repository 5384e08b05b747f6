"""An API server in memory, and a clock that tests set."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from penstock.cluster import kinds
from penstock.cluster.kinds import Kind, Manifest, Ref, kind_of
from penstock.cluster.objects import Object
from penstock.cluster.rest_api import ApiError
from penstock.contract import naming

Id = tuple[str, str, str]
_Value = TypeVar("_Value")


def copied(value: _Value) -> _Value:
    """A copy, as over the wire."""
    copy: _Value = json.loads(json.dumps(value))
    return copy


class Killed(BaseException):
    """The operator's process dies here."""


class Clock:
    """A clock that only `advance` moves."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 21, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def text(self) -> str:
        return self.time.strftime("%Y-%m-%dT%H:%M:%SZ")


class FakeKubernetesApi:
    """An API server, as far as the operator depends on one.

    Apply merges a manifest into what others wrote, and removes fields that are no longer applied.
    Every write is counted, and a test can kill the process just before or just after a write.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.objects: dict[Id, Manifest] = {}
        self.events: list[Manifest] = []
        # What Kubernetes' controllers say about the objects.
        self.cluster_events: list[Manifest] = []
        self.writes: list[str] = []
        self.reads: list[str] = []
        self.kill_at: tuple[int, str] | None = None
        self.refuse: Callable[[Manifest], ApiError | None] = lambda _: None
        # What the server or a mutating webhook makes of an applied object.
        self.mutate: Callable[[Manifest], object] = lambda _: None
        self.listeners: list[Callable[[str, Manifest], None]] = []
        """Who is told of each change: MODIFIED or DELETED, and the object."""
        self._applied: dict[Id, Manifest] = {}
        self._numbers = itertools.count(1)

    # Requests of the operator.

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        self.reads.append(f"get {kind.kind} {name}")
        return copied(self.objects.get((kind.kind, namespace, name)))

    async def list(
        self,
        kind: Kind,
        namespace: str,
        labels: Mapping[str, str],
        fields: Mapping[str, str] | None = None,
    ) -> list[Manifest]:
        self.reads.append(f"list {kind.kind}")
        if kind is kinds.EVENT:
            uid = (fields or {})["regarding.uid"]
            return [each for each in self.cluster_events if each["regarding"]["uid"] == uid]
        return [
            copied(each)
            for (of_kind, space, _), each in self.objects.items()
            if of_kind == kind.kind
            and space == namespace
            and labels.items() <= Object(each).labels.items()
        ]

    async def apply(self, manifest: Manifest, *, force: bool) -> Manifest:
        refusal = self.refuse(manifest)
        if refusal is not None:
            raise refusal
        uid = manifest["metadata"].get("uid")
        there = self.objects.get(_id(manifest))
        if uid is not None and there is None:
            raise ApiError(409, "Conflict", "Precondition failed: UID in precondition")
        if uid is not None and there is not None and there["metadata"]["uid"] != uid:
            said = "metadata.uid: field is immutable"
            raise ApiError(422, "Invalid", said, fields=["metadata.uid"])
        if there is not None and not force:
            raise ApiError(409, "Conflict", "Apply failed with 1 conflict")
        self._check_owners(manifest)
        return self._write(f"apply {manifest['kind']}", lambda: self._merge(manifest))

    async def apply_status(self, manifest: Manifest) -> Manifest:
        refusal = self.refuse(manifest)
        if refusal is not None:
            raise refusal
        there = self.objects.get(_id(manifest))
        desired = manifest["metadata"]
        if there is None:
            raise ApiError(404, "NotFound", "no such stream")
        # Of a subresource, the server takes nothing else of the metadata, nor looks at it.
        if there["metadata"]["resourceVersion"] != desired["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        return self._write("status", lambda: self._set_status(there, manifest["status"]))

    async def delete(self, ref: Ref) -> None:
        there = self.objects.get((ref.kind.kind, ref.namespace, ref.name))
        if there is not None and there["metadata"]["uid"] == ref.uid:
            self._write(f"delete {ref.kind.kind}", lambda: self.remove(there))

    async def create_event(self, event: Manifest) -> None:
        refusal = self.refuse(event)
        if refusal is not None:
            raise refusal
        if event["metadata"]["name"] not in [each["metadata"]["name"] for each in self.events]:
            self._write("event", lambda: self._record(event))

    # Changes by others.

    def put(self, manifest: Manifest) -> Manifest:
        """Writes an object as another client would."""
        ident = _id(manifest)
        there = self.objects.get(ident)
        merged = copied(manifest)
        meta = merged["metadata"]
        if there is None:
            meta.setdefault("uid", f"uid-{next(self._numbers)}")
            meta["generation"] = 1
            meta["creationTimestamp"] = self.clock.text()
        elif there == manifest:
            return there
        else:
            changed = there.get("spec") != merged.get("spec")
            meta["generation"] = there["metadata"]["generation"] + int(changed)
        meta["resourceVersion"] = str(next(self._numbers))
        self.objects[ident] = merged
        self._notify("MODIFIED", merged)
        return merged

    def remove(self, manifest: Manifest) -> Manifest:
        """Removes an object at once."""
        self._applied.pop(_id(manifest), None)
        gone = self.objects.pop(_id(manifest))
        self._notify("DELETED", gone)
        return gone

    def one(self, kind: Kind, name: str) -> Manifest:
        """A copy of an object that must exist."""
        return copied(self.objects[(kind.kind, "default", name)])

    def has(self, kind: Kind, name: str, namespace: str = "default") -> bool:
        return (kind.kind, namespace, name) in self.objects

    def of_kind(self, kind: Kind) -> Sequence[Manifest]:
        return [copied(each) for (name, _, _), each in self.objects.items() if name == kind.kind]

    # Writes.

    def _check_owners(self, manifest: Manifest) -> None:
        """A real one takes any owner, and the garbage collector deletes the object of a dead one.

        That the operator writes such an object is a fault of its own, unless the stream is deleted
        at this moment, which it never is here.
        """
        uids = {each["metadata"]["uid"] for each in self.objects.values()}
        dead = [owner for owner in Object(manifest).owners if owner["uid"] not in uids]
        assert not dead, f"{Object(manifest)} is written with an owner that is gone: {dead}"

    def _write(self, what: str, write: Callable[[], Manifest]) -> Manifest:
        number = len(self.writes) + 1
        if self.kill_at == (number, "before"):
            raise Killed
        result = write()
        self.writes.append(what)
        if self.kill_at == (number, "after"):
            raise Killed
        return copied(result)

    def _record(self, event: Manifest) -> Manifest:
        self.events.append(event)
        return event

    def _merge(self, manifest: Manifest) -> Manifest:
        ident = _id(manifest)
        there = copied(self.objects.get(ident, {}))
        _remove_unapplied(there, self._applied.get(ident, {}), manifest)
        _merge_into(there, manifest)
        self.mutate(there)
        self._applied[ident] = copied(manifest)
        self._applied[ident]["metadata"].pop("uid", None)  # which only says what object is meant
        if there != self.objects.get(ident):
            parts: Manifest = {
                f"f:{name}": {} for name in manifest if name not in ("apiVersion", "kind")
            }
            entry = {
                "manager": naming.FIELD_MANAGER,
                "time": self.clock.text(),
                "fieldsV1": parts,
            }
            others = [each for each in Object(there).managed if each["manager"] != entry["manager"]]
            there["metadata"]["managedFields"] = [*others, entry]
        return self.put(there)

    def _set_status(self, there: Manifest, status: Manifest) -> Manifest:
        changed = copied(there)
        changed["status"] = copied(status)
        changed["metadata"]["managedFields"] = [
            *(each for each in Object(there).managed if not each.get("subresource")),
            {"manager": naming.FIELD_MANAGER, "subresource": "status", "time": self.clock.text()},
        ]
        return self.put(changed)

    def _notify(self, change: str, manifest: Manifest) -> None:
        for listener in self.listeners:
            listener(change, manifest)


def _id(manifest: Manifest) -> Id:
    meta = manifest["metadata"]
    return kind_of(manifest).kind, meta["namespace"], meta["name"]


def _remove_unapplied(there: Any, before: Any, now: Any) -> None:
    """Removes the fields that were applied before and are not any more."""
    for field, value in before.items():
        if field not in now:
            there.pop(field, None)
        elif isinstance(value, dict) and isinstance(now[field], dict):
            _remove_unapplied(there.get(field, {}), value, now[field])


def _merge_into(there: Any, now: Any) -> None:
    for field, value in now.items():
        if isinstance(value, dict) and isinstance(there.get(field), dict):
            _merge_into(there[field], value)
        else:
            there[field] = copied(value)


def drop_empty(manifest: Manifest) -> None:
    """What the API server does to an object: most fields with an empty value are not stored."""
    _drop_empty(manifest.get("spec", {}))


def _drop_empty(value: Any) -> None:
    for key, each in list(value.items()) if isinstance(value, dict) else []:
        _drop_empty(each)
        if each is None or each is False or each in ({}, [], ""):
            del value[key]
    for each in value if isinstance(value, list) else []:
        _drop_empty(each)
