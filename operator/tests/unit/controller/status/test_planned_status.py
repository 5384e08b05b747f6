"""The status of a stream: its content, and when it is written."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.problem import Problem
from penstock.api.v1alpha1.status import (
    MAX_COMMITTED_OFFSETS,
    Cause,
    CommittedOffset,
    Cores,
    LastFailure,
    LastRepair,
    StreamState,
    StreamStatus,
)
from penstock.cluster.kinds import Manifest
from penstock.cluster.pods import DriverPod
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.controller.children.revision import Revision
from penstock.controller.observation import parse_stream
from penstock.controller.situation import ObservedStream
from penstock.controller.status.conditions import PROGRESS_DEADLINE
from penstock.controller.status.not_applied import Outcome
from penstock.controller.status.planned_status import StatusUpdate, plan_status, status_manifest
from penstock.controller.status.stream_events import event_manifest, stream_events
from testkit.controller import samples

LATER = samples.T0 + timedelta(hours=1)
NEW = samples.observed()
HASH, POD_HASH = samples.desired().spec_hash, samples.desired().pod_hash
RUNNING = Outcome(StreamState.RUNNING, "Running", "fine")
BROKEN = Outcome(StreamState.STALLED, "Broken", "repair it")
ASSESSMENTS = [Outcome(state, "Why", "because") for state in StreamState]
SLOW_UDF: dict[str, Any] = {
    "transform": {
        "python": {
            "function": "mine:clean",
            "inline": "from pyspark.sql.functions import udf\ndef clean(source): return source",
        }
    }
}


def pod(**report: Any) -> DriverPod:
    return DriverPod(samples.driver_pod(POD_HASH, samples.report(**{"spec_hash": HASH, **report})))


def stored(update: StatusUpdate, *, written: str = "", **spec: Any) -> ObservedStream:
    """The stream as it is read back after its status was written."""
    raw: Manifest = samples.stored(**spec)
    raw["status"] = status_manifest(NEW, update.status)["status"]
    if written:
        entry = {"manager": naming.FIELD_MANAGER, "subresource": "status", "time": written}
        raw["metadata"]["managedFields"] = [entry]
    return parse_stream(raw, samples.SETTINGS)


def conditions(status: StreamStatus) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status.conditions}


@pytest.mark.parametrize("assessment", ASSESSMENTS, ids=lambda each: each.state)
def test_conditions_follow_kstatus(assessment: Outcome) -> None:
    """One of Ready, Reconciling and Stalled is True; none once a stream is suspended."""
    status = plan_status(NEW, assessment, None, samples.T0).status
    assert [each.type for each in status.conditions] == [
        "Ready", "Reconciling", "Stalled", "Warning",
    ]  # fmt: skip
    expected = int(assessment.state is not StreamState.SUSPENDED)
    assert [each.status for each in status.conditions].count("True") == expected
    assert {each.observed_generation for each in status.conditions} == {1}
    assert all(each.message and each.reason for each in status.conditions)


def test_false_conditions_say_why() -> None:
    running = plan_status(NEW, RUNNING, pod(), samples.T0).status
    assert conditions(running) == {
        "Ready": ("True", "Running"),
        "Reconciling": ("False", "UpToDate"),
        "Stalled": ("False", "NotStalled"),
        "Warning": ("False", "NoWarnings"),
    }
    broken = plan_status(NEW, BROKEN, pod(), samples.T0).status
    assert conditions(broken) == {
        "Ready": ("False", "Broken"),
        "Reconciling": ("False", "Stalled"),
        "Stalled": ("True", "Broken"),
        "Warning": ("False", "NoWarnings"),
    }


def test_warning_is_unknown_if_the_spec_cannot_be_read() -> None:
    unreadable = samples.observed(trigger={"continuous": {"checkpointInterval": "soon"}})
    status = plan_status(unreadable, BROKEN, None, samples.T0).status
    assert conditions(status)["Warning"] == ("Unknown", "InvalidSpec")


@given(st.sampled_from(ASSESSMENTS), st.sampled_from(ASSESSMENTS))
def test_a_transition_time_changes_only_with_its_status(one: Outcome, other: Outcome) -> None:
    before = plan_status(NEW, one, None, samples.T0)
    after = plan_status(stored(before), other, None, LATER)
    for old, new in zip(before.status.conditions, after.status.conditions, strict=True):
        changed = old.status != new.status
        assert new.last_transition_time == (LATER if changed else samples.T0)


@pytest.mark.parametrize("assessment", ASSESSMENTS, ids=lambda each: each.state)
def test_the_same_input_gives_the_same_status(assessment: Outcome) -> None:
    """Also after the status went through the API server."""
    stream = stored(plan_status(NEW, assessment, offsets(1, 2), samples.T0))
    assert plan_status(stream, assessment, offsets(1, 2), LATER).status == stream.status


def offsets(*values: int, omitted: int | None = None, **report: Any) -> DriverPod:
    committed = [
        CommittedOffset(topic="flags", partition=number, offset=offset)
        for number, offset in enumerate(values)
    ]
    return pod(committed_offsets=committed, committed_offsets_omitted=omitted, **report)


@pytest.mark.parametrize("interval", [30, 60, 120, 3600])
def test_numbers_that_come_a_little_early_are_written(interval: int) -> None:
    """Held back, they would cost another reconcile, and be older."""
    stream = replace(
        stored(plan_status(NEW, RUNNING, pod(), samples.T0), written="2026-11-21T00:00:00Z"),
        numbers_interval=timedelta(seconds=interval),
    )

    def due_in(seconds: float) -> timedelta | None:
        now = samples.T0 + timedelta(seconds=seconds)
        return plan_status(stream, RUNNING, pod(epoch=7), now).numbers_due_in

    assert due_in(interval - 6) == timedelta(seconds=6)
    assert due_in(interval / 2) == timedelta(seconds=interval / 2)
    assert due_in(interval - 5) is None


@pytest.mark.parametrize("numbers", [{"epoch": 7}, {"lag": 9}, {}], ids=str)
def test_numbers_wait_for_the_interval_and_nothing_else_does(numbers: dict[str, int]) -> None:
    stream = stored(
        plan_status(NEW, RUNNING, offsets(1), samples.T0), written="2026-11-21T00:00:00Z"
    )
    soon = samples.T0 + timedelta(seconds=4)
    held = plan_status(stream, RUNNING, offsets(8, **numbers), soon)
    assert held.status == stream.status
    assert held.numbers_due_in == timedelta(seconds=26)
    written = plan_status(stream, RUNNING, offsets(8, **numbers), LATER)
    assert written.numbers_due_in is None
    assert written.status.committed_offsets == [
        CommittedOffset(topic="flags", partition=0, offset=8)
    ]
    for name, number in numbers.items():
        assert getattr(written.status, name) == number
    assert plan_status(stream, BROKEN, offsets(8, epoch=7), soon).status.epoch == 7


def test_a_clock_that_is_far_behind_delays_nothing() -> None:
    stream = stored(plan_status(NEW, RUNNING, pod(), samples.T0), written="2026-11-22T00:00:00Z")
    assert plan_status(stream, RUNNING, pod(epoch=7), samples.T0).status.epoch == 7


def test_without_a_driver_the_status_keeps_progress_and_drops_measurements() -> None:
    stream = stored(plan_status(NEW, RUNNING, offsets(3, epoch=7), samples.T0))
    status = plan_status(stream, ASSESSMENTS[0], None, LATER).status
    assert (status.epoch, status.partitions) == (7, 4)
    assert status.committed_offsets == [CommittedOffset(topic="flags", partition=0, offset=3)]
    assert (status.executors, status.cores, status.lag) == (None, None, None)


def test_committed_offsets_are_bounded_and_the_rest_is_counted() -> None:
    many = offsets(*range(MAX_COMMITTED_OFFSETS), omitted=3)
    status = plan_status(NEW, RUNNING, many, samples.T0).status
    assert status.committed_offsets is not None
    assert len(status.committed_offsets) == MAX_COMMITTED_OFFSETS
    assert status.committed_offsets_omitted == 3


def test_a_source_without_offsets_shows_none_of_an_earlier_source() -> None:
    before = plan_status(NEW, RUNNING, offsets(3, omitted=1), samples.T0)
    stream = stored(before, source={"rate": {}}, sink={"console": {}}, transform={})
    status = plan_status(stream, RUNNING, None, LATER).status
    assert (status.committed_offsets, status.committed_offsets_omitted) == (None, None)


def test_cores_are_two_integers() -> None:
    status = plan_status(NEW, RUNNING, pod(registered_cores=3, cores=4), samples.T0).status
    assert status.cores == Cores(registered=3, desired=4)
    assert status_manifest(NEW, status)["status"]["cores"] == {"registered": 3, "desired": 4}


def test_the_next_retry_time_is_reported_only_while_the_query_restarts() -> None:
    waiting = pod(state=QueryState.RESTARTING, next_retry_time=LATER)
    restarting = Outcome(StreamState.RESTARTING, "Why", "because")
    assert plan_status(NEW, restarting, waiting, samples.T0).status.next_retry_time == LATER
    assert plan_status(NEW, BROKEN, waiting, samples.T0).status.next_retry_time is None


@pytest.mark.parametrize(
    ("trigger", "mode"),
    [
        ({"continuous": {"checkpointInterval": "1s"}}, "Continuous"),
        ({"microBatch": {}}, "MicroBatch"),
        ({"microBatch": {"asyncProgress": {}}}, "AsyncMicroBatch"),
        ({"realTime": {}}, "RealTime"),
        ({"availableNow": {}}, "AvailableNow"),
    ],
)
def test_the_mode_is_named(trigger: dict[str, Any], mode: str) -> None:
    stream = samples.observed(trigger=trigger)
    assert plan_status(stream, RUNNING, None, samples.T0).status.mode == mode


def test_an_invalid_edit_keeps_the_mode_and_the_settings_that_run() -> None:
    before = plan_status(NEW, RUNNING, pod(), samples.T0)
    stream = stored(before, **samples.AGGREGATE)
    status = plan_status(stream, BROKEN, pod(), LATER).status
    assert status.mode == "Continuous"
    assert status.effective == before.status.effective


def test_the_mode_is_that_of_the_driver_pod() -> None:
    """An edit that is held, by a pause or a refusal, changes no mode: alerts depend on it."""
    before = plan_status(NEW, RUNNING, pod(), samples.T0)
    edited = stored(before, trigger={"availableNow": {}})
    assert plan_status(edited, RUNNING, pod(), LATER).status.mode == "Continuous"
    assert plan_status(edited, RUNNING, None, LATER).status.mode == "AvailableNow"


def test_effective_settings_are_those_of_the_driver_pod() -> None:
    """During a rollout they are those of the previous revision."""
    assert plan_status(NEW, RUNNING, None, samples.T0).status.effective is None
    before = plan_status(NEW, RUNNING, pod(), samples.T0)
    effective = before.status.effective
    assert effective is not None
    assert (effective.image, effective.revision) == (samples.IMAGE, HASH)
    assert effective.output_mode == "append"
    edited = stored(before, image="another:image")
    assert plan_status(edited, ASSESSMENTS[1], pod(), LATER).status.effective == effective
    desired = edited.desired
    assert desired is not None
    rolled_out = DriverPod(samples.driver_pod(desired.pod_hash))
    changed = plan_status(edited, RUNNING, rolled_out, LATER).status.effective
    assert changed is not None
    assert (changed.image, changed.revision) == ("another:image", desired.spec_hash)


def test_effective_settings_are_those_that_the_driver_follows() -> None:
    """An edit that needs no other pod takes effect when the driver says so."""
    before = plan_status(NEW, RUNNING, pod(), samples.T0)
    edited = stored(before, transform={"sql": "SELECT key, value FROM source WHERE offset > 3"})
    assert edited.desired is not None
    assert edited.desired.pod_hash == POD_HASH
    asked = plan_status(edited, RUNNING, pod(), LATER).status.effective
    assert asked == before.status.effective
    taken = plan_status(edited, RUNNING, pod(spec_hash=edited.desired.spec_hash), LATER)
    assert taken.status.effective is not None
    assert taken.status.effective.revision == edited.desired.spec_hash


@pytest.mark.parametrize(
    ("mode", "reported", "has_executor"),
    [("Auto", 4, True), ("Auto", 0, False), ("Auto", None, False), ("InDriver", 0, False),
     ("Pods", None, True)],
)  # fmt: skip
def test_effective_settings_have_an_executor_where_there_are_some(
    mode: str, reported: int | None, has_executor: bool
) -> None:
    one = samples.observed(executor={"mode": mode})
    assert one.desired is not None
    hashes = one.desired.pod_hash, samples.report(one.desired.spec_hash, executors=reported)
    effective = plan_status(one, RUNNING, DriverPod(samples.driver_pod(*hashes)), LATER).status
    assert effective.effective is not None
    assert (effective.effective.executor is not None) == has_executor


def test_effective_settings_have_all_defaults() -> None:
    effective = plan_status(NEW, RUNNING, pod(), samples.T0).status.effective
    assert effective is not None
    assert effective.driver is not None
    assert effective.driver.model_dump() == {"cpu": "500m", "memory": "1024Mi", "heap": "512Mi"}
    assert effective.executor is not None
    assert effective.executor.model_dump() == {
        "cores": 1, "cpu": "1", "memory": "1408Mi", "heap": "1024Mi",
    }  # fmt: skip


def test_an_unreadable_status_counts_as_none() -> None:
    raw = samples.stored()
    raw["status"] = {"partitions": "many"}
    assert parse_stream(raw, samples.SETTINGS).status == StreamStatus()


def test_states_and_condition_types_of_a_newer_operator_can_be_read() -> None:
    raw = samples.stored()
    raw["status"] = status_manifest(NEW, plan_status(NEW, RUNNING, None, samples.T0).status)[
        "status"
    ]
    raw["status"]["state"] = "Draining"
    raw["status"]["conditions"].append({**raw["status"]["conditions"][0], "type": "Paused"})
    status = parse_stream(raw, samples.SETTINGS).status
    assert status.state == "Draining"
    assert status.conditions[-1].type == "Paused"


@pytest.mark.proves("failures.md#events")
def test_events_are_created_for_transitions_only() -> None:
    running = plan_status(NEW, RUNNING, pod(), samples.T0)

    def then(assessment: Outcome, **report: Any) -> StreamStatus:
        return plan_status(stored(running), assessment, pod(**report), LATER).status

    broken = then(BROKEN)
    outage = then(Outcome(StreamState.RESTARTING, "BrokerUnreachable", "no answer"))
    not_ready = then(Outcome(StreamState.STARTING, "DriverNotReady", "no progress"))
    lost = then(Outcome(StreamState.WAITING_FOR_CORES, "WaitingForCores", "0 of 1 cores"))
    rollout = then(Outcome(StreamState.STARTING, "RollingOut", "a new spec"))
    suspended = then(Outcome(StreamState.SUSPENDING, "Suspending", "it ends"))
    for before, after, events in (
        (StreamStatus(), running.status, [("Normal", "Running")]),
        (running.status, running.status, []),
        (running.status, broken, [("Warning", "Broken")]),
        (broken, broken, []),
        (running.status, outage, [("Warning", "BrokerUnreachable")]),
        (outage, running.status, [("Normal", "Running")]),
        (running.status, not_ready, [("Warning", "DriverNotReady")]),
        (running.status, lost, [("Warning", "WaitingForCores")]),
        (running.status, rollout, [("Normal", "RollingOut")]),
        (rollout, lost, []),
        (running.status, suspended, [("Normal", "Suspending")]),
        (running.status, then(RUNNING, query_restarts=1), [("Warning", "QueryRestarted")]),
    ):
        assert [(each.type, each.reason) for each in stream_events(before, after)] == events


@pytest.mark.proves(12)
@pytest.mark.parametrize(
    ("cause", "types"),
    [(Cause.CRASH, []), (Cause.SWITCH, ["Normal"])],
)
def test_a_repaired_checkpoint_gets_an_event_unless_a_crash_was_the_cause(
    cause: Cause, types: list[str]
) -> None:
    repair = LastRepair(reason="Kind", cause=cause, message="what", time=samples.T0)
    before = plan_status(NEW, RUNNING, pod(), samples.T0)
    after = plan_status(stored(before), RUNNING, pod(last_repair=repair), LATER)
    found = stream_events(before.status, after.status)
    assert [each.type for each in found] == types
    assert {each.reason for each in found} <= {"CheckpointRepaired"}
    # A new driver process does not report the repair. The status keeps it, without a new event.
    later = plan_status(stored(after), RUNNING, pod(), LATER)
    assert later.status.last_repair == repair
    assert not stream_events(after.status, later.status)


@pytest.mark.proves("failures.md#events")
@pytest.mark.parametrize(
    ("reason", "permanent", "events"),
    [
        ("DataLoss", False, ["RecordsLost"]),
        ("DataLoss", True, []),  # a condition says it
        ("DeadLetter", False, ["DeadLetter"]),
        ("BrokerUnreachable", False, []),
    ],
)
def test_accepted_losses_get_an_event_each(reason: str, permanent: bool, events: list[str]) -> None:
    failure = LastFailure(reason=reason, message="4 records", permanent=permanent, time=samples.T0)
    before = plan_status(NEW, RUNNING, pod(), samples.T0)
    after = plan_status(stored(before), RUNNING, pod(last_failure=failure), LATER)
    assert [each.reason for each in stream_events(before.status, after.status)] == events
    again = plan_status(stored(after), RUNNING, pod(last_failure=failure), LATER)
    assert not stream_events(after.status, again.status)


def test_the_same_event_has_the_same_name() -> None:
    """So that a retry after a crash does not create it twice."""
    (event,) = stream_events(StreamStatus(), plan_status(NEW, BROKEN, None, samples.T0).status)
    other = stored(plan_status(NEW, RUNNING, None, samples.T0))
    cases = ((NEW, samples.T0), (NEW, LATER), (other, LATER))
    events = [event_manifest(event, stream, when) for stream, when in cases]
    names = [each["metadata"]["name"] for each in events]
    assert names[0] == names[1] != names[2]
    assert events[0]["eventTime"] == "2026-11-21T00:00:00.000000Z"


def test_a_warning_is_a_condition_and_one_event_while_it_holds() -> None:
    """kstatus and Argo CD ignore the type, so the stream stays healthy."""
    before = plan_status(NEW, RUNNING, pod(), samples.T0)
    warned = plan_status(stored(before, **SLOW_UDF), RUNNING, pod(), LATER)
    assert conditions(warned.status)["Warning"] == ("True", "PythonInContinuousMode")
    assert conditions(warned.status)["Ready"] == ("True", "Running")
    reasons = [each.reason for each in stream_events(before.status, warned.status)]
    assert reasons == ["PythonInContinuousMode"]
    assert not stream_events(warned.status, warned.status)
    cleared = plan_status(stored(warned), RUNNING, pod(), LATER).status
    assert conditions(cleared)["Warning"] == ("False", "NoWarnings")
    assert not stream_events(warned.status, cleared)


def test_a_warning_lists_every_problem() -> None:
    both = {**SLOW_UDF, "sparkConf": {"spark.my.password": "x"}}
    status = plan_status(samples.observed(**both), RUNNING, None, samples.T0).status
    message = status.conditions[-1].message
    assert "526 ms" in message
    assert "; spec.sparkConf: spark.my.password" in message


BLOCKED = Outcome(
    StreamState.PENDING,
    "Unschedulable",
    "Insufficient cpu",
    obstacles=(Problem("Why", "because"),),
)


@pytest.mark.parametrize(
    ("assessment", "overdue"),
    [
        (BLOCKED, True),
        (replace(BLOCKED, obstacles=()), False),
        (replace(BLOCKED, state=StreamState.RESTARTING), True),
    ],
)
def test_what_kubernetes_refuses_for_ten_minutes_is_stalled(
    assessment: Outcome, overdue: bool
) -> None:
    """As kstatus has it for a Deployment. The state keeps saying what is waited for."""
    first = plan_status(NEW, assessment, None, samples.T0)
    assert conditions(first.status)["Stalled"][0] == "False"
    late = samples.T0 + PROGRESS_DEADLINE
    second = plan_status(stored(first), assessment, None, late).status
    assert conditions(second)["Stalled"] == (
        ("True", "Unschedulable") if overdue else ("False", "NotStalled")
    )
    assert conditions(second)["Reconciling"][0] == ("False" if overdue else "True")
    assert second.state == assessment.state
    running = plan_status(stored(StatusUpdate(second)), RUNNING, None, late).status
    assert conditions(running)["Stalled"][0] == "False"


def test_what_was_wrong_before_does_not_count_as_refused_by_kubernetes() -> None:
    """A stream that restarts for its own reasons waits for a node when it can start again."""
    restarting = Outcome(StreamState.RESTARTING, "BrokerUnreachable", "away")
    waits = Outcome(
        StreamState.WAITING_FOR_CORES,
        "WaitingForCores",
        "a node",
        obstacles=(Problem("Why", "because"),),
    )
    first = plan_status(NEW, restarting, None, samples.T0)
    now = samples.T0 + 2 * PROGRESS_DEADLINE
    second = plan_status(stored(first), waits, None, now)
    assert conditions(second.status)["Stalled"][0] == "False"
    # Executors come and go meanwhile.
    third = plan_status(stored(second), replace(waits, obstacles=()), None, now)
    late = plan_status(stored(third), waits, None, now + PROGRESS_DEADLINE)
    assert conditions(late.status)["Stalled"][0] == "True"
    again = plan_status(stored(late), restarting, None, now + PROGRESS_DEADLINE)
    assert again.status.blocked_since is None


def test_progress_of_another_checkpoint_is_not_that_of_the_one_that_runs() -> None:
    """`status.committedOffsets` is what people copy."""
    one = {"checkpoint": {"generation": 1, "startFrom": {"offsets": "latest"}}}

    def driver(desired: Revision, **report: Any) -> DriverPod:
        said = samples.report(desired.spec_hash, **report)
        return DriverPod(samples.driver_pod(desired.pod_hash, said))

    reached = [CommittedOffset(topic="payments", partition=0, offset=9000)]
    pod = driver(samples.desired(), checkpoint_generation=0, epoch=512, committed_offsets=reached)
    status = plan_status(NEW, RUNNING, pod, samples.T0).status
    assert (status.epoch, status.committed_offsets) == (512, reached)
    raw = samples.stored(**one) | {"status": status_manifest(NEW, status)["status"]}
    stream = parse_stream(raw, samples.SETTINGS)
    starting = Outcome(StreamState.STARTING, "Starting", "soon")
    # Until the driver has it, the earlier one runs.
    found = plan_status(stream, starting, pod, LATER).status
    assert (found.epoch, found.committed_offsets) == (512, reached)
    pod = driver(samples.desired(**one), checkpoint_generation=None, epoch=None)
    found = plan_status(stream, starting, pod, LATER).status
    assert found.effective is not None
    assert (found.epoch, found.effective.checkpoint_generation) == (512, 0), "it waits to begin"
    pod = driver(samples.desired(**one), checkpoint_generation=1, epoch=None)
    found = plan_status(stream, starting, pod, LATER).status
    assert found.effective is not None
    assert found.effective.checkpoint_generation == 1
    assert (found.epoch, found.committed_offsets) == (None, None)
