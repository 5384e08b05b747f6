"""Which records are lost before they are read, and the offsets to continue from."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.driver.checkpoint.data_loss_check import check_for_data_loss
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.checkpoint.start_position import first_starting_offsets
from penstock.driver.failures import DriverError
from penstock.driver.kafka import data_loss
from penstock.driver.kafka.data_loss import KafkaSnapshot
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.kafka.source_monitor import SourceMonitor
from testkit.driver.checkpoints import (
    BATCH_LINE,
    INITIAL_OFFSETS,
    checkpoint,
    folder_at,
    note,
    offsets_at,
    read,
    with_checksums,
    write,
)
from testkit.streams.streams import MICRO_BATCH, kafka_sink, kafka_source, stream

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
        pytest.param({0: 5}, snapshot(0, 4), None, {0: 4}, id="brokers lost its end"),
        pytest.param(
            {0: 5}, snapshot(0, 9, OTHER), None, {0: 0}, id="recreated, with more records"
        ),
        pytest.param({0: 5}, snapshot(0, 0, OTHER), None, {0: 0}, id="recreated, and empty"),
        pytest.param(
            {0: 5, 1: 5}, snapshot(0, 9, OTHER), None, {0: 0}, id="recreated, with fewer partitions"
        ),
        pytest.param({0: -2}, snapshot(7, 9), "none", {0: -2}, id="asked for the earliest"),
        pytest.param({0: 5}, snapshot(0, 9, partitions=2), "none", {0: 5}, id="grown"),
    ],
)
def test_losses(
    reached: dict[int, int], kafka: KafkaSnapshot, records: object, continues: object
) -> None:
    losses = data_loss.find_losses({"in": reached}, {"in": ID}, kafka)
    assert [loss.records for loss in losses] == (
        [] if records == "none" else [records] * len(reached)
    )
    right = data_loss.offsets_after_loss({"in": reached}, losses, kafka)
    assert right == {"in": continues}


def test_an_open_transaction_is_no_loss() -> None:
    """The reader ends before it, and the stream has read on until then."""
    open_at_4 = KafkaSnapshot({"in": ID}, {"in": {0: 0}}, {"in": {0: 4}}, {"in": {0: 9}})
    assert data_loss.find_losses({"in": {0: 9}}, {"in": ID}, open_at_4) == []
    (loss,) = data_loss.find_losses({"in": {0: 10}}, {"in": ID}, open_at_4)
    assert "it is the same topic" in str(loss)
    assert "created again" not in str(loss)
    assert data_loss.offsets_after_loss({"in": {0: 10}}, [loss], open_at_4) == {"in": {0: 9}}


def test_a_topic_that_nobody_knows_the_id_of_may_have_been_created_again() -> None:
    (loss,) = data_loss.find_losses({"in": {0: 5}}, {}, snapshot(0, 4))
    assert "created again, or" in str(loss)
    assert data_loss.offsets_after_loss({"in": {0: 5}}, [loss], snapshot(0, 4)) == {"in": {0: 0}}


def test_a_committed_offset_that_goes_back_is_reported_once() -> None:
    """With failOnDataLoss: false Spark's batches go back by themselves to the end of a cut log."""
    losses = data_loss.RunningLosses({"in": {0: 0}})
    # The commit before the start, which has found that the topic was created again.
    assert losses.find({"in": {0: 90}}, {"in": {0: 0}}, of_this_run=False) == []
    assert losses.find({"in": {0: 50}}, {"in": {0: 0}}) == []
    (loss,) = losses.find({"in": {0: 30}}, {"in": {0: 0}})
    assert (loss.records, loss.ends) == (None, 30)
    assert losses.find({"in": {0: 30}}, {"in": {0: 0}}) == []


def test_a_partition_that_was_added_and_has_lost_records_is_a_loss() -> None:
    """Nobody has read them. A partition that is assigned for the first time has lost nothing."""
    now = KafkaSnapshot({"in": ID}, {"in": {0: 0, 1: 3}}, {"in": {0: 9, 1: 9}})
    (loss,) = data_loss.find_losses({"in": {0: 5}}, {"in": ID}, now)
    assert (loss.partition, loss.records) == (1, 3)
    assert data_loss.find_losses({"in": {0: 5}}, {"in": ID}, now, whole=False) == []


@pytest.mark.proves("failures.md#a-topic-of-a-topicpattern-is-deleted")
def test_a_topic_or_a_partition_that_is_gone_is_a_loss() -> None:
    """A topic never shrinks: it was created again, by a broker that gives topics no ids."""
    (loss,) = data_loss.find_losses({"gone": {0: 5}, "in": {0: 5}}, {}, snapshot(0, 9))
    assert (loss.topic, loss.records) == ("gone", None)
    (loss,) = data_loss.find_losses({"in": {0: 5, 1: 5}}, {}, snapshot(0, 9))
    assert (loss.partition, loss.records) == (1, None)


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


