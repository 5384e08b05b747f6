"""A query that has finished: its driver is let go, and nothing but a person runs it again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import yaml

from penstock.api.v1alpha1.status import StreamState
from penstock.client.doctor.diagnosis import diagnose
from penstock.cluster import kinds
from penstock.cluster.objects import Quota
from penstock.cluster.rest_api import ApiError
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from testkit.controller import samples
from testkit.controller.facts import facts_of, warning
from testkit.controller.fake_cluster import FakeCluster
from testkit.controller.fake_kubernetes_api import Killed
from testkit.streams.streams import kafka_source

TTL = 40
ONCE: dict[str, Any] = {
    # With the default, latest, a first run reads nothing, which is a warning.
    "source": kafka_source("kafka.kafka:9092", topics=["payments"], startingOffsets="earliest"),
    "trigger": {"availableNow": {}},
}
NIGHTLY: dict[str, Any] = {**ONCE, "ttlSecondsAfterFinished": TTL}
AT_ONCE = samples.SETTINGS.spark_image_max_unavailable


def finishes(**spec: Any) -> FakeCluster:
    """A stream whose driver has just said that the query has read everything."""
    cluster = FakeCluster()
    cluster.apply(**spec)
    cluster.settle()
    cluster.report(state=QueryState.COMPLETED)
    cluster.reconcile()
    assert is_completed(cluster)
    return cluster


def let_go() -> FakeCluster:
    """A stream whose driver has ended, since its time was over."""
    cluster = finishes(**NIGHTLY)
    cluster.clock.advance(TTL)
    cluster.settle()
    assert cluster.pod is None
    return cluster


def is_completed(cluster: FakeCluster) -> bool:
    """As for a stream that keeps its driver."""
    conditions = {each.type: each.status for each in cluster.status.conditions}
    assert cluster.status.restarts is None or cluster.status.restarts.total == 0
    return cluster.state == StreamState.COMPLETED and conditions == {
        "Ready": "True", "Reconciling": "False", "Stalled": "False", "Warning": "False",
    }  # fmt: skip


def runs(cluster: FakeCluster) -> bool:
    return cluster.state == StreamState.RUNNING and cluster.pod is not None


@pytest.mark.parametrize("ttl", [0, 5, TTL])
def test_the_driver_is_let_go_when_its_time_is_over(ttl: int) -> None:
    """To the second: the operator looks again by itself."""
    cluster = FakeCluster()
    cluster.apply(**ONCE, ttlSecondsAfterFinished=ttl)
    cluster.settle()
    cluster.report(state=QueryState.COMPLETED)
    completed = cluster.clock()
    while cluster.pod is not None:
        again = cluster.reconcile_once()
        assert again is not None
        assert is_completed(cluster)
        cluster.step()
        if cluster.pod is not None:
            cluster.clock.advance(again.total_seconds())
    assert cluster.clock() == completed + timedelta(seconds=ttl)
    cluster.settle()
    assert is_completed(cluster)
    assert cluster.status.completion_time == completed
    assert "its driver has ended" in cluster.condition("Ready").message
    assert (cluster.status.lag, cluster.status.cores) == (None, None)


@pytest.mark.parametrize("ttl", [90, 100_000])
def test_a_long_time_is_looked_at_before_it_is_over(ttl: int) -> None:
    """The queue adds up to half of a long requeue."""
    cluster = finishes(**ONCE, ttlSecondsAfterFinished=ttl)
    again = cluster.reconcile_once()
    assert again is not None
    assert again * 1.5 <= timedelta(seconds=ttl)


def test_without_the_field_the_driver_stays() -> None:
    cluster = finishes(**ONCE)
    first = cluster.pod
    cluster.clock.advance(10**6)
    cluster.settle()
    assert cluster.pod == first
    assert is_completed(cluster)


def away(cluster: FakeCluster) -> None:
    """Nothing happens but that time passes."""


def operator_restarts(cluster: FakeCluster) -> None:
    cluster.restart_operator()


def another_default_image(cluster: FakeCluster) -> None:
    upgrade([cluster])


def longer(cluster: FakeCluster) -> None:
    cluster.apply(**{**NIGHTLY, "ttlSecondsAfterFinished": 10**6})


def field_removed(cluster: FakeCluster) -> None:
    cluster.apply(**ONCE)


def live_fields(cluster: FakeCluster) -> None:
    cluster.apply(**NIGHTLY, restart={"maxAttempts": 3}, observability={"logLevel": "INFO"})


def scaled_up(cluster: FakeCluster) -> None:
    owner = cluster.api.one(kinds.STATEFUL_SET, naming.driver_name(samples.NAME))
    cluster.api.put({**owner, "spec": {**owner["spec"], "replicas": 1}})


def invalid_for_a_while(cluster: FakeCluster) -> None:
    cluster.apply(**{**NIGHTLY, **samples.AGGREGATE, "trigger": {"continuous": {}}})
    cluster.settle()
    assert cluster.condition("Stalled").status == "True"
    assert cluster.condition("Ready").status == "True"
    assert cluster.state == StreamState.COMPLETED
    cluster.apply(**NIGHTLY)


def paused_for_a_while(cluster: FakeCluster) -> None:
    cluster.annotate(naming.ANNOTATION_PAUSE, "true")
    cluster.settle()
    assert cluster.state == StreamState.COMPLETED
    cluster.annotate(naming.ANNOTATION_PAUSE, "false")


def foreign_set_for_a_while(cluster: FakeCluster) -> None:
    owner = cluster.api.one(kinds.STATEFUL_SET, naming.driver_name(samples.NAME))
    cluster.api.remove(owner)
    meta = {"name": owner["metadata"]["name"], "namespace": "default"}
    foreign = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": meta}
    cluster.api.put({**foreign, "spec": {}})
    cluster.settle()
    assert cluster.condition("Stalled").reason == "ForeignObject"
    cluster.api.remove(cluster.api.one(kinds.STATEFUL_SET, naming.driver_name(samples.NAME)))


@pytest.mark.parametrize(
    "happens",
    [
        away, operator_restarts, another_default_image, longer, field_removed, live_fields,
        scaled_up, invalid_for_a_while, paused_for_a_while,
        foreign_set_for_a_while,
    ],
)  # fmt: skip
def test_it_does_not_run_again_by_itself(happens: Callable[[FakeCluster], None]) -> None:
    cluster = let_go()
    completed = cluster.status.completion_time
    happens(cluster)
    cluster.settle()
    cluster.restart_operator()
    cluster.settle()
    assert is_completed(cluster)
    assert len(cluster.drivers_started) == 1
    assert cluster.status.completion_time == completed


@pytest.mark.parametrize(
    "edit",
    [
        {"restartedAt": "now"},
        {"queryName": "edited"},
        {"executor": {"cores": 2}},
        {"trigger": {"microBatch": {}}},
    ],
)
@pytest.mark.parametrize("field", [NIGHTLY, ONCE], ids=["with the field", "after it was removed"])
def test_another_revision_runs(field: dict[str, Any], edit: dict[str, Any]) -> None:
    cluster = let_go()
    cluster.apply(**{**field, **edit})
    cluster.reconcile()
    assert cluster.status.completion_time is None
    cluster.settle()
    assert runs(cluster)
    assert cluster.status.restarts is not None
    assert cluster.status.restarts.total == 0


def test_a_second_run_finishes_as_the_first() -> None:
    cluster = let_go()
    first = cluster.status.completion_time
    cluster.apply(**NIGHTLY, restartedAt="now")
    cluster.settle()
    cluster.report(state=QueryState.COMPLETED)
    cluster.reconcile()
    cluster.clock.advance(TTL)
    cluster.settle()
    assert is_completed(cluster)
    assert cluster.pod is None
    assert first is not None
    assert cluster.status.completion_time is not None
    assert cluster.status.completion_time > first


def test_an_edit_that_finishes_at_once_has_its_own_time() -> None:
    """In the driver that is still there, between two reports."""
    cluster, edit = finishes(**NIGHTLY), {**NIGHTLY, "queryName": "edited"}
    done = {"state": QueryState.COMPLETED}
    cluster.fails_with[samples.desired(**edit).spec_hash] = done
    first = cluster.status.completion_time
    cluster.clock.advance(TTL - 10)
    cluster.apply(**edit)
    cluster.reconcile()
    assert cluster.status.completion_time == first
    cluster.step()
    cluster.reconcile()
    assert is_completed(cluster)
    assert cluster.status.completion_time == cluster.clock()
    cluster.clock.advance(10)
    cluster.reconcile()
    cluster.step()
    assert cluster.pod is not None
    assert len(cluster.drivers_started) == 1


@pytest.mark.parametrize("spec", [ONCE, NIGHTLY])
def test_a_stream_that_was_suspended_runs_when_it_is_resumed(spec: dict[str, Any]) -> None:
    """As its status says."""
    cluster = finishes(**spec)
    cluster.settle()
    cluster.apply(**spec, suspend=True)
    cluster.settle()
    assert cluster.state == StreamState.SUSPENDED
    assert cluster.status.completion_time is None
    cluster.apply(**spec)
    cluster.settle()
    assert runs(cluster)


def test_a_crash_while_it_is_suspended_lets_go_of_no_driver() -> None:
    """The StatefulSet has none, and the status does not say yet for whom."""
    cluster = finishes(**ONCE)
    cluster.apply(**ONCE, suspend=True)
    cluster.api.kill_at = (len(cluster.api.writes) + 1, "after")
    with pytest.raises(Killed):
        cluster.reconcile()
    cluster.api.kill_at = None
    assert cluster.api.writes[-1] == "apply StatefulSet"
    assert cluster.state == StreamState.COMPLETED
    cluster.step()
    cluster.apply(**ONCE)
    cluster.restart_operator()
    cluster.settle()
    assert runs(cluster)


@pytest.mark.parametrize(("spec", "again"), [(ONCE, True), (NIGHTLY, False)])
def test_a_pod_that_is_lost_before_its_time_runs_the_query_again_only_without_the_field(
    spec: dict[str, Any], again: bool
) -> None:
    cluster = finishes(**spec)
    pod = cluster.pod
    assert pod is not None
    cluster.api.remove(pod)
    cluster.step()  # the StatefulSet is faster than the operator
    assert cluster.pod is not None
    cluster.reconcile()
    assert cluster.state == (StreamState.RUNNING if again else StreamState.COMPLETED)
    assert (cluster.status.completion_time is None) is again
    cluster.step()
    assert (cluster.pod is not None) is again


def test_an_operator_of_another_version_lets_go_of_the_driver_of_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its template begins nothing, if none runs."""
    cluster = finishes(**NIGHTLY)
    monkeypatch.setattr(naming, "GRACE_SECONDS", 61)
    cluster.restart_operator()
    cluster.clock.advance(TTL)
    cluster.settle()
    assert cluster.pod is None
    cluster.apply(**ONCE)
    cluster.settle()
    assert is_completed(cluster)
    assert cluster.pod is None


