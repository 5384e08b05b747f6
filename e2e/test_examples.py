"""The shipped examples on the real cluster, with real records.

Their cases (examples/tests) run each of them on one machine. These tests cover what needs a
cluster: executors in pods for state (they share the checkpoint's volume), and in `make test-all`
for real-time mode and Python, the images of examples, and a Service as the source.

The examples run a few at a time, since a start mostly waits.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import pytest
import yaml

from testkit.cluster.install import Installation
from testkit.cluster.load_images import ensure_example_images
from testkit.cluster.stream import KIND, Stream
from testkit.images.penstock_images import example_names
from testkit.kafka.topic_admin import create_topics
from testkit.kubernetes.kubectl import Kube, Object
from testkit.streams.examples import FOLDER, consume, produce

pytestmark = [pytest.mark.timeout(900), pytest.mark.proves("recipes.md")]

Record = tuple[str | None, str]

AT_ONCE = 2  # their requests and those of the control plane fit into two cores
PARTITIONS = 2
WAIT_SECONDS = 240.0


def payment(number: int) -> str:
    return f'{{"paymentId": {number}, "amount": {number * 10}}}'


PAYMENTS = [payment(number) for number in range(200)]
FLAGGED: list[Record] = [(None, value) for number, value in enumerate(PAYMENTS) if number % 10 == 3]
CARS = [
    '{"carId": 7, "speed": 120.5}',
    '{"carId": 7, "speed": 60.5}',
    '{"carId": 8, "speed": 80.0}',
]


@dataclass(frozen=True)
class Example:
    """What goes into an example, and all that must come out."""

    sent: list[str]
    wanted: list[Record]
    last: str = ""
    """A record that passes the example's filter: what comes out before it is all there is."""


def flags() -> Example:
    return Example(PAYMENTS, FLAGGED, payment(1003))


KAFKA_TO_KAFKA = {
    "fraud-flags-real-time": flags(),
    "fast-cars-aggregated": Example(CARS, [("7", "90.5"), ("8", "80.0")]),
    "python-transform": Example(
        PAYMENTS, [(None, value) for value in PAYMENTS[101:]], payment(1_000)
    ),
    "java-transform": Example(
        PAYMENTS[:20],
        [(None, f"{kind} {value}") for value in PAYMENTS[:20] for kind in ("debit", "credit")],
    ),
}
LINES = {"custom-source": ["one", "two"]}


class Runs:
    """The runs of the examples, a few at once; each stream is deleted when its run ends."""

    def __init__(self, kube: Kube, installation: Installation, pool: ThreadPoolExecutor) -> None:
        self.kube, self.kafka, self._installation = kube, installation.kafka, installation
        self._pool = pool
        self._id = uuid.uuid4().hex[:8]
        self._futures: dict[str, Future[None]] = {}

    @cached_property
    def images(self) -> dict[str, str]:
        """The references of the examples' own images, by example."""
        spark = self._installation.images["spark"]
        return ensure_example_images(self._installation.cluster, spark)

    def start(self, name: str, run: Callable[[Runs, str], None]) -> None:
        """Runs an example as soon as another one has ended."""
        self._futures[name] = self._pool.submit(self._run, name, run)

    def _run(self, name: str, run: Callable[[Runs, str], None]) -> None:
        try:
            run(self, name)
        finally:
            self.kube.delete(KIND, name)

    def check(self, name: str) -> None:
        """Waits until an example has run; raises what went wrong."""
        self._futures[name].result()

    def topics(self, name: str) -> tuple[str, str]:
        """The names of an example's topics, source and sink, in these runs."""
        return f"{name}-{self._id}-in", f"{name}-{self._id}-out"

    def document(self, name: str) -> Object:
        """An example; only its image, if it has one of its own, is the one that was built here."""
        document: Object = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
        if name in example_names():
            document["spec"]["image"] = self.images[name]
        return document

    def to_topics(self, document: Object, *topics: str) -> Object:
        """The example with these topics (source, if it reads one, and sink) and our broker."""
        spec = document["spec"]
        create_topics(self.kafka.external, dict.fromkeys(topics, PARTITIONS))
        spec["sink"]["kafka"]["topic"] = topics[-1]
        if "kafka" in spec["source"]:
            spec["source"]["kafka"]["topics"] = [topics[0]]
        for part in (spec, spec["source"], spec["sink"]):
            if "bootstrapServers" in part.get("kafka", {}):
                part["kafka"]["bootstrapServers"] = self.kafka.internal
        return document

    def apply(self, document: Object) -> Stream:
        self.kube.apply(document)
        stream = Stream(self.kube, document["metadata"]["name"])
        stream.wait_ready(WAIT_SECONDS)
        return stream

    def expect(self, stream: Stream, topic: str, wanted: set[Record]) -> None:
        stream.wait_for(
            f"{len(wanted)} records",
            lambda: wanted <= set(consume(self.kafka.external, topic)),
            WAIT_SECONDS,
        )


