"""Whatever the API server refuses or fails at, the stream's status says so."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from penstock.api.v1alpha1.status import LastFailure, StreamState
from penstock.cluster import kinds
from penstock.cluster.kinds import Key, Manifest
from penstock.cluster.rest_api import ApiError
from penstock.contract import naming
from penstock.controller import reconciler
from penstock.controller.metrics import OperatorMetrics
from penstock.controller.observation import parse_stream
from penstock.controller.operator_settings import Settings
from penstock.controller.reconciler import Reconciler
from penstock.controller.situation import ObservedStream
from penstock.controller.work_queue import WorkQueue
from testkit.controller import samples
from testkit.controller.fake_cluster import KEY, FakeCluster
from testkit.controller.fake_kubernetes_api import drop_empty

WEBHOOK = ApiError(500, "InternalError", 'failed calling webhook "policy.example.com"')
QUOTA = ApiError(403, "Forbidden", "exceeded quota: small")
OVERLOAD = ApiError(429, "TooManyRequests", "please try again later", retry_after=40)
CONFLICT = ApiError(409, "Conflict", "the object has been modified")
EDIT = {"driver": {"resources": {"limits": {"memory": "2Gi"}}}}


def refuse(cluster: FakeCluster, kind: str, error: ApiError) -> list[Manifest]:
    """Lets the API server refuse a kind, and returns the requests that it refused."""
    refused: list[Manifest] = []

    def answer(manifest: Manifest) -> ApiError | None:
        if manifest["kind"] != kind:
            return None
        refused.append(manifest)
        return error

    cluster.api.refuse = answer
    return refused


@pytest.mark.proves(19)
@pytest.mark.parametrize(
    ("error", "condition", "reason"),
    [
        (WEBHOOK, "Reconciling", "ApplyFailed"),
        (OVERLOAD, "Reconciling", "ApplyFailed"),
        (CONFLICT, "Reconciling", "ApplyFailed"),
        (QUOTA, "Stalled", "ApplyRefused"),
    ],
)
def test_a_failed_request_is_a_condition_and_ready_stays_true_while_data_flows(
    cluster: FakeCluster, error: ApiError, condition: str, reason: str
) -> None:
    refuse(cluster, "StatefulSet", error)
    cluster.apply(**EDIT)
    cluster.reconcile()
    found = cluster.condition(condition)
    assert (found.status, found.reason) == ("True", reason)
    assert error.message in found.message
    assert "StatefulSet flags-driver" in found.message
    assert cluster.condition("Ready").status == "True"
    assert cluster.state == StreamState.RUNNING
    cluster.api.refuse = lambda _: None
    cluster.clock.advance(60)
    cluster.settle()
    assert cluster.condition("Ready").status == "True"
    assert cluster.condition("Reconciling").status == "False"
    assert len(cluster.drivers_started) == 2


async def test_namespaces_that_are_gone_leave_nothing_behind() -> None:
    """In a cluster with a namespace for each preview, they are many."""
    cluster = FakeCluster()
    namespaces = [f"preview-{number}" for number in range(5)]
    for namespace in namespaces:
        raw = samples.stored()
        raw["metadata"]["namespace"] = namespace
        cluster.cache.put(cluster.api.put(raw))
        await cluster.reconciler.reconcile(Key(namespace, samples.NAME))
    assert list(cluster.reconciler._parsing) == []


def test_a_failed_first_request_is_a_condition_too() -> None:
    cluster = FakeCluster()
    refuse(cluster, "ServiceAccount", WEBHOOK)
    cluster.apply()
    cluster.reconcile()
    assert cluster.condition("Ready").reason == "ApplyFailed"
    assert cluster.condition("Reconciling").status == "True"


def test_a_failure_is_retried_with_back_off_while_the_status_is_still_reported(
    cluster: FakeCluster,
) -> None:
    """No event shortens the back-off of the writes, and the back-off delays no report."""
    refused = refuse(cluster, "StatefulSet", WEBHOOK)
    cluster.apply(**EDIT)
    for number in range(60):
        cluster.clock.advance(1)
        cluster.report(query_restarts=number)
        cluster.reconcile()
    assert 5 <= len(refused) <= 7
    assert cluster.status.restarts is not None
    assert cluster.status.restarts.query == 59


def test_another_edit_ends_the_back_off(cluster: FakeCluster) -> None:
    refused = refuse(cluster, "StatefulSet", QUOTA)
    cluster.apply(**EDIT)
    cluster.reconcile()
    cluster.reconcile()
    assert len(refused) == 1
    cluster.apply(executor={"cores": 2})
    cluster.reconcile()
    assert len(refused) == 2


def test_the_servers_retry_after_is_honoured(cluster: FakeCluster) -> None:
    refused = refuse(cluster, "StatefulSet", OVERLOAD)
    cluster.apply(**EDIT)
    cluster.reconcile()
    cluster.clock.advance(39)
    cluster.reconcile()
    assert len(refused) == 1
    cluster.clock.advance(1)
    cluster.reconcile()
    assert len(refused) == 2


@pytest.mark.proves("failures.md#stalled-or-restarting")
def test_what_lasts_for_ten_minutes_is_stalled(cluster: FakeCluster) -> None:
    refuse(cluster, "StatefulSet", WEBHOOK)
    cluster.apply(**EDIT)
    cluster.reconcile()
    assert cluster.condition("Stalled").status == "False"
    cluster.clock.advance(601)
    cluster.reconcile()
    assert cluster.condition("Stalled").status == "True"
    assert "policy.example.com" in cluster.condition("Stalled").message
    assert cluster.condition("Reconciling").status == "False"
    assert cluster.condition("Ready").status == "True"


@pytest.mark.proves(29)
@pytest.mark.parametrize("error", [ApiError(403, "Forbidden", "cannot list pods"), KeyError("x")])
def test_a_reconcile_that_fails_says_so_and_keeps_what_is_known(
    cluster: FakeCluster, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing right, or a bug of the operator itself."""

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(reconciler, "observe_children", fail)
        with pytest.raises(type(error)):
            cluster.reconcile_once()
        assert cluster.condition("Reconciling").reason == "ReconcileFailed"
        assert type(error).__name__ in cluster.condition("Reconciling").message or (
            "cannot list pods" in cluster.condition("Reconciling").message
        )
        assert cluster.condition("Ready").status == "True"
        assert cluster.status.epoch == 1
        cluster.clock.advance(61)
        with pytest.raises(type(error)):
            cluster.reconcile_once()
        assert cluster.condition("Ready").status == "Unknown"
        before = len(cluster.api.writes)
        with pytest.raises(type(error)):
            cluster.reconcile_once()
        assert len(cluster.api.writes) == before
    cluster.settle()
    assert cluster.condition("Ready").status == "True"
    assert cluster.condition("Reconciling").reason == "UpToDate"