def test_what_the_cache_shows_late_completes_nothing() -> None:
    """A driver that runs again would end, and its run with it."""
    cluster = finishes(**ONCE)
    cluster.apply(**ONCE, suspend=True)
    cluster.settle()
    cluster.apply(**ONCE)
    cluster.settle()
    assert runs(cluster)
    cluster.report(state=QueryState.COMPLETED)
    cluster.fall_behind()
    cluster.report(state=QueryState.RUNNING)
    cluster.reconcile()
    assert cluster.status.completion_time is None


def test_an_edit_that_is_refused_leaves_it_finished() -> None:
    cluster = let_go()
    completed = cluster.status.completion_time
    cluster.api.refuse = lambda manifest: (
        ApiError(403, "Forbidden", "no") if manifest["kind"] == "StatefulSet" else None
    )
    cluster.apply(**NIGHTLY, restartedAt="now")
    cluster.reconcile()
    assert cluster.state == StreamState.COMPLETED
    assert cluster.condition("Stalled").reason == "ApplyRefused"
    assert cluster.status.completion_time == completed
    cluster.api.refuse = lambda _: None
    cluster.settle()
    assert runs(cluster)


def upgrade(streams: Sequence[FakeCluster], image: str = "another:image") -> None:
    streams[0].settings = replace(samples.SETTINGS, spark_image=image)
    streams[0].restart_operator()


