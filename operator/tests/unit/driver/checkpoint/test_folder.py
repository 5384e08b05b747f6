"""The checkpoint folder: repairs, interrupted repairs, and errors of the volume."""

from __future__ import annotations

import errno
import itertools
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.checkpoint_repairs import RepairKind
from penstock.driver.checkpoint.batch_ids import LogShape
from penstock.driver.checkpoint.file_formats import Files
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.checkpoint.storage import durable_files
from penstock.driver.failures import DriverError
from testkit.driver.checkpoints import (  # fmt: skip
    BATCH_LINE,
    INITIAL_OFFSETS,
    checkpoint,
    crashes,
    folder_at,
    note,
    offsets,
    path_of,
    read,
    with_checksums,
    write,
)
from testkit.streams.streams import (
    ASYNC,
    BOTH_ENGINES,
    CONTINUOUS,
    MICRO_BATCH,
    REAL_TIME,
    kafka_sink,
    kafka_source,
    stream,
)

DAMAGED: dict[str, Files] = {
    "crash": checkpoint(range(4), range(5)) | {"offsets/.5.e9b1.tmp": offsets(5)},
    "crash of plain Spark": with_checksums(checkpoint(range(4), range(5)))
    | with_checksums({"offsets/.5.e9b1.tmp": offsets(5)})
    | {"commits/.4.crc": b"crc"},
    "torn": with_checksums(checkpoint(range(5), [], range(6)))
    | {"metadata": b"", "commits/4": b"", "offsets/2": b"v1", "sources/0/0": INITIAL_OFFSETS[:5]},
    # A changed digit, which only the checksum reveals.
    "digit": with_checksums(checkpoint(range(5), range(5))) | {"offsets/4": offsets(9)},
    "digit of a batch": with_checksums(checkpoint(range(5), [], range(5)))
    | {"offsets/4": offsets(9, BATCH_LINE)},
    "gap": checkpoint([0, 2, 5], [], [0, 2, 5, 8]),
    "torn predecessor": checkpoint(range(5), range(5)) | {"offsets/3": b""},
    "power cut": checkpoint(range(4), [], range(5)) | {"offsets/4": b""},
    "first batch": with_checksums(checkpoint([0], [], [0]))
    | {"offsets/0": b""}
    | with_checksums({"sources/0/0": INITIAL_OFFSETS}),
    "no commits": with_checksums(checkpoint([], [], range(6)))
    | {"offsets/5": b"", "commits/5": b""},
}
FILES = {"custom": {"format": "x.Y"}}
TRIGGERS = {
    "continuous": CONTINUOUS, "micro-batch": MICRO_BATCH, "async": ASYNC, "real-time": REAL_TIME,
    "micro-batch, a sink that knows ids": MICRO_BATCH,
    "continuous, a sink that knows ids": CONTINUOUS,
}  # fmt: skip

# Without commits only a plan of the micro-batch engine shows how far it came: else it is refused.
CASES = [
    (damage, trigger)
    for damage, trigger in itertools.product(DAMAGED, TRIGGERS)
    if damage != "no commits" or trigger.startswith(("micro-batch", "async"))
]


