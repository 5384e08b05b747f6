"""One stream from Kafka to Kafka: its cores, its Secret, its log level, and its checkpoint.

The tests share its start, because that is what takes long, and run in their order.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from testkit.cluster.install import DEFAULT_ANNOTATION, Installation
from testkit.cluster.stream import KIND, Stream, small_stream
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.traffic import Receiver, Sender
from testkit.kubernetes.kubectl import Kube, Object
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import RATE_TO_CONSOLE, kafka_to_kafka

pytestmark = pytest.mark.timeout(900)

PARTITIONS = 3
CORES_PER_EXECUTOR = 2
RECORDS = 500
INFO = {"logLevel": "INFO"}


@dataclass(frozen=True)
class Started:
    """The stream, which is Ready, its topic, and what arrives in the sink."""

    stream: Stream
    manifest: Object
    bootstrap: str
    source: str
    out: Receiver
    secret: str
    """The value of the Secret that it was started with."""

    def send(self, count: int) -> None:
        """Sends the numbers from 0 on, and waits until all of them have arrived."""
        with Sender(self.bootstrap, self.source, 200, count) as numbers:
            numbers.wait_until_sent(count)
        self.out.wait_for_all(range(count), 60)


@pytest.fixture(scope="module")
def started(installation: Installation, kube: Kube) -> Iterator[Started]:
    """The stream of this file. It names its Secret until there is one, and starts then."""
    source, sink = (f"t-{uuid.uuid4().hex[:8]}" for _ in range(2))
    external = installation.kafka.external
    create_topics(external, {source: PARTITIONS, sink: 1})
    spec = kafka_to_kafka(installation.kafka.internal, source, sink)
    # A producer has no rack.
    spec["source"]["kafka"]["secretOptions"] = {
        "kafka.client.rack": {"name": "rack", "key": "value"}
    }
    # Kafka's clients would log the values of their options.
    spec["observability"] = INFO
    manifest = small_stream("numbers", spec)
    manifest["spec"]["executor"]["cores"] = CORES_PER_EXECUTOR
    for role in ("driver", "executor"):
        manifest["spec"][role]["podTemplate"] = _with_mount(role)
    stream, secret = Stream(kube, "numbers"), f"rack-{uuid.uuid4().hex}"
    kube.apply(manifest)

    def names_the_secret() -> bool:
        stalled = stream.condition("Stalled")
        return stalled.get("reason") == "SecretMissing" and "rack" in stalled["message"]

    stream.wait_for("the missing Secret in the status", names_the_secret, 120)
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "rack"},
            "stringData": {"value": secret},
        }
    )
    stream.wait_ready()
    with Receiver(external, sink) as out:
        yield Started(stream, manifest, external, source, out, secret)
    kube.delete(KIND, stream.name)


def _with_mount(container: str) -> Object:
    mount = {"name": "mounted", "mountPath": "/mounted"}
    return {
        "spec": {
            "containers": [{"name": container, "volumeMounts": [mount]}],
            "volumes": [{"name": "mounted", "emptyDir": {}}],
        }
    }


@pytest.mark.proves(15)
def test_cores_cover_the_partitions(started: Started) -> None:
    """Three partitions need two executors of two cores each; the stream is Ready with them."""
    executors = started.stream.executors()
    assert len(executors) == -(-PARTITIONS // CORES_PER_EXECUTOR)
    status = started.stream.status()
    assert status["partitions"] == PARTITIONS
    cores = len(executors) * CORES_PER_EXECUTOR
    assert status["cores"] == {"registered": cores, "desired": cores}


def test_a_secret_reaches_the_pods_and_nothing_else(kube: Kube, started: Started) -> None:
    """Its value is in no object and in no log. A pod template reaches the same pods."""
    started.send(RECORDS)
    stream = started.stream
    pods = [stream.driver_pod, *(pod["metadata"]["name"] for pod in stream.executors())]
    outputs: list[Any] = [
        kube.run("get", f"{KIND},configmaps,pods,events,statefulsets", "-o", "json"),
        *(kube.run("logs", pod) for pod in pods),
    ]
    assert '"level":"INFO"' in kube.run("logs", pods[-1])
    assert started.secret not in json.dumps(outputs)
    for pod in pods:
        assert kube.run("exec", pod, "--", "ls", "/mounted") == ""


def test_the_pods_have_the_defaults_of_the_platform(kube: Kube, started: Started) -> None:
    """Beside what the stream's own templates say."""
    driver = kube.get("pod", started.stream.driver_pod)
    assert driver is not None
    for pod in (driver, *started.stream.executors()):
        assert pod["metadata"]["annotations"].items() >= DEFAULT_ANNOTATION.items()


