"""Objects with missing, null and odd fields: a reconcile never raises, and reports a status."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.api.v1alpha1.status import StreamStatus
from penstock.cluster import kinds
from penstock.cluster.objects import Claim, Object, StatefulSet
from penstock.cluster.pods import DriverPod, Pod
from penstock.contract import naming
from penstock.controller.observation import parse_stream
from penstock.controller.planned_changes import reconcile
from penstock.controller.situation import ObservedChildren, ObservedStream, Situation
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster

T = TypeVar("T", bound=Object)
MISSING = "(the field is missing)"
ODD: list[Any] = [
    MISSING, None, {}, [], "", "x", "2026-11-21T00:00:00", "0000", 0, -1, 10**30, 1.5, True,
    [None], [{}], ["x"], {"a": None}, {"name": "driver"}, [{"name": "driver", "state": None}],
]  # fmt: skip

ENDED = {
    "terminated": {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated",
        "startedAt": None,
        "finishedAt": None,
    }
}
# One of each field that the operator reads of a pod.
POD_STATUS: dict[str, Any] = {
    "phase": "Failed",
    "reason": "Evicted",
    "message": "The node was low on resource: memory.",
    "conditions": [
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-21T00:00:00Z"},
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "none"},
        {"type": "DisruptionTarget", "status": "True", "message": "taint"},
    ],
    "initContainerStatuses": [{"name": "mine", "state": {"waiting": {"reason": "ErrImagePull"}}}],
    "containerStatuses": [
        {
            "name": naming.DRIVER_CONTAINER,
            "restartCount": 1,
            "state": {"running": {"startedAt": "2026-11-21T00:00:00Z"}, "waiting": {"reason": "X"}},
            "lastState": ENDED,
        }
    ],
}


def paths(value: Any, *above: str | int) -> Iterator[tuple[str | int, ...]]:
    """The path of each value in a tree."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in entries:
        yield (*above, key)
        if isinstance(each, dict | list):
            yield from paths(each, *above, key)


def changed(tree: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A copy of the tree with another value at the path, or without it."""
    tree = copy.deepcopy(tree)
    parent: Any = tree
    for step in path[:-1]:
        parent = parent[step]
    if value == MISSING:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return tree


def cluster() -> dict[str, Any]:
    """All objects of a stream with every field that the operator reads."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    cluster.report(query_restarts=1, lag=3)
    cluster.put_pod(**POD_STATUS)
    cluster.reconcile()
    api = cluster.api
    return {
        "stream": cluster.stream,
        "service_account": api.one(kinds.SERVICE_ACCOUNT, "flags-driver"),
        "role_binding": api.one(kinds.ROLE_BINDING, "flags-driver"),
        "claim": api.one(kinds.CLAIM, "flags-checkpoint"),
        "stateful_set": api.one(kinds.STATEFUL_SET, "flags-driver"),
        "config_maps": api.of_kind(kinds.CONFIG_MAP),
        "pods": [cluster.pod, samples.executor_pod(1, **POD_STATUS)],
    }


CLUSTER = cluster()
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
    "spec": {
        "containers": [
            {
                "name": naming.DRIVER_CONTAINER,
                "env": [{"name": "A", "value": "b"}],
                "ports": [{"containerPort": 1}],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
                "volumeMounts": [{"name": "a", "mountPath": "/a"}],
                "securityContext": {"capabilities": {"drop": ["ALL"]}},
            }
        ],
        "volumes": [{"name": "a", "emptyDir": {}}],
        "tolerations": [{"operator": "Exists"}],
    },
}
# apiVersion and kind are those of the request.
PATHS = [path for path in paths(CLUSTER) if path[-1] not in ("apiVersion", "kind") and path[1:]]


STREAM = parse_stream(CLUSTER["stream"], samples.SETTINGS)