def from_kafka_to_kafka(runs: Runs, name: str) -> None:
    given, topics = KAFKA_TO_KAFKA[name], runs.topics(name)
    document = runs.to_topics(runs.document(name), *topics)
    external = runs.kafka.external
    produce(external, topics[0], given.sent, *range(PARTITIONS))
    stream = runs.apply(document)
    wanted = set(given.wanted)
    runs.expect(stream, topics[1], wanted)
    if given.last:
        wanted.add((None, given.last))
        produce(external, topics[0], [given.last] * PARTITIONS, *range(PARTITIONS))
        runs.expect(stream, topics[1], wanted)
    assert set(consume(external, topics[1])) == wanted


def from_lines_to_kafka(runs: Runs, name: str) -> None:
    _, topic = runs.topics(name)
    stream = runs.apply(runs.to_topics(runs.document(name), topic))
    wanted: set[Record] = {(None, line) for line in LINES[name]}
    runs.expect(stream, topic, wanted)
    assert set(consume(runs.kafka.external, topic)) == wanted


def catch_up(runs: Runs, name: str) -> None:
    """A stream that ends is Ready, which Argo CD shows as healthy, and holds no executor."""
    topics = runs.topics(name)
    document = runs.to_topics(runs.document("fraud-flags"), *topics)
    document["metadata"]["name"] = name
    document["spec"]["trigger"] = {"availableNow": {}}
    produce(runs.kafka.external, topics[0], PAYMENTS, 0)
    stream = runs.apply(document)  # Ready while it runs, and when it has read everything
    stream.wait_for("its end", lambda: stream.status()["state"] == "Completed", WAIT_SECONDS)
    assert stream.is_ready()
    assert set(consume(runs.kafka.external, topics[1])) == set(FLAGGED)
    stream.wait_for("no executors", lambda: not stream.executors(), WAIT_SECONDS)


RUNS: dict[str, Callable[[Runs, str], None]] = {
    **dict.fromkeys(KAFKA_TO_KAFKA, from_kafka_to_kafka),
    **dict.fromkeys(LINES, from_lines_to_kafka),
    "catch-up": catch_up,
}


# The others repeat on the cluster what integration/driver/spark/test_examples.py shows on one
# machine.
EVERY_CHANGE = {"fast-cars-aggregated"}
NAMES = [
    pytest.param(name, marks=[] if name in EVERY_CHANGE else pytest.mark.full) for name in RUNS
]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, kube: Kube, installation: Installation) -> Iterator[Runs]:
    """All chosen runs, started."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    here = (item for item in items if item.path == request.path and "runs" in item.fixturenames)
    chosen = {item.callspec.params["name"] for item in here}
    if chosen & set(LINES):
        serve_lines(kube, installation.images["operator"])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = Runs(kube, installation, pool)
        for name in RUNS:
            if name in chosen:
                runs.start(name, RUNS[name])
        yield runs
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_does_what_its_comment_says(name: str, runs: Runs) -> None:
    runs.check(name)


SERVER = """
import socket, time
server = socket.create_server(("", 9999))
kept = []
while True:
    connection, _ = server.accept()
    connection.sendall(b"one\\ntwo\\n")
    kept.append(connection)
"""


def serve_lines(kube: Kube, image: str) -> None:
    """A server that sends two lines to each client, behind the Service that the examples name."""
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
