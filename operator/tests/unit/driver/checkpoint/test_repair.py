"""Repairs of what a crash can leave in a checkpoint: they only ever replay records.

What plain Spark leaves is imported; what neither can leave is refused.
"""

from __future__ import annotations

import doctest
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.api.modes import Mode
from penstock.driver.checkpoint import file_formats as formats
from penstock.driver.checkpoint.file_formats import (
    Entry,
    Files,
    is_metadata,
)
from penstock.driver.checkpoint.logs import Logs, diff, sync_group
from penstock.driver.checkpoint.plain_spark import checksum_path
from penstock.driver.checkpoint.repair import RepairPlan, plan, with_offsets
from penstock.driver.failures import DriverError
from testkit.driver.checkpoints import (
    COMMIT,
    INITIAL_OFFSETS,
    METADATA,
    apply_plan,
    checkpoint,
    checksum,
    interrupted,
    kafka_offsets,
    kinds,
    offsets,
    with_checksums,
)
from testkit.streams.streams import (
    ASYNC,
    AVAILABLE_NOW,
    CONTINUOUS,
    MICRO_BATCH,
    RATE,
    REAL_TIME,
    kafka_sink,
    kafka_source,
    stream,
)

TRIGGERS: dict[Mode, dict[str, Any]] = {
    Mode.CONTINUOUS: CONTINUOUS, Mode.MICRO_BATCH: MICRO_BATCH, Mode.ASYNC: ASYNC,
    Mode.REAL_TIME: REAL_TIME, Mode.AVAILABLE_NOW: AVAILABLE_NOW,
}  # fmt: skip


def plan_repair(
    files: Files, mode: Mode = Mode.CONTINUOUS, *, kafka: bool = True, first_known: bool = False
) -> RepairPlan:
    source = kafka_source() if kafka else RATE
    spec = stream(source, kafka_sink(), trigger=TRIGGERS[mode]).spec
    return plan(files, spec, first={"in": {0: 0}} if first_known else None)


def repaired(files: Files, mode: Mode = Mode.CONTINUOUS) -> dict[str, bytes]:
    return apply_plan(files, plan_repair(files, mode))


def test_a_valid_checkpoint_is_not_changed() -> None:
    files = checkpoint(range(3, 8), range(3, 8))
    assert plan_repair(files) == RepairPlan((), 7)


def test_uncommitted_offsets_are_deleted() -> None:
    """Spark would keep them, and commit its next epoch under offsets that it never reached."""
    repair = plan_repair(checkpoint(range(3, 8), range(3, 10)))
    assert repair.epoch == 7
    assert repair.delete == ("offsets/9", "offsets/8")
    assert kinds(repair) == ["UncommittedOffsets", "UncommittedOffsets"]


def test_uncommitted_offsets_are_deleted_without_any_commit() -> None:
    """A start without commits uses the first offsets: an old offsets/0 would skip records."""
    repair = plan_repair(checkpoint(range(0), range(2)))
    assert repair.epoch is None
    assert {"offsets/0", "offsets/1"} <= set(repair.delete)
    assert "metadata" not in repair.delete


def test_a_checkpoint_of_plain_spark_is_imported_once() -> None:
    """Its checksums would make Spark swallow the failure of a commit, and never commit again."""
    files = with_checksums(checkpoint(range(3), range(3))) | {"commits/.3.crc": checksum(COMMIT)}
    repair = plan_repair(files)
    assert set(kinds(repair)) == {"Imported"}
    assert apply_plan(files, repair) == checkpoint(range(3), range(3))
    assert plan_repair(apply_plan(files, repair)) == RepairPlan((), 2)


@pytest.mark.parametrize("torn", [b"", b"v1", b'v1\n{"nextBatch', b"\0" * 30])
def test_a_torn_commit_of_plain_spark_is_deleted(torn: bytes) -> None:
    files = with_checksums(checkpoint(range(5), range(5))) | {"commits/4": torn}
    repair = plan_repair(files)
    assert repair.epoch == 3
    assert apply_plan(files, repair) == checkpoint(range(4), range(4))
    assert set(kinds(repair)) == {"Imported", "UncommittedOffsets"}


