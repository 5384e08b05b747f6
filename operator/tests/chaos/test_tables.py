"""sink.jdbc: each row of each batch once in the table, by value, through kills of each part.

A kill hits a driver whose table has a batch that the checkpoint has not committed.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.checkpoint.folder import CheckpointFolder
from testkit.driver.checkpoints import folder_at
from testkit.driver.driver_process import LOAD, driver, traffic
from testkit.kafka.topics import Topics
from testkit.plugins.figures import RecordFigure
from testkit.postgres import Tables
from testkit.streams.streams import kafka_to_kafka, stream
from testkit.wait import wait_for

pytestmark = pytest.mark.timeout(2000)

_KEYS = 50
_NUMBERS = "SELECT CAST(CAST(value AS STRING) AS INT) AS n, partition AS part FROM source"
_COUNTS = (
    f"SELECT CAST(CAST(value AS STRING) AS INT) % {_KEYS} AS key, count(*) AS times, "
    "max(CAST(CAST(value AS STRING) AS INT)) AS newest FROM source "
    f"GROUP BY CAST(CAST(value AS STRING) AS INT) % {_KEYS}"
)


def into(
    tables: Tables, folder: Path, topics: Topics, source: str, sql: str, table: str, **more: Any
) -> ContinuousStream:
    """A stream with micro-batches, one after another."""
    spec = kafka_to_kafka(topics.bootstrap, source, "none", transform={"sql": sql})
    at = tables.sink(table, folder / "secrets", **more)
    update = {"outputMode": "update"} if "keys" in more else {}
    return stream(
        **{**spec, **update, "sink": at, "trigger": {"microBatch": {"interval": "100ms"}}}
    )


def numbers(tables: Tables) -> Counter[int]:
    return Counter(n for (n,) in tables.run("SELECT n FROM numbers"))


def counted(tables: Tables) -> int:
    """How many records the counts of all keys hold."""
    return int(tables.run("SELECT coalesce(sum(times), 0) FROM counts")[0][0])


def committed(folder: CheckpointFolder, source: str) -> int:
    return sum((folder.progress.committed_offsets() or {}).get(source, {}).values())


def _is_refused(log: str) -> bool:
    """By the run, or by the batches, if there were some since."""
    return "another copy of this checkpoint" in log or "it is an older copy" in log


def finish(flow: ContinuousStream, source: str, folder: Path, class_path: str, sent: int) -> None:
    """A last driver commits everything and stops."""
    checkpoint = folder_at(folder / "checkpoint")
    with driver(flow, folder, class_path) as process:
        process.wait_ready()
        wait_for("all committed", lambda: committed(checkpoint, source) == sent)
        assert process.stop() == 0
        assert process.warnings() == []


@pytest.mark.proves(2, "guarantees.md#exactly-once-into-a-table")
@pytest.mark.parametrize(
    ("partitions", "times"),
    [(4, 3), pytest.param(14, 10, marks=pytest.mark.full)],
)
def test_a_driver_is_killed_with_a_batch_in_the_table(
    partitions: int,
    times: int,
    tables: Tables,
    topics: Topics,
    class_path: str,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """Rows are appended, with no key that would hide a copy."""
    source = topics.make(partitions)
    tables.run("CREATE TABLE numbers (n integer NOT NULL, part integer)")
    flow = into(tables, tmp_path, topics, source, _NUMBERS, "numbers")
    checkpoint = folder_at(tmp_path / "checkpoint")

    def ahead() -> int:
        return numbers(tables).total() - committed(checkpoint, source)

    with traffic(topics, source, LOAD) as sent:
        for _ in range(times):
            with driver(flow, tmp_path, class_path) as process:
                in_doubt = process.kill_ahead(checkpoint.progress, ahead)
                record_figure("rows of the batch in the table when killed", in_doubt)
    finish(flow, source, tmp_path, class_path, sent[0])
    record_figure("records sent", sent[0])
    assert numbers(tables) == Counter(range(sent[0]))


@pytest.mark.proves(
    2, "guarantees.md#exactly-once-into-a-table", "failures.md#the-database-is-away"
)
def test_counts_are_right_whatever_is_killed(
    tables: Tables, topics: Topics, class_path: str, tmp_path: Path, record_figure: RecordFigure
) -> None:
    """The driver with a batch in the table, its JVM alone, and the server under a batch."""
    source = topics.make(4)
    tables.run("CREATE TABLE counts (key integer PRIMARY KEY, times bigint, newest integer)")
    flow = into(tables, tmp_path, topics, source, _COUNTS, "counts", write="Upsert", keys=["key"])
    checkpoint = folder_at(tmp_path / "checkpoint")

    def ahead() -> int:
        return counted(tables) - committed(checkpoint, source)

    def epoch() -> int:
        return checkpoint.progress.committed_epoch() or 0

    with traffic(topics, source, LOAD) as sent:
        for _ in range(2):
            with driver(flow, tmp_path, class_path) as process:
                record_figure("ahead when killed", process.kill_ahead(checkpoint.progress, ahead))
        with driver(flow, tmp_path, class_path) as process:
            process.wait_ready()
            before = epoch()
            wait_for("a commit", lambda: epoch() > before)
            tables.server.kill()
            time.sleep(2)
            tables.server.start()
            before = epoch()
            wait_for("commits again", lambda: epoch() > before + 1, detail=process.log.read_text)
            assert process.process.poll() is None
            assert "DatabaseNotAvailable" in process.log.read_text()
            process.stop()
    finish(flow, source, tmp_path, class_path, sent[0])
    record_figure("records sent", sent[0])
    wanted = {
        key: (len(range(key, sent[0], _KEYS)), max(range(key, sent[0], _KEYS)))
        for key in range(_KEYS)
    }
    found = {key: (times, newest) for key, times, newest in tables.run("SELECT * FROM counts")}
    assert found == wanted


@pytest.mark.proves(2, "guarantees.md#exactly-once-into-a-table")
@pytest.mark.full
def test_a_frozen_driver_wakes_up_beside_its_successor(
    tables: Tables, topics: Topics, class_path: str, tmp_path: Path
) -> None:
    """It may hold a lock on the stream's row of the ledger, and does not block the successor."""
    source = topics.make(4)
    tables.run("CREATE TABLE numbers (n integer NOT NULL, part integer)")
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        flow = into(tables, folder, topics, source, _NUMBERS, "numbers")
    before = folder_at(first / "checkpoint")
    with traffic(topics, source, LOAD) as sent, driver(flow, first, class_path) as old:
        old.wait_ready()
        old.freeze(lambda: numbers(tables).total() > committed(before, source))
        shutil.copytree(first / "checkpoint", second / "checkpoint")
        with driver(flow, second, class_path) as new:
            new.wait_ready()
            old.wake()  # whether the other one has written a batch since or not
            wait_for("refused", lambda: _is_refused(old.log.read_text()))
            old.kill()
            assert new.process.poll() is None
            new.wait_ready()
            assert new.stop() == 0
    finish(flow, source, second, class_path, sent[0])
    assert numbers(tables) == Counter(range(sent[0]))


