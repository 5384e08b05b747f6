"""Whether an edit is applied, or the driver that runs is asked about it first. Pure.

An edit must mend a stream that does not run. So only a healthy driver is asked, and it has little
time to answer, and to take an edit that needs no other pod: one that is broken or hangs delays
nothing.
"""

from __future__ import annotations

from datetime import timedelta

from penstock.api.problem import sentence
from penstock.api.v1alpha1.status import EditVerdict
from penstock.cluster.lenient_fields import at, mappings
from penstock.cluster.objects import StatefulSet
from penstock.cluster.pods import DriverPod
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.contract.edit_effects import ANSWER_WITHIN
from penstock.controller.children.revision import Revision
from penstock.controller.situation import ObservedStream, Situation
from penstock.controller.status.not_applied import NotApplied

# It stops a query after its next commit, for which it waits ten seconds.
TAKE_WITHIN = timedelta(seconds=60)


def not_accepted_by_driver(situation: Situation) -> NotApplied | None:
    """Why a new revision is not applied; None if it is, or if nothing runs that it replaces."""
    stream, desired = situation.stream, situation.desired
    owner, pod = situation.owner, situation.pod
    if owner is None or owner.scaled_to_zero or desired.stream.spec.suspend:
        return None
    if stream.given_up is not None:
        return None  # what the driver says is about that one
    if owner.pod_hash == desired.pod_hash and situation.applied_at is not None:
        return None
    report = _report(desired, owner, pod)
    verdict = report.edit if report is not None else None
    if verdict is None or verdict.generation != stream.generation:
        verdict = _known_refusal(stream)
    if verdict is not None:
        return None if verdict.refusal is None else _refused(verdict)
    remaining = stream.spec_edited + ANSWER_WITHIN - situation.now
    if remaining <= timedelta(0) or pod is None or report is None or not _is_healthy(pod, report):
        return None
    return NotApplied(
        "JudgingEdit",
        "The running driver asks Spark whether it accepts the edited spec, before anything is "
        "replaced",
        retried=True,
        retry_in=min(remaining, ANSWER_WITHIN),
    )


def _refused(edit: EditVerdict) -> NotApplied:
    """The running driver has planned the edited query, and Spark refuses it."""
    assert edit.refusal is not None
    message = f"{sentence(edit.refusal.message)} The last valid spec keeps running"
    return NotApplied(edit.refusal.reason, message, retried=False, edit=edit)


def needs_another_pod(situation: Situation) -> bool:
    """Whether the pod's driver does not take the applied revision, which its next one starts with.

    A pod that is younger than the revision is never replaced for it. It stays so while the pod
    ends.
    """
    pod, applied_at = situation.pod, situation.applied_at
    if pod is None or not _is_to_take(situation) or applied_at is None or pod.created >= applied_at:
        return False
    if not pod.started and not pod.terminating:
        return pod.container_restarts > 0  # else it has read no revision yet
    return situation.now >= applied_at + TAKE_WITHIN


def not_taken(situation: Situation) -> NotApplied | None:
    """That the driver has yet to take a revision that is applied; None if it has, or says nothing.

    Also of one that is being applied: it takes effect later.
    """
    pod, now = situation.pod, situation.now
    if pod is None or pod.spec_hash is None or not _is_to_take(situation):
        return None
    applied_at = situation.applied_at or now
    return NotApplied(
        "ApplyingEdit",
        "The running driver stops its query after a commit, and starts the edited query",
        retried=True,
        since=applied_at,
        retry_in=max(applied_at + TAKE_WITHIN - now, timedelta(seconds=1)),
    )


def _is_to_take(situation: Situation) -> bool:
    """Whether the driver follows an earlier revision, and the desired one needs no other pod."""
    pod, desired = situation.pod, situation.desired
    is_same_pod = pod is not None and pod.pod_hash == desired.pod_hash
    return pod is not None and is_same_pod and pod.spec_hash != desired.spec_hash


def _report(desired: Revision, owner: StatefulSet, pod: DriverPod | None) -> DriverReport | None:
    """What the driver of the revision before says. Of another image it can say nothing."""
    if pod is None or not pod.started or pod.pod_hash != owner.pod_hash:
        return None
    containers = mappings(at(owner.template, "spec", "containers"))
    images = [
        container.get("image")
        for container in containers
        if container.get("name") == naming.DRIVER_CONTAINER
    ]
    return pod.report if images == [desired.image] else None


def _known_refusal(stream: ObservedStream) -> EditVerdict | None:
    """What an earlier process of the driver has said: the next one needs time to plan."""
    known = stream.status.internal
    edit = known.edit if known is not None else None
    return edit if edit is not None and edit.generation == stream.generation else None


def _is_healthy(pod: DriverPod, report: DriverReport) -> bool:
    """Whether the driver's query works, and the driver has had its first look at the stream."""
    works = pod.ready and not pod.terminating and report.state is QueryState.RUNNING
    return works and report.edit is not None
