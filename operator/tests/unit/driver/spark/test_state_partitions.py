"""Which numbers of partitions a query's state gets before it starts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.checkpoint.folder import CheckpointContents
from penstock.driver.failures import DriverError
from penstock.driver.spark.session import ROCKSDB
from penstock.driver.spark.state_partitions import needs_batch_first, new_partition_count
from testkit.driver.checkpoints import checkpoint, folder_at, offsets, write
from testkit.streams.streams import MICRO_BATCH, kafka_sink, kafka_source, stream

OF_FOUR = CheckpointContents(1, state=True, partitions=4, state_store=ROCKSDB)


def of(partitions: int | None, sink: dict[str, Any] | None = None) -> StreamSpec:
    """A spec that asks for these partitions of state."""
    checkpoint = {} if partitions is None else {"statePartitions": partitions}
    return stream(
        kafka_source(), sink or kafka_sink(), trigger=MICRO_BATCH, checkpoint=checkpoint
    ).spec


@pytest.mark.parametrize(
    ("wanted", "contents", "number"),
    [
        (6, None, None),
        (6, CheckpointContents(1, state=None, partitions=4), None),
        (6, CheckpointContents(1, state=False, partitions=4), None),
        (None, OF_FOUR, None),
        (4, OF_FOUR, None),
        (6, OF_FOUR, 6),
        (2, OF_FOUR, 2),
        (6, replace(OF_FOUR, awaited=9), None),
    ],
)
def test_only_state_gets_other_partitions(
    wanted: int | None, contents: CheckpointContents | None, number: int | None
) -> None:
    assert new_partition_count(of(wanted), contents, lambda: False) == number


@pytest.mark.parametrize(
    ("contents", "is_undivided", "sink", "why"),
    [
        (replace(OF_FOUR, state_store="x.Y"), False, kafka_sink(), "that of RocksDB"),
        (OF_FOUR, True, kafka_sink(), "keeps all of it in one"),
        (replace(OF_FOUR, partitions=1), True, kafka_sink(), "may need all of it in one"),
        (OF_FOUR, False, {"custom": {"format": "Parquet"}}, "its file sink"),
    ],
)
def test_what_spark_cannot_divide_is_left_alone_as_it_is(
    contents: CheckpointContents, is_undivided: bool, sink: dict[str, Any], why: str
) -> None:
    assert new_partition_count(of(None, sink), contents, lambda: is_undivided) is None
    with pytest.raises(DriverError, match=why) as raised:
        new_partition_count(of(6, sink), contents, lambda: is_undivided)
    assert raised.value.failure.permanent


@pytest.mark.parametrize(
    ("sink", "is_kept"),
    [(kafka_sink(), False), ({"custom": {"format": "x.Y"}}, True)],
    ids=["kafka", "a sink that knows ids"],
)
def test_a_first_batch_is_planned_again_with_another_number(
    sink: dict[str, Any], is_kept: bool, tmp_path: Path
) -> None:
    """Spark keeps the number of a planned batch. One that a sink may know runs as it is."""
    conf = {"spark.sql.shuffle.partitions": "4"}
    line = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf})
    write({**checkpoint([], []), "offsets/0": offsets(0, line.encode())}, tmp_path)
    folder = folder_at(tmp_path)
    for asked in (None, 4):
        folder.repair(of(asked, sink))
        assert folder.progress.planned_epoch() == 0
    folder.repair(of(6, sink))
    assert folder.progress.planned_epoch() == (0 if is_kept else None)
    contents = folder.contents()
    assert new_partition_count(of(6, sink), contents, lambda: False) is None
    assert needs_batch_first(of(6, sink), contents) is is_kept


def test_a_batch_that_the_sink_may_know_runs_first(tmp_path: Path) -> None:
    """Of a sink that recognises batches, and only of one."""
    conf = {"spark.sql.shuffle.partitions": "4"}
    line = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf})
    entries = {f"offsets/{n}": offsets(n, line.encode()) for n in range(6)}
    state = {"state/0/0/5.zip": b"PK\x05\x06" + bytes(18)}  # the end of an archive
    write({**checkpoint(range(5), []), **entries, **state}, tmp_path)
    folder = folder_at(tmp_path)
    contents = folder.contents()
    assert contents is not None
    assert (contents.partitions, contents.awaited) == (4, None)
    sink = {"custom": {"format": "delta", "options": {"path": str(tmp_path / "out")}}}
    folder.repair(stream(kafka_source(), sink, trigger=MICRO_BATCH).spec)
    contents = folder.contents()
    assert contents is not None
    assert contents.awaited == 5
    assert needs_batch_first(of(6), contents)
    assert not needs_batch_first(of(4), contents)
    assert not needs_batch_first(of(None), contents)
