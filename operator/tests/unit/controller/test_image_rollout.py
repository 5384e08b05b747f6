"""A new default image rolls over a fleet, a few streams at a time, and stops if it does not run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from penstock.api.v1alpha1.status import LastFailure
from penstock.cluster import kinds
from penstock.cluster.kinds import Key
from penstock.cluster.rest_api import ApiError
from penstock.cluster.stream import Stream, holds
from penstock.cluster.stream_image import StreamImage
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.controller.image_rollout import ImageRollout
from penstock.controller.status.not_applied import IMAGE_RETRY_INTERVAL
from penstock.controller.work_queue import WorkQueue
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster
from testkit.controller.fake_kubernetes_api import Clock

SIZE, AT_ONCE = 5, samples.SETTINGS.spark_image_max_unavailable
NEW = "new:image"
BROKEN = LastFailure(reason="Boom", message="it broke", permanent=True, time=samples.T0)


def fleet(size: int = SIZE, **spec: Any) -> list[FakeCluster]:
    """Streams of one operator, all of them Ready."""
    first = FakeCluster("flags-00")
    streams = [first, *(FakeCluster(f"flags-{n:02}", beside=first) for n in range(1, size))]
    for stream in streams:
        stream.apply(**spec)
    pass_time(streams, rounds=4)
    assert all(stream.state == "Running" for stream in streams)
    return streams


def upgrade(streams: Sequence[FakeCluster], image: str = NEW) -> None:
    """The operator is installed with another default image."""
    streams[0].settings = replace(samples.SETTINGS, spark_image=image)
    streams[0].restart_operator()


def pass_time(streams: Sequence[FakeCluster], rounds: int, seconds: float = 5) -> int:
    """Returns the most that were not Ready at a time."""
    most = 0
    for _ in range(rounds):
        streams[0].clock.advance(seconds)
        for stream in streams:
            stream.reconcile()
            stream.step()
        most = max(most, sum(not is_ready(stream) for stream in streams))
    return most


def is_ready(stream: FakeCluster) -> bool:
    return holds(stream.status, "Ready")


def image(stream: FakeCluster) -> str | None:
    effective = stream.status.effective
    return effective.image if effective is not None else None


def touched(streams: Sequence[FakeCluster]) -> list[str]:
    """The streams that ever had a pod of the new image."""
    return [stream.key.name for stream in streams if len(set(stream.drivers_started)) > 1]


def cannot_pull(streams: Sequence[FakeCluster], *images: str) -> None:
    for stream in streams:
        stream.missing_images |= set(images)


def failed(streams: Sequence[FakeCluster]) -> tuple[list[str], bool]:
    """What the metrics say: the streams with which the image does not run, and if it is stopped."""
    registry = streams[0].metrics.registry
    streams[0].metrics.take_over(WorkQueue())
    names = [
        stream.key.name
        for stream in streams
        if registry.get_sample_value(
            "penstock_stream_image_failed",
            {"namespace": stream.key.namespace, "name": stream.key.name},
        )
    ]
    return names, registry.get_sample_value("penstock_operator_image_rollout_stopped") == 1


class Tenants:
    """Streams of many namespaces, as far as their statuses tell, and what becomes of a new image.

    `fails` says of which streams.
    """

    def __init__(self, keys: Sequence[Key], fails: Callable[[Key], bool]) -> None:
        self.clock, self._fails = Clock(), fails
        self.streams = {key: self._stream(samples.IMAGE, samples.IMAGE) for key in keys}
        self.tried: list[Key] = []
        self.rollout = ImageRollout(
            NEW, AT_ONCE, self._seen, self.clock, lambda key: self._woken.append(key)
        )
        self._woken: list[Key] = []

    def _seen(self) -> list[tuple[Key, StreamImage]]:
        return [(key, StreamImage.of(raw)) for key, raw in self.streams.items()]

    def _stream(self, default: str, last: str, **rollout: Any) -> Stream:
        raw = samples.stored()
        raw["status"] = {
            "observedGeneration": 1,
            "conditions": [{"type": "Ready", "status": "True"}],
            "rollout": {
                "revision": "r", "wasReady": True, "defaultImage": default, "lastReadyImage": last,
                **rollout,
            },
        }  # fmt: skip
        return Stream(raw)

    def go_on(self, rounds: int) -> None:
        """Whoever is woken gets the image, and runs or fails at once."""
        for _ in range(rounds):
            self.clock.advance(5)
            self.rollout.count()
            for key in dict.fromkeys(self._woken):
                image = self.rollout.image_for(key, self.streams[key])
                if image != NEW or key in self.tried:  # who has failed is woken to say so
                    continue
                self.tried.append(key)
                failure = {"reason": "Boom", "time": self.clock.text()}
                self.streams[key] = (
                    self._stream(NEW, samples.IMAGE, failure=failure)
                    if self._fails(key)
                    else self._stream(NEW, NEW)
                )
            self._woken.clear()


def tenants(count: int) -> list[Key]:
    """Each with five streams."""
    return [
        Key(f"team-{team:02}", f"flags-{number}") for team in range(count) for number in range(5)
    ]


@pytest.mark.proves("operate.md#a-new-default-image")
def test_one_tenant_stops_no_image_of_others() -> None:
    """The first of all by its name, and by what it has: its Kafka is away, or it wants to."""
    keys = tenants(10)
    fleet = Tenants(keys, lambda key: key.namespace == "team-00")
    fleet.go_on(100)
    assert {key for key in keys if key.namespace != "team-00"} <= set(fleet.tried)
    assert fleet.rollout.count_waiting() == 0, "nor of itself, where nearly all others run with it"


def test_an_image_that_runs_for_nobody_reaches_no_more_than_a_few_tenants() -> None:
    fleet = Tenants(tenants(10), lambda _: True)
    fleet.go_on(100)
    assert len({key.namespace for key in fleet.tried}) == len(fleet.tried) == AT_ONCE


def test_an_image_that_every_second_stream_cannot_run_reaches_few() -> None:
    fleet = Tenants(tenants(40), lambda key: key.name[-1] in "13")
    fleet.go_on(100)
    assert len(fleet.tried) < 20


def test_a_few_in_a_hundred_stop_no_image() -> None:
    """They have reasons of their own, each another one."""
    keys = tenants(40)
    fleet = Tenants(keys, lambda key: key.name == "flags-3" and key.namespace[-1] in "25")
    fleet.go_on(200)
    assert set(fleet.tried) == set(keys)


def have_or_get(streams: Sequence[FakeCluster], name: str) -> list[str]:
    """The streams whose newest revision is of this image, also if it is given up."""
    return [
        stream.key.name
        for stream in streams
        if stream.status.rollout is not None and stream.status.rollout.default_image == name
    ]


def test_a_new_image_reaches_all_streams_a_few_at_a_time() -> None:
    streams = fleet(12)
    upgrade(streams)
    assert pass_time(streams, rounds=7) <= AT_ONCE
    assert len(touched(streams)) < 10
    assert pass_time(streams, rounds=16) <= AT_ONCE
    assert {image(stream) for stream in streams} == {NEW}
    assert all(stream.status.restarts and not stream.status.restarts.total for stream in streams)


@pytest.mark.parametrize("restarts", [False, True], ids=["one operator", "others take over"])
def test_an_image_that_does_not_run_touches_no_more_than_a_few(restarts: bool) -> None:
    """Neither before its deadline, nor after it."""
    streams = fleet()
    upgrade(streams)
    cannot_pull(streams, NEW)
    for _ in range(12):
        pass_time(streams, rounds=2, seconds=30)
        if restarts:
            streams[0].restart_operator()
    assert len(touched(streams)) == AT_ONCE
    assert {image(stream) for stream in streams} == {samples.IMAGE}
    assert all(map(is_ready, streams))
    stalled = [stream for stream in streams if stream.condition("Stalled").status == "True"]
    assert [stream.key.name for stream in stalled] == touched(streams)
    assert {stream.condition("Stalled").reason for stream in stalled} == {"RolledBack"}
    assert f"did not become Ready with {NEW}" in (stalled[0].condition("Stalled").message or "")
    # The others do what their spec says.
    assert streams[-1].condition("Reconciling").status == "False"


def test_a_mended_image_reaches_all() -> None:
    streams = fleet()
    upgrade(streams)
    cannot_pull(streams, NEW)
    pass_time(streams, rounds=25, seconds=30)
    upgrade(streams, "newer:image")
    pass_time(streams, rounds=25)
    assert {image(stream) for stream in streams} == {"newer:image"}
    assert all(stream.condition("Stalled").status == "False" for stream in streams)


def test_a_stream_that_fails_for_a_reason_of_its_own_stops_nobody() -> None:
    """Neither do two. It is said, and tried once more when its cause may be over."""
    streams = fleet()
    upgrade(streams)
    cannot_pull(streams[:2], NEW)
    pass_time(streams, rounds=25, seconds=30)
    assert [image(stream) for stream in streams] == [*[samples.IMAGE] * 2, *[NEW] * (SIZE - 2)]
    assert failed(streams) == (["flags-00", "flags-01"], False)
    for stream in streams:
        stream.missing_images.clear()
    pass_time(streams, rounds=10, seconds=IMAGE_RETRY_INTERVAL.total_seconds() / 10 - 60)
    assert image(streams[0]) == samples.IMAGE
    assert pass_time(streams, rounds=20, seconds=60) == 1
    assert {image(stream) for stream in streams} == {NEW}
    assert failed(streams) == ([], False)
    assert all(stream.condition("Stalled").status == "False" for stream in streams)


@pytest.mark.proves("operate.md#a-new-default-image")
@pytest.mark.parametrize("restarts", [False, True], ids=["one operator", "others take over"])
def test_streams_that_stop_an_image_are_named_and_tried_again(restarts: bool) -> None:
    """So an outage of one tenant stops it for hours at most, and nobody needs to do anything."""
    streams = fleet()
    upgrade(streams)
    cannot_pull(streams[:AT_ONCE], NEW)
    pass_time(streams, rounds=25, seconds=30)
    names = [stream.key.name for stream in streams[:AT_ONCE]]
    assert failed(streams) == (names, True)
    said = [it for it in streams[0].api.events if it["reason"] == "ImageRolloutStopped"]
    assert sorted(it["regarding"]["name"] for it in said) == names
    assert image(streams[-1]) == samples.IMAGE
    for stream in streams:
        stream.missing_images.clear()
    streams[0].clock.advance(IMAGE_RETRY_INTERVAL.total_seconds())
    for _ in range(10):
        if restarts:
            streams[0].restart_operator()
        assert pass_time(streams, rounds=3, seconds=10) <= AT_ONCE
    assert {image(stream) for stream in streams} == {NEW}
    assert failed(streams) == ([], False)


def test_an_image_that_still_does_not_run_is_tried_again_by_one_stream_after_the_other() -> None:
    """One may still go back while the next one tries it."""
    streams = fleet()
    upgrade(streams)
    cannot_pull(streams, NEW)
    pass_time(streams, rounds=25, seconds=30)
    for _ in range(2):
        streams[0].clock.advance(IMAGE_RETRY_INTERVAL.total_seconds())
        assert 1 <= pass_time(streams, rounds=40, seconds=60) <= 2
        assert all(map(is_ready, streams))
    assert len(touched(streams)) == AT_ONCE


def test_a_stream_that_cannot_try_again_holds_up_no_other() -> None:
    """Its spec is invalid meanwhile."""
    streams = fleet(3)
    upgrade(streams)
    cannot_pull(streams, NEW)
    pass_time(streams, rounds=25, seconds=30)
    for stream in streams:
        stream.missing_images.clear()
    streams[0].apply(**samples.AGGREGATE)
    streams[0].clock.advance(IMAGE_RETRY_INTERVAL.total_seconds())
    pass_time(streams, rounds=40, seconds=60)
    assert [image(stream) for stream in streams] == [samples.IMAGE, NEW, NEW]


def test_streams_that_stop_an_image_can_be_taken_out_of_the_way() -> None:
    streams = fleet()
    upgrade(streams)
    cannot_pull(streams[:AT_ONCE], NEW)
    pass_time(streams, rounds=25, seconds=30)
    streams[0].apply(image=samples.IMAGE)
    pass_time(streams, rounds=25)
    assert {image(stream) for stream in streams[AT_ONCE:]} == {NEW}


def test_streams_that_do_not_run_wait_for_nobody_and_stop_nobody() -> None:
    """Such as one that somebody has stopped, and one that has failed for good."""
    streams = fleet()
    for stream in streams[5:]:
        stream.report(state=QueryState.FAILED, last_failure=BROKEN)
    streams[4].apply(suspend=True)
    pass_time(streams, rounds=4)
    cannot_pull(streams[5:], NEW)
    upgrade(streams)
    pass_time(streams, rounds=25, seconds=30)
    assert [image(stream) for stream in streams[:4]] == [NEW] * 4


def test_streams_that_name_an_image_keep_it() -> None:
    streams = fleet(5, image="own:image")
    upgrade(streams)
    pass_time(streams, rounds=10)
    assert {image(stream) for stream in streams} == {"own:image"}


def test_an_edit_of_a_stream_that_waits_is_applied_with_the_image_that_it_has() -> None:
    streams = fleet()
    upgrade(streams)
    cannot_pull(streams, NEW)
    pass_time(streams, rounds=3)
    streams[-1].apply(executor={"cores": 2})
    pass_time(streams, rounds=5)
    assert streams[-1].condition("Ready").status == "True"
    assert streams[-1].condition("Ready").observed_generation == 2
    assert image(streams[-1]) == samples.IMAGE


def test_a_new_stream_begins_with_the_new_image() -> None:
    streams = fleet(5)
    upgrade(streams)
    streams.append(FakeCluster("newest", beside=streams[0]))
    streams[-1].apply()
    pass_time(streams, rounds=3)
    assert image(streams[-1]) == NEW


def test_streams_that_nothing_is_applied_to_keep_no_place() -> None:
    """Paused, invalid, and refused by the API server: three of each kind, before all others."""
    streams = fleet(12)
    for stream in streams[:3]:
        stream.annotate(naming.ANNOTATION_PAUSE, "true")
    for stream in streams[3:6]:
        stream.apply(**samples.AGGREGATE)
    refused = ApiError(422, "Invalid", "no")
    bad = [f"{stream.key.name}-driver" for stream in streams[6:9]]
    streams[0].api.refuse = lambda it: (
        refused if it["kind"] == "StatefulSet" and it["metadata"]["name"] in bad else None
    )
    pass_time(streams, rounds=2)
    upgrade(streams)
    pass_time(streams, rounds=20)
    assert [image(stream) for stream in streams] == [samples.IMAGE] * 9 + [NEW] * 3


@pytest.mark.parametrize("rollback", ["Auto", "Never"])
def test_an_edit_that_does_not_run_stops_no_image(rollback: str) -> None:
    """One tenant's edit, of a stream that has the new image, must not stop all others."""
    streams = fleet()
    upgrade(streams)
    pass_time(streams, rounds=6)
    assert image(streams[0]) == NEW
    edit = {"executor": {"cores": 2}, "rollout": {"rollback": rollback}}
    streams[0].breaks_with_cores = 2
    streams[0].apply(**edit)
    pass_time(streams, rounds=20)
    assert streams[0].condition("Stalled").status == "True"
    assert {image(stream) for stream in streams[1:]} == {NEW}


