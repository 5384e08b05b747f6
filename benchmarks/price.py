"""Measures what a small stream costs on the test cluster: memory, processor time, seconds.

    python -m benchmarks.price [--shapes NAME...] [--streams 1] [--rates 0 100 1000] [--json FILE]

One shape after the other, each with a topic of its own of four partitions. With --streams N, N of
them run side by side, each at the rates, and ask for 400Mi, so that a node has room. Memory and
processor time are the kubelet's, of all pods of the streams. `first` is the time from `kubectl
apply` to the first record in the sink, `back` the one from a `kubectl delete pod --force` of the
driver to the next record.
"""

from __future__ import annotations

import argparse
import calendar
import contextlib
import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from penstock.api.quantities import in_bytes, in_cores
from testkit.cluster.install import Installation, install
from testkit.cluster.kind_cluster import ensure_cluster
from testkit.cluster.stream import KIND, Stream
from testkit.kafka.topic_admin import create_topics, delete_topics
from testkit.kafka.traffic import Sender
from testkit.kubernetes.kubectl import Kube, Object
from testkit.streams.streams import kafka_to_kafka, manifest
from testkit.wait import wait_for

PARTITIONS = 4
READY_SECONDS = 600.0
# What a start leaves to do, and so long the kubelet's figures are old.
SETTLE_SECONDS = 30.0
MEASURED_SECONDS = 30.0
_CONTINUOUS: dict[str, Any] = {"continuous": {"checkpointInterval": "1s"}}
_REAL_TIME: dict[str, Any] = {"realTime": {}}
_BATCHES: dict[str, Any] = {"microBatch": {"interval": "1s"}}
_COUNT = {
    "outputMode": "update",
    "transform": {
        "sql": "SELECT key, CAST(count(*) AS STRING) AS value FROM (SELECT substring("
        "CAST(key AS STRING), -2) AS key FROM source) GROUP BY key"
    },
}
_PYTHON = {
    "transform": {
        "python": {
            "function": "shout:shout",
            "inline": "from pyspark.sql.functions import udf\n\n\n"
            "@udf('string')\ndef louder(text):\n    return text.upper()\n\n\n"
            "def shout(source):\n"
            "    value = louder(source.value.cast('string'))\n"
            "    return source.select('key', value.alias('value'))\n",
        }
    }
}
# A start is processor time: forty at once take each other's, until their pods look hung.
_AT_ONCE = 5
_OF_MANY = {"requests": {"cpu": "25m", "memory": "400Mi"}, "limits": {"memory": "1Gi"}}
_EXECUTOR = {"executor": {"cores": 6}}


@dataclass(frozen=True)
class Shape:
    """A kind of stream."""

    name: str
    title: str
    spec: dict[str, Any]


SHAPES = (
    Shape("sql", "SQL, continuous", {"trigger": _CONTINUOUS}),
    Shape("sql-executor", "the same with an executor", {"trigger": _CONTINUOUS, **_EXECUTOR}),
    Shape("real-time", "SQL, real-time", {"trigger": _REAL_TIME}),
    Shape("count", "count by key, real-time", {"trigger": _REAL_TIME, **_COUNT}),
    Shape(
        "count-executor",
        "the same with an executor",
        {"trigger": _REAL_TIME, **_COUNT, **_EXECUTOR},
    ),
    Shape("count-batches", "count by key, micro-batches", {"trigger": _BATCHES, **_COUNT}),
    Shape("python", "a UDF in Python, micro-batches", {"trigger": _BATCHES, **_PYTHON}),
)


@dataclass
class Price:
    """What the streams of a shape cost together."""

    title: str
    streams: int
    pods: int = 0
    memory_requested_mib: int = 0
    cores_requested: float = 0.0
    first_seconds: float = 0.0
    back_seconds: float = 0.0
    memory_mib: dict[str, int] = field(default_factory=dict)
    """Working set at each rate of records a second."""
    cores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Usage:
    """What the kubelet has counted."""

    at: dict[str, float]
    """When, for each pod."""
    cpu_seconds: dict[str, float]
    memory: int


def main() -> None:
    names = [shape.name for shape in SHAPES]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", nargs="+", default=names, choices=names)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--rates", nargs="+", type=int, default=[0, 100, 1000])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    installation = install(ensure_cluster())
    prices = []
    for shape in (shape for shape in SHAPES if shape.name in options.shapes):
        with installation.streams_namespace("price") as kube:
            prices.append(price(installation, kube, shape, options.streams, options.rates))
        print(prices[-1], flush=True)
        if options.json:
            options.json.write_text(json.dumps([asdict(it) for it in prices], indent=1) + "\n")
    print(table(prices))


def _wait_for_records(sinks: Sequence[SinkEnd]) -> None:
    wait_for("a record of each", lambda: all(it.records() for it in sinks), READY_SECONDS)