def image(cluster: FakeCluster) -> str | None:
    effective = cluster.status.effective
    return effective.image if effective is not None else None


def nights(size: int = 6) -> list[FakeCluster]:
    """Streams of one operator that have finished, and have no driver any more."""
    first = FakeCluster("flags-0")
    streams = [first, *(FakeCluster(f"flags-{n}", beside=first) for n in range(1, size))]
    night(streams)
    return streams


def night(streams: Sequence[FakeCluster], **edit: Any) -> None:
    """All of them run, those that can finish, and the drivers end."""
    for stream in streams:
        stream.apply(**NIGHTLY, **edit)
    for _ in range(4):
        for stream in streams:
            stream.reconcile()
            stream.step()
        streams[0].clock.advance(1)
    for stream in streams:
        if stream.state == StreamState.RUNNING:
            stream.report(state=QueryState.COMPLETED)
    for _ in range(4):
        for stream in streams:
            stream.reconcile()
            stream.step()
        streams[0].clock.advance(TTL)


@pytest.mark.parametrize("proved", [False, True])
def test_a_new_default_image_comes_with_the_next_run(proved: bool) -> None:
    """To a few at first, and to all once one was Ready with it. The others get it while they run,
    as any stream does.
    """
    streams = nights()
    upgrade(streams)
    night(streams)
    assert {image(each) for each in streams} == {samples.IMAGE}
    assert all(len(each.drivers_started) == 1 for each in streams)
    if proved:
        night(streams[:1], restartedAt="1")
    night(streams, restartedAt="1")
    assert {image(each) for each in streams} == {"another:image"}
    began_with_it = [len(each.drivers_started) for each in streams].count(2)
    assert began_with_it == (len(streams) if proved else AT_ONCE)


