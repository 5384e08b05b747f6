"""What is measured: how each variant is started."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from testkit.kafka.jars import connector_jars
from testkit.kafka.stream_programs import StreamPrograms
from testkit.kafka.topic_admin import create_topics
from testkit.paths import CHECKOUT

EXAMPLE = CHECKOUT / "examples" / "fraud-flags.yaml"
# Flink's own options for Java 17 (env.java.opts.all of its configuration file): the two that this
# program needs.
_FLINK_OPENS = ("java.base/java.util=ALL-UNNAMED", "java.base/java.lang=ALL-UNNAMED")


@dataclass(frozen=True)
class Place:
    """What one start of a variant works with."""

    bootstrap: str
    source: str
    sink: str
    folder: Path
    """An empty folder of its own."""
    programs: StreamPrograms

    @property
    def dead_letters(self) -> str:
        """The topic of dead letters; the variant that uses it creates it."""
        return f"{self.sink}-dead-letters"


@dataclass(frozen=True)
class Variant:
    """One way to run the filter."""

    name: str
    title: str
    command: Callable[[Place], list[str]]
    """Prepares the folder and returns the command line."""
    penstock: bool = False
    batch_seconds: int = 0
    """How long a batch lasts, if it is so long that the measured seconds have no end of one."""
    query: str = "flags"
    """What Load.java sends and expects: flags or counts."""


def stream(
    example: Mapping[str, Any],
    trigger: Mapping[str, Any],
    place: Place,
    delivery: str = "AtLeastOnce",
    dead_letters: bool = False,
) -> dict[str, Any]:
    """The example with this trigger, and with the topics and the broker of a place."""
    sink = {**example["spec"]["sink"]["kafka"], "topic": place.sink, "delivery": delivery}
    spec = {
        **example["spec"],
        "kafka": {"bootstrapServers": place.bootstrap},
        "trigger": dict(trigger),
        "sink": {"kafka": sink},
    }
    read = {**example["spec"]["source"]["kafka"], "topics": [place.source]}
    if dead_letters:
        read["deadLetters"] = {"topic": place.dead_letters}
    return {**example, "spec": {**spec, "source": {"kafka": read}}}


def _penstock(trigger: Mapping[str, Any], **more: Any) -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        if more.get("dead_letters"):
            create_topics(place.bootstrap, {place.dead_letters: 1})
        example = yaml.safe_load(EXAMPLE.read_text())
        return _run(stream(example, trigger, place, **more), place)

    return command


def _run(manifest: Mapping[str, Any], place: Place) -> list[str]:
    file = place.folder / "stream.yaml"
    file.write_text(yaml.safe_dump(dict(manifest)))
    options = ["--plain", "--checkpoint", str(place.folder / "checkpoint")]
    return [sys.executable, "-m", "penstock.cli", "run", *options, str(file)]


def _mode(
    name: str, title: str, trigger: Mapping[str, Any], batch_seconds: int = 0, **more: Any
) -> Variant:
    command = _penstock(trigger, **more)
    return Variant(name, title, command, penstock=True, batch_seconds=batch_seconds)


# The same work as KafkaStreamsCount.java and FlinkCount.java.
_COUNT = {
    "outputMode": "update",
    "transform": {"sql": "SELECT key, CAST(count(*) AS STRING) AS value FROM source GROUP BY key"},
}


def _count(name: str, title: str, trigger: Mapping[str, Any]) -> Variant:
    def command(place: Place) -> list[str]:
        example = yaml.safe_load(EXAMPLE.read_text())
        made = stream({**example, "spec": {**example["spec"], **_COUNT}}, trigger, place)
        return _run(made, place)

    return Variant(name, title, command, penstock=True, query="counts")


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


_SHORT_BATCHES = {"realTime": {"batchDuration": "1s"}}
_CONTINUOUS = {"continuous": {"checkpointInterval": "1s"}}
VARIANTS = (
    Variant("librdkafka", "librdkafka loop (the floor)", _librdkafka),
    _mode("real-time", "Penstock, real-time", {"realTime": {"batchDuration": "1m"}}, 60),
    Variant("kafka-streams", "Kafka Streams", _kafka_streams),
    Variant("flink", "Flink", _flink),
    _mode("continuous", "Penstock, continuous", _CONTINUOUS),
    _mode("dead-letters", "Penstock, continuous, dead letters", _CONTINUOUS, dead_letters=True),
    _mode(
        "exactly-once", "Penstock, continuous, exactly once", _CONTINUOUS, delivery="ExactlyOnce"
    ),
    _mode(
        "micro-batch-async",
        "Penstock, micro-batch, asyncProgress",
        {"microBatch": {"interval": "0s", "asyncProgress": {"checkpointInterval": "1s"}}},
    ),
    _mode("micro-batch", "Penstock, micro-batch", {"microBatch": {"interval": "0s"}}),
)
# Not published yet: --variants with --json.
COUNTS = (
    Variant("kafka-streams-count", "Kafka Streams, count", _kafka_streams_count, query="counts"),
    Variant("flink-count", "Flink, count", _flink_count, query="counts"),
    _count("real-time-count", "Penstock, real-time, count", {"realTime": {"batchDuration": "1m"}}),
    _count("short-real-time-count", "Penstock, real-time of 1 s, count", _SHORT_BATCHES),
    _count("micro-batch-count", "Penstock, micro-batch, count", {"microBatch": {"interval": "0s"}}),
)
QUICK = ("librdkafka", "kafka-streams", "flink", "continuous")


def environment() -> dict[str, str]:
    """Of every variant: nothing is downloaded while it is measured."""
    return {"PENSTOCK_CONNECTOR_JARS": str(connector_jars())}
