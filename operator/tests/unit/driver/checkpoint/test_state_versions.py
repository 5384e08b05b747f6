"""Which versions of a query's state count as whole, and what a start makes of it."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.checkpoint.state_versions import (
    END_BYTES,
    Store,
    is_whole,
    newest_loadable,
    not_loadable,
)
from penstock.driver.failures import DriverError
from testkit.driver.checkpoints import (
    checkpoint,
    crashes,
    folder_at,
    kinds,
    offsets,
    read,
    write,
)
from testkit.streams.streams import (
    MICRO_BATCH,
    RATE,
    kafka_sink,
    kafka_source,
    stream,
)

LZ4_END = b"LZ4Block" + bytes([0x15]) + struct.pack("<iii", 0, 0, 0)
LZ4 = b"LZ4Block" + bytes([0x25]) + struct.pack("<iii", 3, 3, 7) + b"abc" + LZ4_END
CUSTOM = {"custom": {"format": "x.Y"}}


def archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("metadata", "{}")
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content"), [("3.delta", LZ4), ("3.changelog", LZ4), ("3.zip", archive())]
)
def test_a_file_that_was_cut_anywhere_is_not_whole(name: str, content: bytes) -> None:
    def judged(found: bytes) -> bool:
        return is_whole(name, found[:END_BYTES], found[-END_BYTES:])

    assert judged(content)
    assert not any(judged(content[:length]) for length in range(8, len(content)))
    assert not judged(b"")


def test_a_file_of_another_codec_counts_as_whole() -> None:
    assert is_whole("3.delta", b"\x28\xb5\x2f\xfd", b"whatever")


def test_each_store_must_have_its_version() -> None:
    deltas = {f"{n}.delta": True for n in range(1, 9)}
    one, other = Store("state/0/0", deltas), Store("state/0/1", {**deltas, "7.delta": False})
    batches = dict.fromkeys(range(8))
    assert newest_loadable([one, other], batches) == 5
    snapshot = Store("state/0/1", {**other.files, "7.snapshot": True})
    assert newest_loadable([one, snapshot], batches) == 7
    assert newest_loadable([one, Store("state/0/2", {"8.delta": True})], batches) is None


def test_a_store_counts_in_the_batches_that_have_its_partition() -> None:
    """From batch 5 on there are four partitions, and two before."""
    two = [Store(f"state/0/{n}", {f"{v}.changelog": True for v in range(1, 9)}) for n in (0, 1)]
    more = [Store(f"state/0/{n}", {"6.zip": True, "7.changelog": True}) for n in (2, 3)]
    batches = {n: 4 if n >= 5 else 2 for n in range(8)}
    assert newest_loadable([*two, *more], batches) == 6
    assert newest_loadable([*two, Store("state/0/2/left", {})], batches) == 4
    assert [store.path for store in not_loadable([*two, *more], 7, 4)] == ["state/0/2", "state/0/3"]
    assert not_loadable([*two, *more], 7, 2) == []


def stateful(path: Path, *, lost: tuple[str, ...] = (), batches: int = 6) -> None:
    """A checkpoint after so many batches of a query with two stores, without some files."""
    write(checkpoint(range(batches), [], range(batches)), path)
    for partition in ("0", "1"):
        folder = path / "state" / "0" / partition
        (folder / "_metadata").mkdir(parents=True)
        (folder / "_metadata" / "schema").write_bytes(b"v2")
        for version in range(1, batches + 1):
            file = folder / f"{version}.delta"
            if f"{partition}/{file.name}" not in lost:
                file.write_bytes(LZ4)


def spec(source: Any = None, sink: Any = None) -> Any:
    return stream(source or kafka_source(), sink or kafka_sink(), trigger=MICRO_BATCH).spec


def test_a_start_goes_back_to_the_newest_batch_with_whole_state(tmp_path: Path) -> None:
    """And takes what is made again out of the way: Spark could load it later on."""
    stateful(tmp_path, lost=("1/5.delta",))
    repair = folder_at(tmp_path).repair(spec())
    assert (repair.epoch, repair.after, kinds(repair)) == (3, 3, ["LostState"])
    assert repair.repairs[0].path == "state/0/1"
    left = sorted(int(file.stem) for file in tmp_path.glob("state/0/*/*.delta"))
    assert left == [1, 1, 2, 2, 3, 3, 4, 4]
    assert folder_at(tmp_path).repair(spec()) == RepairPlan((), 3)


def test_whole_state_is_left_alone(tmp_path: Path) -> None:
    """Also older versions that are lost."""
    stateful(tmp_path, lost=("1/2.delta",))
    for partition in ("0", "1"):
        (tmp_path / "state" / "0" / partition / "4.snapshot").write_bytes(LZ4)
    before = read(tmp_path)
    assert folder_at(tmp_path).repair(spec()) == RepairPlan((), 5)
    assert read(tmp_path) == before


def test_state_of_a_batch_that_is_planned_anew_goes(tmp_path: Path) -> None:
    """A snapshot of it would be loaded in place of what the batch then writes."""
    stateful(tmp_path)
    before = read(tmp_path)
    for name in ("0/7.snapshot", "1/7.delta"):
        (tmp_path / "state" / "0" / name).write_bytes(LZ4)
    assert folder_at(tmp_path).repair(spec()).epoch == 5
    assert read(tmp_path) == before


def test_partitions_that_no_batch_has_any_more_go(tmp_path: Path) -> None:
    """Of a repartition, whether it has ended or not, with all that RocksDB keeps in them."""
    stateful(tmp_path)
    conf = b'{"batchWatermarkMs":0,"conf":{"spark.sql.shuffle.partitions":"%d"}}'
    for n, partitions in enumerate([2] * 6 + [4]):  # the last one is not committed
        write({f"offsets/{n}": offsets(n, conf % partitions)}, tmp_path)
        (tmp_path / "offsets" / f".{n}.crc").unlink(missing_ok=True)
    before = read(tmp_path)
    left = {f"state/0/{n}/SSTs/000009-x.sst": b"x" for n in (2, 3)} | {"state/0/2/7.zip": b"x"}
    write(left, tmp_path)
    assert folder_at(tmp_path).repair(spec()).epoch == 5
    assert not left.keys() & read(tmp_path).keys()
    assert before.keys() - read(tmp_path).keys() == {"offsets/6"}


def test_state_in_another_format_is_left_to_spark(tmp_path: Path) -> None:
    stateful(tmp_path, lost=("1/6.delta",))
    (tmp_path / "state" / "0" / "1" / "6_5b0c.delta").write_bytes(LZ4)
    assert folder_at(tmp_path).repair(spec()) == RepairPlan((), 5)


@pytest.mark.parametrize(
    ("lost", "more", "why"),
    [
        (tuple(f"1/{n}.delta" for n in range(1, 7)), {}, "no earlier batch is whole"),
        (("1/6.delta",), {"source": RATE}, "the source cannot send"),
        (("1/6.delta",), {"sink": CUSTOM}, "the sink may know"),
    ],
)
def test_where_no_batch_may_run_again_it_is_refused(
    lost: tuple[str, ...], more: dict[str, Any], why: str, tmp_path: Path
) -> None:
    """And nothing is changed: a volume may be restored."""
    stateful(tmp_path, lost=lost)
    before = {path: text for path, text in read(tmp_path).items() if "penstock" not in path}
    with pytest.raises(DriverError) as raised:
        folder_at(tmp_path).repair(spec(**more))
    failure = raised.value.failure
    assert (failure.reason, failure.permanent, failure.recoverable) == (
        "CheckpointDamaged", True, True,
    )  # fmt: skip
    assert why in failure.message
    after = read(tmp_path)
    assert {path: text for path, text in after.items() if "penstock" not in path} == before


def test_a_crash_on_the_way_back_leads_to_the_same_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    stateful(tmp_path / "whole", lost=("1/5.delta",))
    folder_at(tmp_path / "whole").repair(spec())
    for crash in crashes(more_than=10):
        path = tmp_path / str(crash.step)
        stateful(path, lost=("1/5.delta",))
        crash(partial(folder_at(path).repair, spec()))
        assert folder_at(path).repair(spec()).epoch == 3
        assert read(path) == read(tmp_path / "whole"), crash.step