@pytest.mark.parametrize("torn", [b"", b"v1\n", b"v1\n\n", b'v1\n\n{"in":{"0":40', b"\0" * 30])
def test_a_commit_of_plain_spark_with_torn_offsets_is_deleted(torn: bytes) -> None:
    files = with_checksums(checkpoint(range(5), range(5))) | {"offsets/4": torn}
    repair = plan_repair(files)
    assert repair.epoch == 3
    assert apply_plan(files, repair) == checkpoint(range(4), range(4))


def test_a_checksum_of_plain_spark_reveals_a_changed_digit() -> None:
    files = with_checksums(checkpoint(range(5), range(5)))
    files["offsets/4"] = files["offsets/4"].replace(b'"0":40', b'"0":90')
    assert plan_repair(files).epoch == 3


def test_a_torn_checksum_alone_loses_no_epoch() -> None:
    files = with_checksums(checkpoint(range(5), range(5)))
    files["commits/.4.crc"] = files["commits/.4.crc"][:5]
    repair = plan_repair(files)
    assert (apply_plan(files, repair), repair.epoch) == (checkpoint(range(5), range(5)), 4)


def test_temporary_files_and_broken_metadata_of_plain_spark_are_repaired() -> None:
    files = with_checksums(checkpoint(range(2), range(2)))
    files |= {"metadata": b"", "commits/..2.0a1b.tmp": b"v1", "commits/...2.0a1b.tmp.crc": b"crc"}
    repair = plan_repair(files)
    assert is_metadata(repair.write["metadata"])
    assert kinds(repair).count("LeftoverFile") == 2
    after = apply_plan(files, repair)
    assert after.keys() == checkpoint(range(2), range(2)).keys()
    assert plan_repair(after) == RepairPlan((), 1)


