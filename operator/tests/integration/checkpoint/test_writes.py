"""Interrupts the writes of a real run anywhere, repairs the result, and restarts Spark on it."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.checkpoint.file_formats import Files
from penstock.driver.checkpoint.repair import RepairPlan, plan
from penstock.driver.kafka.offsets import Offsets
from testkit.driver.bare_query import (
    SHORT_EPOCHS,
    Run,
    bare,
    newest,
    short_batches,
    sparks_files,
)
from testkit.driver.checkpoint_writes import Write, cut, listings, watching, writes
from testkit.driver.checkpoints import apply_plan, interrupted, kafka_offsets, names, write
from testkit.kafka.topics import Topics, number_flow
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import ASYNC, MICRO_BATCH, REAL_TIME

pytestmark = pytest.mark.timeout(240)

TRIGGERS: dict[str, dict[str, Any]] = {
    "continuous": SHORT_EPOCHS, "microBatch": MICRO_BATCH, "async": ASYNC, "realTime": REAL_TIME
}  # fmt: skip
LATER = [engine for engine in TRIGGERS if engine != "continuous"]
# The operations of two files. (If all of the first commits are torn, the start is refused.)
WINDOW = 8
STARTS = 6


@dataclass(frozen=True)
class Written:
    """A run and its writes."""

    run: Run = field(repr=False)
    spec: StreamSpec = field(repr=False)
    trigger: dict[str, Any]
    writes: list[Write] = field(repr=False)

    def newest_sure(self, at: int) -> int | None:
        """The newest commit that an interruption at `at` cannot damage."""
        sure = cut(self.writes, max(0, at - WINDOW), 0, random.Random(0))
        epochs = [n for n in range(newest(self.run.files) + 1) if f"commits/{n}" in sure]
        return max(epochs, default=None)


def flow(topics: Topics, source: str, sink: str, trigger: dict[str, Any]) -> ContinuousStream:
    made = number_flow(topics, source, sink, trigger)
    return short_batches(made) if trigger is REAL_TIME else made


@pytest.fixture(
    scope="module",
    params=["continuous"] + [pytest.param(engine, marks=pytest.mark.full) for engine in LATER],
)
def written(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    shared: Topics,
    tmp_path_factory: pytest.TempPathFactory,
) -> Written:
    """The writes, checked against listings of the folder during the run."""
    trigger, path = TRIGGERS[request.param], tmp_path_factory.mktemp(request.param)
    # Which syncs nothing, and writes checksums beside: more can be interrupted than in ours.
    with watching(path) as watch, sparks_files(spark):
        sink = shared.make()
        run = Run.of_five(
            spark, shared, lambda topic: flow(shared, topic, sink, trigger), path, sink
        )
    spec = flow(shared, run.source, "any", trigger).spec
    done = writes(path, run.files)
    seen = {listing for listing in watch.seen if all(name in known(done) for name in listing[1])}
    assert seen <= listings(done)
    assert any(name.endswith(".tmp") for _, listing in seen for name in listing)
    print(
        f"{request.param}: {len(done)} writes, {len(seen)} of {len(listings(done))} listings seen"
    )
    return Written(run, spec, trigger, done)


def known(done: list[Write]) -> set[str]:
    """The names in the writes. A stop may remove a file that was still being written."""
    return {name for _, listing in listings(done) for name in listing}


@settings(max_examples=300)
@given(st.randoms(use_true_random=False), st.sampled_from([0, WINDOW]))
def check_cuts(written: Written, rng: random.Random, window: int) -> None:
    at = rng.randrange(len(written.writes) + 1)
    check_repair(written, cut(written.writes, at, window, rng), written.newest_sure(at), rng)


def check_repair(
    written: Written, files: Files, sure: int | None, rng: random.Random
) -> dict[str, bytes]:
    """Checks the invariants of a repair; returns the repaired files."""
    real = written.run.files
    repair = plan(files, written.spec)
    after = apply_plan(files, repair)
    # Not before a commit that is certain, and always at a whole commit with its own offsets.
    assert sure is None or (repair.epoch is not None and repair.epoch >= sure)
    if repair.epoch is not None:
        for log in ("commits", "offsets"):
            assert after[f"{log}/{repair.epoch}"] == real[f"{log}/{repair.epoch}"]
    for path in names(after):
        if path.startswith("offsets/") and path not in repair.write:
            assert after[path] == real[path]
    planned = sorted(
        int(path.removeprefix("offsets/")) for path in names(after) if "offsets/" in path
    )
    last = planned[-1] if planned else 0
    if written.trigger in (SHORT_EPOCHS, REAL_TIME):
        assert last == (repair.epoch or 0)
    elif written.trigger is MICRO_BATCH:
        assert last == 0 or last - 1 in planned
    # It happens once, also after an interruption.
    again = plan(after, written.spec)
    assert (again.delete, again.epoch, again.write) == ((), repair.epoch, {})
    half = interrupted(files, repair, rng)
    assert apply_plan(half, plan(half, written.spec)) == after
    return after


def test_the_interrupted_writes_of_a_real_run_are_repaired(written: Written) -> None:
    check_cuts(written)


@pytest.mark.proves(7)
def test_spark_continues_from_the_interrupted_writes_of_a_real_run(
    written: Written,
    spark: SparkSession,
    shared: Topics,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """The output is everything after the commit that the query continues from."""
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    record_figure("PENSTOCK_SEED", seed)
    rng = random.Random(seed)
    for start in range(STARTS):
        at, window = rng.randrange(len(written.writes) + 1), rng.choice([0, WINDOW])
        files = cut(written.writes, at, window, rng)
        path, sink = tmp_path / str(start), shared.make()
        write(files, path)
        path.mkdir(exist_ok=True)
        stream = flow(shared, written.run.source, sink, written.trigger)
        with bare(spark, stream, path) as running:
            epoch = running.repair.epoch
            wanted = set(written.run.beyond(continues_from(files, running.repair)))
            running.wait(f"all beyond {epoch}", partial(_has, shared, sink, wanted))
        duplicates = sum(shared.received(sink).values()) - len(wanted)
        record_figure(
            f"cut at {at} of {len(written.writes)}, window {window}, continues from {epoch}: "
            "duplicates",
            duplicates,
        )


def continues_from(files: Files, repair: RepairPlan) -> Offsets | None:
    """The offsets that a query continues from: the newest commit, or the newest planned batch.

    A planned batch may be after the commit: all batches before it are done, even if their files are
    lost.
    """
    after = apply_plan(files, repair)
    planned = sorted(n for n in range(1000) if f"offsets/{n}" in after)
    if planned and planned[-1] != repair.epoch:
        planned.pop()
    return kafka_offsets(after[f"offsets/{planned[-1]}"]) if planned else None


def _has(topics: Topics, sink: str, wanted: set[int]) -> bool:
    return wanted <= set(topics.received(sink))
