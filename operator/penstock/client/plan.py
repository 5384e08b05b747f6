"""What an apply of a manifest would do to the stream in the cluster: `penstock plan`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from penstock.api.problem import FieldPath, Problem, Severity, dotted
from penstock.api.v1alpha1.restarts_by_field import Change, change_of
from penstock.client.history import what_runs
from penstock.cluster.kinds import Key
from penstock.cluster.lenient_fields import mapping, text
from penstock.cluster.objects import ControllerRevision
from penstock.cluster.stream import Stream, holds
from penstock.contract.edit_effects import change_of_edit, edited_fields
from penstock.validation.file_check import check_document
from penstock.validation.reading.documents import Document, LoadedFile
from penstock.validation.report import FileFinding, ValidationReport

RESTARTS = frozenset({"QueryRestarts", "PodRestarts", "DriverStops"})
"""The reasons of findings that mean: no record is read for a while."""

# Other modes write between two commits.
_STOPS_AFTER_A_COMMIT = ("MicroBatch", "AvailableNow")
_START_FIELDS = ("startingOffsets", "startingOffsetsByPartition")
_BY_HARM = (None, Change.LIVE, Change.QUERY, Change.POD)


@dataclass(frozen=True)
class LiveStream:
    """A stream in the cluster, and the records of its earlier specs, as far as they can be read."""

    stream: Stream
    recorded: tuple[ControllerRevision, ...] = ()


def plan(
    loaded: LoadedFile, namespace: str, live: Callable[[Key], LiveStream | None]
) -> ValidationReport:
    """What becomes of each stream of a file; `live` is asked for the one in the cluster."""
    findings, invalid = [*loaded.findings], 0
    for document in loaded.streams:
        errors = [it for it in check_document(document) if it.severity == "error"]
        invalid += bool(errors)
        findings += errors or _plan_document(document, namespace, live)
    valid, unreadable = len(loaded.streams) - invalid, len(loaded.findings)
    return ValidationReport(tuple(findings), valid, invalid, loaded.skipped, unreadable)


def _plan_document(
    document: Document, namespace: str, live: Callable[[Key], LiveStream | None]
) -> Iterable[FileFinding]:
    metadata = mapping(document.content.get("metadata"))
    live_stream = live(Key(text(metadata.get("namespace")) or namespace, document.name))
    edited = mapping(document.content.get("spec"))
    return map(document.finding, plan_edit(live_stream, edited))


def plan_edit(live: LiveStream | None, edited: Mapping[str, Any]) -> Iterator[Problem]:
    """What an apply of this spec, which is valid, would do to what runs."""
    if live is None:
        yield _outcome("Created", "there is no such stream: it is created")
        return
    stream, runs = live.stream, what_runs(live.stream, live.recorded)
    current = mapping(stream.manifest.get("spec"))
    before, after, change = current, edited, _change(current, edited)
    if change in (Change.QUERY, Change.POD):
        before, after = runs.spec, runs.with_image(edited)
        change = _change(before, after) or Change.LIVE
        if runs.under_way:  # what is being replaced is not there to stay
            change = max(change, _change(current, edited), key=_BY_HARM.index)
    outcome = _of_stream(stream, edited, change, _start_of(stream, before, edited))
    yield replace(outcome, message=outcome.message + runs.note) if change else outcome
    for path in edited_fields(before, after):
        yield _of_field(path, before, after, stream)


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> Change | None:
    try:
        return change_of_edit(before, after)
    except ValidationError:
        return None if before == after else Change.POD  # nothing of an invalid spec is taken


def _of_stream(
    stream: Stream, edited: Mapping[str, Any], change: Change | None, start: str
) -> Problem:
    if change is Change.REFUSED:
        return _outcome("Refused", "the API server refuses the edit", "error")
    if change is Change.STOP and edited.get("suspend"):
        return _outcome("DriverStops", "the query commits, and the driver stops", "warning")
    if change is Change.STOP:
        return _outcome("DriverStarts", f"the driver starts{start}")
    if stream.suspended and change is not None:
        return _outcome("Suspended", "nothing runs: the edit counts when the stream is resumed")
    if stream.status.completion_time is not None and change in (Change.QUERY, Change.POD):
        return _outcome(
            "RunsAgain", f"the query has read everything, and now runs once more{start}"
        )
    match change:
        case None:
            return _outcome("Unchanged", "nothing changes")
        case Change.LIVE:
            return _outcome("NothingRestarts", "nothing restarts")
        case Change.QUERY:
            effect = "in the same pods, the edited query replaces the running one"
            lasts = _state_division(stream, edited) or "; it takes seconds"
            return _outcome("QueryRestarts", f"{effect}{start}{lasts}", "warning")
        case _:
            effect = "the driver's pod and its executors are replaced, and the query starts"
            lasts = _state_division(stream, edited) or _last_duration(stream)
            return _outcome("PodRestarts", f"{effect}{start}{lasts}", "warning")


def _outcome(
    reason: str,
    message: str,
    severity: Severity = "notice",
    path: FieldPath = ("metadata", "name"),
) -> Problem:
    """Something to know, and nothing to mend: its reason has no remedy."""
    return Problem(reason, message, severity, path)


def _start_of(stream: Stream, current: Mapping[str, Any], edited: Mapping[str, Any]) -> str:
    number, will_be = _checkpoint_generation(edited), mapping(edited.get("checkpoint"))
    if number != _checkpoint_generation(current):
        start = mapping(will_be.get("startFrom"))
        begins = f"begins without state at startFrom.{', '.join(start)}" if start else "begins anew"
        after = "records that the sink got after that are written twice"
        if start.get("offsets") == "latest":
            after = "records that the query has not read by then are skipped"
        elif "generation" in start:
            after = "only records that that generation has not committed are written twice"
        return (
            f", with generation {number} of the checkpoint: it {begins}, and {after}; if it "
            "exists, it continues instead"
        )
    epoch = stream.status.epoch
    if epoch is None:
        return ""
    if holds(stream.status, "Ready") and stream.status.mode in _STOPS_AFTER_A_COMMIT:
        return f", after a commit (now epoch {epoch}), so nothing is written twice"
    return (
        f", from its last commit (now epoch {epoch}); records written since then are written twice"
    )


def _state_division(stream: Stream, edited: Mapping[str, Any]) -> str:
    has, checkpoint = stream.status.state_partitions, mapping(edited.get("checkpoint"))
    partitions = checkpoint.get("statePartitions")
    if has is None or partitions in (None, has):
        return ""
    return f"; before that Spark divides its state, which has {has} partitions, into {partitions}"


def _checkpoint_generation(spec: Mapping[str, Any]) -> int:
    """The generation of the checkpoint."""
    return int(mapping(spec.get("checkpoint")).get("generation", 0))


def _last_duration(stream: Stream) -> str:
    rollout = stream.status.rollout
    if rollout is None or rollout.pod_seconds is None:
        return ""
    return f"; last time this took {rollout.pod_seconds} s"


def _of_field(
    path: tuple[str, ...], current: Mapping[str, Any], edited: Mapping[str, Any], stream: Stream
) -> Problem:
    """Without values: a manifest may hold what not everybody may see."""
    change, where = change_of(".".join(path)), ("spec", *path)
    was, will_be = (_is_set(spec, path) for spec in (current, edited))
    how = "changed" if was and will_be else "added" if will_be else "removed"
    more = ""
    is_start = path[-1] in _START_FIELDS or path[:2] == ("checkpoint", "startFrom")
    is_same = _checkpoint_generation(current) == _checkpoint_generation(edited)
    if is_start and is_same and stream.status.epoch is not None:
        more = "; it has no effect, because the checkpoint has commits"
    severity: Severity = "error" if change is Change.REFUSED else "notice"
    return _outcome("FieldEdited", f"{dotted(where)}: {how} ({change}){more}", severity, where)


def _is_set(spec: object, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(spec, Mapping) or name not in spec:
            return False
        spec = spec[name]
    return True
