"""Real checkpoints of both engines, damaged in every way of damage.py, and started from again.

One run an engine leaves the checkpoint, and records that it has not read. Each case damages a copy,
goes through the driver's own steps in a session that all of them share, and writes to a topic of
its own: what comes there is exactly what lies beyond the epoch that the table says it goes on from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from e2e.cluster.kafka import LocalBroker
from penstock.driver.checkpoint import committed_epoch
from penstock.driver.checkpointdir import CheckpointFolder
from penstock.driver.checkpointfile import kafka_offsets
from penstock.driver.failures import DriverError
from penstock.driver.jvm import Jvm
from penstock.driver.kafka import Offsets
from penstock.stream.resource import ContinuousStream
from tests.driver.bare import bare, bare_session
from tests.driver.checkpoints import read, write
from tests.driver.damage import ENGINES, TABLE, Contents, Damage, Refused
from tests.driver.running import Topics
from tests.driver.streams import MICRO_BATCH, kafka_sink, kafka_source, stream

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

TRIGGERS: dict[str, dict[str, Any]] = {
    "continuous": {"continuous": {"checkpointInterval": "300ms"}},
    "microBatch": MICRO_BATCH,
}


def flow(topics: Topics, source: str, sink: str, engine: str) -> ContinuousStream:
    """Numbers from topic to topic."""
    return stream(
        kafka_source(topics.bootstrap, topics=[source], startingOffsets="earliest"),
        kafka_sink(topics.bootstrap, topic=sink),
        trigger=TRIGGERS[engine],
    )


@dataclass(frozen=True)
class Run:
    """What a run left."""

    source: str
    files: Contents
    newest: int
    numbers: dict[tuple[int, int], int]
    """All that is in the source, by partition and offset."""

    def beyond(self, offsets: Offsets) -> Counter[int]:
        """The numbers that a query reads that goes on from there."""
        of = offsets[self.source]
        return Counter(
            number for (partition, at), number in self.numbers.items() if at >= of[partition]
        )

    @property
    def end(self) -> Offsets:
        """Where the source ends."""
        ends: dict[int, int] = {}
        for partition, at in self.numbers:
            ends[partition] = max(ends.get(partition, 0), at + 1)
        return {self.source: ends}


@pytest.fixture(scope="module")
def shared(broker: LocalBroker) -> Topics:
    return Topics(broker.bootstrap)


@pytest.fixture(scope="module")
def spark(
    jvm: Jvm, shared: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    any_of = flow(shared, "any", "any", "microBatch")
    with bare_session(jvm, any_of, tmp_path_factory.mktemp("session")) as session:
        yield session


@pytest.fixture(scope="module")
def runs(
    spark: SparkSession, shared: Topics, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Run]:
    return {
        engine: left_behind(spark, shared, engine, tmp_path_factory.mktemp(engine))
        for engine in ENGINES
    }


def left_behind(spark: SparkSession, topics: Topics, engine: str, path: Path) -> Run:
    """A run of five commits with records in each, and as many records that it has not read."""
    source, sink = topics.make(), topics.make()
    folder = CheckpointFolder(path)
    with bare(spark, flow(topics, source, sink, engine), path) as running:
        for sent in range(20, 120, 20):
            topics.send(source, range(sent - 20, sent))
            running.wait("committed", partial(_has_committed, folder, sent))
    topics.send(source, range(100, 120))
    files = read(path)
    newest = _trim(files)
    return Run(source, files, newest, topics.placed(source))


def _has_committed(folder: CheckpointFolder, records: int) -> bool:
    return _sum(folder.committed_offsets()) == records


def _sum(offsets: Offsets | None) -> int:
    return sum(n for of in (offsets or {}).values() for n in of.values())


def _trim(files: Contents) -> int:
    """The epochs at which something was read, numbered from 0 as if there had been no others."""
    newest = committed_epoch(path.removeprefix("commits/") for path in files)
    assert newest is not None
    found: dict[int, int] = {}
    for n in range(newest + 1):
        found.setdefault(_sum(kafka_offsets(files[f"offsets/{n}"])), n)
    kept = {n: i for i, n in enumerate(sorted(found.values()))}
    for log in ("commits", "offsets"):
        of = {path: files.pop(path) for path in list(files) if path.startswith(f"{log}/")}
        for n, i in kept.items():
            files[f"{log}/{i}"] = of[f"{log}/{n}"]
            files[f"{log}/.{i}.crc"] = of[f"{log}/.{n}.crc"]
    return len(kept) - 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("damage", TABLE, ids=lambda each: each.name)
def test_spark_goes_on_from_where_the_table_says(
    damage: Damage,
    engine: str,
    spark: SparkSession,
    shared: Topics,
    runs: dict[str, Run],
    tmp_path: Path,
) -> None:
    run, outcome = runs[engine], damage.outcome(engine)
    write(damage.done_to(run.files, run.newest), tmp_path)
    sink = shared.make()
    going = flow(shared, run.source, sink, engine)
    if isinstance(outcome, Refused):
        with pytest.raises(DriverError) as raised:
            CheckpointFolder(tmp_path).repair(going.spec)
        assert raised.value.trouble.reason == outcome.reason
        return
    with bare(spark, going, tmp_path) as running:
        assert Counter(each.kind for each in running.repair.mendings) == Counter(outcome.kinds)
        assert running.repair.epoch == (run.newest - outcome.back if outcome.commits else None)
        running.wait("all", lambda: running.folder.committed_offsets() == run.end)
    # Of what was lost with all commits, the batch that was planned last runs again.
    onward = run.newest - (outcome.back if outcome.commits else 1)
    offsets = kafka_offsets((tmp_path / "offsets" / str(onward)).read_bytes())
    assert shared.received(sink) == run.beyond(offsets)