def test_given_up_edits_are_not_tried_with_each_new_image() -> None:
    streams = fleet(6)
    for stream in streams[:4]:
        stream.breaks_with_cores = 2
        stream.apply(executor={"cores": 2})
    pass_time(streams, rounds=6)
    assert all(map(is_ready, streams))
    started = [len(stream.drivers_started) for stream in streams[:4]]
    upgrade(streams)
    pass_time(streams, rounds=10)
    assert [len(stream.drivers_started) for stream in streams[:4]] == started
    assert {image(stream) for stream in streams[4:]} == {NEW}


def test_an_image_of_its_own_that_is_removed_gives_way_at_once() -> None:
    """Also while the new image reaches no other stream."""
    streams = fleet(6)
    streams[5].apply(image="own:image")
    pass_time(streams, rounds=4)
    upgrade(streams)
    cannot_pull(streams[:5], NEW)
    pass_time(streams, rounds=25, seconds=30)
    streams[5].apply()
    pass_time(streams, rounds=4)
    assert image(streams[5]) == NEW
    assert is_ready(streams[5])


def test_an_edit_of_a_stream_that_tries_the_image_frees_no_place() -> None:
    streams = fleet()
    upgrade(streams)
    cannot_pull(streams, NEW)
    for number in range(6):
        pass_time(streams, rounds=3)
        for stream in streams[:AT_ONCE]:
            stream.apply(queryName=f"try-{number}")
    pass_time(streams, rounds=10)
    assert len(touched(streams)) == AT_ONCE


