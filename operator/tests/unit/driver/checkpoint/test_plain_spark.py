"""A checkpoint after a crash at any write of its first batches: plain Spark's, and our own.

integration/checkpoint/test_writes.py does the same with the files of real runs.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.driver.checkpoint.file_formats import Files
from penstock.driver.checkpoint.repair import plan
from testkit.driver.checkpoint_writes import Write, cut, writes_of
from testkit.driver.checkpoints import (
    INITIAL_OFFSETS,
    apply_plan,
    checkpoint,
    interrupted,
    with_checksums,
)
from testkit.streams.streams import (
    ASYNC,
    CONTINUOUS,
    MICRO_BATCH,
    REAL_TIME,
    kafka_sink,
    kafka_source,
    stream,
)

TRIGGERS = {
    "continuous": CONTINUOUS,
    "microBatch": MICRO_BATCH,
    "async": ASYNC,
    "realTime": REAL_TIME,
}
# The operations of two files, of which any may not have reached the disk.
WINDOW = 8
OURS: dict[str, Files] = {
    engine: checkpoint(range(4), range(4))
    if engine == "continuous"
    else {**checkpoint(range(4), [], range(4)), "sources/0/0": INITIAL_OFFSETS}
    for engine in TRIGGERS
}
PLAIN: dict[str, Files] = {engine: with_checksums(files) for engine, files in OURS.items()}


def in_order(engine: str, files: Files) -> list[Write]:
    initial = [] if engine == "continuous" else ["sources/0/0"]
    entries = [f"{log}/{n}" for n in range(4) for log in ("offsets", "commits")]
    order = ["metadata", *initial, *entries]
    return [write for path in order for write in writes_of(path, files)]


@pytest.mark.parametrize("engine", TRIGGERS)
@settings(max_examples=300)
@given(st.randoms(use_true_random=False), st.sampled_from([0, WINDOW]))
def test_whatever_a_crash_of_plain_spark_leaves_is_imported(
    engine: str, rng: random.Random, window: int
) -> None:
    """Also if the import is interrupted."""
    check_crash(engine, PLAIN[engine], window, rng)


@pytest.mark.parametrize("engine", TRIGGERS)
@settings(max_examples=100)
@given(st.randoms(use_true_random=False))
def test_whatever_a_crash_of_ours_leaves_is_repaired(engine: str, rng: random.Random) -> None:
    """Each file is synced before the next."""
    check_crash(engine, OURS[engine], 0, rng)


def check_crash(engine: str, whole: Files, window: int, rng: random.Random) -> None:
    """It goes on at least from what is certain."""
    spec = stream(kafka_source(), kafka_sink(), trigger=TRIGGERS[engine]).spec
    done = in_order(engine, whole)
    at = rng.randrange(len(done) + 1)
    files = cut(done, at, window, rng)
    sure = cut(done, max(0, at - window), 0, random.Random(0))
    made = plan(files, spec)
    after = apply_plan(files, made)
    least = max((n for n in range(4) if f"commits/{n}" in sure), default=-1)
    epoch = -1 if made.epoch is None else made.epoch
    assert epoch >= least
    if made.epoch is not None:
        for path in (f"commits/{epoch}", f"offsets/{epoch}"):
            assert after[path] == whole[path] or path in made.write
    again = plan(after, spec)
    assert (again.delete, again.epoch, again.write) == ((), made.epoch, {})
    half = interrupted(files, made, rng)
    assert apply_plan(half, plan(half, spec)) == after
