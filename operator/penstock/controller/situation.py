"""What the operator decides from: a stream, its objects and the time, as one value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from penstock.api import group_version
from penstock.api.problem import Problem
from penstock.api.v1alpha1 import CheckpointVolume, ObjectStore
from penstock.api.v1alpha1.status import StreamStatus
from penstock.api.v1alpha1.triggers import Trigger
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.lenient_fields import at, mapping
from penstock.cluster.objects import Claim, Object, StatefulSet
from penstock.cluster.pods import DriverPod
from penstock.cluster.stream import Stream
from penstock.cluster.stream_state import RunningParts
from penstock.contract import naming
from penstock.contract.driver_report import NUMBERS_INTERVAL_SECONDS
from penstock.contract.stream_defaults import StreamDefaults, names_place
from penstock.controller.children.revision import Revision


@dataclass(frozen=True)
class ObservedStream(Stream):
    """A stream, and its spec or what is wrong with it."""

    desired: Revision | None = None
    """What is to run; None if the spec is invalid, and then `problems` is not empty."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] | None = None
    """None if the spec cannot be read."""
    numbers_interval: timedelta = timedelta(seconds=NUMBERS_INTERVAL_SECONDS)
    """How often the status gets new numbers."""
    judged: bool = True
    """False if the process that judges texts gave no answer this time, and may the next."""
    given_up: Revision | None = None
    """What the spec says, if that was given up, and `desired` is the last that was Ready."""
    retries_given_up: bool = False
    """Whether what was given up is tried once more."""

    @property
    def retains_checkpoint(self) -> bool:
        """Whether the spec, even an invalid one, says that the checkpoint outlives the stream."""
        volume = mapping(at(self.manifest, "spec", "checkpoint", "volume"))
        policy = {name: volume[name] for name in ("reclaimPolicy",) if name in volume}
        try:
            return CheckpointVolume.model_validate(policy).reclaim_policy == "Retain"
        except ValidationError:
            return False

    @property
    def without_status(self) -> object:
        """What is observed besides the status: equal if nothing else has changed.

        Of the status, whether there are commits: without, the checkpoint may still begin elsewhere.
        And whether it has finished, for then its driver may be deleted.
        """
        status = self.status
        known = (status.epoch is None, status.completion_time is None)
        return _without(self), self.has_status, *known

    @property
    def commit_interval(self) -> float | None:
        """Seconds between commits by the trigger, even if the spec is invalid."""
        try:
            trigger = Trigger.model_validate(mapping(at(self.manifest, "spec", "trigger")))
        except ValidationError:
            return None
        return trigger.commit_interval_ms / 1000


@dataclass(frozen=True, kw_only=True)
class ObservedChildren(RunningParts):
    """The objects of one stream. Its events are warnings about what a driver waits for."""

    service_account: Object | None = None
    role: Object | None = None
    role_binding: Object | None = None
    network_policy: Object | None = None
    config_maps: tuple[Object, ...] = ()
    recorded: bool = True
    """Whether a revision that is newly Ready could be recorded."""
    settled: Mapping[str, str] = field(default_factory=dict)
    """By UID: the hash of the applied manifest, for objects that are as the server left them."""

    @property
    def without_report(self) -> object:
        """What is observed besides the driver's report: equal if nothing else has changed."""
        pod, others = self.driver_pod, (*self.applied(), self.driver_account)
        return (
            [(other.uid, other.version) for other in others if other is not None],
            pod and _without(pod, naming.ANNOTATION_REPORT),
            [(event.uid, event.time.isoformat()) for event in self.events],
        )

    def applied(self) -> tuple[Object, ...]:
        """Every object that the operator itself applies."""
        singles = (
            self.service_account,
            self.role,
            self.role_binding,
            self.network_policy,
            self.claim,
            self.stateful_set,
        )
        return (*filter(None, singles), *self.config_maps)

    def find(self, desired: Manifest) -> Object | None:
        names = (desired["kind"], desired["metadata"]["name"])
        if desired["kind"] == kinds.POD.kind:
            return next((pod for pod in self.pods if pod.name == names[1]), None)
        same = (child for child in self.applied() if (child.kind.kind, child.name) == names)
        return next(same, None)

    def is_existing_claim(self, desired: Manifest) -> bool:
        """Whether a manifest is of the claim that is there: its refusal must delay nothing else.

        The API server refuses an expansion that the storage class does not allow.
        """
        return self.claim is not None and desired["kind"] == kinds.CLAIM.kind