@pytest.mark.parametrize(
    "broken",
    [
        {"commits/4": b"v1"},
        {"commits/4": b"\0" * 30},
        {"offsets/4": b"v1\n"},
        {"offsets/4": None},
        {"commits/5": COMMIT},
        {"metadata": b'{"id":"88'},
        {"sources/0/0": INITIAL_OFFSETS[:9]},
        {"offsets/5": offsets(5)[:12]},
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", Mode)
def test_what_no_crash_leaves_is_refused(broken: dict[str, bytes | None], mode: Mode) -> None:
    """A replay from an earlier commit would be a guess, and Penstock writes no part of a file."""
    epochs = range(5)
    continuous = mode is Mode.CONTINUOUS
    files = checkpoint(epochs, epochs if continuous else (), () if continuous else epochs)
    assert plan_repair(files, mode).epoch == 4
    for path, content in broken.items():
        if content is None:
            del files[path]
        else:
            files[path] = content
    with pytest.raises(DriverError, match=next(iter(broken)).replace("offsets/4", "s/4")) as raised:
        plan_repair(files, mode)
    assert (raised.value.failure.reason, raised.value.failure.recoverable) == (
        "CheckpointDamaged", True
    )  # fmt: skip


@pytest.mark.parametrize("mode", Mode)
def test_an_empty_file_counts_as_not_there(mode: Mode) -> None:
    """A repair that was interrupted leaves one, and so does a driver that has written too late."""
    files = checkpoint(range(4), range(4) if mode is Mode.CONTINUOUS else (), range(4))
    assert plan_repair(files | {"commits/4": b"", "offsets/4": b""}, mode).epoch == 3


def test_a_checkpoint_beyond_repair_is_refused() -> None:
    files = dict.fromkeys(checkpoint(range(3, 6), range(3, 6)), b"")
    with pytest.raises(DriverError) as raised:
        plan_repair(files)
    assert raised.value.failure.permanent


@pytest.mark.parametrize("mode", Mode)
def test_progress_without_a_commit_is_refused(mode: Mode) -> None:
    """offsets/2 shows that there were commits."""
    files = checkpoint([], range(3))
    with pytest.raises(DriverError) as raised:
        plan_repair(files, mode)
    assert raised.value.failure.reason == "CheckpointDamaged"
    assert raised.value.failure.permanent
    # A crash before the first commit can leave offsets/1.
    assert plan_repair(checkpoint([], range(2)), mode).epoch is None


def test_a_micro_batch_start_continues_without_commits() -> None:
    """Batch N is planned after batch N - 1. So asynchronous progress leaves it."""
    mode = Mode.MICRO_BATCH
    files = checkpoint([], [], range(40, 58))
    repair = plan_repair(files, mode)
    assert (repair.delete, repair.epoch, kinds(repair)) == ((), None, [])
    with pytest.raises(DriverError):
        plan_repair(checkpoint([], [], [57]), mode)


@pytest.mark.parametrize("mode", [Mode.REAL_TIME, Mode.CONTINUOUS])
def test_the_other_engines_need_a_commit(mode: Mode) -> None:
    """Without one the real-time engine removes all offsets and begins anew."""
    with pytest.raises(DriverError) as raised:
        plan_repair(checkpoint([], [], range(40, 58)), mode)
    assert raised.value.failure.reason == "CheckpointDamaged"
    # Of the first batch nothing shows that it is done.
    assert plan_repair(checkpoint([], [], [0]), mode).epoch is None


def test_without_a_commit_everything_is_read_again_if_the_first_offsets_are_known() -> None:
    """Commits that failed from the first epoch on; nothing is purged yet, so nothing else ran."""
    stuck = checkpoint([], range(6))
    repair = plan_repair(stuck, first_known=True)
    assert (repair.epoch, kinds(repair)) == (None, ["UncommittedOffsets"] * 6)
    assert not any("offsets/" in path for path in apply_plan(stuck, repair))
    # The first commits did not reach the disk.
    torn = checkpoint(range(3), range(4)) | {f"commits/{n}": b"" for n in range(3)}
    assert plan_repair(torn, first_known=True).epoch is None
    with pytest.raises(DriverError):
        plan_repair(checkpoint([], range(3, 9)), first_known=True)


@pytest.mark.parametrize("trigger", [MICRO_BATCH, ASYNC, AVAILABLE_NOW])
def test_a_planned_batch_in_transactions_is_planned_again(trigger: dict[str, Any]) -> None:
    """It may have been too long for one; the transactions know what of it is written."""
    sink = kafka_sink(delivery="ExactlyOnce")
    spec = stream(kafka_source(), sink, trigger=trigger).spec
    files = checkpoint(range(4), [], range(5))
    repair = plan(files, spec)
    assert (repair.epoch, repair.continues_after, kinds(repair)) == (3, 3, ["UncommittedOffsets"])
    first = plan(checkpoint([], [], range(1)), spec)
    assert (first.epoch, first.continues_after, kinds(first)) == (
        None,
        None,
        ["UncommittedOffsets"],
    )


@pytest.mark.parametrize("trigger", [MICRO_BATCH, AVAILABLE_NOW])
@pytest.mark.parametrize("known", [{"state": True}, {"whole_batches": True, "keep_ids": True}])
def test_a_planned_batch_with_state_in_transactions_keeps_its_records(
    known: dict[str, Any], trigger: dict[str, Any]
) -> None:
    """They know the number of a batch, and would take other records for written."""
    spec = stream(kafka_source(), kafka_sink(delivery="ExactlyOnce"), trigger=trigger).spec
    repair = plan(checkpoint(range(4), [], range(5)), spec, **known)
    assert (repair.epoch, repair.continues_after, kinds(repair)) == (3, 3, [])


def test_whole_metadata_is_kept_whatever_its_checksum_says() -> None:
    """With another id a sink such as Delta's would not know a batch that runs again."""
    files = checkpoint(range(4), range(4)) | {".metadata.crc": checksum(b"another")}
    assert repaired(files) == checkpoint(range(4), range(4))


def test_a_source_log_that_is_not_kafkas_is_left_alone() -> None:
    """Rate keeps its start time there, the file source a line for each file."""
    for log in (b"v1\n1700000000000", b'v1\n{"path":"a"}\n{"path":"b"}'):
        files = {"metadata": b'{"id":"1"}', "sources/0/0": log}
        assert plan_repair(files, Mode.MICRO_BATCH, kafka=False) == RepairPlan((), None)


def test_damage_before_the_newest_commit_is_nothing_to_the_start() -> None:
    files = checkpoint(range(5), range(5)) | {"commits/3": b"v", "offsets/2": b"v1"}
    assert plan_repair(files).epoch == 4
    # Spark purges offsets before commits, so a commit without offsets is normal there.
    assert plan_repair(checkpoint(range(5), range(2, 5))) == RepairPlan((), 4)


def test_metadata_that_is_missing_is_written() -> None:
    """Spark refuses logs without: an import that was interrupted may have left none."""
    files = checkpoint(range(3), range(3))
    files.pop("metadata")
    after = repaired(files)
    assert is_metadata(after["metadata"])
    assert plan_repair(after) == RepairPlan((), 2)


@pytest.mark.parametrize("found", [b"", b"v1", INITIAL_OFFSETS[:9], b"\0" * 24])
def test_a_broken_initial_offsets_file_of_plain_spark_is_deleted(found: bytes) -> None:
    """A query without a commit would fail at each start."""
    files = with_checksums({"metadata": b'{"id":"1"}', "sources/0/0": INITIAL_OFFSETS})
    after = repaired(files | {"sources/0/0": found}, Mode.MICRO_BATCH)
    assert after == {"metadata": b'{"id":"1"}'}
    del files["sources/0/0"]
    assert repaired(files, Mode.MICRO_BATCH) == after


def test_a_whole_temporary_file_is_deleted() -> None:
    left = {"offsets/.3.e9b1.tmp": offsets(3)}
    files = checkpoint(range(3), range(3)) | left
    assert repaired(files) == checkpoint(range(3), range(3))


def test_kafka_offsets() -> None:
    assert kafka_offsets(offsets(3)) == {"in": {0: 30, 1: 21}}
    assert doctest.testmod(formats).failed == 0


@pytest.mark.parametrize(
    ("metadata", "partitions"),
    [
        ('{"conf":{"spark.sql.shuffle.partitions":"5"}}', 5),
        ('{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}', None),
        ("", None),
    ],
    ids=["batches", "repaired", "continuous"],
)
def test_the_partitions_of_state_are_read(metadata: str, partitions: int | None) -> None:
    version, _, source = offsets(3).split(b"\n")
    entry = Entry.parse(b"\n".join([version, metadata.encode(), source]))
    assert entry is not None
    assert entry.shuffle_partitions == partitions


@pytest.mark.parametrize("planned", [4, 8])
def test_a_repartition_of_the_state_that_has_not_ended_is_undone(planned: int) -> None:
    """Spark would start no query before it has, and it may be one that could never end."""
    line = b'{"batchWatermarkMs":0,"conf":{"spark.sql.shuffle.partitions":"%d"}}'
    files = checkpoint(range(3), ())
    for number, partitions in enumerate((4, 4, 4, planned)):
        files[f"offsets/{number}"] = offsets(number, line % partitions)
    gone = {path for path in files if path not in repaired(files, Mode.MICRO_BATCH)}
    assert gone == (set() if planned == 4 else {"offsets/3"})


def test_an_undone_repartition_was_no_batch_of_the_sink() -> None:
    """Also a sink that knows its batches did not get it: nothing is lost."""
    line = b'{"batchWatermarkMs":0,"conf":{"spark.sql.shuffle.partitions":"%d"}}'
    files = checkpoint(range(3), ())
    for number, partitions in enumerate((4, 4, 4, 8)):
        files[f"offsets/{number}"] = offsets(number, line % partitions)
    sink = {"custom": {"format": "delta"}}
    spec = stream(kafka_source(), sink, trigger=MICRO_BATCH).spec
    repair = plan(files, spec, state=True, keep_ids=True)
    assert repair.epoch == 2
    assert files.keys() - apply_plan(files, repair).keys() == {"offsets/3"}


def test_a_planned_batch_after_a_gap_is_kept() -> None:
    """Asynchronous progress leaves it so."""
    whole = checkpoint(range(4), (), range(5))
    files = {path: of for path, of in whole.items() if path not in {"offsets/3", "commits/3"}}
    repair = plan_repair(files, Mode.MICRO_BATCH)
    assert (repair.epoch, kinds(repair)) == (2, ["AsyncGap"])
    assert "offsets/4" in apply_plan(files, repair)


def test_offsets_are_replaced_for_each_time_that_the_source_is_read() -> None:
    """A self-join has a line for each side: a side that keeps its offsets skips records."""
    both = offsets(3) + b"\n" + offsets(3).split(b"\n")[-1]
    replaced = {"in": {0: 4, 1: 5}}
    files = {"offsets/3": both, "commits/3": COMMIT, "metadata": METADATA}
    found = Logs.read(files)
    written = dict(diff(files, found, with_offsets(found, {0: replaced, 1: replaced})))["offsets/3"]
    assert written is not None
    entry = Entry.parse(written)
    assert entry is not None
    assert entry.kafka == (replaced, replaced)
    assert written.split(b"\n")[:2] == both.split(b"\n")[:2]


@st.composite
def crashes(
    draw: st.DrawFn, *, batches: bool = False, plain: bool = False
) -> tuple[int, dict[str, bytes]]:
    """The newest epoch that is safe to continue from, and the files of an interrupted run.

    Synced files are whole; of the others there is nothing, or with `plain` Spark any part.
    """
    first = draw(st.integers(0, 5))
    last = draw(st.integers(first, first + 10))
    ahead = draw(st.integers(0, 3))
    planned = range(first, last + 1 + ahead)
    whole = checkpoint(
        range(first, last + 1), () if batches else planned, planned if batches else ()
    )
    files = with_checksums(whole) if plain else whole
    safe = last
    unsynced = [f"offsets/{n}" for n in range(last + 1, last + 1 + ahead)]
    if draw(st.booleans()) and last > first:
        unsynced.append(f"commits/{last}")
        safe = last - 1
    fates = ["whole", "missing", "torn"] if plain else ["whole", "missing"]
    for path in unsynced:
        for each in (path, checksum_path(path)) if plain else (path,):
            fate = draw(st.sampled_from(fates))
            if fate == "missing":
                files.pop(each)
            elif fate == "torn":
                files[each] = files[each][: draw(st.integers(0, len(files[each]) - 1))]
    left = ["commits/.99.crc", "offsets/..7.x.tmp"] if plain else ["offsets/.7.x.tmp"]
    for leftover in draw(st.lists(st.sampled_from(left))):
        files[leftover] = b"crc\x00"
    return safe, files


@settings(deadline=None)  # a busy machine is no failure
@given(st.booleans().flatmap(lambda plain: crashes(plain=plain)))
def test_the_repair_of_any_crash_replays(crash: tuple[int, dict[str, bytes]]) -> None:
    safe, files = crash
    repair = plan_repair(files)
    after = repaired(files)
    assert repair.epoch is not None
    # Never before the safe epoch, and always at a whole commit.
    assert repair.epoch >= safe
    assert after[f"commits/{repair.epoch}"] == COMMIT
    assert after[f"offsets/{repair.epoch}"] == offsets(repair.epoch)
    for path in after:
        name = path.rpartition("/")[2]
        assert name == "metadata" or int(name) <= repair.epoch


@pytest.mark.proves(11)
@settings(deadline=None)  # a busy machine is no failure
@given(st.sampled_from(list(Mode)), st.data(), st.randoms(use_true_random=False))
def test_the_next_repair_completes_an_interrupted_one(
    mode: Mode, data: st.DataObject, rng: random.Random
) -> None:
    """Also after a power cut, which leaves any part of the files that were not synced."""
    plain = data.draw(st.booleans())
    _, files = data.draw(crashes(batches=mode is not Mode.CONTINUOUS, plain=plain))
    repair = plan_repair(files, mode)
    whole = apply_plan(files, repair)
    files = interrupted(files, repair, rng)
    assert plan_repair(files, mode).epoch == repair.epoch
    assert repaired(files, mode) == whole
    assert plan_repair(whole, mode) == RepairPlan((), repair.epoch)


def test_planned_batches_after_a_torn_one_are_gone_before_it() -> None:
    """Alone they would look planned, as with asynchronous progress, and be kept."""
    files = checkpoint(range(4), [], range(7)) | {"offsets/4": b""}
    repair = plan_repair(files, Mode.MICRO_BATCH)
    gone = [path for path in repair.delete if path.startswith("offsets/") and "." not in path]
    assert gone == ["offsets/6", "offsets/5", "offsets/4"]
    assert len({sync_group((path, None)) for path in gone}) == len(gone)
    for seed in range(50):
        half = interrupted(files, repair, random.Random(seed))
        assert repaired(half, Mode.MICRO_BATCH) == apply_plan(files, repair)