def test_culprits_that_are_suspended_stop_nobody() -> None:
    streams = fleet(10, rollout={"deadline": "30s"})
    upgrade(streams)
    cannot_pull(streams[:AT_ONCE], NEW)
    pass_time(streams, rounds=9)
    assert {image(stream) for stream in streams[AT_ONCE:]} == {samples.IMAGE}
    for stream in streams[:AT_ONCE]:
        stream.apply(suspend=True, rollout={"deadline": "30s"})
    pass_time(streams, rounds=20)
    assert {image(stream) for stream in streams[AT_ONCE:]} == {NEW}


def test_streams_that_are_not_ready_for_a_moment_wait_as_well() -> None:
    """Such as in an outage of Kafka: a bad image must not reach all of them."""
    streams = fleet()
    for stream in streams:
        stream.report(state=QueryState.RESTARTING, last_failure=samples.FAILURE)
        stream.missing_images.add(NEW)
    pass_time(streams, rounds=1)
    upgrade(streams)
    pass_time(streams, rounds=25, seconds=30)
    assert len(touched(streams)) == AT_ONCE


def test_the_next_streams_are_woken_when_one_is_done() -> None:
    """Otherwise each would wait for a look that comes every few minutes."""
    streams = fleet(6)
    upgrade(streams)
    woken = streams[0].woken
    pass_time(streams[:3], rounds=6)
    assert {key.name for key in woken} >= {"flags-03", "flags-04", "flags-05"}