def reconciled(tree: dict[str, Any], stream: ObservedStream | None = None) -> None:
    """Reconciles the tree, and reads its new status as the API server would store it."""
    stream = stream or parse_stream(tree["stream"], samples.SETTINGS)

    def parsed(of: type[T], name: str) -> tuple[T, ...]:
        found = tree[name] if isinstance(tree[name], list) else [tree[name]]
        return tuple(of(each) for each in found if isinstance(each, dict))

    children = ObservedChildren(
        service_account=next(iter(parsed(Object, "service_account")), None),
        role_binding=next(iter(parsed(Object, "role_binding")), None),
        claim=next(iter(parsed(Claim, "claim")), None),
        stateful_set=next(iter(parsed(StatefulSet, "stateful_set")), None),
        config_maps=parsed(Object, "config_maps"),
        pods=parsed(Pod, "pods"),
    )
    decision = reconcile(Situation.of(stream, children, samples.T0))
    if not stream.terminating:
        assert decision.status is not None
        StreamStatus.model_validate_json(decision.status.model_dump_json(by_alias=True))


@pytest.mark.proves(29)
@settings(max_examples=200, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(ODD)), min_size=1, max_size=4))
def test_no_odd_fields_of_any_objects_stop_a_reconcile(
    changes: list[tuple[tuple[str | int, ...], Any]],
) -> None:
    tree = CLUSTER
    for path, value in changes:
        with contextlib.suppress(KeyError, IndexError, TypeError):  # gone by an earlier change
            tree = changed(tree, path, value)
    reconciled(tree)


def test_each_field_of_a_pod_may_be_odd() -> None:
    """Each of them alone, so that no odd field hides behind another."""
    for path, value in itertools.product(PATHS, ODD):
        if path[0] == "pods" and "spec" not in path:
            pods = changed(CLUSTER["pods"], path[1:], value)
            reconciled({**CLUSTER, "pods": pods}, STREAM)


@settings(max_examples=100, derandomize=True)
@given(st.sampled_from(list(paths(TEMPLATE))), st.sampled_from(ODD))
def test_no_odd_pod_template_stops_a_reconcile(path: tuple[str | int, ...], value: Any) -> None:
    """The schema of the resource lets any object through."""
    spec = {**CLUSTER["stream"]["spec"], "driver": {"podTemplate": changed(TEMPLATE, path, value)}}
    reconciled({**CLUSTER, "stream": {**CLUSTER["stream"], "spec": spec}})


def test_a_stream_continues_after_its_node_was_rebooted() -> None:
    """The kubelet then reports an end without a time."""
    cluster = FakeCluster()
    cluster.apply()
    cluster.settle()
    started = "2026-11-21T01:00:00Z"
    cluster.put_pod(
        containerStatuses=[
            samples.container(
                restartCount=1, state={"running": {"startedAt": started}}, lastState=ENDED
            )
        ]
    )
    cluster.settle()
    assert cluster.state == "Running"
    assert cluster.status.restarts is not None
    assert cluster.status.restarts.process == 1
    failure = cluster.status.last_failure
    assert failure is not None
    assert (failure.reason, failure.time.hour) == ("ContainerStatusUnknown", 1)


def test_an_unreadable_field_of_the_status_does_not_hide_the_others() -> None:
    """Progress and restart counts are in the status and nowhere else."""
    raw = copy.deepcopy(CLUSTER["stream"])
    raw["status"] |= {"epoch": 7, "lastFailure": {"reason": "!"}, "conditions": [{"type": "Ready"}]}
    status = parse_stream(raw, samples.SETTINGS).status
    assert (status.epoch, status.last_failure, status.conditions) == (7, None, [])
    assert status.restarts is not None


def test_a_report_whose_times_have_no_zone_is_not_used() -> None:
    """They could not be compared with others."""
    failure = {"reason": "Boom", "message": "", "permanent": False, "time": "2026-11-21T00:00:00"}
    report = samples.report("0").model_dump(mode="json", by_alias=True)
    text = json.dumps({**report, "lastFailure": failure})
    pod = {"metadata": {"annotations": {naming.ANNOTATION_REPORT: text}}}
    assert DriverPod(pod).report is None


def test_an_eviction_is_dated_with_its_own_time() -> None:
    """With the pod's creation it would be hidden by an older failure."""
    when = "2026-11-21T07:00:00Z"
    conditions = [{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": when}]
    status: dict[str, Any] = {"phase": "Failed", "reason": "Evicted", "conditions": conditions}
    failure = DriverPod(samples.driver_pod("0", None, **status, containerStatuses=[])).failure
    assert failure is not None
    assert (failure.reason, failure.time.hour) == ("Evicted", 7)
