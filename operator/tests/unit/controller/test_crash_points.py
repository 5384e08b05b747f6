"""The operator dies before or after any of its writes, and the next one recovers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from penstock.api.v1alpha1.status import Restarts, StreamState
from penstock.cluster import kinds
from penstock.contract.driver_report import QueryState
from testkit.controller import samples
from testkit.controller.fake_cluster import KEY, FakeCluster
from testkit.controller.fake_kubernetes_api import Killed, drop_empty

pytestmark = pytest.mark.proves(26)


def created(cluster: FakeCluster) -> None:
    """A stream is applied for the first time."""
    cluster.apply()


def edited(cluster: FakeCluster) -> None:
    """A running stream gets another spec and a larger volume."""
    cluster.apply()
    cluster.settle()
    cluster.apply(executor={"cores": 2}, checkpoint={"volume": {"size": "2Gi"}})


def edited_in_store(cluster: FakeCluster) -> None:
    """A running stream whose checkpoint is in an object store gets another spec."""
    checkpoint = {"objectStore": {"location": "s3a://bucket"}}
    cluster.apply(checkpoint=checkpoint)
    cluster.settle()
    cluster.apply(checkpoint=checkpoint, executor={"cores": 2})


def applied_again(cluster: FakeCluster) -> None:
    """A stream is deleted and applied again before its objects are deleted."""
    edited(cluster)
    cluster.settle()
    cluster.delete()
    cluster.apply()


def corrected(cluster: FakeCluster) -> None:
    """A running stream gets an invalid spec, and then a valid one."""
    edited(cluster)
    cluster.settle()
    cluster.apply(**samples.AGGREGATE)
    cluster.settle()
    cluster.apply()


def retained(cluster: FakeCluster) -> None:
    """A running stream whose volume would be deleted with it gets Retain and another spec."""
    cluster.apply(checkpoint={"volume": {"reclaimPolicy": "Delete"}})
    cluster.settle()
    cluster.apply(executor={"cores": 2})


def dropped(cluster: FakeCluster) -> None:
    """A stream has values that the API server does not store."""
    cluster.api.mutate = drop_empty
    cluster.apply(driver={"podTemplate": {"spec": {"tolerations": [], "nodeSelector": {}}}})


def suspended(cluster: FakeCluster) -> None:
    """A running stream is suspended."""
    cluster.apply()
    cluster.settle()
    cluster.apply(suspend=True)


def resumed(cluster: FakeCluster) -> None:
    """A suspended stream continues with another spec."""
    suspended(cluster)
    cluster.settle()
    cluster.apply(executor={"cores": 2})


def restarted(cluster: FakeCluster) -> None:
    """A running stream is restarted by a person."""
    cluster.apply()
    cluster.settle()
    cluster.apply(restartedAt="now")


def account_deleted(cluster: FakeCluster) -> None:
    """Somebody deletes the ServiceAccount of a running stream, which ends its pod's token."""
    cluster.apply()
    cluster.settle()
    cluster.api.remove(cluster.api.one(kinds.SERVICE_ACCOUNT, "flags-driver"))


NIGHTLY: dict[str, Any] = {"trigger": {"availableNow": {}}, "ttlSecondsAfterFinished": 0}


def finished(cluster: FakeCluster) -> None:
    """A query has read everything, and its driver is to end."""
    cluster.apply(**NIGHTLY)
    cluster.settle()
    cluster.report(state=QueryState.COMPLETED)


def run_again(cluster: FakeCluster) -> None:
    """A query that has finished is run again."""
    finished(cluster)
    cluster.settle()
    cluster.apply(**NIGHTLY, restartedAt="now")


CAUSES = (
    created,
    edited,
    edited_in_store,
    applied_again,
    corrected,
    retained,
    dropped,
    suspended,
    resumed,
    restarted,
    account_deleted,
    finished,
    run_again,
)
STATES: dict[Callable[[FakeCluster], None], StreamState] = {
    suspended: StreamState.SUSPENDED,
    finished: StreamState.COMPLETED,
}


def restarts_after(cause: Callable[[FakeCluster], None]) -> Restarts:
    return Restarts(total=1, pod=1) if cause is account_deleted else Restarts()


def writes_until_settled(cause: Callable[[FakeCluster], None]) -> tuple[int, int, set[str], str]:
    """The numbers of the first and last write after the cause, and what holds in the end.

    That is which objects exist, and the stream's state.
    """
    cluster = FakeCluster()
    cause(cluster)
    first = len(cluster.api.writes) + 1
    cluster.settle()
    expected = STATES.get(cause, StreamState.RUNNING)
    assert cluster.state == expected
    assert (cluster.status.restarts or Restarts()) == restarts_after(cause)
    return first, len(cluster.api.writes), cluster.children(), expected


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("cause", CAUSES)
def test_the_operator_recovers_from_a_crash_at_any_write(
    cause: Callable[[FakeCluster], None], side: str
) -> None:
    first, last, children, state = writes_until_settled(cause)
    assert last > first
    for number in range(first, last + 1):
        cluster = FakeCluster()
        cause(cluster)
        cluster.api.kill_at = (number, side)
        with pytest.raises(Killed):
            cluster.settle()
        cluster.api.kill_at = None
        cluster.restart_operator()
        cluster.settle()
        assert cluster.state == state
        assert cluster.children() == children
        assert (cluster.status.restarts or Restarts()) == restarts_after(cause)
        assert cluster.reconcile() == []
        names = [each["metadata"]["name"] for each in cluster.api.events]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_crash_never_counts_a_restart_twice(side: str) -> None:
    """The bookkeeping and the count are in one write."""
    for number in range(1, 8):
        cluster = FakeCluster()
        cluster.apply()
        cluster.settle()
        cluster.report(query_restarts=2)
        cluster.api.kill_at = (len(cluster.api.writes) + number, side)
        try:
            cluster.settle()
        except Killed:
            cluster.api.kill_at = None
            cluster.restart_operator()
            cluster.settle()
        assert cluster.status.restarts is not None
        assert cluster.status.restarts.query == 2


