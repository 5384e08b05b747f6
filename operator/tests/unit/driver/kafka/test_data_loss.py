"""Which records are lost before they are read, and the offsets to continue from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.driver.checkpoint.files import checksum_path, kafka_offsets
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.kafka import data_loss
from penstock.driver.kafka.data_loss import KafkaSnapshot
from penstock.driver.kafka.offsets import Offsets

ID, OTHER = "uuid-1", "uuid-2"


def snapshot(earliest: int, newest: int, identity: str = ID, partitions: int = 1) -> KafkaSnapshot:
    """One topic, `in`, with equal partitions."""
    every = range(partitions)
    return KafkaSnapshot({"in": identity}, {"in": dict.fromkeys(every, earliest)},
                {"in": dict.fromkeys(every, newest)})  # fmt: skip


@pytest.mark.parametrize(
    ("reached", "kafka", "records", "continues"),
    [
        pytest.param({0: 5}, snapshot(0, 9), "none", {0: 5}, id="nothing is lost"),
        pytest.param({0: 5}, snapshot(5, 5), "none", {0: 5}, id="everything was read and deleted"),
        pytest.param({0: 5}, snapshot(7, 9), 2, {0: 7}, id="retention deleted some"),
        pytest.param({0: 5}, snapshot(7, 7), 2, {0: 7}, id="retention deleted all"),
        pytest.param({0: 5}, snapshot(0, 4), None, {0: 0}, id="the topic ends before"),
        pytest.param(
            {0: 5}, snapshot(0, 9, OTHER), None, {0: 0}, id="recreated, with more records"
        ),
        pytest.param({0: 5}, snapshot(0, 0, OTHER), None, {0: 0}, id="recreated, and empty"),
        pytest.param(
            {0: 5, 1: 5}, snapshot(0, 9, OTHER), None, {0: 0}, id="recreated, with fewer partitions"
        ),
        pytest.param({0: 5}, snapshot(0, 9, partitions=2), "none", {0: 5}, id="grown"),
        pytest.param({0: 5, 1: 5}, snapshot(0, 9), "none", {0: 5, 1: 5}, id="no longer assigned"),
    ],
)
def test_losses(
    reached: dict[int, int], kafka: KafkaSnapshot, records: object, continues: object
) -> None:
    committed: Offsets = {"in": reached, "no longer read": {0: 77}}
    losses = data_loss.find_losses(committed, {"in": ID}, kafka)
    assert [loss.records for loss in losses] == (
        [] if records == "none" else [records] * len(reached)
    )
    right = data_loss.offsets_after_loss(committed, losses, kafka)
    assert right == {"in": continues, "no longer read": {0: 77}}


def test_a_running_query_reports_each_loss_once() -> None:
    losses = data_loss.RunningLosses({"in": {0: 10, 1: 10}})
    # Lost before the query was planned: reported then.
    assert losses.find({"in": {0: 5, 1: 20}}, {"in": {0: 10, 1: 10}}) == []
    (loss,) = losses.find({"in": {0: 12, 1: 20}}, {"in": {0: 19, 1: 20}})
    assert (loss.partition, loss.records) == (0, 7)
    assert losses.find({"in": {0: 12, 1: 20}}, {"in": {0: 19, 1: 20}}) == []
    (more,) = losses.find({"in": {0: 12, 1: 20}}, {"in": {0: 22, 1: 20}})
    assert more.records == 3
    assert losses.find({"in": {0: 30}, "no longer read": {0: 1}}, {"in": {0: 22}}) == []


def test_a_checkpoint_without_topic_ids_is_used_as_it_is() -> None:
    assert data_loss.find_losses({"in": {0: 5}}, {}, snapshot(0, 9, OTHER)) == []


def test_messages() -> None:
    losses = data_loss.find_losses(
        {"in": dict.fromkeys(range(7), 5)}, {}, snapshot(8, 9, partitions=7)
    )
    failure = data_loss.error(losses).failure
    assert (failure.reason, failure.permanent) == ("DataLoss", True)
    assert "in 0: 3 records were deleted" in failure.message
    assert "2 more partitions" in failure.message
    assert "failOnDataLoss" in failure.message
    warning = data_loss.warning(losses)
    assert warning.message.startswith("21 records were gone")
    assert not warning.permanent


OFFSETS = st.dictionaries(st.integers(0, 5), st.integers(0, 50))


@given(OFFSETS, OFFSETS, OFFSETS, st.sampled_from([ID, OTHER]))
def test_corrected_offsets_have_no_losses(
    reached: dict[int, int], earliest: dict[int, int], more: dict[int, int], identity: str
) -> None:
    newest = {n: offset + more.get(n, 0) for n, offset in earliest.items()}
    now = KafkaSnapshot({"in": identity}, {"in": earliest}, {"in": newest})
    losses = data_loss.find_losses({"in": reached}, {"in": ID}, now)
    right = data_loss.offsets_after_loss({"in": reached}, losses, now)
    assert data_loss.find_losses(right, {"in": identity}, now) == []


def test_the_committed_offsets_are_replaced(tmp_path: Path) -> None:
    """Planned batches are deleted, and the checksum that does not match the new offsets."""
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
    for number in (3, 4, 5):
        line = json.dumps({"in": {"0": number * 10}})
        (tmp_path / "offsets" / str(number)).write_text(f'v1\n{{"conf":{{}}}}\n{line}')
        (tmp_path / checksum_path(f"offsets/{number}")).write_bytes(b"crc")
    for number in (3, 4):
        (tmp_path / "commits" / str(number)).write_text("v1\n{}")
    folder = CheckpointFolder(tmp_path)
    folder.replace_committed_offsets({"in": {0: 7}})
    assert folder.progress.committed_offsets() == {"in": {0: 7}}
    assert (tmp_path / "offsets" / "4").read_text().startswith('v1\n{"conf":{}}\n')
    left = sorted(path.name for path in (tmp_path / "offsets").iterdir())
    assert left == [".3.crc", "3", "4"]
    assert kafka_offsets((tmp_path / "offsets" / "3").read_bytes()) == {"in": {0: 30}}


def test_topic_ids_are_stored(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    assert folder.topic_ids() == {}
    folder.save_topic_ids({"in": ID})
    assert folder.topic_ids() == {"in": ID}
