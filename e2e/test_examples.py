"""The shipped examples on the real cluster, with real records.

operator/tests/integration/driver/test_examples.py runs each of them on one machine. These tests
cover what needs a cluster: the pods, pod templates, Secrets, and a Service as the source. They do
not build the image of custom-source/Dockerfile: the pod templates mount its jar from a ConfigMap.
"""

from __future__ import annotations

import base64
import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml
from confluent_kafka import Consumer, Producer

from e2e.cluster_stream import KIND, Stream
from e2e.install import Installation
from testkit.cluster.traffic import create_topics
from testkit.kubernetes.kubectl import Kube, Object
from testkit.paths import CHECKOUT

pytestmark = pytest.mark.timeout(900)

FOLDER = CHECKOUT / "examples"
PAYMENTS = [f'{{"paymentId": {number}, "amount": {number * 10}}}' for number in range(200)]
FLAGGED = {value for number, value in enumerate(PAYMENTS) if number % 10 == 3}
LARGE = set(PAYMENTS[101:])
CARS = [f'{{"carId": {car}, "speed": {car}.5}}' for car in range(20)]
SPEEDS = {f"{car}.5" for car in range(20)}
LINES = {"ONE", "TWO"}
WAIT_SECONDS = 120.0


def example(name: str) -> Object:
    """An example, unchanged."""
    document: Object = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return document


@pytest.fixture
def topics(installation: Installation) -> tuple[str, str]:
    """Two topics that no other test uses."""
    names = (f"t-{uuid.uuid4().hex[:8]}", f"t-{uuid.uuid4().hex[:8]}")
    create_topics(installation.kafka.external, **dict.fromkeys(names, 2))
    return names


@pytest.fixture
def applied(kube: Kube) -> Iterator[Callable[[Object], Stream]]:
    """Applies streams, and deletes them after the test: two cores run only a few of them."""
    made: list[str] = []

    def apply(document: Object) -> Stream:
        made.append(document["metadata"]["name"])
        kube.apply(document)
        return Stream(kube, made[-1])

    yield apply
    for name in made:
        kube.delete(KIND, name)


def with_topics(document: Object, installation: Installation, source: str, sink: str) -> Object:
    """The example with the topics and the broker of the test."""
    spec = document["spec"]
    topics: Object = {"source": {"topics": [source]}, "sink": {"topic": sink}}
    for part, fields in topics.items():
        if "kafka" in spec[part]:
            spec[part]["kafka"].update(fields)
    for connection in (spec.get("kafka"), spec["source"].get("kafka"), spec["sink"].get("kafka")):
        if connection is not None and "bootstrapServers" in connection:
            connection["bootstrapServers"] = installation.kafka.internal
    return document


def produce(bootstrap: str, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value.encode())
    assert producer.flush(60) == 0


class TopicValues:
    """Reads the values of a topic; each call returns all values so far."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.values: set[str] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": uuid.uuid4().hex,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([topic])

    def __call__(self) -> set[str]:
        for message in self._consumer.consume(1000, 1.0):
            if message.error() is None:
                self.values.add(message.value().decode())
        return self.values

    def close(self) -> None:
        self._consumer.close()


def expect(installation: Installation, topic: str, wanted: set[str], stream: Stream) -> None:
    read = TopicValues(installation.kafka.external, topic)
    try:
        stream.wait_for(f"{len(wanted)} values", lambda: wanted <= read(), WAIT_SECONDS)
    finally:
        read.close()


@pytest.mark.parametrize(
    ("name", "sent", "wanted"),
    [
        ("fraud-flags", PAYMENTS, FLAGGED),
        ("fraud-flags-micro-batch", PAYMENTS, FLAGGED),
        ("fraud-flags-real-time", PAYMENTS, FLAGGED),
        ("fast-cars-continuous", CARS, SPEEDS),
        ("fast-cars-aggregated", CARS, SPEEDS),
        ("python-transform", PAYMENTS, LARGE),
    ],
)
def test_from_kafka_to_kafka(
    name: str,
    sent: list[str],
    wanted: set[str],
    installation: Installation,
    applied: Callable[[Object], Stream],
    topics: tuple[str, str],
) -> None:
    stream = applied(with_topics(example(name), installation, *topics))
    produce(installation.kafka.external, topics[0], sent)
    stream.wait_ready()
    expect(installation, topics[1], wanted, stream)


def test_rate_to_console(kube: Kube, applied: Callable[[Object], Stream]) -> None:
    stream = applied(example("rate-to-console"))
    stream.wait_ready()
    stream.wait_for(
        "rows in the log",
        lambda: "|even" in kube.run("logs", stream.driver_pod),
        WAIT_SECONDS,
    )


def test_a_catch_up_completes_and_is_ready(
    installation: Installation, applied: Callable[[Object], Stream], topics: tuple[str, str]
) -> None:
    """The stream is Ready, which Argo CD shows as healthy, and holds no executor."""
    document = with_topics(example("fraud-flags"), installation, *topics)
    document["metadata"]["name"] = "catch-up"
    document["spec"]["trigger"] = {"availableNow": {}}
    produce(installation.kafka.external, topics[0], PAYMENTS)
    stream = applied(document)
    stream.wait_ready()
    assert stream.status()["state"] == "Completed"
    expect(installation, topics[1], FLAGGED, stream)
    stream.wait_for("no executors", lambda: not stream.executors(), WAIT_SECONDS)


SERVER = """
import socket, time
server = socket.create_server(("", 9999))
kept = []
while True:
    connection, _ = server.accept()
    connection.sendall(b"one\\ntwo\\n")
    kept.append(connection)
