"""A checkpoint with several sources: what is not that of spec.source is kept as it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.checkpoint.data_loss_check import check_for_data_loss
from penstock.driver.checkpoint.file_formats import Entry, Files
from penstock.driver.checkpoint.repair import RepairPlan, plan
from penstock.driver.failures import DriverError
from penstock.driver.kafka.data_loss import KafkaSnapshot
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.kafka.source_monitor import SourceMonitor
from testkit.driver.checkpoint_damage import TABLE, Damage, Refused
from testkit.driver.checkpoints import (
    BATCH_LINE,
    COMMIT,
    INITIAL_OFFSETS,
    METADATA,
    apply_plan,
    folder_at,
    kinds,
    note,
    read,
    with_checksums,
    write,
)
from testkit.streams.streams import MICRO_BATCH, kafka_sink, kafka_source, stream

NEWEST = 7
PARQUET = {"custom": {"format": "parquet", "options": {"path": "/data"}}}
SPEC = stream(kafka_source(), kafka_sink(), trigger=MICRO_BATCH).spec
FILES_LOG = b'v1\n{"path":"a","timestamp":1,"batchId":0}\n{"path":"b","timestamp":1,"batchId":0}'
# What stands in a line of offsets and in a log, by the source beside Kafka.
OTHERS: dict[str, tuple[str, bytes]] = {
    "rate": ("{}", b"v1\n1700000000000"),
    "files": ('{{"logOffset":{}}}', FILES_LOG),
    "one file": ('{{"logOffset":{}}}', FILES_LOG.rpartition(b"\n")[0]),
    "another topic": ('{{"other":{{"0":{}}}}}', b'\0v1\n{"other":{"0":0}}'),
}  # fmt: skip


def line(offset: int, topic: str = "in") -> str:
    return f'{{"{topic}":{{"0":{offset}}}}}'


def entry(*lines: str) -> bytes:
    return "\n".join(["v1", BATCH_LINE.decode(), *lines]).encode()


def beside(other: str, epochs: Iterable[int]) -> dict[str, bytes]:
    """A checkpoint of plain Spark, of Kafka and another source."""
    template, log = OTHERS[other]
    files = {"metadata": METADATA, "sources/0/0": INITIAL_OFFSETS, "sources/1/0": log}
    for n in epochs:
        files |= {f"offsets/{n}": entry(line(n * 10), template.format(n)), f"commits/{n}": COMMIT}
    return with_checksums(files)


def repaired(files: Files, sink: dict[str, Any], **more: Any) -> tuple[RepairPlan, Files]:
    spec = stream(kafka_source(), sink, trigger=MICRO_BATCH).spec
    repair = plan(files, spec, keep_ids=sink is PARQUET, **more)
    return repair, apply_plan(files, repair)


@pytest.mark.proves(7)
@pytest.mark.parametrize("engine", ["microBatch", "parquet"])
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("damage", TABLE, ids=lambda damage: damage.name)
def test_the_other_source_is_left_alone_whatever_is_damaged(
    damage: Damage, other: str, engine: Any
) -> None:
    """As with Kafka alone; and no line of the other source is made up."""
    files = damage.done_to(beside(other, range(3, NEWEST + 1)), NEWEST)
    sink, outcome = PARQUET if engine == "parquet" else kafka_sink(), damage.outcome(engine)
    if isinstance(outcome, Refused):
        with pytest.raises(DriverError, match=outcome.reason):
            repaired(files, sink)
        return
    repair, after = repaired(files, sink)
    assert set(kinds(repair)) - {"Imported"} == set(map(str, outcome.kinds))
    assert repair.epoch == (NEWEST - outcome.back if outcome.commits else None)
    assert after["sources/1/0"] == files["sources/1/0"]
    template = OTHERS[other][0]
    for path, content in after.items():
        if path.startswith("offsets/") and path[8:].isdecimal():
            parsed = Entry.parse(content)
            assert parsed is not None
            kafka, others = parsed.sources
            number = int(kafka.split(":")[-1].rstrip("}")) // 10
            assert (kafka, others) == (line(number * 10), template.format(number))


@pytest.mark.parametrize(
    ("before", "after", "is_back"),
    [
        ((line(30), line(35)), (line(40), line(31)), True),  # a self-join
        ((line(30), line(35)), (line(31), line(35)), False),
        ((line(30), "3"), (line(20), "4"), True),
        ((line(30), "4"), (line(30), "3"), False),  # nothing is known of such a source
    ],
)
def test_each_read_is_looked_at_for_offsets_that_move_backward(
    before: tuple[str, ...], after: tuple[str, ...], is_back: bool
) -> None:
    """A driver that is gone can have written them late; the batch is planned again."""
    offsets = {"offsets/0": entry(*before), "offsets/1": entry(*after)}
    files = {"metadata": METADATA, "commits/0": COMMIT} | offsets
    repair, _ = repaired(files, kafka_sink())
    assert kinds(repair) == (["UncommittedOffsets"] if is_back else [])


@pytest.mark.parametrize("other", OTHERS)
def test_the_first_batch_has_a_line_for_each_source(other: str) -> None:
    """Spark wants as many as there are sources; one without offsets begins where it would begin."""
    files = beside(other, []) | {"offsets/0": b""}
    repair, after = repaired(files, PARQUET)
    assert set(kinds(repair)) == {"Imported", "EmptyBatch"}
    first = Entry.parse(after["offsets/0"])
    assert first is not None
    known = {"other": {0: 0}} if other == "another topic" else None
    assert first.kafka == ({"in": {0: 0, 1: 0}}, known)
    assert known or first.sources[1] == "-"
    assert plan(after, SPEC, keep_ids=True) == RepairPlan((), None)
    # Of Kafka's own initial offsets nothing is left.
    torn = files | {"sources/0/0": b""}
    with pytest.raises(DriverError, match="from which to read, are not known"):
        repaired(torn, PARQUET)
    _, after = repaired(torn, PARQUET, first={"in": {0: 4}})
    first = Entry.parse(after["offsets/0"])
    assert first is not None
    assert first.kafka == ({"in": {0: 4}}, known)


def test_where_the_first_batch_starts_is_no_line_of_a_source_whose_log_is_torn_too() -> None:
    """Spark could not read it. With both torn nothing tells which is Kafka's."""
    files = beside("rate", []) | {"offsets/0": b"", "sources/1/0": b""}
    _, after = repaired(files, PARQUET, first={"in": {0: 0}})
    first = Entry.parse(after["offsets/0"])
    assert first is not None
    assert (first.kafka, first.sources[1]) == (({"in": {0: 0, 1: 0}}, None), "-")
    with pytest.raises(DriverError, match="from which to read, are not known"):
        repaired(files | {"sources/0/0": b""}, PARQUET, first={"in": {0: 0}})


