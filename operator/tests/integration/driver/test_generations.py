"""Generations of a stream's checkpoint with a real broker: where each begins, and the way back."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import DriverReport
from penstock.driver.checkpoint.progress import ProgressReader
from penstock.driver.jvm import Jvm
from testkit.driver.in_process_driver import impatient, running
from testkit.kafka.topics import Topics, number_flow, total
from testkit.streams.streams import (
    CONTINUOUS,
    EACH_MODE,
    MICRO_BATCH,
    kafka_sink,
    kafka_to_kafka,
    stream,
)
from testkit.wait import wait_for

FROM_THE_FIRST = {"generation": 1, "startFrom": {"generation": 0}}
COUNTS = "SELECT CAST(count(*) AS STRING) AS value FROM source"


@pytest.mark.parametrize("trigger", EACH_MODE)
def test_a_generation_goes_on_where_another_is_and_the_other_stays(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Nothing is skipped, and what is there twice is what both generations have read."""
    source, sink = topics.make(), topics.make()

    def flow(**checkpoint: Any) -> ContinuousStream:
        return number_flow(topics, source, sink, trigger, checkpoint=checkpoint)

    topics.send(source, range(50))
    with running(flow(), jvm, tmp_path / "c") as driver:
        driver.wait_committed(50)
    topics.send(source, range(50, 60))
    with running(flow(**FROM_THE_FIRST), jvm, tmp_path / "c") as driver:
        driver.wait_committed(60)
    assert topics.received(sink) == Counter(range(60))
    topics.send(source, range(60, 70))
    with running(flow(**FROM_THE_FIRST), jvm, tmp_path / "c") as driver:
        driver.wait_committed(70)
        assert driver.last.last_failure is None
    assert topics.received(sink) == Counter(range(70))
    with running(flow(), jvm, tmp_path / "c") as driver:
        driver.wait_committed(70)
    assert topics.received(sink) == Counter(range(70)) + Counter(range(50, 70))


def _at_a_time(topics: Topics, source: str, between: float) -> dict[str, Any]:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(between))
    return {"timestamp": f"{stamp}.{round(between % 1 * 1000):03d}Z"}


def _by_partition(topics: Topics, source: str, between: float) -> dict[str, Any]:
    return {"offsetsByPartition": {source: {"0": 10, "1": -1}}}


def _where_a_group_is(topics: Topics, source: str, between: float) -> dict[str, Any]:
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": f"of-{source}"})
    consumer.commit(offsets=[TopicPartition(source, 0, 15)], asynchronous=False)
    consumer.close()
    return {"consumerGroup": f"of-{source}"}


# What a new generation reads of two partitions, with 0 to 19 and 100 to 119 before the first one,
# and with 20 to 29 and 120 to 129 after it.
STARTS: list[tuple[Callable[[Topics, str, float], dict[str, Any]], set[int]]] = [
    (lambda *_: {"generation": 0}, {*range(20, 30), *range(120, 130)}),
    (lambda *_: {"offsets": "earliest"}, {*range(30), *range(100, 130)}),
    (lambda *_: {"offsets": "latest"}, set()),
    (_at_a_time, {*range(20, 30), *range(120, 130)}),
    (_by_partition, {*range(10, 30)}),
    (_where_a_group_is, {*range(15, 30), *range(100, 130)}),
]


@pytest.mark.parametrize(
    ("start", "expected"),
    STARTS,
    ids=["generation", "earliest", "latest", "timestamp", "by-partition", "group"],
)
@pytest.mark.parametrize("trigger", [CONTINUOUS, MICRO_BATCH], ids=["continuous", "micro-batch"])
def test_where_it_begins(
    trigger: dict[str, Any],
    start: Callable[[Topics, str, float], dict[str, Any]],
    expected: set[int],
    topics: Topics,
    jvm: Jvm,
    tmp_path: Path,
) -> None:
    """Whatever the source says about a first start, also as an option of Spark's."""
    source, sink, later = topics.make(), topics.make(), topics.make()
    for partition in (0, 1):
        topics.send(source, range(partition * 100, partition * 100 + 20), partition)
    with running(number_flow(topics, source, sink, trigger), jvm, tmp_path / "c") as driver:
        driver.wait_committed(40)
    time.sleep(0.05)
    between = time.time()
    time.sleep(0.05)
    for partition in (0, 1):
        topics.send(source, range(partition * 100 + 20, partition * 100 + 30), partition)
    checkpoint = {"generation": 1, "startFrom": start(topics, source, between)}
    by_time = {"options": {"startingTimestamp": "1", "kafka.fetch.max.wait.ms": "20"}}
    flow = number_flow(topics, source, later, trigger, by_time, checkpoint=checkpoint)
    with running(flow, jvm, tmp_path / "c") as driver:
        driver.wait_ready()
        topics.send(source, range(1000, 1010))
        received = topics.wait_received(later, expected | {*range(1000, 1010)})
    assert received == Counter(expected | {*range(1000, 1010)})


