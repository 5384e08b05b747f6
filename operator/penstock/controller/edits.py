"""Whether an edit is rolled out, or the driver that runs is to ask Spark about it first. Pure.

An edit must mend a stream that does not run. So only a healthy driver is asked, and it has little
time to answer: one that is broken, hangs, or is too old for the question delays nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from penstock.api.v1alpha1.status import EditVerdict
from penstock.cluster.lenient_fields import at, mappings
from penstock.cluster.objects import StatefulSet
from penstock.cluster.pods import DriverPod
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.controller.children.revision import Revision
from penstock.controller.observation import ObservedChildren, ObservedStream
from penstock.controller.status.outcome import NotApplied, edit_to_judge, refused_edit
from penstock.controller.status.restart_history import report_of

# The driver looks for edits every five seconds, and plans most queries in one or two.
ANSWER_WITHIN = timedelta(seconds=30)


def held_back(
    stream: ObservedStream, desired: Revision, children: ObservedChildren, now: datetime
) -> NotApplied | None:
    """Why a new revision is not rolled out; None if it is, or if nothing runs that it replaces."""
    owner, pod = children.stateful_set, children.driver_pod
    if owner is None or owner.scaled_to_zero or desired.stream.spec.suspend:
        return None
    if owner.spec_hash == desired.spec_hash:
        return None
    report = _report(desired, owner, pod)
    verdict = report.edit if report is not None else None
    if verdict is None or verdict.generation != stream.generation:
        verdict = _known_refusal(stream)
    if verdict is not None:
        return None if verdict.refusal is None else refused_edit(verdict)
    left = stream.spec_edited + ANSWER_WITHIN - now
    if left <= timedelta(0) or pod is None or report is None or not _is_healthy(pod, report):
        return None
    return edit_to_judge(min(left, ANSWER_WITHIN))


def _report(desired: Revision, owner: StatefulSet, pod: DriverPod | None) -> DriverReport | None:
    """What the driver of the revision before says. Of another image it can say nothing."""
    if pod is None or not pod.started or pod.spec_hash != owner.spec_hash:
        return None
    containers = mappings(at(owner.template, "spec", "containers"))
    images = [
        each.get("image") for each in containers if each.get("name") == naming.DRIVER_CONTAINER
    ]
    return report_of(pod) if images == [desired.image] else None


def _known_refusal(stream: ObservedStream) -> EditVerdict | None:
    """What an earlier process of the driver has said: the next one needs time to plan."""
    known = stream.status.internal
    edit = known.edit if known is not None else None
    return edit if edit is not None and edit.generation == stream.generation else None


def _is_healthy(pod: DriverPod, report: DriverReport) -> bool:
    """Whether the driver's query works, and the driver judges edits."""
    works = pod.ready and not pod.terminating and report.state is QueryState.RUNNING
    return works and report.edit is not None
