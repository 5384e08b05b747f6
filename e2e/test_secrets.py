"""Secret values beside a data source that says its options wherever it can."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from penstock.contract import naming
from testkit.cluster.stream import KIND, Stream, small_stream
from testkit.driver import loud
from testkit.kubernetes.kubectl import Kube, Object
from testkit.wait import wait_for

_JAR, _FOLDER = "loud.jar", "/opt/loud"
SOURCE, SINK, CONF = loud.values("s", 15), loud.values("k", 14), loud.values("c", 1)
VALUES = {**SOURCE, **SINK, **CONF}
SECRET = "loud"
# What Spark's web UI has of a query, its environment, its jobs and their failures.
_PAGES = ("/jobs/", "/stages/", "/SQL/", "/StreamingQuery/", "/environment/", "/executors/")


def refs(values: dict[str, str]) -> dict[str, dict[str, str]]:
    return {name: {"name": SECRET, "key": name} for name in values}


def flow() -> Object:
    mount = {"volumeMounts": [{"name": "loud", "mountPath": _FOLDER}]}
    pod: dict[str, Any] = {
        role: {
            "podTemplate": {
                "spec": {
                    "containers": [{"name": role, **mount}],
                    "volumes": [{"name": "loud", "configMap": {"name": _JAR}}],
                }
            }
        }
        for role in ("driver", "executor")
    }
    made = small_stream(
        "loud",
        {
            "source": {
                "custom": {
                    "format": "loud.LoudSource",
                    "options": {"heard": "/tmp", "rowsPerSecond": "1"},
                    "secretOptions": refs(SOURCE),
                }
            },
            "sink": {
                "custom": {
                    "format": "loud.LoudSink",
                    "options": {"heard": "/tmp"},
                    "secretOptions": refs(SINK),
                }
            },
            "trigger": {"microBatch": {"interval": "2s"}},
            "secretSparkConf": {f"spark.hadoop.{name}": ref for name, ref in refs(CONF).items()},
            "dependencies": {"jars": [f"local://{_FOLDER}/{_JAR}"]},
            "observability": {"ui": True},
        },
    )
    for role, template in pod.items():
        made["spec"][role] |= template
    made["spec"]["executor"]["mode"] = "Pods"
    return made


@pytest.mark.proves(33, "security.md#other-credentials")
def test_no_value_is_shown(kube: Kube, tmp_path: Path) -> None:
    """While the stream runs, and when a task of it fails with all values in its exception."""
    jar = loud.compiled_sources(tmp_path)
    data = {name: base64.b64encode(value.encode()).decode() for name, value in VALUES.items()}
    kube.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "data": data},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": _JAR},
            "binaryData": {_JAR: base64.b64encode(jar.read_bytes()).decode()},
        },
        flow(),
    )
    stream = Stream(kube, "loud")
    try:
        stream.wait_ready()
        given = kube.run("exec", stream.driver_pod, "--", "cat", "/tmp/planInputPartitions")
        assert loud.shown(given, SOURCE) == [
            line for value in SOURCE.values() for line in value.splitlines()
        ]
        check_nothing_is_shown(kube, stream)
        stream.edit(
            source={"custom": {"options": {"fails": "createReader"}}},
            rollout={"rollback": "Never"},
        )

        def has_failed() -> bool:
            return "IllegalState" in str(stream.status().get("lastFailure"))

        wait_for("the failure", has_failed, 120, detail=stream.describe)
        check_nothing_is_shown(kube, stream)
    finally:
        kube.delete(KIND, stream.name)


def check_nothing_is_shown(kube: Kube, stream: Stream) -> None:
    executors = [pod["metadata"]["name"] for pod in stream.executors()]
    assert executors
    driver = stream.driver_pod
    seen = {
        "objects": kube.run(
            "get", f"{KIND},configmaps,pods,events,statefulsets,controllerrevisions", "-o", "yaml"
        ),
        **{pod: kube.run("logs", pod) for pod in (driver, *executors)},
        "metrics": kube.run("exec", driver, "--", *fetch(naming.METRICS_PORT, "/metrics")),
        **{page: kube.run("exec", driver, "--", *fetch(4040, page)) for page in _PAGES},
    }
    assert all("***" in seen[pod] for pod in (driver, *executors))
    assert {what: found for what, text in seen.items() if (found := loud.shown(text, VALUES))} == {}


def fetch(port: int, path: str) -> list[str]:
    """The command that prints a page, in a pod."""
    url = f"http://127.0.0.1:{port}{path}"
    program = f"import urllib.request as u; print(u.urlopen('{url}', timeout=30).read().decode())"
    return ["python3", "-c", program]
