"""The conditions of a stream's status, in the sense of kstatus. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from penstock.api.v1alpha1.status import Condition
from penstock.controller.observed.stream import ObservedStream
from penstock.controller.status.stream_state import Assessment
from penstock.validation.problems import Problem

# The API accepts 32768 bytes in a condition's message, which is more than anyone reads.
_MAX_MESSAGE_CHARACTERS = 4096

_Status = Literal["True", "False", "Unknown"]


def build_conditions(
    stream: ObservedStream, assessment: Assessment, now: datetime
) -> list[Condition]:
    """Ready, Reconciling and Stalled in the sense of kstatus, which ignores Warning.

    At most one of Reconciling and Stalled is True.
    """
    return [
        _condition(stream, now, kind, *content)
        for kind, content in {
            "Ready": _ready(assessment),
            "Reconciling": _reconciling(assessment),
            "Stalled": _stalled(assessment),
            "Warning": _warning(stream.warnings),
        }.items()
    ]


def _ready(assessment: Assessment) -> tuple[_Status, str, str]:
    return ("True" if assessment.ready else "False"), assessment.reason, assessment.message


def _reconciling(assessment: Assessment) -> tuple[_Status, str, str]:
    if assessment.ready:
        return "False", "UpToDate", "The stream runs as its spec says"
    if assessment.stalled:
        return "False", "Stalled", "The stream is stalled: the condition Stalled says why"
    return "True", assessment.reason, assessment.message


def _stalled(assessment: Assessment) -> tuple[_Status, str, str]:
    if assessment.stalled:
        return "True", assessment.reason, assessment.message
    return "False", "NotStalled", "The stream needs no action from you"


def _warning(warnings: tuple[Problem, ...] | None) -> tuple[_Status, str, str]:
    """What runs, but probably not as intended."""
    if warnings is None:
        return "Unknown", "InvalidSpec", "The spec cannot be read, so it was not checked"
    if not warnings:
        return "False", "NoWarnings", "Nothing in the spec calls for a warning"
    return "True", warnings[0].reason, "; ".join(each.message for each in warnings)


def _condition(
    stream: ObservedStream, now: datetime, kind: str, status: _Status, reason: str, message: str
) -> Condition:
    last = next((each for each in stream.status.conditions if each.type == kind), None)
    changed = last is None or last.status != status
    return Condition(
        type=kind,
        status=status,
        observed_generation=stream.generation,
        last_transition_time=now if last is None or changed else last.last_transition_time,
        reason=reason,
        message=message[:_MAX_MESSAGE_CHARACTERS],
    )
