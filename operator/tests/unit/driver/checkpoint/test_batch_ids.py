"""After any damage, a sink that skips the batches it knows still gets every record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.driver.checkpoint.file_formats import Files
from penstock.driver.checkpoint.notes import SinkBatches
from penstock.driver.checkpoint.repair import plan
from penstock.driver.failures import DriverError
from testkit.driver.checkpoint_damage import TABLE, Damage
from testkit.driver.checkpoints import (
    INITIAL_OFFSETS,
    apply_plan,
    checkpoint,
    folder_at,
    kafka_offsets,
    kinds,
    names,
    note,
    offsets_at,
    with_checksums,
    write,
)
from testkit.streams.streams import (
    CONTINUOUS,
    MICRO_BATCH,
    REAL_TIME,
    kafka_sink,
    kafka_source,
    stream,
)

NEWEST = 7
PARQUET = {"custom": {"format": "parquet", "options": {"path": "/data"}}}
OTHER = {"custom": {"format": "com.example.Sink"}}
END = 1000
"""The end of partition 0 when the query starts again; batch N of the tests ends at 10 N."""


def micro_batch(files: Files, sink_has: int) -> list[tuple[int, int]]:
    """The ranges that Spark and the sink write (MicroBatchExecution, FileStreamSink).

    Spark runs the newest planned batch, and then the next one with everything else.
    """
    ends = {
        int(path.removeprefix("offsets/")): kafka_offsets(files[path])["in"][0]
        for path in names(files)
        if path.startswith("offsets/")
    }
    number = max(ends)
    batches = [(number + 1, ends[number], END)]
    if f"commits/{number}" not in files:
        batches.insert(0, (number, ends[number - 1] if number else 0, ends[number]))
    return [(start, end) for id_, start, end in batches if id_ > sink_has]


COUNTING: dict[str, Any] = {"sql": "SELECT count(*) AS n FROM source"}


def run(files: Files, **more: Any) -> tuple[Files, int | None]:
    sql: dict[str, Any] = (
        {"transform": COUNTING, "outputMode": "update"} if more.get("state") else {}
    )
    spec = stream(kafka_source(), PARQUET, **{"trigger": MICRO_BATCH, **sql}).spec
    repair = plan(files, spec, keep_ids=True, **more)
    return apply_plan(files, repair), repair.epoch


@pytest.mark.proves(7, "checkpoints.md#sinks-that-know-their-batches")
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "own"])
@pytest.mark.parametrize("damage", TABLE, ids=lambda each: each.name)
def test_no_damage_makes_such_a_sink_skip_records(damage: Damage, plain: bool) -> None:
    epochs = range(3, NEWEST + 1)
    whole = checkpoint(epochs, [], epochs)
    try:
        after, epoch = run(damage.done_to(with_checksums(whole) if plain else whole, NEWEST))
    except DriverError:
        return
    # Whatever of the newest batch is lost, the sink may have it, or not.
    for sink_has in [NEWEST] if epoch == NEWEST else [NEWEST, NEWEST - 1]:
        done = sink_has * 10
        for start, end in micro_batch(after, sink_has):
            assert start <= done, f"the sink has everything before {done}, and gets {start}-{end}"
            done = max(done, end)
        assert done == END


@pytest.mark.parametrize("trace", ["offsets/8", "offsets/.8.crc", "commits/8"])
def test_a_lost_batch_is_planned_without_records(trace: str) -> None:
    """Whatever a power cut has left of it. Spark runs it, and reads its records as the next."""
    whole = checkpoint(range(3, 8), [], range(3, 8))
    spec = stream(kafka_source(), PARQUET, trigger=MICRO_BATCH).spec
    repair = plan(whole | {trace: b""}, spec, keep_ids=True)
    assert "EmptyBatch" in kinds(repair)
    assert (repair.epoch, repair.continues_after) == (7, 7)
    after = apply_plan(whole | {trace: b""}, repair)
    assert after == whole | {"offsets/8": whole["offsets/7"]}
    # A number far ahead is not Spark's, and a stop leaves temporary files.
    for other in ("offsets/.50.crc", "offsets/.8.0a1b.tmp"):  # the first is plain Spark's
        assert plan(whole | {other: b""}, spec, keep_ids=True).write == {}


def test_the_first_batch_starts_where_the_source_started() -> None:
    files = with_checksums({"metadata": b'{"id":"1"}', "sources/0/0": INITIAL_OFFSETS})
    after, epoch = run(files | {"offsets/0": b"", "commits/0": b""})
    assert epoch is None
    assert kafka_offsets(after["offsets/0"]) == {"in": {0: 0, 1: 0}}
    # If that is lost too, at the first offsets of the stream.
    files |= {"sources/0/0": b"", "offsets/0": b""}
    after, _ = run(files, first={"in": {0: 4, 1: 2}})
    assert kafka_offsets(after["offsets/0"]) == {"in": {0: 4, 1: 2}}
    with pytest.raises(DriverError, match="from which to read, are not known"):
        run(files)


def test_a_lost_batch_of_a_query_with_state_is_refused() -> None:
    """Spark would not run the empty batch, and would count the records of the lost one twice."""
    whole = checkpoint(range(5), [], range(5))
    with pytest.raises(DriverError, match="count its records twice"):
        run(with_checksums(whole) | {"offsets/4": b""}, state=True)
    after, epoch = run(whole, state=True)
    assert (epoch, after["offsets/4"]) == (4, whole["offsets/4"])


def test_an_epoch_that_a_sink_may_know_is_committed_without_records() -> None:
    """The continuous engine does not run a planned epoch: it would reuse its number."""
    files = checkpoint(range(3), range(4))
    spec = stream(kafka_source(), OTHER, trigger=CONTINUOUS).spec
    repair = plan(files, spec, keep_ids=True)
    assert (repair.epoch, repair.continues_after, kinds(repair)) == (3, 3, ["EmptyBatch"])
    after = apply_plan(files, repair)
    assert (after["offsets/3"], after["commits/3"]) == (files["offsets/2"], files["commits/2"])
    first = plan(checkpoint([], [0]), spec, keep_ids=True, first={"in": {0: 4}})
    assert (first.epoch, kafka_offsets(first.write["offsets/0"])) == (0, {"in": {0: 4}})


def test_sparks_file_sink_gets_each_batch_since_the_first_one(tmp_path: Path) -> None:
    """Its log would have a gap at another path, which its next compaction fails over."""
    write(checkpoint(range(4), [], range(4)), tmp_path)
    folder = folder_at(tmp_path)
    note(folder, topic_ids={"in": "a"})
    elsewhere = {"custom": {"format": "parquet", "options": {"path": "/elsewhere"}}}
    for sink in (PARQUET, elsewhere):
        with pytest.raises(DriverError, match="each batch since the first one"):
            folder.repair(stream(kafka_source(), sink, trigger=MICRO_BATCH).spec)
    folder.repair(stream(kafka_source(), OTHER, trigger=MICRO_BATCH).spec)
    new = folder_at(tmp_path / "new")
    new.repair(stream(kafka_source(), PARQUET, trigger=MICRO_BATCH).spec)
    write(checkpoint(range(4), [], range(4)), tmp_path / "new")
    new.repair(stream(kafka_source(), PARQUET, trigger=MICRO_BATCH).spec)
    # It is back after another one, which had no batch, and one meanwhile.
    new.repair(stream(kafka_source(), kafka_sink(), trigger=MICRO_BATCH).spec)
    new.repair(stream(kafka_source(), PARQUET, trigger=MICRO_BATCH).spec)
    new.repair(stream(kafka_source(), kafka_sink(), trigger=MICRO_BATCH).spec)
    write(checkpoint(range(5), [], range(5)), tmp_path / "new")
    new.repair(stream(kafka_source(), kafka_sink(), trigger=MICRO_BATCH).spec)
    with pytest.raises(DriverError, match="a new path"):
        new.repair(stream(kafka_source(), PARQUET, trigger=MICRO_BATCH).spec)


def test_a_query_that_spark_has_run_alone_continues_with_its_file_sink(tmp_path: Path) -> None:
    """It may have had another sink, which nothing shows."""
    write(checkpoint(range(4), [], range(4)), tmp_path)
    spec = stream(kafka_source(), PARQUET, trigger=MICRO_BATCH).spec
    for _ in range(2):
        folder_at(tmp_path).repair(spec)
        note(folder_at(tmp_path), topic_ids={"in": "a"})


def test_ids_are_kept_after_the_sink_was_edited(tmp_path: Path) -> None:
    """The sink of before may be back one day, and know the ids."""
    files = checkpoint(range(4), [], range(5)) | {"offsets/4": b""}
    for path, sinks in {"edited": (OTHER, kafka_sink()), "kafka": (kafka_sink(),)}.items():
        folder = folder_at(tmp_path / path)
        for sink in sinks:
            write(files, tmp_path / path)
            repair = folder.repair(stream(kafka_source(), sink, trigger=MICRO_BATCH).spec)
            assert ("EmptyBatch" in kinds(repair)) == (path == "edited")
    assert folder_at(tmp_path / "edited").notes.read().sink_batches == SinkBatches(("",))


@pytest.mark.parametrize("trigger", [CONTINUOUS, REAL_TIME], ids=["continuous", "real-time"])
def test_a_planned_batch_keeps_its_id_in_a_switch(trigger: dict[str, Any], tmp_path: Path) -> None:
    """These engines do not run it; the sink of before may have it, and may come back."""
    write(checkpoint(range(4), [], range(5)), tmp_path)
    folder = folder_at(tmp_path)
    folder.repair(stream(kafka_source(), OTHER, trigger=MICRO_BATCH).spec)
    repair = folder.repair(stream(kafka_source(), kafka_sink(), trigger=trigger).spec)
    assert (repair.epoch, repair.continues_after, kinds(repair)) == (4, 4, ["EmptyBatch"])
    assert offsets_at(folder, 4) == offsets_at(folder, 3) == {"in": {0: 30, 1: 21}}