def test_an_outage_in_which_all_streams_are_stalled_lets_few_through() -> None:
    """Such as nodes that are away for longer than a stream may wait. Streams that are not Ready
    have places of their own, so as many again get it when they are.
    """
    streams = fleet(9)
    for stream in streams:
        cannot_pull([stream], samples.IMAGE)
        stream.api.remove(stream.pod or {})
    pass_time(streams, rounds=25, seconds=30)
    assert streams[-1].condition("Stalled").status == "True"
    cannot_pull(streams, NEW)
    upgrade(streams)
    pass_time(streams, rounds=3)
    for stream in streams:
        stream.missing_images.remove(samples.IMAGE)
    pass_time(streams, rounds=45, seconds=30)
    assert len(have_or_get(streams, NEW)) <= 2 * AT_ONCE
    assert sum(map(is_ready, streams)) >= 9 - AT_ONCE


def test_given_up_edits_wait_in_an_outage_as_well() -> None:
    streams = fleet()
    for stream in streams:
        stream.breaks_with_cores = 2
        stream.apply(executor={"cores": 2})
    pass_time(streams, rounds=8)
    for stream in streams:
        stream.report(state=QueryState.RESTARTING, last_failure=samples.FAILURE)
    pass_time(streams, rounds=1)
    upgrade(streams)
    pass_time(streams, rounds=10, seconds=30)
    assert have_or_get(streams, NEW) == []


