"""A stream as the API server holds it, parsed once. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from penstock.api.v1alpha1 import CheckpointVolume
from penstock.api.v1alpha1.status import StreamStatus
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.api.v1alpha1.triggers import Trigger
from penstock.cluster import fields, kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.stream_status import parse_status, status_written
from penstock.contract import naming
from penstock.controller.children import desired_stream
from penstock.controller.children.desired_stream import DesiredStream
from penstock.controller.children.settings import Settings
from penstock.validation import spec_problems
from penstock.validation.problem import Problem


@dataclass(frozen=True)
class ObservedStream:
    """A stream's metadata, its status, and its spec or what is wrong with it."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    generation: int
    terminating: bool
    paused: bool
    """Whether a person wants the stream's objects left alone."""
    suspended: bool
    """Whether a person wants no driver, even if the spec is invalid."""
    status: StreamStatus
    has_status: bool
    """Whether the operator has reconciled this stream before."""
    status_written: datetime | None
    """When the operator last wrote the status."""
    desired: DesiredStream | None
    """None if the spec is invalid; `problems` then says why."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] | None = None
    """None if the spec cannot be read."""
    reclaim_policy: str | None = None
    """What the spec says about the checkpoint, even if the spec is invalid; None if unreadable."""
    commit_interval: float | None = None
    """Seconds between commits by the trigger, even if the spec is invalid; None if unreadable."""


def class_of(raw: Mapping[str, Any]) -> str:
    """The class of the operator that acts on a stream; empty if the stream names none."""
    return fields.text(fields.at(raw, "spec", "className"))


def parse_stream(raw: Manifest, settings: Settings) -> ObservedStream:
    """Parses a stream that was read from the API server."""
    desired, found, warnings = _parse_spec(raw, settings)
    return replace(parse_metadata(raw), desired=desired, problems=found, warnings=warnings)


def parse_metadata(raw: Manifest) -> ObservedStream:
    """Parses all but the spec, which takes judgement."""
    meta = fields.mapping(raw.get("metadata"))
    return ObservedStream(
        name=kinds.name_of(raw),
        namespace=fields.text(meta.get("namespace")),
        uid=kinds.uid_of(raw),
        resource_version=fields.text(meta.get("resourceVersion")),
        generation=fields.count(meta.get("generation")),
        terminating=kinds.is_terminating(raw),
        paused=kinds.annotations_of(raw).get(naming.ANNOTATION_PAUSE) == "true",
        suspended=fields.at(raw, "spec", "suspend") is True,
        status=parse_status(raw),
        has_status=raw.get("status") is not None,
        status_written=status_written(raw),
        desired=None,
        reclaim_policy=_reclaim_policy(raw),
        commit_interval=_commit_interval(raw),
    )


def _reclaim_policy(raw: Manifest) -> str | None:
    """The policy of the spec, or its default."""
    volume = fields.mapping(fields.at(raw, "spec", "checkpoint", "volume"))
    try:
        field = {"reclaimPolicy": volume["reclaimPolicy"]} if "reclaimPolicy" in volume else {}
        return CheckpointVolume.model_validate(field).reclaim_policy
    except ValidationError:
        return None


def _commit_interval(raw: Manifest) -> float | None:
    try:
        trigger = Trigger.model_validate(fields.mapping(fields.at(raw, "spec", "trigger")))
    except ValidationError:
        return None
    return trigger.commit_interval_ms / 1000


def _parse_spec(
    raw: Manifest, settings: Settings
) -> tuple[DesiredStream | None, tuple[Problem, ...], tuple[Problem, ...] | None]:
    try:
        stream = ContinuousStream.model_validate(raw)
    except ValidationError as error:
        return None, tuple(spec_problems.describe_error(error)), None
    judged = spec_problems.judge(stream.spec, allowed=settings.pod_security)
    found = tuple(each for each in judged if each.severity == "error")
    warnings = tuple(each for each in judged if each.severity == "warning")
    if stream.metadata.namespace == settings.namespace:
        found = (_in_the_operators_namespace(stream.metadata.namespace), *found)
    if found:
        return None, found, warnings
    return desired_stream.resolve(stream, raw, settings), (), warnings


def _in_the_operators_namespace(namespace: str) -> Problem:
    return Problem(
        "OperatorNamespace",
        f"metadata.namespace: {namespace} is the operator's own namespace, where a stream's code "
        "could start a pod with the operator's rights: create the stream in another one",
    )