"""


@pytest.fixture
def netcat(kube: Kube) -> str:
    """A server that sends two lines to each client, behind the Service that the examples name."""
    image = kube.run(
        "get", "deployment", "penstock-operator", "--namespace=penstock", "-o",
        "jsonpath={.spec.template.spec.containers[0].image}",
    )  # fmt: skip
    restricted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "netcat", "labels": {"app": "netcat"}},
            "spec": {
                "containers": [
                    {
                        "name": "netcat",
                        "image": image,
                        "imagePullPolicy": "Never",
                        "command": ["python3", "-c", SERVER],
                        "securityContext": restricted,
                        "readinessProbe": {"exec": {"command": ["true"]}},
                    }
                ]
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "netcat"},
            "spec": {"selector": {"app": "netcat"}, "ports": [{"port": 9999}]},
        },
    )
    kube.run("wait", "pod/netcat", "--for=condition=Ready", "--timeout=120s", timeout=150)
    return "netcat"


def test_socket_to_kafka(
    netcat: str,
    installation: Installation,
    applied: Callable[[Object], Stream],
    topics: tuple[str, str],
) -> None:
    document = with_topics(example("socket-to-kafka"), installation, *topics)
    assert document["spec"]["source"]["socket"]["host"] == netcat
    stream = applied(document)
    stream.wait_ready()
    expect(installation, topics[1], LINES, stream)


def test_custom_source(
    netcat: str,
    kube: Kube,
    installation: Installation,
    applied: Callable[[Object], Stream],
    topics: tuple[str, str],
    tmp_path: Path,
) -> None:
    spark = f"{Path(pyspark.__file__).parent}/jars/*"
    source = FOLDER / "custom-source" / "NetcatSource.java"
    jar = tmp_path / "netcat.jar"
    commands: list[list[str | Path]] = [
        ["javac", "-nowarn", "-cp", spark, "-d", tmp_path / "classes", source],
        ["jar", "--create", "--file", jar, "-C", tmp_path / "classes", "."],
    ]
    for command in commands:
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    content = base64.b64encode(jar.read_bytes()).decode()
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "jars"},
            "binaryData": {jar.name: content},
        }
    )
    document = with_topics(example("custom-source"), installation, *topics)
    assert document["spec"]["source"]["custom"]["options"]["host"] == netcat
    del document["spec"]["image"]
    for role in ("driver", "executor"):
        document["spec"][role]["podTemplate"] = _with_jars(role)
    stream = applied(document)
    stream.wait_ready()
    expect(installation, topics[1], {"one", "two"}, stream)


def _with_jars(container: str) -> Object:
    mount = {"name": "jars", "mountPath": "/opt/jars"}
    return {
        "spec": {
            "containers": [{"name": container, "volumeMounts": [mount]}],
            "volumes": [{"name": "jars", "configMap": {"name": "jars"}}],
        }
    }


def test_a_secret_reaches_the_pods_and_nothing_else(
    kube: Kube,
    installation: Installation,
    applied: Callable[[Object], Stream],
    topics: tuple[str, str],
) -> None:
    """The status names a missing Secret, and the stream waits for it."""
    value = f"rack-{uuid.uuid4().hex}"
    document = with_topics(example("fraud-flags"), installation, *topics)
    document["metadata"]["name"] = "with-secret"
    ref = {"kafka.client.rack": {"name": "rack", "key": "value"}}
    for part in ("source", "sink"):
        document["spec"][part]["kafka"]["secretOptions"] = ref
    del document["spec"]["sink"]["kafka"]["secretOptions"]  # a producer has no rack
    stream = applied(document)
    stream.wait_for(
        "the missing Secret in the status",
        lambda: stream.condition("Stalled").get("reason") == "SecretMissing",
        WAIT_SECONDS,
    )
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "rack"},
            "stringData": {"value": value},
        }
    )
    stream.wait_ready()
    produce(installation.kafka.external, topics[0], PAYMENTS)
    expect(installation, topics[1], FLAGGED, stream)
    outputs: list[Any] = [
        kube.run("get", f"{KIND},configmaps,pods,events,statefulsets", "-o", "json"),
        kube.run("logs", stream.driver_pod),
        *(kube.run("logs", pod["metadata"]["name"]) for pod in stream.executors()),
    ]
    assert value not in json.dumps(outputs)
