"""Switches of the engine: repairs that replay records, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.driver.checkpoint.repair import RepairPlan, plan
from penstock.driver.failures import DriverError
from testkit.driver.checkpoints import COMMIT, apply_plan, kinds, names, with_checksums
from testkit.driver.checkpoints import METADATA as ID
from testkit.streams.streams import (
    ASYNC,
    CONTINUOUS,
    MICRO_BATCH,
    REAL_TIME,
    kafka_sink,
    kafka_source,
    stream,
)

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":7,"conf":{}}'


def files(commits: list[int], continuous: list[int], batches: list[int]) -> dict[str, bytes]:
    """Commits, and offsets that the continuous or a micro-batch engine wrote."""
    made = {"metadata": ID} | {f"commits/{n}": COMMIT for n in commits}
    made |= {f"offsets/{n}": f'v1\n\n{{"in":{{"0":{n}}}}}'.encode() for n in continuous}
    made |= {f"offsets/{n}": f'v1\n{METADATA}\n{{"in":{{"0":{n}}}}}'.encode() for n in batches}
    return made


def repair(found: dict[str, bytes], trigger: dict[str, Any]) -> RepairPlan:
    return plan(found, stream(kafka_source(), kafka_sink(), trigger=trigger).spec)


def test_a_planned_batch_is_kept_for_micro_batches_only() -> None:
    """A restart runs it again with the same offsets, which stateful queries require."""
    found = files([0, 1], [], [0, 1, 2])
    assert repair(found, MICRO_BATCH) == RepairPlan((), 1)
    assert "offsets/2" in repair(found, CONTINUOUS).delete


def test_a_first_planned_batch_is_kept() -> None:
    assert repair(files([], [], [0]), MICRO_BATCH) == RepairPlan((), None)


@pytest.mark.parametrize("torn", [b"", b"v1\n", b"\0" * 40])
def test_a_torn_planned_batch_of_plain_spark_is_planned_again(torn: bytes) -> None:
    found = with_checksums(files([0, 1], [], [0, 1, 2])) | {"offsets/2": torn}
    made = apply_plan(found, repair(found, MICRO_BATCH))
    assert made == files([0, 1], [], [0, 1])


def test_a_torn_commit_runs_its_batch_again() -> None:
    found = files([0, 1], [], [0, 1]) | {"commits/1": b""}
    done = repair(found, MICRO_BATCH)
    assert (done.epoch, done.delete) == (0, ("commits/1",))


@pytest.mark.parametrize("trigger", [MICRO_BATCH, ASYNC, REAL_TIME])
def test_a_switch_from_continuous_to_batches_adds_the_metadata_line(
    trigger: dict[str, Any],
) -> None:
    """Without it the micro-batch engine fails with a NullPointerException at each start."""
    found = files([0, 1, 2], [0, 1, 2, 3], [])
    done = repair(found, trigger)
    assert done.epoch == 2
    made = apply_plan(found, done)
    assert names(made) == {
        "metadata", *(f"{log}/{n}" for log in ("commits", "offsets") for n in (0, 1, 2))
    }  # fmt: skip
    assert kinds(done) == ["UncommittedOffsets", *["MetadataLine"] * 3]
    assert made["offsets/2"].split(b"\n") == [
        b"v1", b'{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}', b'{"in":{"0":2}}'
    ]  # fmt: skip
    # The next start completes an interrupted repair, and does nothing after a complete one.
    for cut in range(len(done.delete)):
        half = {path: it for path, it in found.items() if path not in done.delete[:cut]}
        assert names(apply_plan(half, repair(half, trigger))) == names(made)
    assert repair(made, trigger) == RepairPlan((), 2)


def test_async_progress_tracking_off() -> None:
    """Spark needs the predecessor of the newest offsets ("batch 4 doesn't exist")."""
    found = files([0, 2, 5], [], [0, 2, 5])
    made = apply_plan(found, repair(found, MICRO_BATCH))
    assert made["offsets/4"] == found["offsets/2"]
    assert made["offsets/5"] == found["offsets/5"]
    assert repair(made, MICRO_BATCH) == RepairPlan((), 5)
    assert repair(found, ASYNC) == RepairPlan((), 5)


def test_async_progress_tracking_off_with_planned_batches() -> None:
    """The planned batch runs again from the end of the batch before the gap, which replays."""
    found = files([0, 2], [], [0, 2, 5])
    done = repair(found, MICRO_BATCH)
    assert (done.delete, kinds(done)) == ((), ["AsyncGap"])
    made = apply_plan(found, done)
    assert made["offsets/4"] == found["offsets/2"]
    assert made["offsets/5"] == found["offsets/5"]
    assert repair(made, MICRO_BATCH) == RepairPlan((), 2)


def test_a_broken_predecessor_of_the_newest_offsets_is_replaced() -> None:
    """Spark reads it, although it does not use it."""
    found = files([0, 1, 2, 3], [], [0, 1, 2, 3])
    found["offsets/2"] = b""
    done = repair(found, MICRO_BATCH)
    assert (done.epoch, kinds(done)) == (3, ["LeftoverFile", "AsyncGap"])
    made = apply_plan(found, done)
    assert made["offsets/2"] == found["offsets/1"]
    assert repair(made, MICRO_BATCH) == RepairPlan((), 3)
    # With asynchronous tracking Spark reads the previous offsets, whatever their number.
    assert repair(found, ASYNC).epoch == 3
    # The continuous engine reads only the newest.
    assert repair(found, CONTINUOUS).epoch == 3


def test_real_time_mode_gets_a_commit_in_its_version_once() -> None:
    """Spark refuses one of version 1 (measured, Spark 4.3)."""
    found = files([0, 1], [], [0, 1])
    done = repair(found, REAL_TIME)
    version_2 = b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}'
    assert (done.write, done.repairs) == ({"commits/1": version_2}, ())
    assert repair(apply_plan(found, done), REAL_TIME) == RepairPlan((), 1)
    assert repair(found, MICRO_BATCH) == RepairPlan((), 1)


@pytest.mark.proves(14)
def test_real_time_mode_continues_state_that_its_commit_names() -> None:
    """That of plain Spark is refused before anything stops, and nothing of it is changed."""
    spec = stream(kafka_source(), kafka_sink(), trigger=REAL_TIME).spec
    found = files([0, 1], [], [0, 1])
    with pytest.raises(DriverError, match="plain Spark has written the state") as raised:
        plan(found, spec, state=True)
    assert raised.value.failure.reason == "CheckpointOfAnotherMode"
    ids = b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["a"]]}}'
    assert plan(found | {"commits/1": ids}, spec, state=True) == RepairPlan((), 1)


@pytest.mark.proves(14)
@pytest.mark.parametrize("trigger", [CONTINUOUS, ASYNC])
def test_a_switch_that_would_drop_state_is_refused(trigger: dict[str, Any]) -> None:
    """The continuous engine would ignore it (measured). Others fail with Spark's own message."""
    spec = stream(kafka_source(), kafka_sink(), trigger=trigger).spec
    found = files([0, 1], [], [0, 1])
    with pytest.raises(DriverError) as raised:
        plan(found, spec, state=True)
    assert raised.value.failure.reason == "CheckpointHoldsState"
    assert raised.value.failure.permanent
    counting = {"sql": "SELECT CAST(count(*) AS STRING) AS value FROM source"}
    batches = stream(kafka_source(), kafka_sink(), trigger=MICRO_BATCH, transform=counting,
                     outputMode="complete").spec  # fmt: skip
    assert plan(found, batches, state=True) == RepairPlan((), 1)


def test_offsets_of_another_engine_are_refused() -> None:
    rate = stream(trigger=MICRO_BATCH).spec
    with pytest.raises(DriverError) as raised:
        plan(files([0], [0], []), rate)
    assert raised.value.failure.reason == "CheckpointOfAnotherMode"
    assert raised.value.failure.permanent
    assert "trigger.continuous" in raised.value.failure.message
    # Plain numbers, which rate and socket have in micro-batches, are valid offsets.
    numbers = files([0], [], []) | {"offsets/0": f"v1\n{METADATA}\n5".encode()}
    assert plan(numbers, rate).epoch == 0
    with pytest.raises(DriverError):
        plan(numbers, stream().spec)