def test_a_stream_that_was_never_ready_gets_the_image_that_may_be_the_cure() -> None:
    streams = fleet(2)
    streams.append(FakeCluster("newest", beside=streams[0]))
    cannot_pull(streams[2:], samples.IMAGE)
    streams[2].apply()
    pass_time(streams, rounds=3)
    upgrade(streams)
    pass_time(streams, rounds=20, seconds=60)
    assert is_ready(streams[2])
    assert image(streams[2]) == NEW


@pytest.mark.parametrize("since", ["ever", "upgrade"])
def test_records_that_a_quota_refuses_hold_nothing_up_for_long(since: str) -> None:
    refused = ApiError(403, "Forbidden", "exceeded quota")
    streams = fleet(5)

    def refuse(it: dict[str, Any]) -> ApiError | None:
        return refused if it["kind"] == kinds.CONTROLLER_REVISION.kind else None

    if since == "ever":
        for record in streams[0].api.of_kind(kinds.CONTROLLER_REVISION):
            streams[0].api.remove(record)
        for stream in streams:
            raw = stream.stream
            raw["status"]["rollout"] = {"revision": "none", "startTime": streams[0].clock.text()}
            stream.api.put(raw)
    streams[0].api.refuse = refuse
    upgrade(streams)
    pass_time(streams, rounds=50, seconds=60)
    assert {image(stream) for stream in streams} == {NEW}