@pytest.mark.proves(11)
@pytest.mark.parametrize("torn", [False, True], ids=["between", "within"])
@pytest.mark.parametrize(("damage", "trigger"), CASES, ids=map("-".join, CASES))
def test_the_next_start_completes_an_interrupted_repair(
    damage: str, trigger: str, torn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start after a crash at any step has the same result; a further one does nothing."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # slow; `sync` counts as a step all the same
    sink = FILES if "a sink" in trigger else kafka_sink()
    spec = stream(kafka_source(), sink, trigger=TRIGGERS[trigger]).spec
    write(DAMAGED[damage], tmp_path / "whole")
    whole = folder_at(tmp_path / "whole").repair(spec)
    wanted = read(tmp_path / "whole")
    for crash in crashes(torn=torn, more_than=len(whole.delete) + len(whole.write)):
        path = tmp_path / str(crash.step)
        write(DAMAGED[damage], path)
        crash(partial(folder_at(path).repair, spec))
        assert folder_at(path).repair(spec).epoch == whole.epoch
        assert read(path) == wanted
        again = folder_at(path).repair(spec)
        assert (again.delete, again.epoch, again.write) == ((), whole.epoch, {})


@pytest.mark.parametrize("torn", [False, True], ids=["between", "within"])
@pytest.mark.parametrize("trigger", BOTH_ENGINES)
def test_a_generation_begins_after_the_batches_of_another_wherever_it_crashes(
    trigger: dict[str, Any], torn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink never gets a number twice, and nothing counts as a repair but an unfinished file."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    spec = stream(kafka_source(), {"custom": {"format": "x.Y"}}, trigger=trigger).spec

    def begin(folder: CheckpointFolder) -> None:
        made = {repair.kind for repair in folder.repair(spec).repairs}
        assert made <= {RepairKind.LEFTOVER_FILE}
        if folder.is_new():
            folder.continue_after(41, LogShape(2, 4, long_running=trigger is CONTINUOUS))

    def new(path: Path) -> CheckpointFolder:
        folder = folder_at(path)
        note(folder, first_offsets={"in": {0: 7}})
        return folder

    begin(new(tmp_path / "whole"))
    wanted = read(tmp_path / "whole")
    assert folder_at(tmp_path / "whole").next_offsets() == {
        0: {"in": {0: 7}},
        1: {"in": {0: 7}},
    }
    for crash in crashes(torn=torn, more_than=10):
        folder = new(tmp_path / str(crash.step))
        crash(partial(begin, folder))
        begin(folder_at(path_of(folder)))
        assert read(path_of(folder)) == wanted
        epoch = 41 if trigger is CONTINUOUS else 40
        assert folder_at(path_of(folder)).repair(spec) == RepairPlan((), epoch)
        assert folder_at(path_of(folder)).progress.planned_epoch() == 41


@pytest.mark.parametrize("trigger", BOTH_ENGINES)
def test_a_generation_goes_on_after_the_batches_of_another_wherever_it_crashes(
    trigger: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has planned is read again, with a number that the sink does not know."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    spec = stream(kafka_source(), {"custom": {"format": "x.Y"}}, trigger=trigger).spec

    def goes_on(path: Path) -> None:
        folder = folder_at(path)
        folder.repair(spec)
        if (folder.progress.committed_epoch() or 0) < 40:
            folder.continue_after(41, LogShape(1, 4, long_running=trigger is CONTINUOUS))

    def left(path: Path) -> None:
        of_batches = checkpoint(range(4), [], range(5)) if trigger is MICRO_BATCH else {}
        write(of_batches or checkpoint(range(4), range(4)), path)
        goes_on(path)

    left(tmp_path / "whole")
    wanted = read(tmp_path / "whole")
    whole = folder_at(tmp_path / "whole")
    assert whole.next_offsets() == {0: {"in": {0: 30, 1: 21}}}
    assert whole.progress.planned_epoch() == 41
    for crash in crashes():
        path = tmp_path / str(crash.step)
        crash(partial(left, path))
        goes_on(path)
        assert wanted.keys() <= read(path).keys()
        assert folder_at(path).next_offsets() == whole.next_offsets()


def test_how_far_a_generation_is_is_read_also_from_damaged_logs(tmp_path: Path) -> None:
    """Never beyond what is committed; refused if that is lost."""
    folder = folder_at(tmp_path)
    assert folder.committed_or_first_offsets() is None
    note(folder, first_offsets={"in": {0: 7}})
    assert folder.committed_or_first_offsets() == {"in": {0: 7}}
    write(checkpoint(range(4), range(6)), tmp_path)
    assert folder.committed_or_first_offsets() == {"in": {0: 30, 1: 21}}
    (tmp_path / "commits" / "3").write_bytes(b"")
    assert folder.committed_or_first_offsets() == {"in": {0: 20, 1: 14}}
    for n in range(4):
        (tmp_path / "commits" / str(n)).write_bytes(b"")
    with pytest.raises(DriverError) as raised:
        folder.committed_or_first_offsets()
    assert raised.value.failure.reason == "CheckpointDamaged"


def test_a_repair_is_executed_as_planned(tmp_path: Path) -> None:
    write(checkpoint(range(3), range(5)), tmp_path)
    folder = folder_at(tmp_path)
    assert folder.repair(stream().spec).epoch == 2
    assert sorted(path.name for path in (tmp_path / "offsets").iterdir()) == [
        "0", "1", "2"
    ]  # fmt: skip
    assert folder.progress.committed_epoch() == 2
    assert folder.progress.committed_offsets() == {"in": {0: 20, 1: 14}}
    assert folder.repair(stream().spec) == RepairPlan((), 2)


def test_an_empty_folder_is_a_first_start(tmp_path: Path) -> None:
    folder = folder_at(tmp_path / "not-yet")
    assert folder.repair(stream().spec) == RepairPlan((), None)
    assert folder.progress.committed_epoch() is None
    assert folder.progress.committed_offsets() is None
    assert folder.notes.read().first_offsets is None


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """Uses a file in place of the folder: the tests run as root, who may write anywhere."""
    (tmp_path / "generation-0").write_text("")
    with pytest.raises(DriverError) as raised:
        folder_at(tmp_path / "generation-0").repair(stream().spec)
    failure = raised.value.failure
    assert (failure.reason, failure.permanent, failure.recoverable) == (
        "CheckpointNotAccessible", True, True
    )  # fmt: skip


def test_a_full_volume_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path, __: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(durable_files, "write_draft", full)
    folder = folder_at(tmp_path)
    with pytest.raises(DriverError) as on_repair:
        folder.repair(stream().spec)
    with pytest.raises(DriverError) as on_save:
        note(folder, first_offsets={})
    for raised in (on_repair, on_save):
        assert raised.value.failure.reason == "CheckpointFull"


@pytest.mark.parametrize(
    ("trigger", "sink"),
    [(MICRO_BATCH, kafka_sink()), (CONTINUOUS, kafka_sink()), (MICRO_BATCH, FILES)],
    ids=["micro-batch", "continuous", "a sink that knows ids"],
)
def test_state_without_a_commit_binds_no_other_query(
    trigger: dict[str, Any], sink: dict[str, Any], tmp_path: Path
) -> None:
    """Spark would refuse an edited one for its keys, and one without state at a later start."""
    state = {
        f"state/0/{path}": b"x"
        for path in ("_metadata/metadata", "_metadata/schema/1", "0/1.changelog", "1/left/1.zip")
    }
    spec = stream(kafka_source(), sink, trigger=trigger).spec
    failed = checkpoint([], [], [0]) | state
    write(failed, tmp_path / "failed")
    folder = folder_at(tmp_path / "failed")
    folder.repair(spec)
    assert not any(path.startswith("state/") for path in read(tmp_path / "failed"))
    assert not (tmp_path / "failed/state").exists(), "folders would count as lost partitions"
    committed = checkpoint([0], [], [0]) | {"state/0/0/1.changelog": b"x"}
    write(committed, tmp_path / "committed")
    folder_at(tmp_path / "committed").repair(stream(trigger=MICRO_BATCH).spec)
    assert read(tmp_path / "committed") == committed


def test_what_a_division_of_state_has_left_does_not_keep_a_volume_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed before the first byte is written."""
    entry = offsets(1, BATCH_LINE.replace(b"{}", b'{"spark.sql.shuffle.partitions":"1"}'))
    own, left = [f"state/0/0/{n}.changelog" for n in (1, 2)], "state/0/1/3.zip"
    files = checkpoint([0, 1], []) | {"offsets/0": entry, "offsets/1": entry}
    write(files | dict.fromkeys([*own, left], b"x"), tmp_path)
    write_draft = durable_files.write_draft

    def full(draft: Path, content: bytes) -> None:
        if (tmp_path / left).exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_draft(draft, content)

    monkeypatch.setattr(durable_files, "write_draft", full)
    assert folder_at(tmp_path).repair(stream(trigger=MICRO_BATCH).spec).epoch == 1
    assert read(tmp_path).keys() & {*own, left} == {*own}


def test_a_start_reads_no_file_of_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join of two streams with 64 partitions has 5,120 files: reading them took minutes."""
    write(checkpoint(range(20), [], range(20)), tmp_path)
    for partition, store in itertools.product(range(64), range(4)):
        path = tmp_path / "state" / "0" / str(partition) / str(store)
        path.mkdir(parents=True)
        for version in range(1, 21):
            (path / f"{version}.changelog").touch()
    opened = []

    def read_bytes(path: Path) -> bytes:
        opened.append(path)
        with path.open("rb") as file:
            return file.read()

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert folder_at(tmp_path).repair(stream(kafka_source(), trigger=MICRO_BATCH).spec).epoch == 19
    assert opened
    assert not [path for path in opened if "state" in path.parts]