OFFSETS = st.dictionaries(st.integers(0, 5), st.integers(0, 50))


@given(OFFSETS, OFFSETS, OFFSETS, st.sampled_from([ID, OTHER]))
def test_corrected_offsets_have_no_losses(
    reached: dict[int, int], earliest: dict[int, int], more: dict[int, int], identity: str
) -> None:
    newest = {n: offset + more.get(n, 0) for n, offset in earliest.items()}
    now = KafkaSnapshot({"in": identity}, {"in": earliest}, {"in": newest})
    losses = data_loss.find_losses({"in": reached}, {"in": ID}, now)
    corrected = data_loss.offsets_after_loss({"in": reached}, losses, now)
    right = data_loss.of_all_partitions(corrected, now)
    assert data_loss.find_losses(right, {"in": identity}, now) == []
    assert not data_loss.is_new_and_begins_late(right, now)


@pytest.mark.parametrize("sink", [kafka_sink(), {"custom": {"format": "delta"}}])
def test_the_committed_offsets_are_replaced(sink: dict[str, Any], tmp_path: Path) -> None:
    """A planned batch is left without records: a sink that has it would skip others."""
    folder = folder_at(tmp_path)
    write(checkpoint([3, 4], [], [3, 4, 5]), tmp_path)
    spec = stream(kafka_source(), sink, trigger=MICRO_BATCH).spec
    folder.repair(spec)
    folder.replace_offsets({0: {"in": {0: 7}}})
    assert [offsets_at(folder, n) for n in (4, 5)] == [{"in": {0: 7}}] * 2
    assert (tmp_path / "offsets" / "4").read_bytes().startswith(b"v1\n" + BATCH_LINE)
    left = sorted(path.name for path in (tmp_path / "offsets").iterdir())
    assert left == ["3", "4", "5"]
    assert offsets_at(folder, 3) == {"in": {0: 30, 1: 21}}
    assert folder.repair(spec) == RepairPlan((), 4)


@pytest.mark.parametrize(
    ("sink", "state", "planned", "refused"),
    [
        ({"custom": {"format": "delta"}}, True, True, True),
        ({"custom": {"format": "delta"}}, True, False, False),
        ({"custom": {"format": "delta"}}, False, True, False),
        (kafka_sink(), True, True, False),
    ],
)
def test_a_planned_batch_with_state_keeps_its_records(
    sink: dict[str, Any], state: bool, planned: bool, refused: bool, tmp_path: Path
) -> None:
    """The sink would skip it, and its state would count what is left of it again."""
    folder = folder_at(tmp_path)
    write(checkpoint([3, 4], [], [3, 4, 5] if planned else [3, 4]), tmp_path)
    if state:
        write({"state/0/0/5.snapshot": b"x"}, tmp_path)
    sql = "SELECT count(*) AS n FROM source"
    spec = stream(kafka_source(), sink, trigger=MICRO_BATCH, transform={"sql": sql}).spec
    folder.repair(spec)
    before = read(tmp_path)
    if refused:
        with pytest.raises(DriverError, match="CheckpointHoldsState: Batch 5 "):
            folder.replace_offsets({0: {"in": {0: 7}}})
        assert read(tmp_path) == before
    else:
        folder.replace_offsets({0: {"in": {0: 7}}})
        assert offsets_at(folder, 4) == {"in": {0: 7}}


def test_planned_offsets_without_a_commit_are_replaced(tmp_path: Path) -> None:
    """The offsets before them, from which the planned batch reads; and those of batch 0 alone."""
    spec = stream(kafka_source(), kafka_sink(), trigger=MICRO_BATCH).spec
    write(checkpoint([], [], range(40, 58)), tmp_path / "lost")
    folder = folder_at(tmp_path / "lost")
    folder.repair(spec)
    folder.replace_offsets({0: {"in": {0: 7}}})
    assert [offsets_at(folder, n) for n in (56, 57)] == [{"in": {0: 7}}] * 2
    assert offsets_at(folder, 55) == {"in": {0: 550, 1: 385}}
    first = checkpoint([], [], [0]) | with_checksums({"sources/0/0": INITIAL_OFFSETS})
    write(first, tmp_path / "first")
    folder = folder_at(tmp_path / "first")
    folder.repair(spec)
    folder.replace_offsets({0: {"in": {0: 7}}})
    assert offsets_at(folder, 0) == {"in": {0: 7}}
    # Spark writes it again, from the first offsets.
    assert list((tmp_path / "first/sources/0").iterdir()) == []