def test_streams_that_crash_for_their_own_reasons_hold_nobody_up() -> None:
    streams = fleet()
    crashing = streams[:AT_ONCE]

    def crash() -> None:
        for stream in crashing:
            if stream.pod is not None and "status" in stream.pod:
                stream.report(state=QueryState.RESTARTING, last_failure=samples.FAILURE)

    crash()
    pass_time(streams, rounds=2)
    upgrade(streams)
    for _ in range(20):
        crash()
        pass_time(streams, rounds=1, seconds=60)
    assert {image(stream) for stream in streams} == {NEW}


@pytest.mark.parametrize("edit", [{"executor": {"cores": 2}}, {"rollout": {"deadline": "5m"}}])
def test_edits_at_the_same_time_hide_no_bad_image(edit: dict[str, Any]) -> None:
    """One commit often has the new release and all streams."""
    streams = fleet()
    cannot_pull(streams, NEW)
    for stream in streams:
        stream.apply(**edit)
    upgrade(streams)
    for number in range(5):
        for stream in streams:
            stream.apply(**edit, queryName=f"again-{number}")
        pass_time(streams, rounds=2, seconds=30)
    pass_time(streams, rounds=20, seconds=30)
    assert len(have_or_get(streams, NEW)) == AT_ONCE


def test_invalid_edits_of_those_that_try_it_hold_it_up_until_their_deadline() -> None:
    streams = fleet()
    upgrade(streams)
    pass_time(streams, rounds=2)
    assert len(have_or_get(streams, NEW)) == AT_ONCE
    for stream in streams[:AT_ONCE]:
        stream.apply(**samples.AGGREGATE)
    pass_time(streams, rounds=20, seconds=60)
    assert len(have_or_get(streams, NEW)) == SIZE


def test_an_edit_in_trial_is_not_blamed_on_the_image() -> None:
    streams = fleet()
    slow = streams[0]
    slow.apply(executor={"cores": 2}, rollout={"deadline": "1m"})
    upgrade(streams)
    for _ in range(40):
        if slow.pod is not None and "status" in slow.pod and slow.applied_hash != slow.pod_hash:
            slow.breaks_with_cores = 2
        pass_time(streams, rounds=1)
    assert slow.condition("Stalled").reason == "RolledBack"
    assert {image(stream) for stream in streams[1:]} == {NEW}


