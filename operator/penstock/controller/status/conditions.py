"""The conditions of a stream's status, in the sense of kstatus. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from penstock.api.v1alpha1.status import Condition, StreamStatus
from penstock.controller.objects import Manifest
from penstock.controller.status.assessment import Verdict
from penstock.validation.problems import Problem

# API objects take 32768 bytes in a condition's message; nobody reads that many.
_MAX_MESSAGE = 4096


def _conditions(
    raw: Manifest, before: StreamStatus, verdict: Verdict, now: datetime
) -> list[Condition]:
    """Ready, Reconciling and Stalled in the sense of kstatus: of the last two at most one."""
    reconciling = not verdict.ready and not verdict.stalled
    message = verdict.message[:_MAX_MESSAGE]
    told = {
        "Ready": (verdict.ready, verdict.reason, message),
        "Reconciling": (True, verdict.reason, message)
        if reconciling
        else (False, "NothingToDo", "Nothing is being changed"),
        "Stalled": (True, verdict.reason, message)
        if verdict.stalled
        else (False, "NotStalled", "Nothing needs your help"),
    }
    generation = raw["metadata"]["generation"]
    return [
        _condition(kind, holds, reason, words, generation, before, now)
        for kind, (holds, reason, words) in _typed(told)
    ]


def _warning(
    raw: Manifest, before: StreamStatus, warnings: Sequence[Problem], now: datetime
) -> Condition:
    """What runs, but hardly as it was meant; without anything of the kind there is no such type."""
    words = "; ".join(each.message for each in warnings)[:_MAX_MESSAGE]
    generation = raw["metadata"]["generation"]
    return _condition("Warning", True, warnings[0].reason, words, generation, before, now)


ConditionType = Literal["Ready", "Reconciling", "Stalled", "Warning"]


_TYPES: tuple[ConditionType, ...] = ("Ready", "Reconciling", "Stalled")


def _typed(told: Mapping[str, Any]) -> list[tuple[ConditionType, Any]]:
    return [(kind, told[kind]) for kind in _TYPES]


def _condition(
    kind: ConditionType,
    holds: bool,
    reason: str,
    message: str,
    generation: int,
    before: StreamStatus,
    now: datetime,
) -> Condition:
    status: Literal["True", "False"] = "True" if holds else "False"
    last = next((each for each in before.conditions if each.type == kind), None)
    changed = last is None or last.status != status
    return Condition(
        type=kind,
        status=status,
        observed_generation=generation,
        last_transition_time=now if last is None or changed else last.last_transition_time,
        reason=reason,
        message=message,
    )