@pytest.mark.parametrize("other", OTHERS)
def test_a_broken_log_is_removed_only_if_it_is_kafkas(other: str) -> None:
    files = beside(other, range(3)) | {"sources/0/0": b"", "sources/1/0": b"v1"}
    repair, after = repaired(files, kafka_sink())
    assert "sources/0/0" not in after
    assert ("sources/1/0" in after) == (other != "another topic")
    assert repair.epoch == 2


class Source(SourceMonitor):
    """Topics that a spec names."""

    def __init__(self, *topics: str, earliest: int, partitions: int = 1) -> None:
        super().__init__(1)
        self._topics = topics
        self._earliest = earliest
        self._partitions = range(partitions)

    def snapshot(self) -> KafkaSnapshot:
        return KafkaSnapshot(
            dict.fromkeys(self._topics, "uuid-1"),
            {topic: dict.fromkeys(self._partitions, self._earliest) for topic in self._topics},
            {topic: dict.fromkeys(self._partitions, 99) for topic in self._topics},
        )

    def named_by_spec(self, topics: Iterable[str]) -> list[str]:
        return [topic for topic in topics if topic in self._topics]


def lose(
    folder: Path, lines: tuple[str, ...], source: Source, topics: Iterable[str] = ("in",)
) -> tuple[Offsets | None, ...]:
    """The lines after the check for lost records; `topics` were read when the stream last ran."""
    of_kafka = kafka_source(failOnDataLoss=False)
    spec = stream(of_kafka, kafka_sink(), trigger=MICRO_BATCH).spec
    checkpoint = folder_at(folder)
    note(checkpoint, topic_ids=dict.fromkeys(topics, "uuid-1"))
    files = {"metadata": METADATA, "commits/0": COMMIT, "offsets/0": entry(*lines)}
    write(with_checksums(files), folder)
    check_for_data_loss(spec, checkpoint, source, checkpoint.repair(spec))
    found = Entry.parse(read(folder)["offsets/0"])
    assert found is not None
    return found.kafka


