"""Which records are gone before they were read, as a table; and the offsets to go on from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.driver.checkpoint.files import checksum_path, kafka_offsets
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.kafka import data_loss
from penstock.driver.kafka.data_loss import Held
from penstock.driver.kafka.offsets import Offsets

ID, OTHER = "uuid-1", "uuid-2"


def held(earliest: int, newest: int, identity: str = ID, partitions: int = 1) -> Held:
    """One topic, `in`, whose partitions are alike."""
    every = range(partitions)
    return Held({"in": identity}, {"in": dict.fromkeys(every, earliest)},
                {"in": dict.fromkeys(every, newest)})  # fmt: skip


@pytest.mark.parametrize(
    ("reached", "kafka", "records", "goes_on"),
    [
        pytest.param({0: 5}, held(0, 9), "none", {0: 5}, id="all is there"),
        pytest.param({0: 5}, held(5, 5), "none", {0: 5}, id="all was read, and deleted"),
        pytest.param({0: 5}, held(7, 9), 2, {0: 7}, id="retention overtook"),
        pytest.param({0: 5}, held(7, 7), 2, {0: 7}, id="retention took all"),
        pytest.param({0: 5}, held(0, 4), None, {0: 0}, id="it ends before"),
        pytest.param({0: 5}, held(0, 9, OTHER), None, {0: 0}, id="made again, with more"),
        pytest.param({0: 5}, held(0, 0, OTHER), None, {0: 0}, id="made again, and empty"),
        pytest.param({0: 5, 1: 5}, held(0, 9, OTHER), None, {0: 0}, id="with fewer partitions"),
        pytest.param({0: 5}, held(0, 9, partitions=2), "none", {0: 5}, id="grown"),
        pytest.param({0: 5, 1: 5}, held(0, 9), "none", {0: 5, 1: 5}, id="no longer assigned"),
    ],
)
def test_losses(reached: dict[int, int], kafka: Held, records: object, goes_on: object) -> None:
    committed: Offsets = {"in": reached, "no longer read": {0: 77}}
    losses = data_loss.find(committed, {"in": ID}, kafka)
    assert [loss.records for loss in losses] == (
        [] if records == "none" else [records] * len(reached)
    )
    right = data_loss.realigned(committed, losses, kafka)
    assert right == {"in": goes_on, "no longer read": {0: 77}}


def test_a_checkpoint_of_before_the_ids_were_kept_is_believed() -> None:
    assert data_loss.find({"in": {0: 5}}, {}, held(0, 9, OTHER)) == []


def test_what_is_said() -> None:
    losses = data_loss.find({"in": dict.fromkeys(range(7), 5)}, {}, held(8, 9, partitions=7))
    failure = data_loss.refused(losses).failure
    assert (failure.reason, failure.permanent) == ("DataLoss", True)
    assert "in 0: 3 records were deleted" in failure.message
    assert "2 more partitions" in failure.message
    assert "failOnDataLoss" in failure.message
    told = data_loss.accepted(losses)
    assert told.message.startswith("21 records were gone")
    assert not told.permanent


OFFSETS = st.dictionaries(st.integers(0, 5), st.integers(0, 50))


@given(OFFSETS, OFFSETS, OFFSETS, st.sampled_from([ID, OTHER]))
def test_what_was_put_right_is_not_lost_again(
    reached: dict[int, int], earliest: dict[int, int], more: dict[int, int], identity: str
) -> None:
    newest = {n: offset + more.get(n, 0) for n, offset in earliest.items()}
    now = Held({"in": identity}, {"in": earliest}, {"in": newest})
    losses = data_loss.find({"in": reached}, {"in": ID}, now)
    right = data_loss.realigned({"in": reached}, losses, now)
    assert data_loss.find(right, {"in": identity}, now) == []


def test_the_checkpoint_goes_on_from_other_offsets(tmp_path: Path) -> None:
    """Planned batches go, and the checksum that would contradict the new offsets."""
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
    for number in (3, 4, 5):
        line = json.dumps({"in": {"0": number * 10}})
        (tmp_path / "offsets" / str(number)).write_text(f'v1\n{{"conf":{{}}}}\n{line}')
        (tmp_path / checksum_path(f"offsets/{number}")).write_bytes(b"crc")
    for number in (3, 4):
        (tmp_path / "commits" / str(number)).write_text("v1\n{}")
    folder = CheckpointFolder(tmp_path)
    folder.go_on_from({"in": {0: 7}})
    assert folder.committed_offsets() == {"in": {0: 7}}
    assert (tmp_path / "offsets" / "4").read_text().startswith('v1\n{"conf":{}}\n')
    left = sorted(path.name for path in (tmp_path / "offsets").iterdir())
    assert left == [".3.crc", "3", "4"]
    assert kafka_offsets((tmp_path / "offsets" / "3").read_bytes()) == {"in": {0: 30}}


def test_topics_are_remembered(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    assert folder.topic_ids() == {}
    folder.keep_topic_ids({"in": ID})
    assert folder.topic_ids() == {"in": ID}
