"""The operator's metrics as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from penstock.api.v1alpha1.status import (
    Cause,
    Condition,
    Cores,
    LastFailure,
    LastRepair,
    StreamStatus,
)
from penstock.cluster.kinds import Key
from penstock.controller.kubernetes.api_client import ApiCall
from penstock.controller.metrics import OperatorMetrics
from penstock.controller.metrics.container_memory import ContainerMemory
from testkit.controller import samples

KEY = Key("shop", "flags")
STREAM = {"namespace": "shop", "name": "flags"}
TIME = samples.T0.timestamp()
STATUS = StreamStatus(
    state="Restarting",
    conditions=[
        Condition(
            type="Ready",
            status="False",
            observed_generation=1,
            last_transition_time=samples.T0,
            reason="BrokerUnreachable",
            message="no answer",
        )
    ],
    mode="Continuous",
    cores=Cores(registered=3, desired=4),
    last_commit_time=samples.T0,
    last_failure=LastFailure(
        reason="DataLoss", message="gone", permanent=False, time=samples.T0 + timedelta(seconds=5)
    ),
    last_repair=LastRepair(
        reason="MetadataLine", cause=Cause.SWITCH, message="removed", time=samples.T0
    ),
)


@dataclass
class Queue:
    """A work queue with these numbers."""

    depth: int = 2
    age: float = 7.5
    failures: Mapping[Key, int] = field(default_factory=lambda: {KEY: 3})


def value(metrics: OperatorMetrics, metric: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"penstock_{metric}", labels)


def of_stream(metrics: OperatorMetrics, metric: str, /, **labels: str) -> float | None:
    return value(metrics, f"stream_{metric}", **STREAM, **labels)


def test_what_alerts_need_of_a_stream_comes_from_its_status() -> None:
    """So it is there while the driver is down."""
    metrics = OperatorMetrics()
    metrics.show(KEY, STATUS, 2.5)
    ready = {"condition": "Ready", "status": "False", "reason": "BrokerUnreachable"}
    assert of_stream(metrics, "condition", **ready) == 1
    assert of_stream(metrics, "info", mode="Continuous", image="") == 1
    assert of_stream(metrics, "commit_interval_seconds") == 2.5
    assert of_stream(metrics, "last_commit_timestamp_seconds") == TIME
    assert of_stream(metrics, "last_failure_timestamp_seconds", reason="DataLoss") == TIME + 5
    assert of_stream(metrics, "last_repair_timestamp_seconds", cause="Switch") == TIME
    assert of_stream(metrics, "cores", kind="desired") == 4
    assert of_stream(metrics, "cores", kind="registered") == 3
    assert of_stream(metrics, "restarts_total", level="query") == 0


def test_when_a_nightly_stream_completed_is_shown_until_it_runs_again() -> None:
    metrics = OperatorMetrics()
    metrics.show(KEY, StreamStatus(mode="AvailableNow", completion_time=samples.T0))
    assert of_stream(metrics, "completion_timestamp_seconds") == TIME
    metrics.show(KEY, StreamStatus(mode="AvailableNow"))
    assert of_stream(metrics, "completion_timestamp_seconds") is None


def test_the_operator_shows_what_prometheus_needs_to_see_it_restart() -> None:
    metrics = OperatorMetrics()
    assert metrics.registry.get_sample_value("process_start_time_seconds")
    assert metrics.registry.get_sample_value("process_resident_memory_bytes")


def of_container(root: Path) -> tuple[float | None, float | None]:
    registry = CollectorRegistry()
    registry.register(ContainerMemory(root))
    names = ("limit_bytes", "working_set_bytes")
    limit, used = (registry.get_sample_value(f"penstock_operator_memory_{it}") for it in names)
    return limit, used


def test_the_memory_of_the_container_is_what_the_kernel_counts(tmp_path: Path) -> None:
    """In the files of both versions of control groups; without a limit nothing is shown."""
    second, first = tmp_path / "second", tmp_path / "first"
    (first / "memory").mkdir(parents=True)
    second.mkdir()
    assert of_container(second) == (None, None)
    for name, text in {
        "memory.max": "536870912\n",
        "memory.current": "104857600\n",
        "memory.stat": "anon 90000000\nfile 9000000\ninactive_file 4857600\n",
    }.items():
        (second / name).write_text(text)
    assert of_container(second) == (536870912, 100_000_000)
    (second / "memory.max").write_text("max\n")
    assert of_container(second) == (None, None)
    for name, text in {
        "memory.limit_in_bytes": "536870912\n",
        "memory.usage_in_bytes": "104857600\n",
        "memory.stat": "cache 9000000\ntotal_inactive_file 4857600\n",
    }.items():
        (first / "memory" / name).write_text(text)
    assert of_container(first) == (536870912, 100_000_000)
    (first / "memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert of_container(first) == (None, None)


def test_what_is_not_known_has_no_series() -> None:
    """A 0 would be a lag, or a commit in 1970."""
    metrics = OperatorMetrics()
    metrics.show(KEY, StreamStatus())
    for name in ("lag", "epoch", "commit_interval_seconds", "last_commit_timestamp_seconds"):
        assert of_stream(metrics, name) is None
    assert of_stream(metrics, "cores", kind="desired") is None


def test_no_stream_spoils_the_metrics_of_the_others() -> None:
    """A tenant can write any number into the report of a driver."""
    metrics = OperatorMetrics()
    metrics.take_over(Queue())
    metrics.show(Key("a", "greedy"), StreamStatus(epoch=10**400))
    metrics.show(KEY, StreamStatus(epoch=7))
    assert of_stream(metrics, "epoch") == 7
    assert generate_latest(metrics.registry).count(b"greedy") == 0


def test_only_the_process_that_leads_shows_streams_and_says_so() -> None:
    """Else two replicas would show a stream twice, one of them with an old status."""
    metrics = OperatorMetrics()
    assert value(metrics, "operator_leader") == 0
    metrics.take_over(Queue())
    metrics.show(KEY, STATUS)
    assert value(metrics, "operator_leader") == 1
    assert value(metrics, "operator_work_queue_depth") == 2
    assert value(metrics, "operator_work_queue_age_seconds") == 7.5
    assert of_stream(metrics, "reconcile_failures") == 3
    metrics.step_back()
    assert value(metrics, "operator_leader") == 0
    assert of_stream(metrics, "state", state="Restarting") is None
    assert of_stream(metrics, "reconcile_failures") is None
    metrics.show(KEY, STATUS)  # a reconcile that was not over when the term ended
    assert of_stream(metrics, "state", state="Restarting") is None
    metrics.take_over(Queue())
    metrics.show(KEY, STATUS)
    assert of_stream(metrics, "state", state="Restarting") == 1


def test_requests_are_counted_by_verb_resource_and_code() -> None:
    """And those that got no answer."""
    metrics = OperatorMetrics()
    metrics.count_request(ApiCall("patch", "continuousstreams/status", 409, 0.2))
    metrics.count_request(ApiCall("patch", "continuousstreams/status", 0, 30.0))
    status = {"verb": "patch", "resource": "continuousstreams/status"}
    requests = "operator_api_requests_total"
    assert value(metrics, requests, **status, code="409") == 1
    assert value(metrics, requests, **status, code="none") == 1
    duration = "operator_api_request_duration_seconds"
    assert value(metrics, f"{duration}_count", **status) == 2
    assert value(metrics, f"{duration}_bucket", **status, le="0.25") == 1
