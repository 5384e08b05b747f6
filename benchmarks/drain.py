"""Measures how fast each mode reads a backlog, beside Kafka Streams and Flink.

    python -m benchmarks.drain [--records 2000000] [--rounds 2] [--variants NAME...] [--json FILE]

A topic of two partitions holds the payments of the latency benchmark. Every variant reads it from
its first record, and writes four of five of them to a topic of its own, whose end offsets are read
ten times a second. Rates are of records read, from the first one written on, and of the second half
alone, when the code is compiled. Quote the ratios within a run, on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.latency.cpu import cpu_seconds
from benchmarks.latency.measurement import order
from benchmarks.latency.variants import VARIANTS, Place, Variant, environment
from penstock.local.tools.child_process import ChildProcess
from testkit.kafka.broker import running_broker
from testkit.kafka.stream_programs import stream_programs
from testkit.kafka.topic_admin import create_topics, delete_topics

PARTITIONS = 2
FLAGGED_SHARE = 0.8
POLL_SECONDS = 0.1
TIMEOUT_SECONDS = 300.0
# The floor of the latencies reads what comes after its start, with one thread of Python.
DRAINED = tuple(it for it in VARIANTS if it.name != "librdkafka" and it.query == "flags")


@dataclass(frozen=True)
class Drain:
    """One run of a variant."""

    variant: str
    round: int
    first_record_seconds: float
    """From the start of the process."""
    per_second: float
    """Records read, from the first one written to the last."""
    second_half_per_second: float
    cpu_seconds_per_million: float
    """Of the process, its start included."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    names = [variant.name for variant in DRAINED]
    parser.add_argument("--variants", nargs="+", default=names, choices=names)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    variants = [variant for variant in DRAINED if variant.name in options.variants]
    with (
        tempfile.TemporaryDirectory(prefix="penstock-drain-") as folder,
        running_broker() as broker,
    ):
        drains = []
        for number in range(1, options.rounds + 1):
            # A topic for each round: Kafka Streams goes on where it was.
            fill(broker.bootstrap, f"payments-{number}", options.records)
            for variant in order(variants, number):
                place = Path(folder) / f"{variant.name}-{number}"
                place.mkdir()
                drains.append(drain(variant, number, broker.bootstrap, options.records, place))
                print(_line(drains[-1]), flush=True)
    print(table(drains, variants))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(each) for each in drains], indent=1) + "\n")


def fill(bootstrap: str, topic: str, records: int) -> None:
    """The payments of load/Load.java, in turn in each partition."""
    create_topics(bootstrap, {topic: PARTITIONS})
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 10**6}
    )
    for number in range(records):
        payment = number * 10 + (3 if number % 5 else 4)
        value = f'{{"paymentId": {payment}, "amount": 9.5, "currency": "EUR", "card": "4111"}}'
        while True:
            try:
                producer.produce(topic, value, str(number), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def drain(variant: Variant, number: int, bootstrap: str, records: int, folder: Path) -> Drain:
    """Starts the variant, and waits until it has written all."""
    sink, wanted = f"flags-{variant.name}-{number}", int(records * FLAGGED_SHARE)
    create_topics(bootstrap, {sink: PARTITIONS})
    place = Place(bootstrap, f"payments-{number}", sink, folder, stream_programs())
    command = variant.command(place)
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "log_level": 3})
    began, seen = time.monotonic(), list[tuple[float, int]]()
    process = ChildProcess(command, log=folder / "log", env=environment())
    try:
        while not seen or seen[-1][1] < wanted:
            time.sleep(POLL_SECONDS)
            passed = time.monotonic() - began
            assert passed < TIMEOUT_SECONDS, f"{variant.name}\n{process.last_lines()}"
            written = sum(
                reader.get_watermark_offsets(TopicPartition(sink, each), timeout=10)[1]
                for each in range(PARTITIONS)
            )
            seen.append((passed, written))
        used = cpu_seconds(process.pid)
    finally:
        process.stop(TIMEOUT_SECONDS)
        reader.close()
        delete_topics(bootstrap, sink)
    first = max((at for at in seen if at[1] == 0), default=(0.0, 0))
    half = min(at for at in seen if at[1] >= wanted / 2)
    return Drain(
        variant.name,
        number,
        round(first[0], 1),
        round(_rate(first, seen[-1])),
        round(_rate(half, seen[-1])),
        round(used / records * 10**6, 1),
    )


def _rate(since: tuple[float, int], until: tuple[float, int]) -> float:
    """Records read a second."""
    return (until[1] - since[1]) / FLAGGED_SHARE / max(until[0] - since[0], POLL_SECONDS)


def _line(it: Drain) -> str:
    return (
        f"round {it.round}  {it.variant:<26} first record {it.first_record_seconds:5.1f} s  "
        f"{it.per_second:9,.0f} a second, second half {it.second_half_per_second:9,.0f}, "
        f"{it.cpu_seconds_per_million:5.1f} CPU s a million"
    )


def table(drains: Sequence[Drain], variants: Sequence[Variant]) -> str:
    """The medians of the rounds, as Markdown."""
    lines = [
        "| | records a second | second half | CPU seconds a million |",
        "|---|---:|---:|---:|",
    ]
    for variant in variants:
        own = [each for each in drains if each.variant == variant.name]
        rate, half, used = (
            median(getattr(each, name) for each in own)
            for name in ("per_second", "second_half_per_second", "cpu_seconds_per_million")
        )
        lines.append(f"| {variant.title} | {rate:,.0f} | {half:,.0f} | {used:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