@pytest.mark.parametrize(
    ("code", "message"),
    [(422, "status.lag: Invalid value"), (500, ".status.lag: field not declared in schema")],
    ids=["a value", "a field that an older CRD does not have"],
)
def test_a_refused_status_is_reduced_to_its_conditions(
    cluster: FakeCluster, code: int, message: str
) -> None:
    """For example a number that the schema does not take."""
    cluster.api.refuse = lambda each: (
        ApiError(code, "Invalid", message) if each.get("status", {}).get("lag") == 10**30 else None
    )
    cluster.clock.advance(60)
    cluster.report(lag=10**30, state="Restarting")
    cluster.reconcile()
    assert cluster.state == StreamState.RESTARTING
    assert cluster.condition("Warning").reason == "StatusRefused"
    assert "status.lag" in cluster.condition("Warning").message
    labels = {"namespace": "default", "name": "flags", "condition": "Warning", "status": "True"}
    shown = cluster.metrics.registry.get_sample_value(
        "penstock_stream_condition", {**labels, "reason": "StatusRefused"}
    )
    assert shown == 1  # an alert reads it there


def test_an_event_that_the_server_refuses_delays_nothing_and_is_sent_later(
    cluster: FakeCluster,
) -> None:
    refuse(cluster, "Event", WEBHOOK)
    cluster.report(query_restarts=1)
    cluster.reconcile()
    assert cluster.status.restarts is not None
    assert cluster.status.restarts.query == 1
    cluster.api.refuse = lambda _: None
    cluster.reconcile()
    assert "QueryRestarted" in [each["reason"] for each in cluster.api.events]


