"""Streams, pods and reports for tests of the operator."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

from penstock.api.v1alpha1.status import LastFailure
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.controller.children.revision import Revision, resolve
from penstock.controller.observation import parse_stream
from penstock.controller.operator_settings import Settings
from penstock.controller.situation import ObservedStream
from testkit.streams.streams import KAFKA_TO_KAFKA, manifest

NAME = "flags"
IMAGE = "penstock-spark:test"
SETTINGS = Settings(IMAGE)
T0 = datetime(2026, 11, 21, tzinfo=UTC)
FAILURE = LastFailure(reason="Boom", message="boom", permanent=False, time=T0)


def stream(**spec: Any) -> Manifest:
    """A stream as users write it. Keywords are fields of its spec."""
    return manifest(NAME, {**copy.deepcopy(KAFKA_TO_KAFKA), **spec}, "default")


def stored(**spec: Any) -> Manifest:
    """A stream as the API server returns it."""
    raw = stream(**spec)
    raw["metadata"] |= {"uid": "stream-1", "resourceVersion": "1", "generation": 1}
    return raw


def observed(**spec: Any) -> ObservedStream:
    """A stream as the reconciler parses it."""
    return parse_stream(stored(**spec), SETTINGS)


def desired(**spec: Any) -> Revision:
    """A stream with a valid spec."""
    raw = stored(**spec)
    return resolve(ContinuousStream.model_validate(raw), raw, SETTINGS)


AGGREGATE: dict[str, Any] = {
    "transform": {"sql": "SELECT count(*) AS value FROM source GROUP BY key"}
}


def report(spec_hash: str, **fields: Any) -> DriverReport:
    """A report of a healthy query."""
    return DriverReport(
        **{
            "spec_hash": spec_hash,
            "state": QueryState.RUNNING,
            "partitions": 4,
            "executors": 4,
            "registered_executors": 4,
            "cores": 4,
            "registered_cores": 4,
            "checkpoint_generation": 0,
            "epoch": 1,
            "committed": True,
            "proved": True,
            "lag": 0,
            **fields,
        }
    )


def driver_pod(pod_hash: str, report: DriverReport | None = None, **status: Any) -> Manifest:
    """A pod of the driver, running and ready by default."""
    annotations = {naming.ANNOTATION_POD_HASH: pod_hash}
    if report is not None:
        annotations[naming.ANNOTATION_REPORT] = report.model_dump_json(by_alias=True)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": naming.driver_pod_name(NAME),
            "namespace": "default",
            "uid": "pod-1",
            "creationTimestamp": "2026-11-21T00:00:00Z",
            "labels": naming.stream_labels(NAME, naming.COMPONENT_DRIVER),
            "annotations": annotations,
            "ownerReferences": [{"kind": "StatefulSet", "uid": "set-1"}],
        },
        "spec": {
            "containers": [
                {
                    "name": naming.DRIVER_CONTAINER,
                    "env": [{"name": naming.ENV_POD_HASH, "value": pod_hash}],
                }
            ]
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [container(state={"running": {}})],
            **status,
        },
    }


def running_status() -> Manifest:
    """The status of a driver's pod that runs, with all that a real API server asks for."""
    status: Manifest = driver_pod("")["status"]
    for each in status["containerStatuses"]:
        each |= {"image": "", "imageID": "", "ready": True}
    return {"status": status}


def container(**fields: Any) -> Manifest:
    """The status of the driver's container."""
    return {"name": naming.DRIVER_CONTAINER, "restartCount": 0, **fields}


def executor_pod(number: int, **status: Any) -> Manifest:
    """A pod of an executor."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{NAME}-exec-{number}",
            "namespace": "default",
            "uid": f"exec-{number}",
            "labels": naming.stream_labels(NAME, naming.COMPONENT_EXECUTOR),
        },
        "status": status,
    }


def stateful_set() -> Manifest:
    """The driver's StatefulSet, as far as DriverPod needs it."""
    return {
        "apiVersion": kinds.STATEFUL_SET.api_version,
        "kind": kinds.STATEFUL_SET.kind,
        "metadata": {"name": naming.driver_name(NAME), "namespace": "default", "uid": "set-1"},
        "status": {},
    }
