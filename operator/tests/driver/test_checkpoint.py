"""What a crash can leave in the checkpoint, and that mending it only ever replays."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.driver.checkpoint import Files, Repair, checksum_path, kafka_offsets, plan_repair
from penstock.driver.checkpointdir import CheckpointFolder
from penstock.driver.failures import DriverError
from tests.driver.streams import stream


def commit() -> bytes:
    return b'v1\n{"nextBatchWatermarkMs":0}'


def offsets(epoch: int) -> bytes:
    return f'v1\n\n{{"in":{{"0":{epoch * 10},"1":{epoch * 7}}}}}'.encode()


def checksum(content: bytes) -> bytes:
    """As Hadoop writes it: a header, the chunk size, a CRC32 for each chunk."""
    sums = [zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512)]
    return b"crc\x00" + struct.pack("!i", 512) + b"".join(struct.pack("!I", s) for s in sums)


def checkpoint(commits: range, planned: range) -> dict[str, bytes]:
    """A checkpoint in good order, with commits and offsets of these epochs."""
    files = {"metadata": b'{"id":"88eb3c42-51b1-4cc2-89bb-8fe485045c84"}'}
    files |= {f"commits/{n}": commit() for n in commits}
    files |= {f"offsets/{n}": offsets(n) for n in planned}
    return files | {checksum_path(path): checksum(content) for path, content in files.items()}


def mended(files: Files) -> dict[str, bytes]:
    doomed = set(plan_repair(files).delete)
    return {path: content for path, content in files.items() if path not in doomed}


def test_a_checkpoint_in_order_is_left_alone() -> None:
    files = checkpoint(range(3, 8), range(3, 8))
    assert plan_repair(files) == Repair(delete=(), epoch=7)


def test_offsets_without_a_commit_go_with_their_checksums() -> None:
    """Spark would not overwrite them, and commit its next epoch under offsets it never reached."""
    repair = plan_repair(checkpoint(range(3, 8), range(3, 10)))
    assert repair.epoch == 7
    assert repair.delete == ("offsets/.9.crc", "offsets/9", "offsets/.8.crc", "offsets/8")


def test_offsets_go_too_when_nothing_was_ever_committed() -> None:
    """A start without commits begins at the first offsets: a stale offsets/0 would skip records."""
    repair = plan_repair(checkpoint(range(0), range(2)))
    assert repair.epoch is None
    assert {"offsets/0", "offsets/1"} <= set(repair.delete)
    assert "metadata" not in repair.delete


def test_a_checksum_of_a_commit_that_is_not_there_goes() -> None:
    """Spark would swallow the next commit's failure, and never commit again."""
    files = checkpoint(range(3), range(3)) | {"commits/.3.crc": checksum(commit())}
    assert plan_repair(files).delete == ("commits/.3.crc",)


@pytest.mark.parametrize("torn", [b"", b"v1", b'v1\n{"nextBatch', b"\0" * 30])
def test_a_torn_commit_is_taken_back(torn: bytes) -> None:
    files = checkpoint(range(5), range(5)) | {"commits/4": torn}
    repair = plan_repair(files)
    assert repair.epoch == 3
    assert {"commits/4", "commits/.4.crc", "offsets/4", "offsets/.4.crc"} == set(repair.delete)


@pytest.mark.parametrize("torn", [b"", b"v1\n", b"v1\n\n", b'v1\n\n{"in":{"0":40', b"\0" * 30])
def test_a_commit_whose_offsets_are_torn_is_taken_back(torn: bytes) -> None:
    files = checkpoint(range(5), range(5)) | {"offsets/4": torn}
    assert plan_repair(files).epoch == 3


def test_a_changed_digit_is_seen_by_its_checksum() -> None:
    files = checkpoint(range(5), range(5))
    files["offsets/4"] = files["offsets/4"].replace(b'"0":40', b'"0":90')
    assert plan_repair(files).epoch == 3


def test_a_torn_checksum_alone_costs_no_epoch() -> None:
    files = checkpoint(range(5), range(5))
    files["commits/.4.crc"] = files["commits/.4.crc"][:5]
    assert plan_repair(files) == Repair(delete=("commits/.4.crc",), epoch=4)