def test_only_the_source_that_lost_records_is_put_elsewhere(tmp_path: Path) -> None:
    """The transform's own topic would otherwise be read from offsets of this one."""
    lines, source = (line(5), line(7, "other"), "42"), Source("in", earliest=20)
    assert lose(tmp_path, lines, source) == ({"in": {0: 20}}, {"other": {0: 7}}, None)
    assert read(tmp_path)["offsets/0"].endswith(b"\n42")


def test_each_read_of_a_topic_goes_on_from_its_own_offsets(tmp_path: Path) -> None:
    """A self-join: what one side has read, it does not read again over a loss of the other."""
    source = Source("in", earliest=20)
    assert lose(tmp_path, (line(5), line(30)), source) == ({"in": {0: 20}}, {"in": {0: 30}})


def test_what_the_table_has_is_read_again_by_no_read_of_a_topic(tmp_path: Path) -> None:
    """A batch that the table has, and the checkpoint not, has begun where records are gone now. A
    read of the topic that is ahead of the others goes on from its own end too, and a partition
    that has begun in the batch from its end.
    """
    spec = stream(kafka_source(), kafka_sink(), trigger=MICRO_BATCH).spec
    checkpoint = folder_at(tmp_path)
    checkpoint.ledger()
    note(checkpoint, topic_ids={"in": "uuid-1"})
    first, ahead, new = '{"in":{"0":30}}', '{"in":{"0":40}}', '{"in":{"0":30,"1":25}}'
    files = {
        "metadata": METADATA,
        "commits/0": COMMIT,
        "offsets/0": entry(line(5), line(5), line(5)),
        "offsets/1": entry(first, ahead, new),
    }
    write(with_checksums(files), tmp_path)
    repair, ends = checkpoint.repair(spec), checkpoint.planned_ends()
    source = Source("in", earliest=20, partitions=2)
    assert check_for_data_loss(spec, checkpoint, source, repair, in_table=ends) is None
    found = Entry.parse(read(tmp_path)["offsets/0"])
    assert found is not None
    assert found.kafka == ({"in": {0: 30, 1: 20}}, {"in": {0: 40, 1: 20}}, {"in": {0: 30, 1: 25}})


def test_an_edit_of_the_topics_is_found_among_several_sources(tmp_path: Path) -> None:
    """The stream has read "in" and names "new"; "other" was never its own."""
    lines, source = (line(7, "other"), line(5)), Source("new", earliest=0)
    assert lose(tmp_path, lines, source) == ({"other": {0: 7}}, {"new": {0: 0}})


def test_sources_that_cannot_be_told_apart_are_left_alone(tmp_path: Path) -> None:
    """Neither topic is named or known: Spark says what it finds."""
    lines, source = (line(7, "other"), line(5)), Source("new", earliest=3)
    assert lose(tmp_path, lines, source, topics=()) == ({"other": {0: 7}}, {"in": {0: 5}})
