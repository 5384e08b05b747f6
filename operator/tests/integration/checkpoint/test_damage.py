"""Restarts real checkpoints of plain Spark, of each engine, after every damage in the table of
checkpoint_damage.py. What Penstock has written it refuses, or repairs to the same files.

One run for each engine leaves a checkpoint, and records that it has not read. Each row damages a
copy, which the driver's own steps repair. Spark sees only the files after that, so rows that leave
the same files share one start of Spark: it writes to a topic of its own, which then contains
exactly the records after the epoch that the table names. With Parquet, the files of the run are
copied too, so that the sink knows the batches that it has.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.checkpoint_repairs import RepairKind
from penstock.driver.checkpoint.file_formats import Entry, Files
from penstock.driver.failures import DriverError
from testkit.driver.bare_query import (
    SHORT_EPOCHS,
    Run,
    bare,
    newest,
    parquet_flow,
    short_batches,
    sparks_files,
    written,
)
from testkit.driver.checkpoint_damage import ENGINES, TABLE, Damage, Engine, Refused, Repaired
from testkit.driver.checkpoints import folder_at, kafka_offsets, names, read, write
from testkit.kafka.topics import Topics, number_flow, total
from testkit.streams.streams import MICRO_BATCH, REAL_TIME

LOGS = ("commits", "offsets")
# With this interval every batch gets into the logs.
EVERY_BATCH: dict[str, Any] = {"microBatch": {"asyncProgress": {"checkpointInterval": "1ms"}}}
TRIGGERS: dict[Engine, dict[str, Any]] = {
    "continuous": SHORT_EPOCHS, "microBatch": MICRO_BATCH, "async": EVERY_BATCH,
    "realTime": REAL_TIME, "state": MICRO_BATCH, "twoReads": MICRO_BATCH,
}  # fmt: skip
# A number that the state has already comes out as another one.
_NUMBER = "CAST(CAST(value AS STRING) AS INT)"
COUNTED_TWICE = 1_000_000
COUNTED = f"""SELECT CAST({_NUMBER} + {COUNTED_TWICE} * (count(*) - 1) AS STRING) AS value
    FROM source GROUP BY {_NUMBER}"""
# The first read has the even numbers.
TWICE = " UNION ALL ".join(
    f"SELECT value FROM source WHERE {_NUMBER} % 2 = {rest}" for rest in (0, 1)
)
QUERIES: dict[Engine, dict[str, Any]] = {
    "state": {"transform": {"sql": COUNTED}, "outputMode": "update"},
    "twoReads": {"transform": {"sql": TWICE}},
}
# The batches of these cannot be numbered anew: sink or state has their numbers.
NUMBERED_ELSEWHERE = ("parquet", "state")

# What Spark does with the files of the others changes only with Spark, and
# unit/driver/checkpoint/test_damage_table.py plans every repair of every row.
EVERY_CHANGE = ("continuous", "microBatch")

pytestmark = pytest.mark.timeout(300)


def flow(topics: Topics, source: str, engine: Engine, sink: str) -> ContinuousStream:
    """A stream from the topic to another, or to a folder with Parquet."""
    if engine == "parquet":
        return parquet_flow(topics, source, Path(sink))
    made = number_flow(topics, source, sink, TRIGGERS[engine], **QUERIES.get(engine, {}))
    return short_batches(made) if engine == "realTime" else made


def run_before_damage(
    spark: SparkSession, topics: Topics, engine: Engine, path: Path, sink: str
) -> Run:
    """A run of five commits with records in each, and as many unread records."""
    # Spark's own way has files that ours has not, and the starts are with ours.
    with sparks_files(spark):
        run = Run.of_five(
            spark, topics, lambda source: flow(topics, source, engine, sink), path, sink
        )
    if engine in NUMBERED_ELSEWHERE:
        return run
    return replace(run, files=dict(_renumbered(run.files)))


def _renumbered(files: Files) -> Iterator[tuple[str, bytes]]:
    """The epochs that have records, numbered from 0 as if there were no others."""
    first: dict[int, int] = {}
    for n in range(newest(files) + 1):
        if f"offsets/{n}" in files:
            first.setdefault(total(kafka_offsets(files[f"offsets/{n}"])), n)
    for number, n in enumerate(sorted(first.values())):
        for log in LOGS:
            yield f"{log}/{number}", files[f"{log}/{n}"]
            yield f"{log}/.{number}.crc", files[f"{log}/.{n}.crc"]
    yield from ((path, it) for path, it in files.items() if path.split("/")[0] not in LOGS)


@pytest.mark.proves(7)
@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(engine, marks=[] if engine in EVERY_CHANGE else pytest.mark.full)
        for engine in ENGINES
    ],
)
def test_spark_continues_from_where_the_table_says(
    engine: Engine, spark: SparkSession, shared: Topics, tmp_path: Path
) -> None:
    sink = str(tmp_path / "sink") if engine == "parquet" else shared.make()
    run = run_before_damage(spark, shared, engine, tmp_path / "run", sink)
    if engine == "parquet":
        shutil.copytree(sink, tmp_path / "copy")
    starts: dict[frozenset[tuple[str, bytes]], list[Damage]] = {}
    for number, damage in enumerate(TABLE):
        repaired = repair(damage, engine, run, flow(shared, run.source, engine, sink),
                          tmp_path / f"row-{number}")  # fmt: skip
        if repaired is not None:
            starts.setdefault(frozenset(repaired.items()), []).append(damage)
    for number, rows in enumerate(starts.values()):
        path = tmp_path / f"start-{number}"
        write(rows[0].done_to(run.files, newest(run.files)), path)
        check_start(rows, engine, spark, shared, run, Path(sink), path)


def repair(
    damage: Damage, engine: Engine, run: Run, stream: ContinuousStream, path: Path
) -> dict[str, bytes] | None:
    """The files after the repair, which is as the table says; None if it is refused."""
    write(damage.done_to(run.files, newest(run.files)), path)
    outcome = damage.outcome(engine)
    if isinstance(outcome, Refused):
        with pytest.raises(DriverError) as raised:
            folder_at(path).repair(stream.spec)
        assert raised.value.failure.reason == outcome.reason, damage.name
        return None
    done = folder_at(path).repair(stream.spec)
    assert {it.kind for it in done.repairs} == outcome.kinds | {RepairKind.IMPORTED}, damage.name
    wanted = newest(run.files) - outcome.back if outcome.commits else None
    assert done.epoch == wanted, damage.name
    after = read(path)
    # A new query id is only a name.
    return {name: b"" if name == "metadata" else after[name] for name in names(after)}


def check_start(
    rows: list[Damage],
    engine: Engine,
    spark: SparkSession,
    topics: Topics,
    run: Run,
    before: Path,
    path: Path,
) -> None:
    outcome = rows[0].outcome(engine)
    assert isinstance(outcome, Repaired)
    sink = topics.make()
    if engine == "parquet":  # at the same place: its log has absolute paths
        sink = str(before)
        shutil.rmtree(before)
        shutil.copytree(before.with_name("copy"), before)
    # Without any commit, the newest planned batch runs again.
    onward = newest(run.files) - (outcome.back if outcome.commits else 1)
    damaged = rows[0].done_to(run.files, newest(run.files))
    replayed = read_after(damaged[f"offsets/{onward}"], engine, run)
    if outcome.counts_twice:
        old = replayed - run.beyond(kafka_offsets(run.files[f"offsets/{newest(run.files)}"]))
        replayed = replayed - old + Counter(COUNTED_TWICE + number for number in old)
    with bare(spark, flow(topics, run.source, engine, sink), path) as running:
        if engine == "parquet":
            progress = running.folder.progress
            running.wait("all", lambda: progress.committed_offsets() == run.end)
        else:
            running.wait(f"all after {rows[0].name}", lambda: not replayed - topics.received(sink))
    found = written(spark, Path(sink)) if engine == "parquet" else topics.received(sink)
    if engine == "parquet":
        everything = Counter(run.numbers.values())
        emptied = any(RepairKind.EMPTY_BATCH in _kinds(row, engine) for row in rows)
        unread = run.beyond(kafka_offsets(run.files[f"offsets/{newest(run.files)}"]))
        # A batch that runs again as planned is one that the sink has, and skips.
        runs_again = not emptied and (outcome.back > 0 or not outcome.commits)
        replayed = everything + (Counter() if runs_again else replayed - unread)
    assert found == replayed, [row.name for row in rows]


def read_after(entry: bytes, engine: Engine, run: Run) -> Counter[int]:
    """The numbers that a query reads after these offsets."""
    if engine != "twoReads":
        return run.beyond(kafka_offsets(entry))
    parsed = Entry.parse(entry)
    assert parsed is not None
    left, right = parsed.kafka
    return Counter(
        number
        for rest, offsets in enumerate((left, right))
        for number in run.beyond(offsets).elements()
        if number % 2 == rest
    )


def _kinds(row: Damage, engine: Engine) -> frozenset[RepairKind]:
    outcome = row.outcome(engine)
    return outcome.kinds if isinstance(outcome, Repaired) else frozenset()