class OneTopic(SourceMonitor):
    """A source that answers with one topic."""

    def __init__(self, now: KafkaSnapshot) -> None:
        super().__init__(1)
        self.now = now

    def snapshot(self) -> KafkaSnapshot:
        return self.now

    def fetch_newest_offsets(self) -> Offsets:
        return self.now.newest

    def fetch_log_ends(self) -> Offsets:
        return self.now.log_ends

    def named_by_spec(self, topics: Iterable[str]) -> list[str]:
        return [topic for topic in topics if topic != "no longer named"]


@pytest.mark.parametrize(
    ("before", "assigned", "left"),
    [
        pytest.param({"no longer named": {0: 77}}, None, {"in": {0: 7}}, id="another topic"),
        pytest.param({"in": {0: 8}, "no longer named": {0: 7}}, None, {"in": {0: 8}}, id="fewer"),
        pytest.param({"in": {0: 8, 1: 8}}, [0], {"in": {0: 8}}, id="assigned no longer"),
        pytest.param({"in": {1: 8}}, [0], {"in": {0: 7}}, id="assigned for the first time"),
    ],
)
def test_an_edit_of_the_topics_is_no_loss(
    before: Offsets, assigned: list[int] | None, left: Offsets, tmp_path: Path
) -> None:
    """The checkpoint gets the partitions that the spec names: Spark would fail over others."""
    names: dict[str, Any] = {"topics": ["in"]} if assigned is None else {"assign": {"in": assigned}}
    source = {"kafka": {"bootstrapServers": "kafka:9092", **names}}
    spec = stream(source, kafka_sink(), trigger=MICRO_BATCH).spec
    folder = folder_at(tmp_path)
    write(checkpoint([3, 4], [], [3, 4]), tmp_path)
    folder.repair(spec)
    folder.replace_offsets({0: before})
    repair = folder.repair(spec)
    assert repair.continues_after == 4
    assert check_for_data_loss(spec, folder, OneTopic(snapshot(7, 9)), repair) is None
    assert offsets_at(folder, 4) == left
    # What Spark begins in the same way is left to it.
    content = (tmp_path / "offsets/4").read_bytes()
    grown = OneTopic(KafkaSnapshot({"in": ID}, {"in": {0: 0, 1: 0}}, {"in": {0: 9, 1: 9}}))
    if assigned is None:
        assert check_for_data_loss(spec, folder, grown, folder.repair(spec)) is None
    assert (tmp_path / "offsets/4").read_bytes() == content


@pytest.mark.parametrize("earliest", [0, 50], ids=["whole", "begins late"])
def test_what_is_left_out_stays_out_of_the_checkpoint(earliest: int, tmp_path: Path) -> None:
    """Spark would take it for lost, and the next start for read."""
    spec = stream(kafka_source(), kafka_sink(), executor={"maxInstances": 2}).spec
    folder = folder_at(tmp_path)
    write(checkpoint([3, 4], [3, 4]), tmp_path)
    folder.repair(spec)
    folder.replace_offsets({0: {"in": {0: 8, 1: 8}, "no longer named": {0: 8}}})
    ends = {"in": {0: 9, 1: 9, 2: 90}}
    grown = OneTopic(KafkaSnapshot({"in": ID}, {"in": {0: 0, 1: 0, 2: earliest}}, ends))
    for _ in range(2):
        assert check_for_data_loss(spec, folder, grown, folder.repair(spec)) is None
        assert offsets_at(folder, 4) == {"in": {0: 8, 1: 8}}


def test_partitions_asked_for_from_the_earliest_lose_nothing_before_the_first_commit(
    tmp_path: Path,
) -> None:
    """The check comes again after a crash, and whenever the cores take minutes to come."""
    source = kafka_source(startingOffsetsByPartition={"in": {"0": -2}})
    spec = stream(source, kafka_sink(), trigger=MICRO_BATCH).spec
    folder, now = folder_at(tmp_path), OneTopic(snapshot(2, 9))
    for _ in range(2):
        repair = folder.repair(spec)
        assert check_for_data_loss(spec, folder, now, repair) is None
        starting = first_starting_offsets(spec, folder, now, repair)
        assert starting == json.dumps({"in": {"0": -2}})


def test_without_commits_losses_are_judged_by_the_planned_offsets(tmp_path: Path) -> None:
    """The first offsets are long since read, and retention has removed their records."""
    spec = stream(kafka_source(), kafka_sink(), trigger=MICRO_BATCH).spec
    folder = folder_at(tmp_path)
    write(checkpoint([], [], range(40, 58)), tmp_path)
    note(folder, first_offsets={"in": {0: 0, 1: 0}})
    repair = folder.repair(spec)
    now = KafkaSnapshot({"in": ID}, {"in": {0: 560, 1: 392}}, {"in": {0: 900, 1: 900}})
    assert check_for_data_loss(spec, folder, OneTopic(now), repair) is None
    later = KafkaSnapshot({"in": ID}, {"in": {0: 561, 1: 392}}, {"in": {0: 900, 1: 900}})
    with pytest.raises(DriverError) as raised:
        check_for_data_loss(spec, folder, OneTopic(later), repair)
    assert "in 0: 1 records" in raised.value.failure.message


