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
from penstock.driver.checkpoint.storage.volume import VolumeFiles
from penstock.driver.environment import LocalEnvironment
from penstock.driver.jvm import Jvm
from testkit.driver.checkpoints import undo_commit
from testkit.driver.in_process_driver import impatient, running
from testkit.kafka.topics import Topics, number_flow, total
from testkit.object_store.streams import CheckpointBucket
from testkit.streams.streams import (
    CONTINUOUS,
    MICRO_BATCH,
    MOSTLY_BOTH_ENGINES,
    MOSTLY_CONTINUOUS,
    kafka_sink,
    kafka_to_kafka,
    stream,
)
from testkit.wait import wait_for

FROM_THE_FIRST = {"generation": 1, "startFrom": {"generation": 0}}
AS_IT_IS = "SELECT value FROM source"
COUNTS = "SELECT CAST(count(*) AS STRING) AS value FROM source"
FAILING = "SELECT value, raise_error('boom') AS n, count(*) FROM source GROUP BY value"
COUNTS_BY_TEN = """
SELECT CAST(digit AS STRING) AS key, CAST(count(*) AS STRING) AS value
FROM (SELECT CAST(CAST(value AS STRING) AS INT) % 10 AS digit FROM source) GROUP BY digit
"""


@pytest.mark.proves("how-to/rewind.md")
@pytest.mark.parametrize("trigger", MOSTLY_BOTH_ENGINES)
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


@pytest.mark.proves("how-to/rewind.md")
@pytest.mark.parametrize(
    ("start", "expected"),
    STARTS,
    ids=["generation", "earliest", "latest", "timestamp", "by-partition", "group"],
)
@pytest.mark.parametrize("trigger", MOSTLY_CONTINUOUS)
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
    with running(flow(AS_IT_IS), jvm, tmp_path / "c") as driver:
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
    with running(flow(AS_IT_IS, **back), jvm, tmp_path / "c") as driver:
        driver.wait_committed(22)
    assert {*range(100, 105)} <= set(topics.received(sink))


@pytest.mark.parametrize(
    ("sql", "in_store"),
    [(COUNTS_BY_TEN, False), (AS_IT_IS, False), (COUNTS_BY_TEN, True)],
    ids=["other keys", "no state", "other keys, in an object store"],
)
def test_a_query_that_has_committed_nothing_binds_no_other(
    sql: str, in_store: bool, topics: Topics, jvm: Jvm, bucket: CheckpointBucket, tmp_path: Path
) -> None:
    """Its first batch has left state, which Spark would hold another query to, also later on."""
    source, sink = topics.make(), topics.make(1)
    place = bucket.environment() if in_store else LocalEnvironment(tmp_path / "c")

    def flow(sql: str, **more: Any) -> ContinuousStream:
        fields: dict[str, Any] = {"transform": {"sql": sql}, "outputMode": "update", **more}
        made = number_flow(topics, source, sink, MICRO_BATCH, **fields)
        return bucket.stream(made) if in_store else made

    topics.send(source, range(20))
    # Once only: a second start would remove the state.
    with running(flow(FAILING, restart={"maxAttempts": 1}), jvm, place) as driver:
        driver.wait("failed", lambda report: report.last_failure is not None)
    left = bucket.files(flow(sql)) if in_store else map(str, (tmp_path / "c/state").rglob("*"))
    assert any(path.endswith("schema") for path in left), "the case that is tested"
    for sends in (1, 2):
        with running(flow(sql), jvm, place) as driver:
            driver.wait_committed(20 * sends)
            assert driver.last.last_failure is None
        topics.send(source, range(20))
    if sql == AS_IT_IS:
        assert topics.received(sink) == Counter([*range(20), *range(20)])
    else:
        assert topics.last_values(sink) == dict.fromkeys(range(10), 4)


def once(
    topics: Topics, source: str, sink: str, interval: str = "1s", **more: Any
) -> ContinuousStream:
    """A stream that copies one topic to another exactly once."""
    trigger = {"continuous": {"checkpointInterval": interval}}
    spec = kafka_to_kafka(topics.bootstrap, source, sink, trigger, **more)
    to = kafka_sink(topics.bootstrap, topic=sink, delivery="ExactlyOnce")
    return stream(**{**spec, "sink": to})