@dataclass(frozen=True)
class Situation:
    """A stream, its objects and the time: all that a decision is made from."""

    stream: ObservedStream
    children: ObservedChildren
    """Without a driver that belongs to somebody else, and so does its progress."""
    now: datetime
    previous: tuple[str, ...] = ()
    """The objects of a deleted stream of this name that Kubernetes has yet to remove.

    To take them over would race with the garbage collector. Under the reclaim policy Delete it
    would also keep a checkpoint that was meant to be deleted.
    """
    foreign: tuple[str, ...] = ()
    """The objects that the stream needs, and that belong to somebody else."""

    @classmethod
    def of(cls, stream: ObservedStream, children: ObservedChildren, now: datetime) -> Situation:
        """The situation of a stream whose objects were read."""
        stream, children = _with_checkpoint_place(stream, children)
        previous = _objects_of_previous_stream(stream, children)
        foreign = [child for child in _needed(stream, children) if _is_foreign(child, stream)]
        if previous or children.stateful_set in foreign:
            children = replace(children, stateful_set=None, pods=())
        return cls(stream, children, now, previous, tuple(sorted(map(str, foreign))))

    @property
    def desired(self) -> Revision:
        """What is to run, of a stream whose spec is valid."""
        assert self.stream.desired is not None
        return self.stream.desired

    @property
    def owner(self) -> StatefulSet | None:
        return self.children.stateful_set

    @property
    def claim(self) -> Claim | None:
        return self.children.claim

    @property
    def pod(self) -> DriverPod | None:
        """The driver's."""
        return self.children.driver_pod

    @cached_property
    def applied_at(self) -> datetime | None:
        """When the desired revision was applied; None if another one is."""
        desired = self.desired
        name = naming.config_name(desired.name, desired.pod_hash)
        config_map = next((it for it in self.children.config_maps if it.name == name), None)
        if config_map is None:
            return None
        if at(config_map.manifest, "data", naming.SPEC_FILE) != desired.document:
            return None
        return config_map.written_by(naming.FIELD_MANAGER) or config_map.created

    @cached_property
    def stays_finished(self) -> bool:
        """Whether the desired revision has finished, and does not run again by itself.

        A driver that was deleted stays away, also if ttlSecondsAfterFinished is removed. Without
        it, a pod that takes the place of the one that has finished runs the query again.
        """
        is_deleted = self.owner is not None and self.owner.has_finished
        ttl = self.desired.stream.spec.ttl_seconds_after_finished
        return self.stream.has_finished(self.desired.spec_hash) and (is_deleted or ttl is not None)

    def until_driver_deleted(self, status: StreamStatus) -> timedelta | None:
        """Until the finished driver is deleted; negative after it, and None if it is not to be."""
        desired = self.stream.desired
        ttl = desired.stream.spec.ttl_seconds_after_finished if desired is not None else None
        if ttl is None or status.completion_time is None:
            return None
        return status.completion_time + timedelta(seconds=ttl) - self.now


def _with_checkpoint_place(
    stream: ObservedStream, children: ObservedChildren
) -> tuple[ObservedStream, ObservedChildren]:
    """The stream with its checkpoint where that is; without the claim, if that is no volume.

    The API server refuses a spec that moves it. The operator's defaults may name a place too, and
    may change. A stream that follows them stays where it is: its pod template has the location as
    an annotation, and the defaults that its driver has; a retained claim shows that it is on a
    volume. A stream in an object store ignores a volume claim left by an earlier stream.
    """
    if not names_place(mapping(stream.manifest.get("spec"))):
        stream = _with_previous_default_place(stream, children)
    if _is_in_store(stream, children):
        children = replace(children, claim=None)
    return stream, children


def _is_in_store(stream: ObservedStream, children: ObservedChildren) -> bool:
    """What runs decides, since a spec may be refused."""
    owner, desired = children.stateful_set, stream.desired
    if owner is not None and owner.is_owned_by(stream.uid):
        return bool(owner.checkpoint_location)
    if desired is not None:
        return bool(desired.checkpoint_location)
    return stream.names_object_store


def _with_previous_default_place(
    stream: ObservedStream, children: ObservedChildren
) -> ObservedStream:
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
        return None  # of another version; the gate `checkpoint_moved` says it


def _objects_of_previous_stream(
    stream: ObservedStream, children: ObservedChildren
) -> tuple[str, ...]:
    previous = [
        child
        for child in children.applied()
        if any(
            owner.get("kind") == group_version.KIND and owner.get("uid") != stream.uid
            for owner in child.owners
        )
    ]
    claim = children.claim
    if children.stateful_set is None and claim is not None and claim.terminating:
        previous.append(claim)
    return tuple(sorted(set(map(str, previous))))


def _needed(stream: ObservedStream, children: ObservedChildren) -> list[Object]:
    """The objects that the stream needs for itself; of an invalid spec, what may run."""
    desired = stream.desired
    needed: list[Object | None] = [children.stateful_set]
    if desired is not None:
        spec = desired.stream.spec
        volume = spec.checkpoint.claimed_volume
        needed += [children.role, children.role_binding, *children.config_maps]
        needed += [children.service_account] if spec.service_account_name is None else []
        needed += [children.network_policy] if desired.settings.network_policies.enabled else []
        needed += [children.claim] if volume is not None and not volume.adopt else []
    return [child for child in needed if child is not None]


def _is_foreign(observed: Object, stream: ObservedStream) -> bool:
    """Whether an object of the stream's names does not belong to it.

    Its own have its UID as an owner, or its label (a retained claim has no owner), or the operator
    has written them and somebody has removed both.
    """
    is_labelled = observed.labels.get(naming.LABEL_STREAM) == stream.name
    is_ours = is_labelled or observed.is_written_by(naming.FIELD_MANAGER)
    return not (is_ours or observed.is_owned_by(stream.uid))


def _without(observed: Object, annotation: str = "") -> Manifest:
    """An object without what each write of a report or a status changes."""
    meta = mapping(observed.manifest.get("metadata"))
    others = {name: value for name, value in observed.annotations.items() if name != annotation}
    kept = {name: meta[name] for name in meta if name not in ("resourceVersion", "managedFields")}
    without = {**observed.manifest, "metadata": {**kept, "annotations": others}}
    if observed.kind is kinds.STREAM:
        without.pop("status", None)
    return without