def test_a_planned_batch_that_a_transaction_holds_back_is_planned_anew(tmp_path: Path) -> None:
    """After an edit to read_committed: Spark would take its records for lost, or skip them."""
    spec = stream(kafka_source(), kafka_sink(), trigger=MICRO_BATCH).spec
    folder = folder_at(tmp_path)
    write(checkpoint([3, 4], [], [3, 4, 5]), tmp_path)
    assert folder.planned_ends() == {0: {"in": {0: 50, 1: 35}}}
    first = {"in": {0: 0, 1: 0}}
    for newest, planned in (
        ({"in": {0: 50, 1: 35}}, {"in": {0: 50, 1: 35}}),
        ({"in": {0: 45, 1: 35}}, {"in": {0: 40, 1: 28}}),
        ({"in": {0: 20, 1: 20}}, {"in": {0: 40, 1: 28}}),
    ):
        now = OneTopic(KafkaSnapshot({"in": ID}, first, newest, {"in": {0: 60, 1: 60}}))
        assert check_for_data_loss(spec, folder, now, folder.repair(spec)) is None
        assert folder.planned_ends() == {0: planned}
        assert offsets_at(folder, 4) == {"in": {0: 40, 1: 28}}


def test_what_transactions_have_written_is_not_lost(tmp_path: Path) -> None:
    """The checkpoint is behind them by an epoch, and retention has removed that meanwhile."""
    spec = stream(kafka_source(), kafka_sink(delivery="ExactlyOnce")).spec
    folder = folder_at(tmp_path)
    write(checkpoint([3, 4], [3, 4]), tmp_path)
    folder.repair(spec)
    folder.replace_offsets({0: {"in": {0: 5}}})
    repair, now = folder.repair(spec), OneTopic(snapshot(7, 9))
    names = folder.transaction_names("payments", "flags")
    with pytest.raises(DriverError, match="in 0: 2 records"):
        check_for_data_loss(spec, folder, now, repair, {"in": {}})
    assert check_for_data_loss(spec, folder, now, repair, {"in": {0: 8}}) is None
    assert offsets_at(folder, 4) == {"in": {0: 8}}
    assert folder.transaction_names("payments", "flags") == names


def test_a_topic_that_is_not_named_any_more_leaves_no_offset_of_transactions(
    tmp_path: Path,
) -> None:
    """Named again later it is read from its first record. No other partition's offset is lost, also
    of one that transactions have written and no epoch has committed yet."""
    spec = stream(kafka_source(), kafka_sink(delivery="ExactlyOnce")).spec
    folder = folder_at(tmp_path)
    write(checkpoint([3, 4], [3, 4]), tmp_path)
    folder.repair(spec)
    folder.replace_offsets({0: {"in": {0: 5}, "no longer named": {0: 70}}})
    now = OneTopic(snapshot(0, 9, partitions=2))
    names = folder.transaction_names("payments", "flags")
    written = {"in": {0: 8, 1: 3}, "no longer named": {0: 77}}
    assert check_for_data_loss(spec, folder, now, folder.repair(spec), written) is None
    assert offsets_at(folder, 4) == {"in": {0: 8, 1: 3}}
    others = folder.transaction_names("payments", "flags")
    assert others.group != names.group
    assert check_for_data_loss(spec, folder, now, folder.repair(spec), {}) is None
    assert folder.transaction_names("payments", "flags") == others


def test_where_earliest_starts_is_stored_once_something_was_planned(tmp_path: Path) -> None:
    """Until then earliest means what is left; later, a repair can read everything again."""
    spec = stream(kafka_source(startingOffsets="earliest"), kafka_sink(), trigger=MICRO_BATCH).spec
    folder = folder_at(tmp_path)
    for earliest in (5, 6):
        now, repair = OneTopic(snapshot(earliest, 9)), folder.repair(spec)
        assert check_for_data_loss(spec, folder, now, repair) is None
        starting = first_starting_offsets(spec, folder, now, repair)
        assert starting == json.dumps({"in": {"0": earliest}})
    write(checkpoint([], [], [0]), tmp_path)
    assert folder.notes.read().first_offsets == {"in": {0: 6}}
    repair, later = folder.repair(spec), OneTopic(snapshot(7, 9))
    assert first_starting_offsets(spec, folder, later, repair) == json.dumps({"in": {"0": 6}})
    with pytest.raises(DriverError, match="1 records"):
        check_for_data_loss(spec, folder, later, repair)