def test_an_image_that_a_policy_refuses_is_said_once() -> None:
    streams = fleet(4)
    refused = ApiError(403, "Forbidden", "policy")

    def refuse(it: dict[str, Any]) -> ApiError | None:
        return refused if it["kind"] == "StatefulSet" and NEW in str(it["spec"]) else None

    streams[0].api.refuse = refuse
    upgrade(streams)
    seen = []
    for _ in range(20):
        pass_time(streams, rounds=1, seconds=30)
        seen.append(streams[0].condition("Stalled").status)
    assert seen == sorted(seen)
    assert seen[-1] == "True"
    assert all(map(is_ready, streams))


@pytest.mark.parametrize("rollback", ["Auto", "Never"])
def test_edits_of_what_does_not_run_free_no_place(rollback: str) -> None:
    """Neither while it goes back, nor of one that does not."""
    policy: Any = {"rollout": {"rollback": rollback}}
    streams = fleet(**policy)
    cannot_pull(streams, NEW)
    upgrade(streams)
    for number in range(50):
        pass_time(streams, rounds=1, seconds=25)
        for stream in streams:
            rollout = stream.status.rollout
            given_up = rollout is not None and rollout.failure is not None
            if not is_ready(stream) and (given_up or number == 30):
                stream.apply(queryName=f"try-{number}", **policy)
    assert len(have_or_get(streams, NEW)) == AT_ONCE


def test_statuses_that_cannot_be_written_let_no_more_through() -> None:
    streams = fleet()
    cannot_pull(streams, NEW)
    upgrade(streams)

    async def conflict(manifest: Any) -> Any:
        raise ApiError(409, "Conflict", "no")

    streams[0].api.apply_status = conflict  # type: ignore[method-assign]
    streams[0].fall_behind()
    pass_time(streams, rounds=15, seconds=10)
    assert len(touched(streams)) == AT_ONCE


def test_streams_that_went_back_hold_a_place_before_their_status_shows_it() -> None:
    """They are Ready and Stalled until it says that they try the next image."""
    streams = fleet()
    cannot_pull(streams, NEW)
    upgrade(streams)
    pass_time(streams, rounds=25, seconds=30)
    assert len(touched(streams)) == AT_ONCE
    upgrade(streams, "newer:image")
    real, others = streams[0].api.apply, [stream.key for stream in streams[1:]]

    async def apply(manifest: Any, *, force: bool) -> Any:
        """While one stream gets the image, the next one is looked at."""
        streams[0].clock.advance(10)
        while others:
            await streams[0].reconciler.reconcile(others.pop(0))
        return await real(manifest, force=force)

    streams[0].api.apply = apply  # type: ignore[method-assign]
    assert pass_time(streams, rounds=1) <= AT_ONCE
    assert len(have_or_get(streams, "newer:image")) == AT_ONCE


def test_another_image_takes_the_place_of_one_that_is_tried() -> None:
    """Also the one before both."""
    streams = fleet()
    cannot_pull(streams, "broken:image")
    upgrade(streams, "broken:image")
    pass_time(streams, rounds=4)
    for name in (NEW, samples.IMAGE):
        upgrade(streams, name)
        pass_time(streams, rounds=20)
        assert {image(stream) for stream in streams} == {name}
    assert all(map(is_ready, streams))


def test_an_own_image_that_is_the_default_one_counts_as_an_own() -> None:
    streams = fleet(3)
    streams[2].apply(image=samples.IMAGE)
    pass_time(streams, rounds=3)
    cannot_pull(streams[:2], NEW)
    upgrade(streams)
    pass_time(streams, rounds=25, seconds=30)
    streams[2].apply()
    pass_time(streams, rounds=4)
    assert image(streams[2]) == NEW


def test_suspended_streams_wait_for_their_turn_when_they_are_resumed() -> None:
    streams = fleet(9)
    for stream in streams:
        stream.apply(suspend=True)
    pass_time(streams, rounds=4)
    cannot_pull(streams, NEW)
    upgrade(streams)
    pass_time(streams, rounds=3)
    for stream in streams:
        stream.apply()
    pass_time(streams, rounds=30, seconds=30)
    assert len(have_or_get(streams, NEW)) <= 2 * AT_ONCE
    assert sum(map(is_ready, streams)) >= 9 - AT_ONCE


