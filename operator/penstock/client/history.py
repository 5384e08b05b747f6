"""The specs with which a stream was Ready: what `penstock history` shows, and `rollback` writes.

Pure. The operator records each in a ControllerRevision, without its live fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from penstock.api.v1alpha1.restarts_by_field import with_live_of, without_live
from penstock.client.formatting import NONE, age, table
from penstock.cluster.kinds import Manifest
from penstock.cluster.lenient_fields import at, mapping, text
from penstock.cluster.objects import ControllerRevision, owned_by
from penstock.cluster.stream import Stream, find_condition, holds
from penstock.contract import naming
from penstock.contract.edit_effects import edited_fields


class NoRevision(Exception):
    """There is no earlier spec to go back to, for the reason in the text."""


@dataclass(frozen=True)
class RunningSpec:
    """The spec that a stream runs: an earlier one than the resource's, if that one is refused, is
    taken back, or is not applied yet.
    """

    spec: Mapping[str, Any]
    """With the live fields of the resource. The resource's own, if the other one is not known."""
    note: str = ""
    """What to add to a comparison with it; empty if the resource's spec runs."""
    under_way: bool = False
    """Whether the resource's spec is being applied, so that parts of it may run."""
    default_image: str | None = None
    """The image that a spec without one would have; None: the image makes no difference."""

    def with_image(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Another spec of the stream, so that it can be compared with this one."""
        if self.default_image is None or "image" in spec:
            return spec
        return {**spec, "image": self.default_image}


@dataclass(frozen=True)
class RecordedSpec:
    """One spec of a stream."""

    revision: str
    """Its hash, as in the status."""
    recorded: datetime | None
    """When the stream was first Ready with it; None if it never was."""
    state: str
    """What is to be said of it: Running, LastReady, Trying, GivenUp; empty for an earlier one."""
    image: str
    changed: tuple[str, ...]
    """The paths of the fields that are not as in the spec before."""


def history(stream: Stream, recorded: Iterable[ControllerRevision]) -> list[RecordedSpec]:
    """The recorded specs and the newest one, the latest first."""
    own = owned_by(stream.uid, recorded)
    specs: list[tuple[str, datetime | None, Mapping[str, Any]]]
    specs = [(_revision(stream, record), record.created, _spec(record)) for record in own]
    rollout = stream.status.rollout
    if rollout is not None and rollout.revision not in [revision for revision, _, _ in specs]:
        newest = without_live(mapping(stream.manifest.get("spec")))
        specs.insert(0, (rollout.revision, None, newest))
    entries = []
    for number, (revision, since, spec) in enumerate(specs):
        before = specs[number + 1][2] if number + 1 < len(specs) else None
        image = text(spec.get("image")) or NONE
        entries.append(
            RecordedSpec(revision, since, _state(stream, revision), image, _changed(before, spec))
        )
    return entries


def what_runs(stream: Stream, recorded: Iterable[ControllerRevision]) -> RunningSpec:
    """The spec that runs, or ran last, by the status and the records of the stream."""
    current, effective = mapping(stream.manifest.get("spec")), stream.status.effective
    if effective is None or effective.revision is None:
        return RunningSpec(current)  # nothing ran yet
    revision, rollout = effective.revision, stream.status.rollout
    ready = find_condition(stream.status, "Ready")
    observed = (stream.status.observed_generation, ready and ready.observed_generation)
    is_newest = rollout is None or rollout.revision == revision
    if is_newest and observed == (stream.generation, stream.generation):
        return RunningSpec(current)
    under_way = observed[0] != stream.generation or not holds(stream.status, "Stalled")
    records = {_revision(stream, record): record for record in owned_by(stream.uid, recorded)}
    if revision not in records:
        note = (
            f". Not compared with what runs: revision {revision} is another spec, and no record of "
            "it can be read"
        )
        return RunningSpec(current, note, under_way)
    record = records[revision]
    spec = with_live_of(_spec(record), current)
    default = (rollout and rollout.default_image) or None
    if default is None and not record.names_image:
        default = text(spec.get("image"))
    known = RunningSpec(spec, "", under_way, default)
    if known.with_image(current) == spec:  # only live fields are not observed yet
        return RunningSpec(current)
    state = "is not applied yet" if under_way else "does not run"
    note = f". Compared with revision {revision}, which runs: the resource's spec {state}"
    return replace(known, note=note)


def as_table(entries: Sequence[RecordedSpec], now: datetime) -> str:
    """The entries as text."""
    rows = [
        (it.revision, it.state or NONE, age(it.recorded, now), it.image, _few(it.changed))
        for it in entries
    ]
    return "\n".join(table(("REVISION", "STATE", "READY", "IMAGE", "CHANGED"), rows))


def as_json(entries: Sequence[RecordedSpec]) -> list[dict[str, Any]]:
    """The entries for programs."""
    return [
        {
            "revision": it.revision,
            "state": it.state,
            "readyTime": it.recorded and it.recorded.isoformat().replace("+00:00", "Z"),
            "image": it.image,
            "changed": list(it.changed),
        }
        for it in entries
    ]


def spec_to_restore(
    stream: Stream, recorded: Iterable[ControllerRevision], revision: str | None
) -> tuple[str, Manifest]:
    """The revision, and the stream with its spec; by default the last one that was Ready.

    Live fields stay as they are. An image is written where the spec names one, or where the one
    that the operator was installed with is all that differs. Raises NoRevision.
    """
    records = {_revision(stream, record): record for record in owned_by(stream.uid, recorded)}
    revision = revision or _last_ready(stream, records)
    if revision not in records:
        known = ", ".join(records) or "none"
        raise NoRevision(f"{stream.key} was never Ready with {revision}: known are {known}")
    current = mapping(stream.manifest.get("spec"))
    spec = with_live_of(_spec(records[revision]), current)
    without_image = with_live_of(_as_written(records[revision]), current)
    return revision, {
        **stream.manifest,
        "spec": spec if without_image == current else without_image,
    }


def _last_ready(stream: Stream, records: Mapping[str, ControllerRevision]) -> str:
    """The last one that was Ready: before the one that is tried, or before what the spec says."""
    rollout = stream.status.rollout
    last = rollout.last_ready_revision if rollout is not None else None
    if rollout is not None and rollout.revision != last and last in records:
        return str(last)
    current = without_live(mapping(stream.manifest.get("spec")))
    others = [revision for revision, it in records.items() if _as_written(it) != current]
    if not others:
        raise NoRevision(f"{stream.key} was never Ready with another spec")
    return str(last) if last in others else others[0]


def _as_written(record: ControllerRevision) -> Mapping[str, Any]:
    """The recorded spec, without an image that it did not name itself."""
    spec = _spec(record)
    if record.names_image:
        return spec
    return {name: value for name, value in spec.items() if name != "image"}


def _revision(stream: Stream, record: ControllerRevision) -> str:
    return record.name.removeprefix(naming.revision_name(stream.name, ""))


def _spec(record: ControllerRevision) -> Mapping[str, Any]:
    return mapping(at(record.manifest, "data", "spec"))


def _state(stream: Stream, revision: str) -> str:
    effective, rollout = stream.status.effective, stream.status.rollout
    last = rollout.last_ready_revision if rollout is not None else None
    if rollout is not None and rollout.revision == revision != last:
        return "Trying" if rollout.failure is None else "GivenUp"
    if effective is not None and effective.revision == revision:
        return "Running"
    return "LastReady" if revision == last else ""


def _changed(before: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> tuple[str, ...]:
    if before is None:
        return ()
    # The newest one may name no image, and then has that of the operator.
    old = before if "image" in spec else {**before, "image": None}
    new = spec if "image" in spec else {**spec, "image": None}
    return tuple(".".join(path) for path in edited_fields(old, new))


def _few(changed: Sequence[str]) -> str:
    more = len(changed) - 3
    return ", ".join((*changed[:3], *([f"{more} more"] if more > 0 else ()))) or NONE