def test_temporary_files_and_broken_metadata_go() -> None:
    files = checkpoint(range(2), range(2))
    files |= {"metadata": b"", "commits/..2.0a1b.tmp": b"v1", "commits/...2.0a1b.tmp.crc": b"crc"}
    assert set(plan_repair(files).delete) == {
        "metadata", ".metadata.crc", "commits/..2.0a1b.tmp", "commits/...2.0a1b.tmp.crc"
    }  # fmt: skip


def test_what_cannot_be_mended_is_never_begun_anew_in_silence() -> None:
    files = dict.fromkeys(checkpoint(range(3, 6), range(3, 6)), b"")
    with pytest.raises(DriverError) as raised:
        plan_repair(files)
    assert raised.value.trouble.permanent


def test_kafka_offsets() -> None:
    assert kafka_offsets(offsets(3)) == {"in": {0: 30, 1: 21}}


@st.composite
def crashes(draw: st.DrawFn) -> tuple[int, dict[str, bytes]]:
    """A run cut anywhere, and the newest epoch that is safe to go on from.

    What the run had synced is whole; of what it was writing, any part may be there.
    """
    first = draw(st.integers(0, 5))
    last = draw(st.integers(first, first + 10))
    ahead = draw(st.integers(0, 3))
    files = checkpoint(range(first, last + 1), range(first, last + 1 + ahead))
    safe = last
    unsynced = [f"offsets/{n}" for n in range(last + 1, last + 1 + ahead)]
    if draw(st.booleans()) and last > first:
        unsynced.append(f"commits/{last}")
        safe = last - 1
    for path in unsynced:
        for each in (path, checksum_path(path)):
            fate = draw(st.sampled_from(["whole", "gone", "torn"]))
            if fate == "gone":
                files.pop(each)
            elif fate == "torn":
                files[each] = files[each][: draw(st.integers(0, len(files[each]) - 1))]
    for stray in draw(st.lists(st.sampled_from(["commits/.99.crc", "offsets/..7.x.tmp"]))):
        files[stray] = b"crc\x00"
    return safe, files


@given(crashes())
def test_any_crash_is_mended_towards_replaying(crash: tuple[int, dict[str, bytes]]) -> None:
    safe, files = crash
    repair = plan_repair(files)
    after = mended(files)
    assert repair.epoch is not None
    # Never behind what was safe by more than nothing, never ahead of a commit that is whole.
    assert repair.epoch >= safe
    assert after[f"commits/{repair.epoch}"] == commit()
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


@given(crashes(), st.randoms(use_true_random=False))
def test_a_repair_cut_anywhere_is_finished_by_the_next(
    crash: tuple[int, dict[str, bytes]], rng: random.Random
) -> None:
    _, files = crash
    repair = plan_repair(files)
    for path in repair.delete[: rng.randrange(len(repair.delete) + 1)]:
        del files[path]
    assert plan_repair(files).epoch == repair.epoch
    assert plan_repair(mended(files)) == Repair((), repair.epoch)


def test_the_folder_is_mended_as_planned(tmp_path: Path) -> None:
    for name, content in checkpoint(range(3), range(5)).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    folder = CheckpointFolder(tmp_path)
    assert folder.repair(stream().spec).epoch == 2
    assert sorted(path.name for path in (tmp_path / "offsets").iterdir()) == [
        ".0.crc", ".1.crc", ".2.crc", "0", "1", "2"
    ]  # fmt: skip
    assert folder.epoch() == 2
    assert folder.committed_offsets() == {"in": {0: 20, 1: 14}}
    assert folder.repair(stream().spec) == Repair((), 2)


def test_an_empty_folder_is_a_first_start(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "not-yet")
    assert folder.repair(stream().spec) == Repair((), None)
    assert folder.epoch() is None
    assert folder.committed_offsets() is None
    assert folder.first_offsets() is None


def test_where_a_stream_first_began_is_remembered(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.keep_first_offsets({"in": {0: 5, 1: 7}})
    assert CheckpointFolder(tmp_path).first_offsets() == {"in": {0: 5, 1: 7}}
