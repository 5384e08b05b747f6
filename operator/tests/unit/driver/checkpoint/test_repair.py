"""Repairs of what a crash or damage can leave in a checkpoint: they only ever replay records."""

from __future__ import annotations

import doctest
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.api.modes import Mode
from penstock.contract.checkpoint_repairs import RepairKind
from penstock.driver.checkpoint import file_formats as formats
from penstock.driver.checkpoint.file_formats import (
    Entry,
    Files,
    checksum_path,
    is_metadata,
)
from penstock.driver.checkpoint.logs import Logs, diff, together
from penstock.driver.checkpoint.repair import RepairPlan, plan, with_offsets
from penstock.driver.failures import DriverError
from testkit.driver.checkpoints import (
    BATCH_LINE,
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


def test_uncommitted_offsets_are_deleted_with_their_checksums() -> None:
    """Spark would keep them, and commit its next epoch under offsets that it never reached."""
    repair = plan_repair(checkpoint(range(3, 8), range(3, 10)))
    assert repair.epoch == 7
    assert repair.delete == ("offsets/9", "offsets/8", "offsets/.9.crc", "offsets/.8.crc")
    assert kinds(repair) == ["UncommittedOffsets", "UncommittedOffsets"]


def test_uncommitted_offsets_are_deleted_without_any_commit() -> None:
    """A start without commits uses the first offsets: an old offsets/0 would skip records."""
    repair = plan_repair(checkpoint(range(0), range(2)))
    assert repair.epoch is None
    assert {"offsets/0", "offsets/1"} <= set(repair.delete)
    assert "metadata" not in repair.delete


def test_the_checksum_of_a_missing_commit_is_deleted() -> None:
    """Spark would swallow the failure of the next commit, and never commit again."""
    files = checkpoint(range(3), range(3)) | {"commits/.3.crc": checksum(COMMIT)}
    assert plan_repair(files).delete == ("commits/.3.crc",)


@pytest.mark.parametrize("torn", [b"", b"v1", b'v1\n{"nextBatch', b"\0" * 30])
def test_a_torn_commit_is_deleted(torn: bytes) -> None:
    files = checkpoint(range(5), range(5)) | {"commits/4": torn}
    repair = plan_repair(files)
    assert repair.epoch == 3
    assert {"commits/4", "commits/.4.crc", "offsets/4", "offsets/.4.crc"} == set(repair.delete)


@pytest.mark.parametrize("torn", [b"", b"v1\n", b"v1\n\n", b'v1\n\n{"in":{"0":40', b"\0" * 30])
def test_a_commit_with_torn_offsets_is_deleted(torn: bytes) -> None:
    files = checkpoint(range(5), range(5)) | {"offsets/4": torn}
    assert plan_repair(files).epoch == 3


def test_the_checksum_reveals_a_changed_digit() -> None:
    files = checkpoint(range(5), range(5))
    files["offsets/4"] = files["offsets/4"].replace(b'"0":40', b'"0":90')
    assert plan_repair(files).epoch == 3


def test_a_torn_checksum_alone_loses_no_epoch() -> None:
    files = checkpoint(range(5), range(5))
    files["commits/.4.crc"] = files["commits/.4.crc"][:5]
    repair = plan_repair(files)
    assert (repair.delete, repair.epoch) == (("commits/.4.crc",), 4)
    assert kinds(repair) == ["LeftoverFile"]


def test_temporary_files_and_broken_metadata_are_repaired() -> None:
    files = checkpoint(range(2), range(2))
    files |= {"metadata": b"", "commits/..2.0a1b.tmp": b"v1", "commits/...2.0a1b.tmp.crc": b"crc"}
    repair = plan_repair(files)
    assert set(repair.delete) == {
        "metadata", ".metadata.crc", "commits/..2.0a1b.tmp", "commits/...2.0a1b.tmp.crc"
    }  # fmt: skip
    assert is_metadata(repair.write["metadata"])
    assert sorted(kinds(repair)) == ["LeftoverFile", "LeftoverFile", "TornFile"]
    assert plan_repair(apply_plan(files, repair)) == RepairPlan((), 1)


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
    """Batch N is planned after batch N - 1."""
    mode = Mode.MICRO_BATCH
    files = checkpoint([], [], range(40, 58))
    repair = plan_repair(files, mode)
    assert (repair.delete, repair.epoch, kinds(repair)) == ((), None, ["LostCommits"])
    files |= {f"commits/{n}": b"" for n in range(40, 57)}
    assert {each.kind for each in plan_repair(files, mode).repairs} == {
        RepairKind.TORN_FILE, RepairKind.LOST_COMMITS
    }  # fmt: skip
    with pytest.raises(DriverError):
        plan_repair(checkpoint([], [], [57]), mode)


@pytest.mark.parametrize("mode", [Mode.REAL_TIME, Mode.CONTINUOUS])
def test_the_other_engines_get_a_commit_for_the_last_batch_that_is_done(mode: Mode) -> None:
    """Without one the real-time engine removes all offsets and begins anew."""
    files = checkpoint([], [], range(40, 58)) | {"commits/56": b"v1", "commits/40": b""}
    repair = plan_repair(files, mode)
    assert repair.epoch == 56
    assert set(kinds(repair)) == {"LostCommits", "TornFile", "UncommittedOffsets"}
    after = apply_plan(files, repair)
    assert after["commits/56"] == COMMIT
    assert {path for path in after if "57" in path} == set()
    assert plan_repair(after, mode) == RepairPlan((), 56)
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


def test_a_planned_batch_that_moves_backward_is_planned_again() -> None:
    """Spark takes it for lost records, at each start."""
    files = checkpoint(range(4), [], range(4))
    files |= with_checksums({"offsets/4": offsets(2, BATCH_LINE)})
    repair = plan_repair(files, Mode.MICRO_BATCH)
    assert (repair.epoch, kinds(repair)) == (3, ["BackwardOffsets"])
    assert repair.delete == ("offsets/4", "offsets/.4.crc")


@pytest.mark.parametrize("trigger", [MICRO_BATCH, ASYNC, AVAILABLE_NOW])
def test_a_planned_batch_in_transactions_is_planned_again(trigger: dict[str, Any]) -> None:
    """It may have been too long for one; the transactions know what of it is written."""
    sink = kafka_sink(delivery="ExactlyOnce")
    spec = stream(kafka_source(), sink, trigger=trigger).spec
    files = checkpoint(range(4), [], range(5))
    repair = plan(files, spec)
    assert (repair.epoch, repair.after, kinds(repair)) == (3, 3, ["UncommittedOffsets"])
    first = plan(checkpoint([], [], range(1)), spec)
    assert (first.epoch, first.after, kinds(first)) == (None, None, ["UncommittedOffsets"])


def test_whole_metadata_is_kept_whatever_its_checksum_says() -> None:
    """With another id a sink such as Delta's would not know a batch that runs again."""
    files = checkpoint(range(4), range(4)) | {".metadata.crc": checksum(b"another")}
    after = repaired(files)
    assert after["metadata"] == files["metadata"]
    assert ".metadata.crc" not in after


def test_a_source_log_that_is_not_kafkas_is_left_alone() -> None:
    """Rate keeps its start time there, the file source a line for each file."""
    for log in (b"v1\n1700000000000", b'v1\n{"path":"a"}\n{"path":"b"}'):
        files = with_checksums({"metadata": b'{"id":"1"}', "sources/0/0": log})
        assert plan_repair(files, Mode.MICRO_BATCH, kafka=False) == RepairPlan((), None)


def test_damage_before_the_newest_commit_loses_no_epoch() -> None:
    files = checkpoint(range(5), range(5)) | {"commits/3": b"", "offsets/2": b"v1"}
    repair = plan_repair(files)
    assert (repair.epoch, kinds(repair)) == (4, ["TornFile", "TornFile"])
    # Spark purges offsets before commits, so a commit without offsets is normal there.
    assert plan_repair(checkpoint(range(5), range(2, 5))) == RepairPlan((), 4)


def test_a_commit_after_the_newest_offsets_is_deleted() -> None:
    files = checkpoint(range(6), range(5))
    repair = plan_repair(files)
    assert (repair.epoch, kinds(repair)) == (4, ["CommitWithoutOffsets"])


@pytest.mark.parametrize("found", [None, b"", b'{"id":"88', b"\0" * 45])
def test_metadata_is_rewritten(found: bytes | None) -> None:
    """Spark refuses logs without metadata, and fails on broken metadata."""
    files = checkpoint(range(3), range(3))
    files.pop("metadata")
    if found is not None:
        files["metadata"] = found
    after = repaired(files)
    assert is_metadata(after["metadata"])
    assert ".metadata.crc" not in after
    assert plan_repair(after) == RepairPlan((), 2)


@pytest.mark.parametrize("found", [b"", b"v1", INITIAL_OFFSETS[:9], b"\0" * 24])
def test_a_broken_initial_offsets_file_is_deleted(found: bytes) -> None:
    """A query without a commit would fail at each start."""
    files = with_checksums({"metadata": b'{"id":"1"}', "sources/0/0": INITIAL_OFFSETS})
    assert plan_repair(files, Mode.MICRO_BATCH) == RepairPlan((), None)
    repair = plan_repair(files | {"sources/0/0": found}, Mode.MICRO_BATCH)
    assert (repair.delete, kinds(repair)) == (
        ("sources/0/0", "sources/0/.0.crc"), ["TornFile"]
    )  # fmt: skip
    del files["sources/0/0"]
    assert plan_repair(files, Mode.MICRO_BATCH).delete == ("sources/0/.0.crc",)


def test_a_whole_temporary_file_is_deleted_with_its_checksum() -> None:
    left = with_checksums({"offsets/.3.e9b1.tmp": offsets(3)})
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
        files |= with_checksums({f"offsets/{number}": offsets(number, line % partitions)})
    gone = {path for path in files if path not in repaired(files, Mode.MICRO_BATCH)}
    assert gone == (set() if planned == 4 else {"offsets/.3.crc", "offsets/3"})


def test_an_undone_repartition_was_no_batch_of_the_sink() -> None:
    """Also a sink that knows its batches did not get it: nothing is lost."""
    line = b'{"batchWatermarkMs":0,"conf":{"spark.sql.shuffle.partitions":"%d"}}'
    files = checkpoint(range(3), ())
    for number, partitions in enumerate((4, 4, 4, 8)):
        files |= with_checksums({f"offsets/{number}": offsets(number, line % partitions)})
    sink = {"custom": {"format": "delta"}}
    spec = stream(kafka_source(), sink, trigger=MICRO_BATCH).spec
    repair = plan(files, spec, state=True, keep_ids=True)
    assert repair.epoch == 2
    assert files.keys() - apply_plan(files, repair).keys() == {"offsets/.3.crc", "offsets/3"}


@pytest.mark.parametrize(
    ("gone", "state", "kept"),
    [
        ({"offsets/3"}, True, False),
        ({"offsets/3"}, False, False),
        ({"offsets/3", "commits/3"}, True, False),
        ({"offsets/3", "commits/3"}, False, True),  # as async progress tracking leaves them
    ],
)
def test_a_planned_batch_needs_the_offsets_where_it_begins(
    gone: set[str], state: bool, kept: bool
) -> None:
    """Others in their place would be counted twice."""
    whole = checkpoint(range(4), (), range(5))
    files = {path: content for path, content in whole.items() if path not in gone}
    spec = stream(kafka_source(), kafka_sink(), trigger=MICRO_BATCH).spec
    repair = plan(files, spec, state=state)
    assert repair.epoch == 2
    assert ("offsets/4" in apply_plan(files, repair)) is kept


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
def crashes(draw: st.DrawFn, *, batches: bool = False) -> tuple[int, dict[str, bytes]]:
    """The newest epoch that is safe to continue from, and the files of an interrupted run.

    Synced files are whole; of the other files any part may exist.
    """
    first = draw(st.integers(0, 5))
    last = draw(st.integers(first, first + 10))
    ahead = draw(st.integers(0, 3))
    planned = range(first, last + 1 + ahead)
    files = checkpoint(
        range(first, last + 1), () if batches else planned, planned if batches else ()
    )
    safe = last
    unsynced = [f"offsets/{n}" for n in range(last + 1, last + 1 + ahead)]
    if draw(st.booleans()) and last > first:
        unsynced.append(f"commits/{last}")
        safe = last - 1
    for path in unsynced:
        for each in (path, checksum_path(path)):
            fate = draw(st.sampled_from(["whole", "missing", "torn"]))
            if fate == "missing":
                files.pop(each)
            elif fate == "torn":
                files[each] = files[each][: draw(st.integers(0, len(files[each]) - 1))]
    for leftover in draw(st.lists(st.sampled_from(["commits/.99.crc", "offsets/..7.x.tmp"]))):
        files[leftover] = b"crc\x00"
    return safe, files


@settings(deadline=None)  # a busy machine is no failure
@given(crashes())
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
        if name.isdigit():
            assert int(name) <= repair.epoch
        elif name != "metadata":
            assert name.startswith(".")
            assert name.endswith(".crc")
            assert path.replace(f"/{name}", f"/{name[1:-4]}").replace(
                ".metadata.crc", "metadata"
            ) in after  # fmt: skip


@settings(deadline=None)  # a busy machine is no failure
@given(st.sampled_from(list(Mode)), st.data(), st.randoms(use_true_random=False))
def test_the_next_repair_completes_an_interrupted_one(
    mode: Mode, data: st.DataObject, rng: random.Random
) -> None:
    """Also after a power cut, which leaves any part of the files that were not synced."""
    _, files = data.draw(crashes(batches=mode is not Mode.CONTINUOUS))
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
    assert len({together((path, None)) for path in gone}) == len(gone)
    for seed in range(50):
        half = interrupted(files, repair, random.Random(seed))
        assert repaired(half, Mode.MICRO_BATCH) == apply_plan(files, repair)
