"""What is measured: two queries, and how each variant of them is started."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from testkit.kafka.jars import connector_jars
from testkit.kafka.stream_programs import StreamPrograms
from testkit.paths import CHECKOUT

EXAMPLE = CHECKOUT / "examples" / "fraud-flags.yaml"
# Flink's own options for Java 17 (env.java.opts.all of its configuration file): the two that this
# program needs.
_FLINK_OPENS = ("java.base/java.util=ALL-UNNAMED", "java.base/java.lang=ALL-UNNAMED")


Query = Literal["flags", "counts"]
"""What Load.java sends and expects: the flagged payments, or their counts by key."""


@dataclass(frozen=True)
class Place:
    """What one start of a variant works with."""

    bootstrap: str
    source: str
    sink: str
    folder: Path
    """An empty folder of its own."""
    programs: StreamPrograms


@dataclass(frozen=True)
class Variant:
    """One way to run a query."""

    name: str
    title: str
    """Of its row among those of its query."""
    command: Callable[[Place], list[str]]
    """Prepares the folder and returns the command line."""
    penstock: bool = False
    query: Query = "flags"


def stream(
    example: Mapping[str, Any],
    trigger: Mapping[str, Any],
    place: Place,
    delivery: str = "AtLeastOnce",
    query: Query = "flags",
) -> dict[str, Any]:
    """The example with this trigger, and with the topics and the broker of a place."""
    sink = {**example["spec"]["sink"]["kafka"], "topic": place.sink, "delivery": delivery}
    source = {**example["spec"]["source"]["kafka"], "topics": [place.source]}
    spec = {
        **example["spec"],
        "kafka": {"bootstrapServers": place.bootstrap},
        "source": {"kafka": source},
        "trigger": dict(trigger),
        "sink": {"kafka": sink},
    }
    return {**example, "spec": spec if query == "flags" else {**spec, **_COUNT}}


# The same work as KafkaStreamsCount.java and FlinkCount.java.
_COUNT = {
    "outputMode": "update",
    "transform": {"sql": "SELECT key, CAST(count(*) AS STRING) AS value FROM source GROUP BY key"},
}


def _penstock(
    name: str,
    title: str,
    trigger: Mapping[str, Any],
    delivery: str = "AtLeastOnce",
    query: Query = "flags",
) -> Variant:
    def command(place: Place) -> list[str]:
        example = yaml.safe_load(EXAMPLE.read_text())
        file = place.folder / "stream.yaml"
        file.write_text(yaml.safe_dump(stream(example, trigger, place, delivery, query)))
        options = ["--plain", "--checkpoint", str(place.folder / "checkpoint")]
        return [sys.executable, "-m", "penstock.cli", "run", *options, str(file)]

    return Variant(name, title, command, penstock=True, query=query)


def _librdkafka(place: Place) -> list[str]:
    loop = ["-m", "benchmarks.latency.librdkafka_loop"]
    return [sys.executable, *loop, place.bootstrap, place.source, place.sink]


def _java(class_path: str, main: str, place: Place, *options: str) -> list[str]:
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    arguments = [place.bootstrap, place.source, place.sink, str(place.folder)]
    return ["java", logging, *options, "-cp", class_path, main, *arguments]


def _kafka_streams(place: Place) -> list[str]:
    return _java(place.programs.kafka_streams, "KafkaStreamsFilter", place)


def _flink(place: Place) -> list[str]:
    opens = [f"--add-opens={package}" for package in _FLINK_OPENS]
    return _java(place.programs.flink, "FlinkFilter", place, *opens)


def _kafka_streams_count(place: Place) -> list[str]:
    return _java(place.programs.kafka_streams_count, "KafkaStreamsCount", place)


def _flink_count(place: Place) -> list[str]:
    opens = [f"--add-opens={package}" for package in _FLINK_OPENS]
    return _java(place.programs.flink_count, "FlinkCount", place, *opens)


_CONTINUOUS = {"continuous": {"checkpointInterval": "1s"}}
_REAL_TIME: dict[str, Any] = {"realTime": {}}
_LONG_BATCHES = {"realTime": {"batchDuration": "1m"}}
_MICRO_BATCH = {"microBatch": {"interval": "0s"}}
_ASYNC = {"microBatch": {"interval": "0s", "asyncProgress": {"checkpointInterval": "1s"}}}
VARIANTS = (
    Variant("librdkafka", "librdkafka loop (the floor)", _librdkafka),
    _penstock("real-time", "Penstock, real-time", _REAL_TIME),
    _penstock("long-real-time", "Penstock, real-time, batches of 1 min", _LONG_BATCHES),
    Variant("kafka-streams", "Kafka Streams", _kafka_streams),
    Variant("flink", "Flink", _flink),
    _penstock("continuous", "Penstock, continuous", _CONTINUOUS),
    _penstock("exactly-once", "Penstock, continuous, exactly once", _CONTINUOUS, "ExactlyOnce"),
    _penstock(
        "real-time-exactly-once", "Penstock, real-time, exactly once", _REAL_TIME, "ExactlyOnce"
    ),
    _penstock("micro-batch-async", "Penstock, micro-batch, asyncProgress", _ASYNC),
    _penstock("micro-batch", "Penstock, micro-batch", _MICRO_BATCH),
    _penstock("real-time-count", "Penstock, real-time", _REAL_TIME, query="counts"),
    _penstock(
        "long-real-time-count",
        "Penstock, real-time, batches of 1 min",
        _LONG_BATCHES,
        query="counts",
    ),
    Variant("kafka-streams-count", "Kafka Streams", _kafka_streams_count, query="counts"),
    Variant("flink-count", "Flink", _flink_count, query="counts"),
    _penstock("micro-batch-count", "Penstock, micro-batch", _MICRO_BATCH, query="counts"),
)
QUICK = ("librdkafka", "kafka-streams", "flink", "continuous")


def environment() -> dict[str, str]:
    """Of every variant: nothing is downloaded while it is measured."""
    return {"PENSTOCK_CONNECTOR_JARS": str(connector_jars())}