def into_slow_table(
    tables: Tables, folder: Path, topics: Topics, source: str, seconds: int
) -> ContinuousStream:
    """A stream of a hundred numbers into a table where each merge takes so long."""
    tables.run("CREATE TABLE numbers (n integer NOT NULL, part integer)")
    tables.run(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$"
    )
    tables.run("CREATE TRIGGER slow BEFORE INSERT ON numbers EXECUTE FUNCTION wait()")
    topics.send(source, range(100))
    return into(tables, folder, topics, source, _NUMBERS, "numbers")


@pytest.mark.proves(2, "guarantees.md#exactly-once-into-a-table")
@pytest.mark.full
def test_a_merge_of_minutes_is_not_taken_for_a_stuck_query(
    tables: Tables, topics: Topics, class_path: str, tmp_path: Path
) -> None:
    source = topics.make(4)
    flow = into_slow_table(tables, tmp_path, topics, source, 130)
    checkpoint = folder_at(tmp_path / "checkpoint")
    with driver(flow, tmp_path, class_path) as process:
        wait_for("committed", lambda: committed(checkpoint, source) == 100, 300)
        assert process.stop() == 0
        assert process.warnings() == []
    assert numbers(tables) == Counter(range(100))


@pytest.mark.proves(2, "guarantees.md#exactly-once-into-a-table")
@pytest.mark.full
def test_a_server_that_falls_silent_in_a_merge_is_noticed(
    tables: Tables, topics: Topics, class_path: str, tmp_path: Path
) -> None:
    """Its connections stay open, and nothing comes."""
    source = topics.make(4)
    flow = into_slow_table(tables, tmp_path, topics, source, 20)
    merges = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'INSERT INTO%' AND state = 'active'"
    with driver(flow, tmp_path, class_path) as process:
        wait_for("a merge", lambda: tables.server.rows(merges) != [])
        tables.server.freeze()
        try:
            wait_for("noticed", lambda: "NoProgress" in process.log.read_text())
            wait_for("ended", lambda: process.process.poll() is not None)
        finally:
            tables.server.wake()
    checkpoint = folder_at(tmp_path / "checkpoint")
    with driver(flow, tmp_path, class_path) as process:  # after a pause: the attempt before failed
        wait_for("committed", lambda: committed(checkpoint, source) == 100)
        assert process.stop() == 0
    assert numbers(tables) == Counter(range(100))
