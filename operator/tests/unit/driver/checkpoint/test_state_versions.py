"""Which versions of a query's state count as whole, and what a start makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.driver.checkpoint.repair import RepairPlan
from testkit.driver.checkpoints import (
    checkpoint,
    folder_at,
    offsets,
    read,
    write,
)
from testkit.streams.streams import (
    MICRO_BATCH,
    kafka_sink,
    kafka_source,
    stream,
)

CHANGES = b"x"


def stateful(path: Path) -> None:
    """A checkpoint after six batches of a query with two stores."""
    write(checkpoint(range(6), [], range(6)), path)
    for partition in ("0", "1"):
        folder = path / "state" / "0" / partition
        (folder / "_metadata").mkdir(parents=True)
        (folder / "_metadata" / "schema").write_bytes(b"v2")
        for version in range(1, 7):
            (folder / f"{version}.delta").write_bytes(CHANGES)


def spec(source: Any = None, sink: Any = None) -> Any:
    return stream(source or kafka_source(), sink or kafka_sink(), trigger=MICRO_BATCH).spec


def test_whole_state_is_left_alone(tmp_path: Path) -> None:
    stateful(tmp_path)
    for partition in ("0", "1"):
        (tmp_path / "state" / "0" / partition / "4.snapshot").write_bytes(CHANGES)
    before = read(tmp_path)
    assert folder_at(tmp_path).repair(spec()) == RepairPlan((), 5)
    assert read(tmp_path) == before


def test_state_of_a_batch_that_is_planned_anew_goes(tmp_path: Path) -> None:
    """A snapshot of it would be loaded in place of what the batch then writes."""
    stateful(tmp_path)
    before = read(tmp_path)
    for name in ("0/7.snapshot", "1/7.delta"):
        (tmp_path / "state" / "0" / name).write_bytes(CHANGES)
    assert folder_at(tmp_path).repair(spec()).epoch == 5
    assert read(tmp_path) == before


def test_partitions_that_no_batch_has_any_more_go(tmp_path: Path) -> None:
    """Of a repartition, whether it has ended or not, with all that RocksDB keeps in them."""
    stateful(tmp_path)
    conf = b'{"batchWatermarkMs":0,"conf":{"spark.sql.shuffle.partitions":"%d"}}'
    for n, partitions in enumerate([2] * 6 + [4]):  # the last one is not committed
        write({f"offsets/{n}": offsets(n, conf % partitions)}, tmp_path)
    before = read(tmp_path)
    left = {f"state/0/{n}/SSTs/000009-x.sst": b"x" for n in (2, 3)} | {"state/0/2/7.zip": b"x"}
    write(left, tmp_path)
    assert folder_at(tmp_path).repair(spec()).epoch == 5
    assert not left.keys() & read(tmp_path).keys()
    assert before.keys() - read(tmp_path).keys() == {"offsets/6"}


def test_state_in_another_format_is_left_to_spark(tmp_path: Path) -> None:
    stateful(tmp_path)
    (tmp_path / "state" / "0" / "1" / "6_5b0c.delta").write_bytes(CHANGES)
    assert folder_at(tmp_path).repair(spec()) == RepairPlan((), 5)
