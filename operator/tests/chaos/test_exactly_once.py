"""sink.kafka.delivery ExactlyOnce under faults: a read_committed consumer sees each record once.

Each kill hits a driver whose sink has records that its checkpoint does not know of. The same kills
without transactions must show copies, or they would prove nothing.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract import naming
from penstock.driver.checkpoint.folder import CheckpointFolder
from testkit.driver.checkpoints import folder_at
from testkit.driver.driver_process import LOAD, Process, driver, traffic
from testkit.kafka.topics import Topics
from testkit.object_store.server import LocalObjectStore
from testkit.object_store.streams import CheckpointBucket
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import ASYNC, CONTINUOUS, kafka_to_kafka, stream
from testkit.wait import wait_for

pytestmark = pytest.mark.timeout(2000)

_SAME = """
from pyspark.sql.functions import udf


def transform(source):
    same = udf(lambda value: value, "binary")
    return source.select("key", same("value").alias("value"))
"""
PYTHON = {"transform": {"python": {"function": "same:transform", "inline": _SAME}}}
BATCHES = {"trigger": {"microBatch": {"interval": "100ms"}}}
SHORT_REAL_TIME = {"trigger": {"realTime": {"batchDuration": "1s"}}}
LONG_REAL_TIME = {"trigger": {"realTime": {"batchDuration": "5s"}}}
# Its operators also pass on all rows of a record before the next one.
JOINED = {
    "transform": {
        "sql": "SELECT key, value FROM source JOIN (VALUES (0), (1)) AS t(n) "
        "ON CAST(CAST(value AS STRING) AS INT) % 2 = t.n"
    }
}
FULL = pytest.mark.full


def flow_to(
    topics: Topics,
    source: str,
    sink: str,
    delivery: str = "ExactlyOnce",
    of_sink: dict[str, Any] | None = None,
    **more: Any,
) -> ContinuousStream:
    """A stream that copies all numbers of one topic to another."""
    spec = kafka_to_kafka(topics.bootstrap, source, sink, **{"trigger": CONTINUOUS, **more})
    spec["sink"]["kafka"] |= {"delivery": delivery, **(of_sink or {})}
    return stream(**spec)


def unknown_to(folder: CheckpointFolder, topics: Topics, source: str, sink: str) -> set[int]:
    """The numbers in the sink that the checkpoint has not committed."""
    committed = (folder.progress.committed_offsets() or {}).get(source, {})
    where = {number: place for place, number in topics.placed(source).items()}
    return {
        number
        for number in topics.received(sink)
        if where[number][1] >= committed.get(where[number][0], 0)
    }


def kill_ahead_of(
    folder: CheckpointFolder,
    process: Process,
    topics: Topics,
    source: str,
    sink: str,
    record_figure: RecordFigure,
) -> None:
    """Kills a driver after an epoch, when the sink holds records that are not committed."""
    in_doubt = process.kill_ahead(
        folder.progress, lambda: len(unknown_to(folder, topics, source, sink))
    )
    record_figure("written and not committed when killed", in_doubt)


def last_received(
    flow: ContinuousStream,
    topics: Topics,
    sink: str,
    numbers: range,
    folder: Path,
    class_path: str,
    environment: dict[str, str] | None = None,
) -> Counter[int]:
    """What the sink holds when a last driver has written all these numbers and stopped."""
    with driver(flow, folder, class_path, environment=environment) as process:
        process.wait_alive()
        topics.wait_received(sink, numbers)
        assert process.stop() == 0
        assert process.warnings() == []
    received = topics.received(sink)
    assert set(received) == set(numbers)
    return received


def copies(received: Counter[int]) -> dict[int, int]:
    return {number: count for number, count in received.items() if count > 1}


@pytest.mark.proves(2)
@pytest.mark.parametrize(
    ("delivery", "times", "more", "partitions"),
    [
        pytest.param("ExactlyOnce", 2, {}, 4, id="twice"),
        pytest.param("ExactlyOnce", 2, BATCHES, 4, id="batches, twice"),
        pytest.param("ExactlyOnce", 2, SHORT_REAL_TIME, 4, id="real time, twice"),
        pytest.param("AtLeastOnce", 2, {}, 4, id="without transactions", marks=FULL),
        pytest.param("AtLeastOnce", 2, BATCHES, 4, id="batches, without transactions", marks=FULL),
        pytest.param("ExactlyOnce", 20, {}, 4, id="twenty times", marks=FULL),
        pytest.param("ExactlyOnce", 10, BATCHES, 4, id="batches, ten times", marks=FULL),
        pytest.param("AtLeastOnce", 2, SHORT_REAL_TIME, 4, id="real time, without", marks=FULL),
        pytest.param("ExactlyOnce", 10, SHORT_REAL_TIME, 4, id="real time, ten", marks=FULL),
        pytest.param(
            *("ExactlyOnce", 3, {**LONG_REAL_TIME, **JOINED}, 4),
            id="real time with a table, long batches, three times",
            marks=FULL,
        ),
        pytest.param("ExactlyOnce", 5, {"trigger": ASYNC}, 4, id="async, five times", marks=FULL),
        pytest.param("ExactlyOnce", 5, PYTHON, 4, id="Python, five times", marks=FULL),
        pytest.param(
            *("ExactlyOnce", 5, {**BATCHES, **PYTHON}, 4),
            id="Python in batches, five times",
            marks=FULL,
        ),
        pytest.param("ExactlyOnce", 3, {}, 100, id="100 partitions, three times", marks=FULL),
        pytest.param(
            *("ExactlyOnce", 3, BATCHES, 100),
            id="100 partitions in batches, three times",
            marks=FULL,
        ),
        pytest.param(
            *("ExactlyOnce", 3, SHORT_REAL_TIME, 100),
            id="100 partitions in real time, three times",
            marks=FULL,
        ),
    ],
)
def test_a_driver_is_killed(
    delivery: str,
    times: int,
    more: dict[str, Any],
    partitions: int,
    topics: Topics,
    class_path: str,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    source, sink = topics.make(partitions), topics.make()
    flow = flow_to(topics, source, sink, delivery, **more)
    folder = folder_at(tmp_path / "checkpoint")
    with traffic(topics, source, LOAD) as sent:
        for _ in range(times):
            with driver(flow, tmp_path, class_path) as process:
                kill_ahead_of(folder, process, topics, source, sink, record_figure)
    received = last_received(flow, topics, sink, range(sent[0]), tmp_path, class_path)
    record_figure("records sent", sent[0])
    record_figure("copies", sum(received.values()) - len(received))
    if delivery == "ExactlyOnce":
        assert not copies(received)
    else:
        assert copies(received), "the kills would show nothing"


@pytest.mark.proves(2)
@FULL
@pytest.mark.parametrize(
    "trigger",
    [CONTINUOUS, BATCHES["trigger"], ASYNC, SHORT_REAL_TIME["trigger"]],
    ids=["continuous", "batches", "async", "real-time"],
)
def test_a_driver_with_its_checkpoint_in_an_object_store_is_killed(
    trigger: dict[str, Any],
    topics: Topics,
    class_path: str,
    s3: LocalObjectStore,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    source, sink, bucket = topics.make(), topics.make(), CheckpointBucket.made(s3, tmp_path)
    flow = bucket.stream(flow_to(topics, source, sink, trigger=trigger))
    folder = folder_at(s3.folder / bucket.name / bucket.prefix(flow))
    pod = {naming.ENV_POD_UID: "pod"}
    with traffic(topics, source, LOAD) as sent:
        for _ in range(3):
            with driver(flow, tmp_path, class_path, environment=pod) as process:
                kill_ahead_of(folder, process, topics, source, sink, record_figure)
    received = last_received(flow, topics, sink, range(sent[0]), tmp_path, class_path, pod)
    record_figure("records sent", sent[0])
    assert not copies(received)


@pytest.mark.proves(2, "failures.md#a-producer-of-the-stream-is-fenced")
@pytest.mark.full
@pytest.mark.parametrize(
    "trigger", [CONTINUOUS, SHORT_REAL_TIME["trigger"]], ids=["continuous", "real-time"]
)
def test_a_frozen_driver_wakes_up_beside_its_successor(
    trigger: dict[str, Any], topics: Topics, class_path: str, tmp_path: Path
) -> None:
    """As on a volume whose locks are gone: both write, with one checkpoint's names."""
    source, sink = topics.make(), topics.make()
    flow = flow_to(topics, source, sink, trigger=trigger)
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    with traffic(topics, source, LOAD) as sent, driver(flow, first, class_path) as old:
        old.wait_ready()
        old.freeze()
        shutil.copytree(first / "checkpoint", second / "checkpoint")
        reached = sent[0]
        with driver(flow, second, class_path) as new:
            new.wait_ready()
            topics.wait_received(sink, range(reached))
            old.wake()
            # Each takes the transactional ids over from the other, again and again.
            for process in (old, new):
                wait_for("fenced", lambda: "ProducerFenced" in process.log.read_text())  # noqa: B023
            time.sleep(10)
            old.kill()
            topics.wait_received(sink, range(sent[0]))
            assert new.stop() == 0
    with driver(flow, second, class_path) as last:
        received = topics.wait_received(sink, range(sent[0]))
        assert last.stop() == 0
    assert set(received) == set(range(sent[0]))
    assert not copies(received)


@pytest.mark.proves(2, "failures.md#a-producer-of-the-stream-is-fenced")
@pytest.mark.full
@pytest.mark.parametrize(
    "trigger", [CONTINUOUS, SHORT_REAL_TIME["trigger"]], ids=["continuous", "real-time"]
)
def test_a_transaction_expires(
    trigger: dict[str, Any], topics: Topics, class_path: str, tmp_path: Path
) -> None:
    """The brokers abort it while the driver is frozen, and refuse the rest of it."""
    source, sink = topics.make(), topics.make()
    brief = {"options": {"kafka.transaction.timeout.ms": "1000"}}
    flow = flow_to(topics, source, sink, of_sink=brief, trigger=trigger)
    with traffic(topics, source, LOAD) as sent, driver(flow, tmp_path, class_path) as process:
        process.wait_ready()
        process.freeze()
        time.sleep(15)  # the brokers look every ten seconds
        process.wake()
        topics.wait_received(sink, range(sent[0]))
        assert process.stop() == 0
    with driver(flow, tmp_path, class_path) as process:
        received = topics.wait_received(sink, range(sent[0]))
        assert process.stop() == 0
    assert set(received) == set(range(sent[0]))
    assert not copies(received)