def test_a_query_gets_state_and_loses_it_again(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """What no checkpoint can do. Refused without another generation, which the message names."""
    source, sink = topics.make(), topics.make()

    def flow(sql: str, **checkpoint: Any) -> ContinuousStream:
        return number_flow(
            topics,
            source,
            sink,
            MICRO_BATCH,
            transform={"sql": sql},
            outputMode="update",
            checkpoint=checkpoint,
        )

    topics.send(source, range(10))
    with running(flow("SELECT value FROM source"), jvm, tmp_path / "c") as driver:
        driver.wait_committed(10)
    with running(flow(COUNTS), jvm, tmp_path / "c") as driver:
        failure = driver.wait_failure("CheckpointHoldsNoState").last_failure
    assert failure is not None
    assert "startFrom.generation" in failure.message
    topics.send(source, range(10, 17))
    with running(flow(COUNTS, **FROM_THE_FIRST), jvm, tmp_path / "c") as driver:
        driver.wait_committed(17)
    received = topics.received(sink)
    assert max(received - Counter(range(10))) == 7  # of those that the one before had not read
    back = {"generation": 2, "startFrom": {"generation": 1}}
    topics.send(source, range(100, 105))
    with running(flow("SELECT value FROM source", **back), jvm, tmp_path / "c") as driver:
        driver.wait_committed(22)
    assert {*range(100, 105)} <= set(topics.received(sink))


def test_what_transactions_have_written_is_not_read_again(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """An epoch of a minute is not committed when the query stops: the group's offsets are."""
    source, sink = topics.make(), topics.make()

    def flow(**checkpoint: Any) -> ContinuousStream:
        trigger = {"continuous": {"checkpointInterval": "60s"}}
        spec = kafka_to_kafka(topics.bootstrap, source, sink, trigger, checkpoint=checkpoint)
        once = kafka_sink(topics.bootstrap, topic=sink, delivery="ExactlyOnce")
        return stream(**{**spec, "sink": once})

    with running(flow(), jvm, tmp_path / "c") as driver:
        driver.wait_ready()
        driver.wait_committed(0)
        topics.send(source, range(50))
        topics.wait_received(sink, range(50))
    assert total(ProgressReader(tmp_path / "c").committed_offsets()) == 0
    topics.send(source, range(50, 60))
    with running(flow(**FROM_THE_FIRST), jvm, tmp_path / "c"):
        topics.wait_received(sink, range(60))
    assert topics.received(sink) == Counter(range(60))


def _numbers(folder: Path) -> Counter[int]:
    return Counter(
        int(json.loads(line)["value"])
        for file in folder.glob("part-*")
        for line in file.read_text().splitlines()
    )


PLAIN = {"sql": "SELECT CAST(value AS STRING) AS value FROM source"}
COUNTED = {
    "sql": "SELECT CAST(count(*) AS STRING) AS value FROM source "
    "GROUP BY window(timestamp, '1 second')",
    "watermark": {"column": "timestamp", "delay": "1 second"},
}


def test_a_sink_that_knows_its_batches_gets_other_numbers(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark's file sink skips batches whose numbers it has. Those of state begin at 0: refused."""
    source, out = topics.make(), tmp_path / "out"

    def flow(transform: dict[str, Any], **checkpoint: Any) -> ContinuousStream:
        spec = kafka_to_kafka(topics.bootstrap, source, "", MICRO_BATCH, checkpoint=checkpoint)
        sink = {"custom": {"format": "json", "options": {"path": str(out)}}}
        return stream(**{**spec, "sink": sink, "transform": transform})

    with running(flow(PLAIN), jvm, tmp_path / "c") as driver:
        for first in range(0, 30, 10):
            topics.send(source, range(first, first + 10))
            driver.wait_committed(first + 10)
    anew = {"startFrom": {"offsets": "earliest"}}
    with running(flow(PLAIN, generation=1, **anew), jvm, tmp_path / "c") as driver:
        driver.wait_committed(30)
    assert _numbers(out) == Counter([*range(30)] * 2)
    topics.send(source, range(30, 40))
    with running(flow(PLAIN, generation=1, **anew), jvm, tmp_path / "c") as driver:
        driver.wait_committed(40)
        assert driver.last.last_repair is None
    assert _numbers(out) == Counter([*range(30), *range(40)])
    with running(flow(COUNTED, generation=2, **anew), jvm, tmp_path / "c") as driver:
        failure = driver.wait_failure("UnsupportedOperation").last_failure
    assert failure is not None
    assert "another generation" in failure.message


def _has_warning(reason: str) -> Callable[[DriverReport], bool]:
    return lambda report: report.last_failure is not None and report.last_failure.reason == reason


def test_what_it_names_is_not_there_or_is_there_already(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink = topics.make(), topics.make()

    def flow(**checkpoint: Any) -> ContinuousStream:
        return number_flow(topics, source, sink, CONTINUOUS, checkpoint=checkpoint)

    topics.send(source, range(10))
    for start in ({"generation": 7}, {"consumerGroup": "nobody"}):
        missing = flow(generation=1, startFrom=start)
        with running(missing, jvm, tmp_path / "c", impatient(missing)) as driver:
            failure = driver.wait_failure("StartPositionUnknown").last_failure
        assert failure is not None
        assert failure.permanent
        assert str(next(iter(start.values()))) in failure.message
    with running(flow(generation=1, startFrom={"offsets": "earliest"}), jvm, tmp_path / "c") as it:
        it.wait_committed(10)
    with running(flow(generation=1, startFrom={"offsets": "latest"}), jvm, tmp_path / "c") as it:
        it.wait("a warning", _has_warning("GenerationExists"))
        topics.send(source, range(10, 20))
        it.wait_committed(20)
    assert topics.received(sink) == Counter(range(20))
    assert wait_for("its folder", lambda: (tmp_path / "c.generation-1" / "commits").is_dir())