def test_who_waits_is_counted() -> None:
    streams = fleet()
    streams[0].apply(suspend=True)
    streams[1].apply(image="own:image")
    pass_time(streams, rounds=3)
    metric = "penstock_operator_image_waiting_streams"
    registry = streams[0].metrics.registry
    streams[0].metrics.take_over(WorkQueue())
    assert registry.get_sample_value(metric) == 0
    upgrade(streams)
    assert registry.get_sample_value(metric) == SIZE - 2
    pass_time(streams, rounds=20)
    assert registry.get_sample_value(metric) == 0


@pytest.mark.parametrize("runs", [True, False], ids=["good", "bad"])
def test_an_image_that_a_policy_has_refused_reaches_a_few_at_a_time(*, runs: bool) -> None:
    streams = fleet(9)
    no = ApiError(403, "Forbidden", "admission webhook: the registry is not on the list")
    streams[0].api.refuse = lambda it: no if NEW in str(it.get("spec")) else None
    upgrade(streams)
    if not runs:
        cannot_pull(streams, NEW)
    pass_time(streams, rounds=20, seconds=10)
    assert {stream.condition("Stalled").reason for stream in streams} == {"ApplyRefused"}
    streams[0].api.refuse = lambda _: None
    assert pass_time(streams, rounds=30, seconds=10) <= AT_ONCE
    assert len(touched(streams)) == (len(streams) if runs else AT_ONCE)


def test_streams_that_are_ill_and_not_applied_hold_no_place_for_ever() -> None:
    """The image may be the cure for others."""
    streams = fleet(9)
    for stream in (*streams[:AT_ONCE], *streams[6:]):
        cannot_pull([stream], samples.IMAGE)
        stream.api.remove(stream.api.one(kinds.POD, f"{stream.key.name}-driver-0"))
    for stream in streams[:AT_ONCE]:
        stream.api.remove(stream.api.one(kinds.CLAIM, f"{stream.key.name}-checkpoint"))
    pass_time(streams, rounds=30, seconds=60)
    upgrade(streams)
    pass_time(streams, rounds=30, seconds=60)
    assert {image(stream) for stream in streams[AT_ONCE:]} == {NEW}
    assert all(map(is_ready, streams[AT_ONCE:]))


def test_a_finished_stream_does_not_run_a_given_up_edit_again() -> None:
    stream = FakeCluster("flags-00")
    once: dict[str, Any] = {"trigger": {"availableNow": {}}}
    stream.apply(**once)
    pass_time([stream], rounds=4)
    stream.report(state=QueryState.COMPLETED)
    pass_time([stream], rounds=4)
    first = stream.applied_hash
    stream.breaks_with_cores = 2
    stream.apply(**once, executor={"cores": 2})
    for _ in range(12):
        pass_time([stream], rounds=1)
        if stream.pod is not None and stream.applied_hash == first and "status" in stream.pod:
            stream.report(state=QueryState.COMPLETED)
    pass_time([stream], rounds=10, seconds=20)
    assert stream.status.completion_time is not None
    assert stream.condition("Stalled").reason == "RolledBack"
    drivers = len(stream.drivers_started)
    upgrade([stream])
    pass_time([stream], rounds=10)
    assert len(stream.drivers_started) == drivers


def test_an_edit_of_a_stream_that_went_back_begins_with_the_image_that_ran() -> None:
    """While it waits for the next image, which does not run for others."""
    streams, bad = fleet(9), "bad:image"
    last = streams[-1]
    cannot_pull([last], bad)
    upgrade(streams, bad)
    pass_time(streams, rounds=30, seconds=10)
    pass_time(streams, rounds=25, seconds=30)
    assert last.condition("Stalled").reason == "RolledBack"
    cannot_pull(streams[:AT_ONCE], NEW)
    upgrade(streams)
    pass_time(streams, rounds=24, seconds=30)
    last.apply(executor={"cores": 2})
    pass_time(streams, rounds=4, seconds=30)
    assert is_ready(last)
    assert image(last) == samples.IMAGE
