"""Measures what an idle topic costs: processor time of the broker and of each variant.

    python -m benchmarks.idle [--partitions 8] [--seconds 30] [--rounds 2] [--variants NAME...]

Records show that the variant runs; then none comes. The first row is the broker
with no client at all. Quote the ratios within a run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.latency.cpu import cpu_seconds
from benchmarks.latency.measurement import order
from benchmarks.latency.variants import VARIANTS, Place, Variant, environment
from penstock.local.tools.child_process import ChildProcess
from testkit.kafka.broker import running_broker
from testkit.kafka.stream_programs import stream_programs
from testkit.kafka.topic_admin import create_topics, delete_topics
from testkit.wait import wait_for

# What a start leaves to do: code to compile, the archive of classes, the first epochs.
SETTLE_SECONDS = 20
PASSES = '{"paymentId": 13, "amount": 9.5, "currency": "EUR", "card": "4111"}'


@dataclass(frozen=True)
class Idle:
    """Cores used while no record came."""

    variant: str
    broker: float
    process: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [variant.name for variant in VARIANTS]
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--variants", nargs="+", default=names, choices=names)
    options = parser.parse_args()
    variants = [variant for variant in VARIANTS if variant.name in options.variants]
    measured: list[Idle] = []
    with (
        tempfile.TemporaryDirectory(prefix="penstock-idle-") as folder,
        running_broker() as broker,
    ):
        kafka = _kafka()
        for number in range(1, options.rounds + 1):
            measured.append(_used("no client", kafka, None, options.seconds))
            for variant in order(variants, number):
                place = Path(folder) / f"{variant.name}-{number}"
                place.mkdir()
                where = Place(
                    broker.bootstrap, f"payments-{place.name}", f"flags-{place.name}",
                    place, stream_programs(),
                )  # fmt: skip
                measured.append(idle(variant, where, options.partitions, kafka, options.seconds))
                print(measured[-1], flush=True)
    print(table(measured))


def idle(variant: Variant, place: Place, partitions: int, kafka: int, seconds: int) -> Idle:
    """Starts the variant, and measures once it has nothing to do; `kafka`: the broker's process."""
    topics = {place.source: partitions, place.sink: partitions}
    create_topics(place.bootstrap, topics)
    process = ChildProcess(variant.command(place), log=place.folder / "log", env=environment())
    try:
        _wait_until_it_runs(place, partitions, process)
        time.sleep(SETTLE_SECONDS)
        return _used(variant.name, kafka, process.pid, seconds)
    finally:
        process.stop(60)
        delete_topics(place.bootstrap, *topics)


def table(measured: Sequence[Idle]) -> str:
    """The medians of the rounds, as Markdown."""
    lines = ["| cores | broker | process |", "|---|---:|---:|"]
    for name in dict.fromkeys(idle.variant for idle in measured):
        own = [idle for idle in measured if idle.variant == name]
        broker, process = median(it.broker for it in own), median(it.process for it in own)
        lines.append(f"| {name} | {broker:.3f} | {process:.3f} |")
    return "\n".join(lines)


def _used(variant: str, kafka: int, process: int | None, seconds: int) -> Idle:
    def so_far() -> tuple[float, float]:
        return cpu_seconds(kafka), cpu_seconds(process) if process else 0.0

    before = so_far()
    time.sleep(seconds)
    after = so_far()
    return Idle(variant, (after[0] - before[0]) / seconds, (after[1] - before[1]) / seconds)


def _wait_until_it_runs(place: Place, partitions: int, process: ChildProcess) -> None:
    """Sends records until one has come out: the floor reads from the end on."""
    producer = Producer({"bootstrap.servers": place.bootstrap})
    reader = Consumer({"bootstrap.servers": place.bootstrap, "group.id": "none", "log_level": 3})

    def out() -> bool:
        assert process.running, process.last_lines()
        for partition in range(partitions):
            producer.produce(place.source, PASSES, "4111", partition=partition)
        assert producer.flush(30) == 0
        return any(
            reader.get_watermark_offsets(TopicPartition(place.sink, each), timeout=10)[1]
            for each in range(partitions)
        )

    try:
        wait_for("the first record", out, 120)
    finally:
        reader.close()


def _kafka() -> int:
    """The broker's process."""
    (broker,) = (
        child for child in psutil.Process().children(recursive=True) if child.name() == "java"
    )
    return broker.pid


if __name__ == "__main__":
    main()
