"""The one document that Penstock keeps beside Spark's checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.driver.checkpoint.left_out import DeadLetter
from penstock.driver.checkpoint.notes import FileSink, Notes, SinkBatches, Transactions
from penstock.driver.failures import DriverError
from penstock.driver.kafka.offsets import FirstLook
from penstock.driver.record_position import Position
from testkit.driver.checkpoints import checkpoint, folder_at, write
from testkit.streams.streams import stream

EVERYTHING = Notes(
    first_offsets={"in": {0: 5, 1: 7}},
    start_from={"offsetsByPartition": {"in": {"0": 5}}},
    first_look=FirstLook(["in"], {"in": {0: 5}}, {"in": "uuid-1"}),
    topic_ids={"in": "uuid-1"},
    sink_batches=SinkBatches(("/a", "/b"), 7, FileSink("/a", until=-1)),
    transactions=Transactions("0a1b", 3),
    dead_letters=(
        DeadLetter(Position("in", 0, 7), "uuid-1", 100.5),
        DeadLetter(Position("in", 1, 8), None, 101.0),
    ),
    history={"spec": "hash", "attempts": 2},
)


def write_notes(folder: Path, notes: Notes) -> None:
    folder_at(folder).notes.update(lambda _: notes)


def test_they_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert folder_at(tmp_path).notes.read() == Notes()
    for notes in (EVERYTHING, Notes(), Notes(start_from={}, sink_batches=SinkBatches())):
        write_notes(tmp_path, notes)
        assert folder_at(tmp_path).notes.read() == notes


@pytest.mark.proves(4)
@pytest.mark.parametrize("damage", [b"", b'{"notes": {}}', b"[]", b"{}", b"\0" * 20, "digit"])
def test_damaged_notes_are_refused(damage: bytes | str, tmp_path: Path) -> None:
    """Without topic ids a topic that was created again would be taken for the old one; without
    first offsets, records since the first start would be skipped."""
    folder, file = folder_at(tmp_path), tmp_path / "penstock" / "notes.json"
    write_notes(tmp_path, EVERYTHING)
    content = file.read_bytes().replace(b"uuid-1", b"uuid-7")
    file.write_bytes(content if isinstance(damage, str) else damage)
    write(checkpoint(range(3), range(3)), tmp_path)
    for needs in (folder.notes.read, lambda: folder.repair(stream().spec)):
        with pytest.raises(DriverError, match=r"penstock/notes\.json is damaged") as raised:
            needs()
        failure = raised.value.failure
        assert (failure.reason, failure.recoverable) == ("CheckpointDamaged", True)


def test_the_next_generation_of_a_damaged_one_uses_no_number_again(tmp_path: Path) -> None:
    """It is the remedy. A sink may know each batch of the damaged one."""
    write(checkpoint(range(3), [], range(3)), tmp_path)
    folder = folder_at(tmp_path)
    assert folder.used_batch_id("/a") is None
    write_notes(tmp_path, EVERYTHING)
    assert (folder.used_batch_id("/a"), folder.used_batch_id("/c")) == (2, None)
    (tmp_path / "penstock" / "notes.json").write_bytes(b"")
    assert (folder.used_batch_id("/a"), folder.used_batch_id("/c")) == (2, 2)
