"""sink.kafka.delivery ExactlyOnce with state: each row of each batch once, by value.

Spark writes the offsets of a batch once, so what each batch has to write is known, whoever runs it
and however often. A kill hits a driver whose sink has rows of a batch that is not committed.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.checkpoint.folder import CheckpointFolder
from testkit.driver.checkpoints import folder_at, path_of
from testkit.driver.driver_process import LOAD, Process, driver, traffic
from testkit.kafka.topics import Topics
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import kafka_to_kafka, stream
from testkit.wait import wait_for

pytestmark = pytest.mark.timeout(2000)

Row = tuple[str, str]
_KEYS = 50
_COUNTS: dict[str, Any] = {
    "transform": {
        "sql": f"SELECT CAST(CAST(CAST(value AS STRING) AS INT) % {_KEYS} AS STRING) AS key, "
        "CAST(count(*) AS STRING) AS value FROM source "
        f"GROUP BY CAST(CAST(value AS STRING) AS INT) % {_KEYS}"
    },
    "outputMode": "update",
    "trigger": {"microBatch": {"interval": "100ms"}},
    "sparkConf": {"spark.sql.streaming.minBatchesToRetain": "10000"},
}


def counts_to(
    topics: Topics, source: str, sink: str, delivery: str = "ExactlyOnce", **more: Any
) -> ContinuousStream:
    spec = kafka_to_kafka(topics.bootstrap, source, sink, **{**_COUNTS, **more})
    spec["sink"]["kafka"]["delivery"] = delivery
    return stream(**spec)


def rows_of_batches(checkpoint: Path, topics: Topics, source: str, until: int) -> Counter[Row]:
    """What the batches up to this one write: the new count of each key that they read."""
    numbers = topics.placed(source)
    before: dict[int, int] = {}
    counts, rows = Counter[int](), Counter[Row]()
    for batch in range(until + 1):
        lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
        ends = {int(n): end for n, end in json.loads(lines[-1])[source].items()}
        read = [
            numbers[partition, offset] % _KEYS
            for partition, end in ends.items()
            for offset in range(before.get(partition, 0), end)
        ]
        counts.update(read)
        rows.update((str(key), str(counts[key])) for key in set(read))
        before = ends
    return rows


def received_rows(topics: Topics, sink: str) -> Counter[Row]:
    return Counter(
        (message.key().decode(), message.value().decode()) for message in topics.messages(sink)
    )


def committed_rows(folder: CheckpointFolder, topics: Topics, source: str) -> Counter[Row]:
    epoch = folder.progress.committed_epoch()
    until = -1 if epoch is None else epoch
    return rows_of_batches(path_of(folder), topics, source, until)


def rows_ahead(folder: CheckpointFolder, topics: Topics, source: str, sink: str) -> int:
    """How many rows of a batch that is not committed the sink has."""
    return (received_rows(topics, sink) - committed_rows(folder, topics, source)).total()


def kill_within_a_batch(
    folder: CheckpointFolder,
    process: Process,
    topics: Topics,
    source: str,
    sink: str,
    record_figure: RecordFigure,
) -> None:
    """Kills a driver when the sink has rows of a batch that is not committed."""
    in_doubt = process.kill_ahead(folder.progress, lambda: rows_ahead(folder, topics, source, sink))
    record_figure("rows of the batch in the sink when killed", in_doubt)


def finish(
    flow: ContinuousStream, topics: Topics, source: str, folder: Path, class_path: str, sent: int
) -> None:
    """A last driver commits everything and stops."""
    progress = folder_at(folder / "checkpoint").progress
    with driver(flow, folder, class_path) as process:
        process.wait_ready()
        wait_for(
            "all committed",
            lambda: sum((progress.committed_offsets() or {}).get(source, {}).values()) == sent,
        )
        assert process.stop() == 0
        assert process.warnings() == []


@pytest.mark.proves(2, "guarantees.md#exactly-once-with-state")
@pytest.mark.parametrize(
    ("delivery", "times", "partitions"),
    [
        pytest.param("ExactlyOnce", 3, 4, id="three times"),
        pytest.param("ExactlyOnce", 15, 4, id="fifteen times", marks=pytest.mark.full),
        pytest.param("ExactlyOnce", 3, 40, id="40 state partitions", marks=pytest.mark.full),
        pytest.param("AtLeastOnce", 3, 4, id="without transactions", marks=pytest.mark.full),
    ],
)
def test_a_driver_is_killed_within_a_batch(
    delivery: str,
    times: int,
    partitions: int,
    topics: Topics,
    class_path: str,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    source, sink = topics.make(4), topics.make()
    flow = counts_to(topics, source, sink, delivery, checkpoint={"statePartitions": partitions})
    folder = folder_at(tmp_path / "checkpoint")
    with traffic(topics, source, LOAD) as sent:
        for _ in range(times):
            with driver(flow, tmp_path, class_path) as process:
                kill_within_a_batch(folder, process, topics, source, sink, record_figure)
    finish(flow, topics, source, tmp_path, class_path, sent[0])
    received, wanted = received_rows(topics, sink), committed_rows(folder, topics, source)
    record_figure("records sent", sent[0])
    record_figure("rows", wanted.total())
    record_figure("copies", (received - wanted).total())
    assert not wanted - received
    if delivery == "ExactlyOnce":
        assert received == wanted
    else:
        assert received != wanted, "the kills would show nothing"


@pytest.mark.proves(2, "guarantees.md#exactly-once-with-state")
def test_the_state_gets_other_partitions_after_a_kill_within_a_batch(
    topics: Topics, class_path: str, tmp_path: Path, record_figure: RecordFigure
) -> None:
    """The batch that the sink has in part is finished with the partitions that it had."""
    source, sink = topics.make(4), topics.make()
    folder = folder_at(tmp_path / "checkpoint")
    with traffic(topics, source, LOAD) as sent:
        for partitions in (4, 8, 3):
            flow = counts_to(topics, source, sink, checkpoint={"statePartitions": partitions})
            with driver(flow, tmp_path, class_path) as process:
                kill_within_a_batch(folder, process, topics, source, sink, record_figure)
    finish(flow, topics, source, tmp_path, class_path, sent[0])
    record_figure("records sent", sent[0])
    assert received_rows(topics, sink) == committed_rows(folder, topics, source)


@pytest.mark.proves(2, "guarantees.md#exactly-once-with-state")
@pytest.mark.full
def test_a_frozen_driver_wakes_up_beside_its_successor(
    topics: Topics, class_path: str, tmp_path: Path
) -> None:
    """Each has the batch that is not committed; the successor goes on meanwhile."""
    source, sink = topics.make(4), topics.make()
    flow = counts_to(topics, source, sink)
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    before = folder_at(first / "checkpoint")
    with traffic(topics, source, LOAD) as sent, driver(flow, first, class_path) as old:
        old.wait_ready()
        old.freeze(lambda: rows_ahead(before, topics, source, sink) > 0)
        shutil.copytree(first / "checkpoint", second / "checkpoint")
        with driver(flow, second, class_path) as new:
            new.wait_ready()
            after = folder_at(second / "checkpoint")
            taken_over = after.progress.committed_epoch() or 0
            wait_for(
                "batches of its own",
                lambda: (after.progress.committed_epoch() or 0) > taken_over + 1,
            )
            old.wake()
            wait_for("refused", lambda: "ExactlyOnceImpossible" in old.log.read_text())
            time.sleep(3)  # nothing of it harms its successor
            old.kill()
            assert new.process.poll() is None
            new.wait_ready()
            assert new.stop() == 0
    finish(flow, topics, source, second, class_path, sent[0])
    assert received_rows(topics, sink) == committed_rows(after, topics, source)