def test_what_transactions_have_written_is_not_read_again(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """An epoch of an hour is not committed when the query stops: the group's offsets are.

    One of a minute ends with the clock's minute (ProcessingTimeExecutor.nextBatchTime).
    """
    source, sink = topics.make(), topics.make()
    with running(once(topics, source, sink, "1h"), jvm, tmp_path / "c") as driver:
        driver.wait_ready()
        driver.wait_committed(0)
        topics.send(source, range(50))
        topics.wait_received(sink, range(50))
    assert total(ProgressReader(VolumeFiles(tmp_path / "c")).committed_offsets()) == 0
    topics.send(source, range(50, 60))
    following = once(topics, source, sink, "1h", checkpoint=FROM_THE_FIRST)
    with running(following, jvm, tmp_path / "c"):
        topics.wait_received(sink, range(60))
    assert topics.received(sink) == Counter(range(60))


def test_an_attempt_that_was_taken_back_is_made_again_exactly_once(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """It begins where the generation before is by then."""
    source, sink = topics.make(), topics.make()
    topics.send(source, range(20))
    with running(once(topics, source, sink), jvm, tmp_path / "c") as driver:
        driver.wait_committed(20)
    sql = {"sql": "SELECT nothing AS value FROM source"}
    wrong = once(topics, source, sink, transform=sql, checkpoint=FROM_THE_FIRST)
    with running(wrong, jvm, tmp_path / "c") as driver:
        driver.wait("a failure", lambda report: report.last_failure is not None)
    topics.send(source, range(20, 40))
    with running(once(topics, source, sink), jvm, tmp_path / "c") as driver:
        driver.wait_committed(40)
    topics.send(source, range(40, 50))
    following = once(topics, source, sink, checkpoint=FROM_THE_FIRST)
    with running(following, jvm, tmp_path / "c") as driver:
        driver.wait_committed(50)
    assert topics.received(sink) == Counter(range(50))


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


class ToFiles:
    """Streams of one topic into folders, which know their batches; one driver after the other."""

    def __init__(self, topics: Topics, jvm: Jvm, folder: Path) -> None:
        self._topics, self._jvm, self._folder = topics, jvm, folder
        self._source = topics.make(1)
        self.sent = 0

    def flow(self, transform: dict[str, Any], out: str, **checkpoint: Any) -> ContinuousStream:
        more: dict[str, Any] = {"checkpoint": checkpoint}
        spec = kafka_to_kafka(self._topics.bootstrap, self._source, "", MICRO_BATCH, **more)
        sink = {"custom": {"format": "json", "options": {"path": str(self._folder / out)}}}
        return stream(**{**spec, "sink": sink, "transform": transform})

    def run(self, batches: int, out: str = "out", **checkpoint: Any) -> None:
        """Reads what there is, and then so many records, each in a batch of its own."""
        flow = self.flow(PLAIN, out, **checkpoint)
        with running(flow, self._jvm, self._folder / "c") as driver:
            driver.wait_committed(self.sent)
            for _ in range(batches):
                self._topics.send(self._source, range(self.sent, self.sent + 1))
                self.sent += 1
                driver.wait_committed(self.sent)
            assert driver.last.query_restarts == 0

    def numbers(self, out: str = "out") -> Counter[int]:
        return _numbers(self._folder / out)


ANEW: dict[str, Any] = {"startFrom": {"offsets": "earliest"}}


def test_a_sink_that_knows_its_batches_gets_each_number_once(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark's file sink skips a batch that it has, and wants all before each tenth one.

    Also on the way back: the first generation has not seen which numbers the second one has used.
    """
    files = ToFiles(topics, jvm, tmp_path)
    files.run(3)
    files.run(12, generation=1, **ANEW)
    expected = Counter([*range(3), *range(15)])
    assert files.numbers() == expected
    files.run(12)
    expected += Counter([*range(3, 27)])
    assert files.numbers() == expected
    files.run(2, generation=1, **ANEW)
    expected += Counter([*range(15, 29)])
    assert files.numbers() == expected


def test_another_sink_gets_the_numbers_from_the_first_on(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """It would miss those before, as Spark's file sink does at its tenth batch."""
    files = ToFiles(topics, jvm, tmp_path)
    files.run(3)
    files.run(12, "other", generation=1, **ANEW)
    assert files.numbers("other") == Counter(range(15))
    assert (tmp_path / "other" / "_spark_metadata" / "0").exists()


def test_a_batch_that_was_planned_for_a_sink_leaves_no_gap(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Whether the sink has it or not."""
    files = ToFiles(topics, jvm, tmp_path)
    files.run(3)
    newest = undo_commit(tmp_path / "c")
    (tmp_path / "out" / "_spark_metadata" / str(newest)).unlink()
    before = files.numbers() if newest else Counter[int]()
    files.run(12, generation=1, **ANEW)
    assert files.numbers() == before + Counter(range(15))


def test_a_query_with_state_needs_a_sink_that_knows_no_batch(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Its batches begin at 0, and so does what it keeps of them."""
    files = ToFiles(topics, jvm, tmp_path)
    files.run(2)
    refused = files.flow(COUNTED, "out", generation=1, **ANEW)
    with running(refused, jvm, tmp_path / "c") as driver:
        failure = driver.wait_failure("UnsupportedOperation").last_failure
    assert failure is not None
    assert "another generation" in failure.message
    with running(files.flow(COUNTED, "counts", generation=2, **ANEW), jvm, tmp_path / "c") as it:
        it.wait_committed(2)
    files.run(1)
    with running(files.flow(COUNTED, "out", generation=2, **ANEW), jvm, tmp_path / "c") as driver:
        driver.wait_failure("UnsupportedOperation")


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
