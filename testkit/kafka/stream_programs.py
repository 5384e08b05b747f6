"""The Java programs of the latency benchmark, compiled, and kept in the cache with their jars."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from testkit import system_packages
from testkit.commands import run
from testkit.content_hash import build_once, content_hash
from testkit.kafka.jars import maven_jars
from testkit.paths import CHECKOUT, cache_dir

FOLDER = CHECKOUT / "benchmarks" / "latency"
KAFKA_STREAMS_POM = FOLDER / "kafka-streams" / "pom.xml"
FLINK_POM = FOLDER / "flink" / "pom.xml"


@dataclass(frozen=True)
class StreamPrograms:
    """The class path of each program, and the folders with the jars."""

    load: str
    kafka_streams: str
    flink: str
    kafka_streams_count: str
    flink_count: str
    kafka_streams_jars: Path
    flink_jars: Path


def stream_programs() -> StreamPrograms:
    """Fetches the jars and compiles, unless the cache has both."""
    kafka_streams = maven_jars("benchmark-kafka-streams", KAFKA_STREAMS_POM)
    flink = maven_jars("benchmark-flink", FLINK_POM)
    return StreamPrograms(
        load=_compiled(FOLDER / "load" / "Load.java", kafka_streams),
        kafka_streams=_compiled(
            FOLDER / "kafka-streams" / "KafkaStreamsFilter.java", kafka_streams
        ),
        flink=_compiled(FOLDER / "flink" / "FlinkFilter.java", flink),
        kafka_streams_count=_compiled(
            FOLDER / "kafka-streams" / "KafkaStreamsCount.java", kafka_streams
        ),
        flink_count=_compiled(FOLDER / "flink" / "FlinkCount.java", flink),
        kafka_streams_jars=kafka_streams,
        flink_jars=flink,
    )


def _compiled(source: Path, jars: Path) -> str:
    """The class path of a program, and of the jars that it needs."""
    name = f"{source.stem.lower()}-{content_hash(source, jars.name)}"

    def compile_to(folder: Path) -> None:
        system_packages.require("javac")
        run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", folder, source])

    classes = build_once(cache_dir("programs") / name, compile_to)
    return f"{classes}:{jars}/*"
