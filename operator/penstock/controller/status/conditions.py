"""The conditions of a stream's status, in the sense of kstatus. Pure.

The reasons and messages about the driver's pod come from cluster/stream_state.py.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from penstock.api.problem import Problem, sentence
from penstock.api.v1alpha1.status import Condition, StreamStatus
from penstock.cluster.lenient_fields import MAX_MESSAGE_CHARACTERS
from penstock.cluster.stream import find_condition, not_ready_since
from penstock.controller.situation import ObservedStream
from penstock.controller.status.not_applied import CHANGED_BY_OTHERS, NotApplied, Outcome

_FAILED = "ReconcileFailed"
# Why `kubectl get`, which shows Ready and its reason, does not look as if the edit ran.
_SPEC_NOT_APPLIED = "SpecNotApplied"
_NOT_STALLED = ("NotStalled", "The stream runs, or continues on its own when it can")
_KINDS = ("Ready", "Reconciling", "Stalled", "Warning")
# Until then a failure to reconcile is taken for a hiccup of the API server.
_UNKNOWN_AFTER = timedelta(minutes=1)
# How long Kubernetes may refuse to run a driver before someone should look: as with Deployments.
PROGRESS_DEADLINE = timedelta(minutes=10)

_Status = Literal["True", "False", "Unknown"]


def build_conditions(
    stream: ObservedStream,
    outcome: Outcome,
    warnings: tuple[Problem, ...],
    now: datetime,
    blocked_since: datetime | None,
) -> list[Condition]:
    """Ready, Reconciling and Stalled in the sense of kstatus, which ignores Warning.

    Ready says whether the query runs. Reconciling and Stalled say whether the newest spec is
    applied: of these two at most one is True, and Stalled may be True while Ready is.
    """
    stalled = _stalled(stream, outcome, now, blocked_since)
    is_earlier = outcome.not_applied is not None and outcome.has_driver
    return [
        _condition(stream, now, kind, *content, of_earlier_spec=is_earlier)
        for kind, content in {
            "Ready": _ready(outcome),
            "Reconciling": _reconciling(outcome, stalled=stalled[0] == "True"),
            "Stalled": stalled,
            "Warning": _warning(stream.warnings, warnings),
        }.items()
    ]


def failed_conditions(
    stream: ObservedStream, message: str, now: datetime, since: datetime
) -> list[Condition]:
    """The conditions of a stream that the operator has not been able to reconcile since then.

    What was known stays. After a minute, whether the stream is Ready is no longer known.
    """
    before = {condition.type: condition for condition in stream.status.conditions}
    stalled = before.get("Stalled")
    updated: dict[str, Condition] = {}

    def put(kind: str, status: _Status) -> None:
        content = (_FAILED, message) if status != "False" or kind == "Reconciling" else _NOT_STALLED
        updated[kind] = _condition(stream, now, kind, status, *content, of_earlier_spec=True)

    was_stalled = stalled is not None and stalled.status == "True"
    put("Reconciling", "False" if was_stalled or now - since >= PROGRESS_DEADLINE else "True")
    if not was_stalled or (stalled is not None and stalled.reason == _FAILED):
        put("Stalled", "False" if updated["Reconciling"].status == "True" else "True")
    if "Ready" not in before or now - since >= _UNKNOWN_AFTER:
        put("Ready", "Unknown")
    if "Warning" not in before:
        put("Warning", "Unknown")
    return [updated.get(kind) or before[kind] for kind in _KINDS]


def reports_contest(before: StreamStatus, after: StreamStatus) -> bool:
    """Whether a status says for the first time that another client undoes what is written."""
    then, now = (find_condition(status, "Reconciling") for status in (before, after))
    is_said = now is not None and now.reason == CHANGED_BY_OTHERS
    return is_said and (then is None or then.reason != CHANGED_BY_OTHERS)


def _waiting_since(status: StreamStatus) -> datetime | None:
    """Since when a stream is to run and does not: the time while it was suspended is none."""
    since, reconciling = not_ready_since(status), find_condition(status, "Reconciling")
    if since is None or reconciling is None or reconciling.status != "True":
        return since
    return max(since, reconciling.last_transition_time)


def _ready(outcome: Outcome) -> tuple[_Status, str, str]:
    if not outcome.ready:
        return "False", outcome.reason, outcome.message
    if outcome.not_applied is None or outcome.not_applied.deliberate:
        return "True", outcome.reason, outcome.message
    where = "Reconciling" if outcome.not_applied.retried else "Stalled"
    message = f"{sentence(outcome.message)} The newest spec is not applied completely: see {where}"
    return "True", _SPEC_NOT_APPLIED, message


def _reconciling(outcome: Outcome, *, stalled: bool) -> tuple[_Status, str, str]:
    if stalled:
        return "False", "Stalled", "The stream is stalled: the condition Stalled says why"
    if outcome.not_applied is not None:
        return "True", outcome.not_applied.reason, outcome.not_applied.message
    if outcome.settled:
        return "False", "UpToDate", "The stream does what its spec says"
    return "True", outcome.reason, outcome.message


def _stalled(
    stream: ObservedStream, outcome: Outcome, now: datetime, blocked_since: datetime | None
) -> tuple[_Status, str, str]:
    cause: Outcome | NotApplied = outcome.not_applied or outcome
    if outcome.stalled:
        return "True", cause.reason, cause.message
    if _is_overdue(stream, outcome, now, blocked_since):
        minutes = int(PROGRESS_DEADLINE.total_seconds() // 60)
        return "True", cause.reason, f"For more than {minutes} minutes: {cause.message}"
    return "False", *_NOT_STALLED


def _is_overdue(
    stream: ObservedStream, outcome: Outcome, now: datetime, blocked_since: datetime | None
) -> bool:
    """Whether what Kubernetes, or the API server, refuses has lasted for too long."""
    cause = outcome.not_applied
    if cause is not None and cause.deliberate:
        return False
    since = cause.since if cause else None
    if since is None and not outcome.settled and (outcome.obstacles or cause):
        since = _waiting_since(stream.status)
        if since is not None and cause is None:
            since = max(since, blocked_since or now)
    return since is not None and now - since >= PROGRESS_DEADLINE


def _warning(
    in_spec: tuple[Problem, ...] | None, observed: tuple[Problem, ...]
) -> tuple[_Status, str, str]:
    """What runs, but probably not as intended."""
    if in_spec is None and not observed:
        return "Unknown", "InvalidSpec", "The spec cannot be read, so it was not checked"
    warnings = (*observed, *(in_spec or ()))
    if not warnings:
        return "False", "NoWarnings", "Nothing in the spec calls for a warning"
    return "True", warnings[0].reason, "; ".join(warning.message for warning in warnings)


def _condition(
    stream: ObservedStream,
    now: datetime,
    kind: str,
    status: _Status,
    reason: str,
    message: str,
    *,
    of_earlier_spec: bool,
) -> Condition:
    last = find_condition(stream.status, kind)
    changed = last is None or last.status != status
    # While another spec is refused Ready is about the earlier one: `kubectl wait` then waits. While
    # that other one was tried, it was about it.
    observed = stream.generation
    if kind == "Ready" and of_earlier_spec and last is not None:
        observed = min(last.observed_generation, observed - (stream.given_up is not None))
    return Condition(
        type=kind,
        status=status,
        observed_generation=observed,
        last_transition_time=now if last is None or changed else last.last_transition_time,
        reason=reason,
        message=message[:MAX_MESSAGE_CHARACTERS],
    )
