"""Progress from the checkpoint's logs, and the records that are sampled for their latency."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.checkpoint.progress import OffsetRange, ProgressReader
from penstock.driver.checkpoint.storage.volume import VolumeFiles
from penstock.driver.failures import DriverError
from penstock.driver.reporting.commit_latency import choose_records
from testkit.driver.checkpoints import checkpoint, folder_at
from testkit.driver.checkpoints import write as write_files


def write(folder: Path, epoch: int, offset: int | None, planned: float, committed: float) -> None:
    line = "5" if offset is None else f'{{"in":{{"0":{offset}}}}}'
    for log, text, at in (("offsets", f"v1\n\n{line}", planned), ("commits", "v1\n{}", committed)):
        path = folder / log / str(epoch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (at, at))


def test_commits_are_returned_once_and_in_order(tmp_path: Path) -> None:
    reader = ProgressReader(VolumeFiles(tmp_path))
    assert reader.new_commits() == []
    for epoch in (3, 4):
        write(tmp_path, epoch, epoch * 10, 100.0 + epoch, 100.5 + epoch)
    ((first, unknown),) = reader.new_commits()  # earlier commits are not counted
    assert (first.epoch, first.at, first.took, first.offsets) == (4, 104.5, 0.5, {"in": {0: 40}})
    assert unknown is None
    for epoch in (5, 6):
        write(tmp_path, epoch, epoch * 10, 100.0 + epoch, 100.5 + epoch)
    assert [(commit.epoch, offset_range) for commit, offset_range in reader.new_commits()] == [
        (5, OffsetRange({"in": {0: 40}}, {"in": {0: 50}}, 105.5)),
        (6, OffsetRange({"in": {0: 50}}, {"in": {0: 60}}, 106.5)),
    ]
    assert reader.new_commits() == []


def test_a_commit_that_a_repair_removed_is_returned_again(tmp_path: Path) -> None:
    reader = ProgressReader(VolumeFiles(tmp_path))
    for epoch in (3, 4):
        write(tmp_path, epoch, epoch * 10, 100.0, 100.5)
    reader.new_commits()
    (tmp_path / "commits" / "4").unlink()
    assert [commit.epoch for commit, _ in reader.new_commits()] == [3]
    write(tmp_path, 4, 44, 200.0, 200.5)
    assert [commit.offsets for commit, _ in reader.new_commits()] == [{"in": {0: 44}}]


def test_an_unchanged_folder_is_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop looks for the next commit every few milliseconds."""
    reader, listed, scandir = ProgressReader(VolumeFiles(tmp_path)), list[Path](), os.scandir
    now = 100.0

    def counted(path: Path) -> Any:
        listed.append(path)
        return scandir(path)

    write(tmp_path, 3, 30, 100.0, 100.5)
    monkeypatch.setattr(os, "scandir", counted)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    # A change in the same tick of the clock would not show in the folder's time.
    assert [reader.committed_epoch(), reader.committed_epoch(), len(listed)] == [3, 3, 2]
    now += 0.1
    assert [reader.committed_epoch(), reader.committed_epoch(), len(listed)] == [3, 3, 3]
    write(tmp_path, 4, 40, 101.0, 101.5)
    assert reader.committed_epoch() == 4


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_clock_that_stamps_files_need_not_be_that_of_the_driver(
    hours: int, tmp_path: Path
) -> None:
    """A file server has its own, and a clock may be set. A commit in the same tick is seen."""
    reader, at = ProgressReader(VolumeFiles(tmp_path)), time.time() + hours * 3600
    for epoch in (3, 4):
        write(tmp_path, epoch, 30, at, at)
        os.utime(tmp_path / "commits", (at, at))
        assert reader.committed_epoch() == epoch


def test_a_source_other_than_kafka_has_no_offset_range(tmp_path: Path) -> None:
    reader = ProgressReader(VolumeFiles(tmp_path))
    for epoch in (0, 1):
        write(tmp_path, epoch, None, 100.0, 100.5)
        ((commit, offset_range),) = reader.new_commits()
        assert (commit.epoch, commit.offsets, offset_range) == (epoch, None, None)
    (tmp_path / "offsets" / "1").unlink()
    write(tmp_path, 2, 5, 100.0, 100.5)
    assert [offset_range for _, offset_range in reader.new_commits()] == [None]


@pytest.mark.parametrize(
    "offsets",
    ['{"shards": {"0": {"position": 5}}}', '{"a": {"0": null}}', "[1]", "7", "null", "x", ""],
)
def test_offsets_of_another_source_may_look_like_anything(offsets: str, tmp_path: Path) -> None:
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
        (tmp_path / log / "0").write_text(f"v1\n{offsets}")
    reader = ProgressReader(VolumeFiles(tmp_path))
    assert reader.committed_offsets() is None
    ((commit, _),) = reader.new_commits()
    assert (commit.epoch, commit.offsets) == (0, None)


def test_sampled_records_are_within_the_offset_range() -> None:
    offset_range = OffsetRange(
        {"in": {0: 10, 1: 5, 2: 0}}, {"in": {0: 12, 1: 5, 2: 1, 3: 7}}, committed_at=0.0
    )
    assert offset_range.records() == 3
    chosen = {
        record for n in range(50) for record in choose_records(offset_range, random.Random(n))
    }
    assert chosen == {("in", 0, 10), ("in", 0, 11), ("in", 2, 0)}
    wide = OffsetRange(
        {"in": dict.fromkeys(range(99), 0)}, {"in": dict.fromkeys(range(99), 1)}, 0.0
    )
    assert len(choose_records(wide, random.Random(1))) == 8


@pytest.mark.parametrize(
    ("call", "look"),
    [
        ("os.scandir", ProgressReader.committed_epoch),
        ("Path.read_bytes", ProgressReader.committed_offsets),
        ("Path.read_bytes", ProgressReader.new_commits),
    ],
)
def test_a_volume_that_does_not_answer_is_named(
    call: str,
    look: Callable[[ProgressReader], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stale(path: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    write(tmp_path, 3, 30, 100.0, 100.5)
    monkeypatch.setattr(f"penstock.driver.checkpoint.storage.volume.{call}", stale)
    with pytest.raises(DriverError) as raised:
        look(ProgressReader(VolumeFiles(tmp_path)))
    assert raised.value.failure.reason == "CheckpointNotAccessible"
    assert "Stale file handle" in raised.value.failure.message


def test_a_file_system_with_whole_seconds_hides_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets that are seen earlier than a commit before them would be a commit that has failed."""
    reader, now = ProgressReader(VolumeFiles(tmp_path)), 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for epoch in (3, 4):
        write(tmp_path, epoch, 30, 100.0, 100.0)
        os.utime(tmp_path / "commits", (100.0, 100.0))
        assert reader.committed_epoch() == epoch
        now += 0.5
        assert reader.committed_epoch() == epoch


def test_the_offsets_that_a_repair_writes_are_seen(tmp_path: Path) -> None:
    """The partitions to read are those in them."""
    folder = folder_at(tmp_path)
    write_files(checkpoint([4], [4]), tmp_path)
    assert folder.progress.committed_offsets() == {"in": {0: 40, 1: 28}}
    folder.replace_offsets({0: {"in": {0: 40}}})
    assert folder.progress.committed_offsets() == {"in": {0: 40}}