def test_a_default_image_that_does_not_run_reaches_a_few_in_a_night() -> None:
    """The others run with the one that they have."""
    streams = nights()
    for each in streams:
        each.missing_images.add("another:image")
    upgrade(streams)
    night(streams, restartedAt="1")
    assert sum(map(is_completed, streams)) == len(streams) - AT_ONCE
    assert {image(each) for each in streams if is_completed(each)} == {samples.IMAGE}


def test_an_edit_that_is_undone_before_it_runs_takes_no_image() -> None:
    """It would run the query again by itself."""
    (stream,) = streams = nights(1)
    upgrade(streams)
    stream.apply(**{**NIGHTLY, **samples.AGGREGATE, "trigger": {"continuous": {}}})
    stream.reconcile()
    assert stream.condition("Stalled").status == "True"
    night(streams)
    assert (len(stream.drivers_started), image(stream)) == (1, samples.IMAGE)


def test_the_doctor_misses_no_pod_of_it() -> None:
    """Nor does a quota that is used up, or what was said about its StatefulSet, matter."""
    cluster = let_go()
    owner = cluster.api.one(kinds.STATEFUL_SET, naming.driver_name(samples.NAME))
    said = warning(owner, "FailedCreate", "exceeded quota: team", cluster.clock.text())
    cluster.api.cluster_events.append(said)
    quota = {
        "apiVersion": kinds.RESOURCE_QUOTA.api_version,
        "kind": kinds.RESOURCE_QUOTA.kind,
        "metadata": {"name": "team", "namespace": "default"},
        "status": {"hard": {"pods": "4"}, "used": {"pods": "4"}},
    }
    facts = facts_of(cluster, quotas=(Quota(quota),))
    assert diagnose(facts) == ()
    scaled_up(cluster)
    facts = facts_of(cluster, quotas=(Quota(quota),))
    assert {each.reason for each in diagnose(facts)} == {"FailedCreate"}


@pytest.mark.parametrize("edit", [{}, samples.AGGREGATE], ids=["valid", "invalid"])
def test_the_time_of_its_end_stays_also_when_its_revision_is_not_known(
    edit: dict[str, Any],
) -> None:
    """As after a status of an operator that did not know it, beside an edit that is refused."""
    cluster = finishes(**NIGHTLY)
    cluster.apply(**NIGHTLY, **edit)
    stream = cluster.stream
    del stream["status"]["effective"]
    cluster.api.put(stream)
    cluster.reconcile()
    ended = cluster.status.completion_time
    assert ended is not None
    for _ in range(3):
        cluster.clock.advance(5)
        cluster.reconcile()
    assert cluster.status.completion_time == ended
    cluster.clock.advance(5)
    assert cluster.reconcile() == []


@pytest.mark.proves("decisions/bounded-tenants.md")
def test_no_yaml_is_written_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML takes half a second for the largest spec, and seconds for a larger one: all streams
    would wait, and the Lease with them.
    """
    writers = set[threading.Thread]()
    write = yaml.safe_dump

    def recorded(*values: Any, **options: Any) -> Any:
        writers.add(threading.current_thread())
        return write(*values, **options)

    monkeypatch.setattr(yaml, "safe_dump", recorded)
    cluster = finishes(**ONCE)
    upgrade([cluster])
    cluster.settle()
    assert is_completed(cluster)
    assert writers
    assert threading.main_thread() not in writers