def test_a_running_stream_follows_its_log_level(kube: Kube, started: Started) -> None:
    """In driver and executors, and back, without another pod."""
    stream = started.stream
    before, restarts = _uids(stream), stream.status().get("restarts")

    def logging_info() -> set[str]:
        """The pods whose JVM has just logged a line at this level, as each does in an epoch."""
        line = re.compile(r'"level":"INFO","logger":"(org\.apache|dev\.penstock)\.spark')
        return {pod for pod in before if line.search(kube.run("logs", pod, "--since=5s"))}

    stream.wait_for("INFO in all logs", lambda: logging_info() == set(before), 120)
    stream.edit(observability=None)
    stream.wait_for("no INFO in a log", lambda: not logging_info(), 120)
    stream.edit(observability=INFO)
    stream.wait_for("INFO in all logs again", lambda: logging_info() == set(before), 120)
    assert _uids(stream) == before
    assert stream.status().get("restarts") == restarts


def test_an_edit_that_only_spark_can_refuse_leaves_the_running_stream(
    kube: Kube, started: Started
) -> None:
    """Its driver asks Spark before it is replaced."""
    stream = started.stream
    before, restarts = _uids(stream), stream.status().get("restarts")
    stream.edit(transform={"sql": "SELECT key, no_such_function(value) AS value FROM source"})
    stream.wait_for("Stalled", lambda: stream.condition("Stalled").get("status") == "True", 120)
    assert "no_such_function" in stream.condition("Stalled")["message"]
    assert stream.condition("Ready")["status"] == "True"
    assert stream.condition("Ready")["reason"] == "SpecNotApplied"
    stream.edit(transform=None)
    stream.wait_ready()
    assert _uids(stream) == before
    assert stream.status().get("restarts") == restarts


def _uids(stream: Stream) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in stream.pods()}


@pytest.mark.proves(9)
def test_a_retained_checkpoint_outlives_its_stream(kube: Kube, started: Started) -> None:
    """After its deletion only the volume is left; created again, the stream continues."""
    stream, arrivals = started.stream, started.out.arrivals
    started.send(RECORDS)
    epoch = stream.epoch()
    stream.wait_for("a commit after the last record", lambda: stream.epoch() > epoch + 1, 60)

    kube.delete(KIND, stream.name)
    stream.wait_for("no object left", lambda: not stream.objects_left(), 120)
    assert kube.get("pvc", f"{stream.name}-checkpoint") is not None

    before = arrivals.duplicates
    kube.apply(started.manifest)
    stream.wait_ready()
    started.send(RECORDS + 100)  # the numbers of before, and new ones
    # A start from the beginning would write the earlier ones again.
    assert arrivals.duplicates - before == RECORDS


# Only Spark's analyzer can refuse this: our parser does not know every function of Spark.
BEYOND_THE_PARSER = "SELECT value, no_such_function(value) AS x FROM source"


@pytest.mark.proves("edits.md#an-edit-of-the-query")
def test_an_edit_of_the_query_takes_effect_in_the_pods_that_run(
    started: Started, record_figure: RecordFigure
) -> None:
    """While records come in: none is lost, and the gap is that of two queries, not of two pods."""
    stream, arrivals = started.stream, started.out.arrivals
    before, restarts = _uids(stream), stream.status().get("restarts")
    with Sender(started.bootstrap, started.source, 50, 50 * 600) as numbers:
        for edit in range(1, 4):
            revision, known = stream.status()["effective"]["revision"], len(arrivals.latencies_ms)
            began = time.monotonic()
            sql = f"SELECT key, value FROM source WHERE offset >= -{edit}"
            stream.edit(transform={"sql": sql})
            stream.wait_for("Ready with the edit", stream.is_ready, 60)
            record_figure(f"edit {edit}: seconds until Ready", round(time.monotonic() - began, 1))
            assert stream.status()["effective"]["revision"] != revision
            time.sleep(5)  # of the ordinary latency
            latencies = arrivals.latencies_ms[known:]
            record_figure(f"edit {edit}: slowest record, seconds", round(max(latencies) / 1000, 1))
        sent = numbers.finish()
    started.out.wait_for_all(range(sent), 60)
    assert _uids(stream) == before
    assert stream.status().get("restarts") == restarts
    stream.edit(transform=None)
    stream.wait_ready()


@pytest.mark.proves(18)
@pytest.mark.full
def test_what_only_spark_can_refuse_ends_stalled_too(kube: Kube) -> None:
    """The driver removes its executors, keeps running, restarts nothing, and reports the reason."""
    stream = Stream(kube, "analysis")
    spec = {**RATE_TO_CONSOLE, "transform": {"sql": BEYOND_THE_PARSER}}
    kube.apply(small_stream(stream.name, spec))
    stream.wait_for("Stalled", lambda: stream.condition("Stalled").get("status") == "True", 240)
    assert "no_such_function" in stream.condition("Stalled")["message"]
    stream.wait_for("no executors", lambda: stream.executors() == [], 60)
    assert stream.status().get("restarts", {}).get("total", 0) == 0
    kube.delete(KIND, stream.name)
