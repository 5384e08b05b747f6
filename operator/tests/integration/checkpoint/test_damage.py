"""Restarts real checkpoints of each engine after every damage in checkpoint_damage.py.

One run for each engine leaves a checkpoint, and records that it has not read. Each case damages a
copy, executes the driver's own steps in a shared session, and writes to its own topic. That topic
then contains exactly the records after the epoch that the table names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.driver.checkpoint.files import Files, kafka_offsets
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.failures import DriverError
from testkit.driver.bare_query import SHORT_EPOCHS, Run, bare, newest, total
from testkit.driver.checkpoint_damage import ENGINES, TABLE, Damage, Refused
from testkit.driver.checkpoints import write
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import MICRO_BATCH

LOGS = ("commits", "offsets")
TRIGGERS: dict[str, dict[str, Any]] = {"continuous": SHORT_EPOCHS, "microBatch": MICRO_BATCH}

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def runs(
    spark: SparkSession, shared: Topics, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Run]:
    return {
        engine: run_before_damage(spark, shared, engine, tmp_path_factory.mktemp(engine))
        for engine in ENGINES
    }


def run_before_damage(spark: SparkSession, topics: Topics, engine: str, path: Path) -> Run:
    """A run of five commits with records in each, and as many unread records."""
    run = Run.of_five(spark, topics, TRIGGERS[engine], path)
    return replace(run, files=dict(_renumbered(run.files)))


def _renumbered(files: Files) -> Iterator[tuple[str, bytes]]:
    """The epochs that have records, numbered from 0 as if there were no others."""
    first: dict[int, int] = {}
    for n in range(newest(files) + 1):
        first.setdefault(total(kafka_offsets(files[f"offsets/{n}"])), n)
    for number, n in enumerate(sorted(first.values())):
        for log in ("commits", "offsets"):
            yield f"{log}/{number}", files[f"{log}/{n}"]
            yield f"{log}/.{number}.crc", files[f"{log}/.{n}.crc"]
    yield from ((path, it) for path, it in files.items() if path.split("/")[0] not in LOGS)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("damage", TABLE, ids=lambda each: each.name)
def test_spark_continues_from_where_the_table_says(
    damage: Damage,
    engine: str,
    spark: SparkSession,
    shared: Topics,
    runs: dict[str, Run],
    tmp_path: Path,
) -> None:
    run, outcome = runs[engine], damage.outcome(engine)
    write(damage.done_to(run.files, newest(run.files)), tmp_path)
    sink = shared.make()
    going = number_flow(shared, run.source, sink, TRIGGERS[engine])
    if isinstance(outcome, Refused):
        with pytest.raises(DriverError) as raised:
            CheckpointFolder(tmp_path).repair(going.spec)
        assert raised.value.failure.reason == outcome.reason
        return
    with bare(spark, going, tmp_path) as running:
        assert Counter(each.kind for each in running.repair.repairs) == Counter(outcome.kinds)
        assert running.repair.epoch == (
            newest(run.files) - outcome.back if outcome.commits else None
        )
        running.wait("all", lambda: running.folder.progress.committed_offsets() == run.end)
    # Without any commit, the newest planned batch runs again.
    onward = newest(run.files) - (outcome.back if outcome.commits else 1)
    offsets = kafka_offsets((tmp_path / "offsets" / str(onward)).read_bytes())
    assert shared.received(sink) == run.beyond(offsets)