def caught_up(cluster: FakeCluster) -> None:
    cluster.catch_up()


def doubled(cluster: FakeCluster) -> None:
    """Each event comes twice, some long after what followed it."""
    cluster.show(len(cluster.behind or ()), times=2)
    cluster.catch_up()


def lost(cluster: FakeCluster) -> None:
    cluster.lose_events()


@pytest.mark.parametrize("shown", [caught_up, doubled, lost])
@pytest.mark.parametrize("cause", CAUSES)
def test_watches_that_are_behind_only_delay(
    cause: Callable[[FakeCluster], None], shown: Callable[[FakeCluster], None]
) -> None:
    """From any write on, and also if another operator takes over then, as far behind."""
    first, last, children, state = writes_until_settled(cause)
    for number in range(first, last + 1):
        for taken_over in (False, True):
            cluster = FakeCluster()
            cause(cluster)
            while len(cluster.api.writes) < number and (cluster.reconcile() or cluster.step()):
                cluster.clock.advance(31)
            cluster.fall_behind()
            for _ in range(3):
                cluster.step()
                if taken_over:
                    cluster.another_operator_takes_over()
                cluster.reconcile()
                cluster.clock.advance(31)
            shown(cluster)
            cluster.settle()
            assert cluster.state == state
            assert cluster.children() == children
            assert (cluster.status.restarts or Restarts()) == restarts_after(cause)
            assert cluster.reconcile() == []


def invalid(cluster: FakeCluster) -> None:
    """A stream never had a valid spec, and so no objects."""
    cluster.apply(trigger={"continuous": {"checkpointInterval": "1s"}, "microBatch": {}})


def paused(cluster: FakeCluster) -> None:
    cluster.apply()
    cluster.annotate("penstock.dev/pause-reconciliation", "true")


def terminating(cluster: FakeCluster) -> None:
    """A stream waits for the finalizer of somebody else."""
    cluster.apply()
    meta = {**cluster.stream["metadata"], "deletionTimestamp": cluster.clock.text()}
    cluster.api.put({**cluster.stream, "metadata": meta})


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("cause", [*CAUSES, invalid, paused, terminating])
def test_a_deletion_that_no_watch_shows_is_seen_within_minutes(
    cause: Callable[[FakeCluster], None], replaced: bool
) -> None:
    """kopf does not say what a list no longer has, nor that the stream has another class now."""
    cluster = FakeCluster()
    cause(cluster)
    cluster.settle()
    assert cluster.cache.streams() == [KEY]
    cluster.fall_behind()
    cluster.delete()
    cluster.collect_garbage()
    cluster.lose_events()
    if replaced:
        cluster.fall_behind()
        cluster.apply(className="another")
    until, wait = cluster.clock() + timedelta(minutes=11), timedelta(0)
    while cluster.cache.streams():
        cluster.clock.advance(wait.total_seconds())
        assert cluster.clock() < until
        wait = asyncio.run(cluster.reconciler.reconcile(KEY)) or timedelta(days=1)
    assert asyncio.run(cluster.reconciler.reconcile(KEY)) is None
    labels = {"namespace": KEY.namespace, "name": KEY.name, "state": "Stalled"}
    assert cluster.metrics.registry.get_sample_value("penstock_stream_state", labels) is None


@pytest.mark.parametrize("cause", CAUSES)
def test_an_operator_whose_watches_show_nothing_starts_no_driver_twice(
    cause: Callable[[FakeCluster], None],
) -> None:
    """It looks for itself before it writes."""
    settled = FakeCluster()
    cause(settled)
    settled.settle()
    cluster = FakeCluster()
    cluster.fall_behind()
    cause(cluster)
    for _ in range(20):
        cluster.clock.advance(31)
        cluster.reconcile()
        cluster.step()
    assert len(cluster.drivers_started) <= len(settled.drivers_started)
    cluster.catch_up()
    cluster.settle()
    assert len(cluster.drivers_started) <= len(settled.drivers_started)
    assert cluster.children() == settled.children()


def test_an_operator_that_is_behind_counts_no_restart_twice() -> None:
    """It has the stream as the one before left it, and an older report, which counts from less."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    cluster.report(query_restarts=3)
    cluster.settle()
    cluster.fall_behind()
    cluster.report(query_restarts=5)
    cluster.show(10)
    cluster.reconcile()
    assert cluster.status.restarts == Restarts(total=5, query=5)
    cluster.another_operator_takes_over()
    cluster.cache.put(cluster.stream)
    for _ in range(3):
        cluster.clock.advance(31)
        cluster.reconcile()
    assert cluster.status.restarts == Restarts(total=5, query=5)


def test_an_operator_that_is_behind_deletes_no_pod_that_works_by_now() -> None:
    """The pod of the revision before is ready, so the rollout replaces it. The watch is late."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    cluster.keeps_unready_pods = True
    cluster.put_pod(conditions=[{"type": "Ready", "status": "False"}])
    cluster.apply(executor={"cores": 2})
    cluster.fall_behind()
    cluster.reconcile()
    cluster.step()
    cluster.show(100)  # the new template, and the old pod that is not ready
    cluster.put_pod(conditions=[{"type": "Ready", "status": "True"}])
    cluster.keeps_unready_pods = False
    cluster.reconcile()
    assert "delete Pod" not in cluster.api.writes