def test_an_event_that_the_server_never_takes_holds_up_no_other(cluster: FakeCluster) -> None:
    refused: list[Manifest] = []

    def answer(manifest: Manifest) -> ApiError | None:
        if manifest["kind"] != "Event" or manifest["reason"] != "QueryRestarted":
            return None
        refused.append(manifest)
        return ApiError(422, "Invalid", "note: can have at most 1024 bytes")

    cluster.api.refuse = answer
    cluster.report(query_restarts=1)
    cluster.reconcile()
    cluster.clock.advance(60)
    cluster.report(state="Restarting", query_restarts=1)
    cluster.reconcile()
    assert len(refused) == 1
    assert cluster.api.events[-1]["reason"] == "QueryRestarting"


def test_an_event_of_many_bytes_is_cut_to_what_the_server_takes(cluster: FakeCluster) -> None:
    failure = LastFailure(
        reason="R" * 200, message="ошибка " * 200, permanent=True, time=cluster.clock.time
    )
    cluster.report(state="Failed", last_failure=failure)
    cluster.reconcile()
    event = cluster.api.events[-1]
    assert 990 < len(event["note"].encode()) <= 1000
    assert event["note"].startswith("ошибка ошибка")
    assert len(event["reason"]) <= 128


def test_a_failure_is_not_as_old_as_what_was_wrong_before(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream restarts for its own reasons when the API server fails for a moment."""
    cluster.report(state="Restarting", last_failure=None)
    cluster.reconcile()
    cluster.clock.advance(1200)

    def fail(*_: object) -> None:
        raise ApiError(500, "InternalError", "etcd")

    with monkeypatch.context() as patched:
        patched.setattr(reconciler, "observe_children", fail)
        for _ in range(3):
            with pytest.raises(ApiError):
                cluster.reconcile_once()
            cluster.clock.advance(5)
            assert cluster.condition("Stalled").status == "False"
            assert cluster.condition("Ready").status == "False"
        cluster.clock.advance(600)
        with pytest.raises(ApiError):
            cluster.reconcile_once()
        assert cluster.condition("Stalled").reason == "ReconcileFailed"


def test_a_conflict_of_the_status_is_retried_with_back_off(cluster: FakeCluster) -> None:
    refuse(cluster, "ContinuousStream", CONFLICT)
    cluster.report(query_restarts=1)
    with pytest.raises(reconciler.StreamChanged):
        cluster.reconcile_once()
    cluster.api.refuse = lambda _: None
    cluster.reconcile()
    assert [each["reason"] for each in cluster.api.events].count("QueryRestarted") == 1


EMPTY = {
    "spec": {
        "tolerations": [],
        "nodeSelector": {},
        "hostNetwork": False,
        "containers": [{"name": naming.DRIVER_CONTAINER, "env": [{"name": "A", "value": ""}]}],
    }
}


def test_values_that_the_server_drops_or_a_webhook_changes_are_applied_once() -> None:
    cluster = FakeCluster()

    def mutate(manifest: Manifest) -> None:
        drop_empty(manifest)
        if manifest["kind"] == "StatefulSet":
            manifest["spec"]["template"]["spec"]["priorityClassName"] = "policy"

    cluster.api.mutate = mutate
    template = {"spec": {**EMPTY["spec"], "priorityClassName": "mine"}}
    cluster.apply(driver={"podTemplate": template})
    cluster.settle()
    assert cluster.state == StreamState.RUNNING
    assert cluster.reconcile() == []
    before = cluster.api.one(kinds.STATEFUL_SET, "flags-driver")
    cluster.restart_operator()
    cluster.settle()
    after = cluster.api.one(kinds.STATEFUL_SET, "flags-driver")
    assert after["spec"] == before["spec"]
    assert len(cluster.drivers_started) == 1


def test_an_object_that_another_client_keeps_changing_is_restored_ever_more_rarely(
    cluster: FakeCluster,
) -> None:
    """Two operators that are configured differently would otherwise fight at full speed."""
    cluster.settle()
    restored = 0
    for _ in range(120):
        driver = cluster.api.one(kinds.STATEFUL_SET, "flags-driver")
        driver["spec"]["replicas"] = 0
        driver["metadata"]["managedFields"] = [{"manager": "somebody"}]
        cluster.api.put(driver)
        cluster.clock.advance(1)
        restored += cluster.reconcile().count("apply StatefulSet")
    assert 4 < restored <= 12
    assert cluster.condition("Reconciling").reason == "ChangedByOthers"
    assert "somebody" in cluster.condition("Reconciling").message
    cluster.clock.advance(600)
    cluster.settle()
    assert cluster.condition("Reconciling").reason == "UpToDate"


def test_two_operators_that_are_configured_differently_fight_ever_more_slowly(
    cluster: FakeCluster,
) -> None:
    """Over the driver, and over the status, which each of them sees otherwise."""
    other = Reconciler(
        cluster.api, cluster.cache, OperatorMetrics(), Settings("another:image"), cluster.clock
    )
    before = len(cluster.api.writes)
    reasons = set()
    for _ in range(300):
        cluster.clock.advance(1)
        for each in (cluster.reconciler, other):
            with contextlib.suppress(reconciler.StreamChanged):
                asyncio.run(each.reconcile(KEY))
        cluster.step()
        reasons.add(cluster.condition("Reconciling").reason)
    writes = cluster.api.writes[before:]
    assert writes.count("apply StatefulSet") < 30
    assert writes.count("status") < 60
    assert "ChangedByOthers" in reasons


async def test_no_event_ends_the_back_off_of_a_key_that_failed() -> None:
    """Its own writes are events too."""
    queue = WorkQueue()
    queue._failures[KEY] = 3
    queue._schedule(KEY, 60)
    due = queue._timers[KEY].when()
    queue.add(KEY)
    assert queue._timers[KEY].when() == due


@pytest.mark.proves(29)
async def test_a_tenant_whose_texts_take_long_delays_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many of them it has."""
    cluster, go_on = FakeCluster(), threading.Event()
    for namespace, name in [*(("slow", f"s{each}") for each in range(70)), ("other", "flags")]:
        raw = samples.stream()
        raw["metadata"] |= {"namespace": namespace, "name": name}
        cluster.api.put(raw)

    def parse(raw: Manifest, settings: Settings) -> ObservedStream:
        if raw["metadata"]["namespace"] == "slow":
            go_on.wait(20)
        return parse_stream(raw, settings)

    monkeypatch.setattr(reconciler, "parse_stream", parse)
    queue, done = WorkQueue(), asyncio.Event()

    async def reconcile(key: Key) -> None:
        await cluster.reconciler.reconcile(key)
        if key.namespace == "other":
            done.set()

    async with queue.run(reconcile, 100):
        for number in range(70):
            queue.add(Key("slow", f"s{number}"))
        queue.add(Key("other", "flags"))
        await done.wait()
        assert not go_on.is_set()
        go_on.set()