def price(
    installation: Installation, kube: Kube, shape: Shape, count: int, rates: Sequence[int]
) -> Price:
    """Starts streams of a shape, measures them, and deletes them."""
    external = installation.kafka.external
    found = Price(shape.title, count)
    streams = [Stream(kube, f"{shape.name}-{number}") for number in range(count)]
    ends = [f"{stream.name}-{uuid.uuid4().hex[:6]}" for stream in streams]
    topics = {f"{end}-{side}": PARTITIONS for end in ends for side in ("in", "out")}
    create_topics(external, topics)
    try:
        sinks = [SinkEnd(external, f"{end}-out") for end in ends]
        with contextlib.ExitStack() as traffic:
            for end in ends:
                traffic.enter_context(Sender(external, f"{end}-in", 2, 2 * 7200))
            began = time.monotonic()
            for number, (stream, end) in enumerate(zip(streams, ends, strict=True)):
                if number % _AT_ONCE == 0:
                    _wait_for_records(sinks[:number])
                spec = kafka_to_kafka(
                    installation.kafka.internal,
                    f"{end}-in",
                    f"{end}-out",
                    of_source={"options": {}},  # Kafka's own time for a fetch
                    **shape.spec,
                )
                for pod in {"driver", *spec.keys()} & {"driver", "executor"}:
                    resources = {"requests": {"cpu": "25m"}} if count == 1 else _OF_MANY
                    spec[pod] = {**spec.get(pod, {}), "resources": resources}
                kube.apply(manifest(stream.name, spec))
            _wait_for_records(sinks)
            found.first_seconds = round(time.monotonic() - began, 1)
            found.back_seconds = _back(streams[0], sinks[0])
            for stream in streams:
                stream.wait_ready(READY_SECONDS)
        _note_requests(found, streams)
        for rate in rates:
            with contextlib.ExitStack() as traffic:
                for end in ends if rate else ():
                    seconds = int(SETTLE_SECONDS + MEASURED_SECONDS) * 2
                    traffic.enter_context(Sender(external, f"{end}-in", rate, rate * seconds))
                time.sleep(SETTLE_SECONDS)
                before = usage(kube, installation)
                time.sleep(MEASURED_SECONDS)
                after = usage(kube, installation)
            found.memory_mib[str(rate)] = after.memory >> 20
            found.cores[str(rate)] = round(_cores(before, after), 3)
    finally:
        for stream in streams:
            kube.delete(KIND, stream.name)
        delete_topics(external, *topics)
    return found


class SinkEnd:
    """How many records there are in a topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "none", "log_level": 3}
        )

    def records(self) -> int:
        return sum(
            self._consumer.get_watermark_offsets(TopicPartition(self._topic, each), timeout=10)[1]
            for each in range(PARTITIONS)
        )


def _back(stream: Stream, sink: SinkEnd) -> float:
    """Seconds until there are new records after the driver's pod was deleted."""
    stream.wait_ready(READY_SECONDS)
    stream.delete_driver_pod()
    began = time.monotonic()
    time.sleep(3)  # the kubelet takes a moment to kill it
    records = sink.records()
    wait_for("the next record", lambda: sink.records() > records, READY_SECONDS)
    return round(time.monotonic() - began, 1)


def _note_requests(found: Price, streams: Sequence[Stream]) -> None:
    pods = [pod for stream in streams for pod in stream.pods()]
    requests = [_requests(pod) for pod in pods]
    found.pods = len(pods)
    found.memory_requested_mib = sum(int(in_bytes(it["memory"])) for it in requests) >> 20
    found.cores_requested = float(sum(in_cores(it["cpu"]) for it in requests))


def _requests(pod: Object) -> dict[str, str]:
    (container,) = pod["spec"]["containers"]
    found: dict[str, str] = container["resources"]["requests"]
    return found


def usage(kube: Kube, installation: Installation) -> Usage:
    """Of all pods of the namespace: the first figures from now on."""
    now = time.time()
    found = wait_for("figures", lambda: _usage(kube, installation, now), READY_SECONDS, every=1.0)
    assert found is not None
    return found


def _usage(kube: Kube, installation: Installation, since: float) -> Usage | None:
    node = installation.cluster.nodes[0]
    path = f"/api/v1/nodes/{node}/proxy/stats/summary"
    summary = json.loads(kube.run("get", "--raw", path))
    pods = [it for it in summary["pods"] if it["podRef"]["namespace"] == kube.namespace]
    at = {it["podRef"]["name"]: _seconds(it["cpu"]["time"]) for it in pods}
    if min(at.values()) < since:
        return None
    return Usage(
        at,
        {it["podRef"]["name"]: it["cpu"]["usageCoreNanoSeconds"] / 1e9 for it in pods},
        sum(it["memory"]["workingSetBytes"] for it in pods),
    )


def _seconds(time_of_day: str) -> float:
    return calendar.timegm(time.strptime(time_of_day, "%Y-%m-%dT%H:%M:%SZ"))


def _cores(before: Usage, after: Usage) -> float:
    return sum(
        (after.cpu_seconds[pod] - before.cpu_seconds[pod]) / (after.at[pod] - before.at[pod])
        for pod in after.at
        if pod in before.at and after.at[pod] > before.at[pod]
    )


def table(prices: Sequence[Price]) -> str:
    """As Markdown."""
    rates = list(prices[0].cores)
    lines = [
        "| stream | pods | requested | used | "
        + " | ".join(f"cores at {rate}/s" if rate != "0" else "cores, idle" for rate in rates)
        + " | first record | back |",
        "|---|---:|---:|---:|" + "---:|" * (len(rates) + 2),
    ]
    for it in prices:
        cores = " | ".join(f"{it.cores[rate]:.2f}" for rate in rates)
        used = f"{min(it.memory_mib.values())} to {max(it.memory_mib.values())} MiB"
        lines.append(
            f"| {it.title} | {it.pods} | {it.memory_requested_mib} MiB | {used} | {cores} | "
            f"{it.first_seconds} s | {it.back_seconds} s |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
