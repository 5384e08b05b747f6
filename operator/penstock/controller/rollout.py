"""How far an edit is, and whether it is given up for the last one with which the stream was Ready.

Pure. What was Ready is recorded in a ControllerRevision before the status says so, and an edit is
given up in the status before anything of it is taken back: an operator that dies in between does
the rest later.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1.status import LastFailure, Rollout, StreamState
from penstock.cluster.kinds import Manifest, Ref
from penstock.cluster.objects import ControllerRevision
from penstock.cluster.pods import DriverPod
from penstock.cluster.stream import find_condition
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.controller.children.diff import up_to_date, with_applied_hash
from penstock.controller.children.revision import (
    Revision,
    controller_revision,
    controller_revision_name,
)
from penstock.controller.situation import ObservedStream, Situation
from penstock.controller.status.not_applied import Outcome

# As many as a StatefulSet or a Deployment keeps of its own (revisionHistoryLimit).
_KEPT = 10
# A query that has no records to commit is taken for one that can run after so long.
_READY_FOR = timedelta(minutes=1)
_SOON = timedelta(seconds=1)


def is_given_up(stream: ObservedStream) -> bool:
    """Whether the newest spec is not to run any more, and the last one that was Ready is."""
    rollout, desired = stream.status.rollout, stream.desired
    if rollout is None or desired is None or rollout.revision != desired.spec_hash:
        return False
    return rollout.failure is not None and desired.stream.spec.rollout.rollback == "Auto"


def record_to_go_back_to(stream: ObservedStream) -> str:
    """The name of the record of the last revision that was Ready."""
    rollout = stream.status.rollout
    assert rollout is not None
    return naming.revision_name(stream.name, rollout.last_ready_revision or "")


def is_newly_ready(situation: Situation) -> bool:
    """Whether the stream is Ready with a revision with which it never was.

    In continuous mode a query is Ready for a moment before it fails over its first record, since
    its first epoch holds none. So it must have committed records, or have been Ready for a minute.
    """
    stream, pod = situation.stream, situation.pod
    rollout, desired = stream.status.rollout, stream.desired
    if desired is None or stream.given_up is not None or pod is None or pod.report is None:
        return False
    known = rollout.last_ready_revision if rollout is not None else None
    if pod.spec_hash != desired.spec_hash or known == desired.spec_hash or not pod.ready:
        return False
    report, remaining = pod.report, _until_ready_for_long(stream, situation.now)
    if report.state is QueryState.COMPLETED:
        return True
    return report.state is QueryState.RUNNING and (report.proved or remaining == timedelta(0))


def _until_ready_for_long(stream: ObservedStream, now: datetime) -> timedelta:
    """Until the stream has been Ready with its newest revision for a minute; 0 after it."""
    rollout, ready = stream.status.rollout, find_condition(stream.status, "Ready")
    if rollout is None or rollout.start_time is None or ready is None or ready.status != "True":
        return _READY_FOR
    since = max(rollout.start_time, ready.last_transition_time)
    return max(timedelta(0), since + _READY_FOR - now)


def next_rollout(situation: Situation, outcome: Outcome) -> Rollout | None:
    """How far the newest revision is, of a stream that is to run it or an earlier one."""
    stream, pod, now = situation.stream, situation.pod, situation.now
    newest, before = stream.given_up or stream.desired, stream.status.rollout
    if newest is None:
        return before
    is_new = before is None or before.revision != newest.spec_hash or stream.retries_given_up
    if before is None or is_new:
        before = _begun(stream, newest, before)
    image = "" if newest.stream.spec.image else newest.image
    before = before.model_copy(update={"default_image": image})
    if before.last_ready_revision == newest.spec_hash:
        before = before.model_copy(update={"last_ready_image": newest.image})
    if newest.stream.spec.rollout.rollback == "Never":
        before = before.model_copy(update={"failure": None})
    if stream.given_up is not None:
        return before
    if newest.stream.spec.suspend:
        return not_tried(before)
    if before.last_ready_revision == newest.spec_hash:
        # What takes an edit back is tried until it is Ready: the next one is about what ran before.
        since = now if is_new else before.start_time
        return before.model_copy(update={"start_time": None if outcome.ready else since})
    report = _report_of(newest, pod)
    if report is not None and report.repartitions_state:
        # As long as its size takes; what follows has its time.
        return before.model_copy(update={"start_time": now})
    if outcome.ready and is_newly_ready(situation):
        # Not recorded yet: no time counts any more, and no earlier revision is better.
        if not situation.children.recorded:
            return before.model_copy(update={"start_time": None, "was_ready": False})
        ready = {
            "start_time": None,
            "last_ready_revision": newest.spec_hash,
            "last_ready_image": newest.image,
            "pod_seconds": _pod_seconds(situation, before),
            "failure": None,
        }
        return before.model_copy(update=ready)
    if before.start_time is None:
        before = before.model_copy(update={"start_time": now})
    if before.failure is None and _has_failed(before, newest, outcome, report, now):
        failure = LastFailure(
            reason=outcome.reason,
            message=outcome.message,
            permanent=True,
            time=now,
            revision=newest.spec_hash,
        )
        return before.model_copy(update={"failure": failure})
    return before


def _pod_seconds(situation: Situation, rollout: Rollout) -> int | None:
    """How long this revision took to be Ready, or the last one that needed another pod.

    One that failed on the way waited for something else, such as a topic that did not exist.
    """
    status, pod = situation.stream.status, situation.pod
    start, ready = rollout.start_time, find_condition(status, "Ready")
    # A pod's time of creation is in whole seconds.
    if start is None or pod is None or pod.created < start - _SOON:
        return rollout.pod_seconds
    failure = status.last_failure
    if failure is not None and failure.time >= start - _SOON:
        return rollout.pod_seconds
    since = ready.last_transition_time if ready is not None and ready.status == "True" else start
    return round(((since if since > start else situation.now) - start).total_seconds())


def _begun(stream: ObservedStream, newest: Revision, before: Rollout | None) -> Rollout:
    """The rollout of a revision that was not known. One that ends another that was tried is about
    what ran before both.
    """
    ends_one = before is not None and before.start_time is not None and before.was_ready
    ready = find_condition(stream.status, "Ready")
    was_ready = ready is not None and ready.status != "False"  # as far as is known
    begun = {
        "revision": newest.spec_hash,
        "was_ready": ends_one or was_ready,
        "start_time": None,
        "failure": None,
    }
    return (before or Rollout(revision="")).model_copy(update=begun)


def not_tried(rollout: Rollout | None) -> Rollout | None:
    """The rollout while the newest revision is not to run: its time does not count."""
    return rollout and rollout.model_copy(update={"start_time": None})


def is_settled(rollout: Rollout | None) -> bool:
    """Whether the stream was Ready with its newest revision, so that nothing is to be decided."""
    return rollout is not None and rollout.revision == rollout.last_ready_revision


def _has_failed(
    rollout: Rollout,
    newest: Revision,
    outcome: Outcome,
    report: DriverReport | None,
    now: datetime,
) -> bool:
    """Whether there is something to go back to, and reason enough.

    An edit of a stream that was not Ready either may be as good as what there was.
    """
    if not _can_go_back(rollout, newest) or outcome.ready:
        return False
    if outcome.state is StreamState.STALLED and report is not None:
        return True
    if report is not None and report.state is QueryState.STARTING and report.query_runs:
        return False  # a first batch may take long, and nothing is wrong with it
    return rollout.was_ready and _time_left(rollout, newest, now) <= timedelta(0)


def _report_of(newest: Revision, pod: DriverPod | None) -> DriverReport | None:
    """What a driver of this revision says."""
    runs = pod is not None and pod.started and pod.spec_hash == newest.spec_hash
    return pod.report if pod is not None and runs else None


def _can_go_back(rollout: Rollout, newest: Revision) -> bool:
    return rollout.last_ready_revision is not None and newest.stream.spec.rollout.rollback == "Auto"


def next_look(situation: Situation, rollout: Rollout | None) -> timedelta | None:
    """When to look again, however quiet all is: None if time alone changes nothing.

    Soon at a revision that has just been given up, for the last one is to run.
    """
    stream, pod, now = situation.stream, situation.pod, situation.now
    newest, before = stream.given_up or stream.desired, stream.status.rollout
    if rollout is None or newest is None or is_settled(rollout):
        return None
    if rollout.failure is not None:
        was_known = before is not None and before.failure == rollout.failure
        return None if was_known else _SOON
    if rollout.start_time is None:
        return None
    looks = []
    if pod is not None and pod.ready:
        looks.append(_until_ready_for_long(stream, now))
    if _can_go_back(rollout, newest):
        looks.append(_time_left(rollout, newest, now))
    return min((look for look in looks if look > timedelta(0)), default=None)


def _time_left(rollout: Rollout, newest: Revision, now: datetime) -> timedelta:
    """Until the deadline of a revision that is tried; negative after it."""
    deadline = timedelta(milliseconds=milliseconds(newest.stream.spec.rollout.deadline))
    return (rollout.start_time or now) + deadline - now


def record_to_write(
    newest: Revision, records: Sequence[ControllerRevision], *, names_image: bool
) -> Manifest | None:
    """What is to be written of a revision with which the stream is Ready; None if it is there.

    It gets the highest number.
    """
    name = controller_revision_name(newest)
    others = max((it.revision for it in records if it.name != name), default=0)
    known = next((it for it in records if it.name == name), None)
    number = known.revision if known and known.revision > others else others + 1
    manifest = with_applied_hash(controller_revision(newest, number, names_image=names_image))
    return None if known is not None and up_to_date(manifest, known) else manifest


def records_to_delete(records: Sequence[ControllerRevision], written: str) -> tuple[Ref, ...]:
    """The oldest records, if there are too many with the one of this name, which is written."""
    others = [record for record in records if record.name != written]
    return tuple(record.ref for record in others[_KEPT - 1 :])
