"""The status: written when something happened, and not otherwise."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.v1alpha1.status import Cause, LastRepair, StreamState, StreamStatus
from penstock.contract import naming
from penstock.controller.objects import Manifest
from penstock.controller.observed.driver_pod import DriverPod
from penstock.controller.status.assessment import Verdict
from penstock.controller.status.events import as_event, notices
from penstock.controller.status.stream_status import Standing, as_manifest, stand, status_before
from penstock.validation.problems import Problem
from testkit.controller import samples

HASH = "0123456789"
LATER = samples.T0 + timedelta(hours=1)
RUNNING = Verdict(StreamState.RUNNING, "Running", "fine")
BROKEN = Verdict(StreamState.STALLED, "Broken", "mend it")
VERDICTS = [Verdict(state, "Why", "because") for state in StreamState]


def pod(**said: Any) -> DriverPod:
    return DriverPod(samples.driver_pod(HASH, samples.report(HASH, **said)))


def with_status(standing: Standing, written: str | None = None) -> Manifest:
    raw = samples.stored()
    raw["status"] = as_manifest(raw, standing.status)["status"]
    if written is not None:
        entry = {"manager": naming.FIELD_MANAGER, "subresource": "status", "time": written}
        raw["metadata"]["managedFields"] = [entry]
    return raw


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda each: each.state)
def test_the_conditions_make_sense_to_kstatus(verdict: Verdict) -> None:
    """At most one of the three holds: Ready, or on the way there, or in need of help."""
    status = stand(samples.stored(), verdict, None, samples.T0).status
    assert [each.type for each in status.conditions] == ["Ready", "Reconciling", "Stalled"]
    assert [each.status for each in status.conditions].count("True") == 1
    assert {each.observed_generation for each in status.conditions} == {1}
    assert all(each.message for each in status.conditions)


@given(st.sampled_from(VERDICTS), st.sampled_from(VERDICTS))
def test_a_transition_time_moves_only_with_its_status(one: Verdict, other: Verdict) -> None:
    before = stand(samples.stored(), one, None, samples.T0)
    after = stand(with_status(before), other, None, LATER)
    for old, new in zip(before.status.conditions, after.status.conditions, strict=True):
        moved = old.status != new.status
        assert new.last_transition_time == (LATER if moved else samples.T0)


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda each: each.state)
def test_the_same_again_is_the_same_status(verdict: Verdict) -> None:
    """It survives the way through the API server unchanged."""
    raw = with_status(stand(samples.stored(), verdict, pod(), samples.T0))
    assert stand(raw, verdict, pod(), LATER).status == status_before(raw)


def test_numbers_wait_for_the_beat_and_everything_else_does_not() -> None:
    raw = with_status(stand(samples.stored(), RUNNING, pod(), samples.T0), "2026-11-21T00:00:00Z")
    soon = samples.T0 + timedelta(seconds=4)
    held = stand(raw, RUNNING, pod(epoch=7, lag=9), soon)
    assert held.status == status_before(raw)
    assert held.due == timedelta(seconds=6)
    assert stand(raw, BROKEN, pod(epoch=7), soon).status.epoch == 7
    assert stand(raw, RUNNING, pod(epoch=7), LATER).status.epoch == 7


def test_a_clock_that_is_far_behind_holds_nothing_back() -> None:
    raw = with_status(stand(samples.stored(), RUNNING, pod(), samples.T0), "2026-11-22T00:00:00Z")
    assert stand(raw, RUNNING, pod(epoch=7), samples.T0).status.epoch == 7


def test_without_a_driver_no_number_pretends_to_be_current() -> None:
    """What was reached stays; what was measured goes."""
    raw = with_status(stand(samples.stored(), RUNNING, pod(epoch=7), samples.T0))
    status = stand(raw, VERDICTS[0], None, LATER).status
    assert (status.epoch, status.partitions) == (7, 4)
    assert (status.executors, status.cores, status.lag) == (None, None, None)


def test_a_status_that_cannot_be_read_is_as_good_as_none() -> None:
    assert status_before({"status": {"state": "Nonsense"}}) == StreamStatus()


def test_events_are_about_transitions_only() -> None:
    none = StreamStatus()
    running = stand(samples.stored(), RUNNING, pod(), samples.T0).status
    broken = stand(samples.stored(), BROKEN, pod(), samples.T0).status
    restarted = stand(with_status(Standing(running)), RUNNING, pod(query_restarts=1), LATER).status
    assert [each.reason for each in notices(none, running)] == ["Running"]
    assert [each.reason for each in notices(running, running)] == []
    assert [each.reason for each in notices(running, broken)] == ["Broken"]
    assert [each.reason for each in notices(broken, broken)] == []
    assert [each.reason for each in notices(running, restarted)] == ["QueryRestarted"]


@pytest.mark.parametrize(
    ("cause", "told"),
    [(Cause.CRASH, []), (Cause.SWITCH, ["Normal"]), (Cause.DAMAGE, ["Warning"])],
)
def test_a_mended_checkpoint_is_an_event_where_more_than_a_crash_led_to_it(
    cause: Cause, told: list[str]
) -> None:
    repair = LastRepair(reason="Kind", cause=cause, message="what", time=samples.T0)
    before = stand(samples.stored(), RUNNING, pod(), samples.T0)
    after = stand(with_status(before), RUNNING, pod(last_repair=repair), LATER)
    found = notices(before.status, after.status)
    assert [each.type for each in found] == told
    assert {each.reason for each in found} <= {"CheckpointRepaired"}
    # A driver that starts anew has nothing to say of it, and it stays; once told, it is told.
    later = stand(with_status(after), RUNNING, pod(), LATER)
    assert later.status.last_repair == repair
    assert not notices(after.status, later.status)


def test_the_same_event_has_the_same_name() -> None:
    """So that telling it again after a crash tells it once."""
    (notice,) = notices(StreamStatus(), stand(samples.stored(), BROKEN, None, samples.T0).status)
    events = [as_event(notice, samples.stored(), when) for when in (samples.T0, samples.T0, LATER)]
    names = [each["metadata"]["name"] for each in events]
    assert names[0] == names[1] != names[2]
    assert events[0]["eventTime"] == "2026-11-21T00:00:00.000000Z"


def test_a_warning_is_a_condition_and_an_event_while_it_holds() -> None:
    """kstatus and Argo CD ignore the type: the stream is as healthy as it was."""
    warnings = [Problem("SlowFunction", "slow"), Problem("Other", "and more")]
    plain = stand(samples.stored(), RUNNING, pod(), samples.T0)
    warned = stand(with_status(plain), RUNNING, pod(), LATER, warnings)
    warning = warned.status.conditions[-1]
    assert (warning.type, warning.status, warning.reason) == ("Warning", "True", "SlowFunction")
    assert warning.message == "slow; and more"
    assert [each.reason for each in notices(plain.status, warned.status)] == ["SlowFunction"]
    assert not notices(warned.status, warned.status)
    cleared = stand(with_status(warned), RUNNING, pod(), LATER).status
    assert [each.type for each in cleared.conditions] == ["Ready", "Reconciling", "Stalled"]
