"""Where a generation of a checkpoint begins: real folders, and a source that is made up."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.status import StreamStatus
from penstock.driver.checkpoint import left_out
from penstock.driver.checkpoint.batch_ids import PlannedQuery
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.generations import Generations, known_commit
from penstock.driver.checkpoint.left_out import DeadLetter, LeftOut
from penstock.driver.checkpoint.start_position import check_for_data_loss, first_starting_offsets
from penstock.driver.checkpoint.storage.volume import VolumeCheckpoints, VolumeFiles
from penstock.driver.environment import LocalEnvironment
from penstock.driver.failures import DriverError
from penstock.driver.kafka.admin import Admin
from penstock.driver.kafka.data_loss import KafkaSnapshot
from penstock.driver.kafka.offsets import Offsets, Partitions
from penstock.driver.kafka.source_monitor import SourceMonitor, SourceView
from penstock.driver.position import Position
from testkit.driver.checkpoints import COMMIT, METADATA, crashes, folder_at, path_of, read, write
from testkit.streams.streams import (
    CONTINUOUS,
    MICRO_BATCH,
    REAL_TIME,
    kafka_sink,
    kafka_source,
    stream,
)

FILES = {"custom": {"format": "acme.Sink", "options": {"path": "/out"}}}


class Fake(SourceMonitor):
    """A source with these offsets."""

    def __init__(
        self,
        newest: Offsets,
        earliest: Offsets | None = None,
        ids: dict[str, str] | None = None,
        group: Offsets | None = None,
        at: Offsets | None = None,
    ) -> None:
        super().__init__()
        self.newest, self.ids, self.group, self.at = newest, ids or {}, group or {}, at or {}
        self.first = earliest or {t: dict.fromkeys(of, 0) for t, of in newest.items()}

    @property
    def view(self) -> SourceView:
        numbers = {t: list(of) for t, of in self.newest.items()}
        return SourceView(sum(map(len, numbers.values())), numbers, topic_ids=self.ids)

    def snapshot(self) -> KafkaSnapshot:
        return KafkaSnapshot(self.ids, self.first, self.newest)

    def fetch_newest_offsets(self) -> Offsets:
        return self.newest

    def fetch_offsets_at(self, timestamp_ms: int) -> Offsets:
        return self.at

    def fetch_group_offsets(self, group: str) -> Offsets:
        return self.group

    def named(self, topics: Any) -> list[str]:
        return sorted(set(topics) & set(self.newest))


def flow(
    sink: dict[str, Any] | None = None, trigger: dict[str, Any] = MICRO_BATCH, **checkpoint: Any
) -> Any:
    source = kafka_source(
        topics=["in"], startingOffsets="earliest", failOnDataLoss=checkpoint.pop("fail", True)
    )
    return stream(source, sink or kafka_sink(), trigger=trigger, checkpoint=checkpoint).spec


def entry(**ends: int) -> bytes:
    line = json.dumps({"in": {n[1:]: at for n, at in ends.items()}})
    return f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":7,"conf":{{}}}}\n{line}'.encode()


def initial(at: int) -> bytes:
    """`sources/0/0`, as Spark writes it at the first start."""
    return b'\0v1\n{"in":{"0":%d}}' % at


def committed(path: Path, *batches: bytes, first: int = 0) -> None:
    files = {"metadata": METADATA}
    for n, content in enumerate(batches, first):
        files |= {f"offsets/{n}": content, f"commits/{n}": COMMIT}
    write(files, path)


NOTHING: Offsets = {}


def start(
    spec: Any, env: LocalEnvironment, source: Fake, written: Any = lambda names: NOTHING
) -> Any:
    """QueryRuntime.check_checkpoint."""
    generations = Generations(spec, VolumeCheckpoints(env))
    folder = generations.current
    repair = folder.repair(spec)
    began = generations.begin(source, repair, "payments", "numbers", written)
    lost = check_for_data_loss(spec, folder, source, repair, None)
    return lost or began, first_starting_offsets(spec, folder, source, repair)


def goes_on(spec: Any, env: LocalEnvironment) -> CheckpointFolder:
    """As QueryRuntime.check_query lets it, where the sink knows batches from elsewhere."""
    generations = Generations(spec, VolumeCheckpoints(env))
    used = generations.batch_known_elsewhere()
    assert used is not None
    generations.current.continue_after(used, PlannedQuery(1, 4, long_running=False))
    return generations.current


def test_a_generation_that_was_taken_back_begins_where_the_earlier_one_is_now(
    tmp_path: Path,
) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0, p1=0), entry(p0=100, p1=100))
    spec = flow(generation=1, startFrom={"generation": 0})
    start(spec, env, Fake({"in": {0: 300, 1: 300}}))
    # It could not run (an executor's image, a bad SQL): taken back, and generation 0 went on.
    committed(env.generation(0), entry(p0=200, p1=200), first=2)
    _, starting = start(spec, env, Fake({"in": {0: 300, 1: 300}}))
    assert starting == '{"in": {"0": 200, "1": 200}}'


@pytest.mark.parametrize("delivery", ["AtLeastOnce", "ExactlyOnce"])
def test_so_does_one_whose_first_batch_was_planned(delivery: str, tmp_path: Path) -> None:
    """And failed: what the earlier one has read since then would be read again."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    spec = flow(kafka_sink(delivery=delivery), generation=1, startFrom={"generation": 0})
    start(spec, env, Fake({"in": {0: 150}}))
    begun = {"sources/0/0": initial(100), "offsets/0": entry(p0=150), "metadata": METADATA}
    write(begun, env.generation(1))
    start(spec, env, Fake({"in": {0: 150}}))
    kept = read(env.generation(1)).keys()
    assert "sources/0/0" in kept, "it began there"
    assert ("offsets/0" in kept) is (delivery == "AtLeastOnce")
    committed(env.generation(0), entry(p0=5000), first=2)
    for _ in range(2):
        warning, starting = start(spec, env, Fake({"in": {0: 5000}}))
        assert (warning, starting) == (None, '{"in": {"0": 5000}}')
        assert not {"sources/0/0", "offsets/0"} & read(env.generation(1)).keys()


def test_a_start_that_is_corrected_before_a_commit_counts(tmp_path: Path) -> None:
    """Real-time mode writes no offsets before its first batch ends; Spark begins at its own."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    latest = flow(trigger=REAL_TIME, generation=1, startFrom={"offsets": "latest"})
    start(latest, env, Fake({"in": {0: 1000}}))
    write({"sources/0/0": initial(1000), "metadata": METADATA}, env.generation(1))
    right = flow(trigger=REAL_TIME, generation=1, startFrom={"generation": 0})
    warning, starting = start(right, env, Fake({"in": {0: 1200}}))
    assert (warning, starting) == (None, '{"in": {"0": 100}}')
    assert "sources/0/0" not in read(env.generation(1))


def test_a_batch_that_a_sink_may_know_keeps_its_records(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    spec = flow(FILES, generation=1, startFrom={"offsets": "earliest"})
    start(spec, env, Fake({"in": {0: 150}}))
    write({"offsets/0": entry(p0=150), "metadata": METADATA}, env.generation(1))
    before = read(env.generation(1))
    other = flow(FILES, generation=1, startFrom={"timestamp": "2026-11-26T08:00:00Z"})
    warning, _ = start(other, env, Fake({"in": {0: 150}}, at={"in": {0: 70}}))
    assert warning is not None
    assert warning.reason == "GenerationExists"
    assert read(env.generation(1)) == before


def test_dead_letters_stay_until_something_is_committed(tmp_path: Path) -> None:
    """A start that reads the record again would copy it again, for ever."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    source = Fake({"in": {0: 300}}, ids={"in": "a"})
    spec = flow(trigger=REAL_TIME, generation=1, startFrom={"generation": 0})
    start(spec, env, source)
    here, before = VolumeFiles(env.generation(1)), VolumeFiles(env.generation(0))
    found, later = (DeadLetter(Position("in", 0, at), "a", 1.0) for at in (107, 108))
    left_out.save(here, LeftOut((found,)))
    start(spec, env, source)
    assert left_out.load(here).letters == (found,)
    # Generation 0 went on once more, and has left out another one.
    committed(env.generation(0), entry(p0=105), first=2)
    left_out.save(before, LeftOut((later,)))
    start(spec, env, source)
    assert set(left_out.load(here).letters) == {found, later}


def test_dead_letters_of_another_start_are_not_left_out(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    letter = DeadLetter(Position("in", 0, 7), "a", 1.0)
    left_out.save(VolumeFiles(env.generation(0)), LeftOut((letter,)))
    source = Fake({"in": {0: 300}}, ids={"in": "a"})
    start(flow(generation=1, startFrom={"generation": 0}), env, source)
    start(flow(generation=1, startFrom={"offsets": "earliest"}), env, source)
    fresh = LocalEnvironment(tmp_path / "d")
    start(flow(generation=1, startFrom={"offsets": "earliest"}), fresh, source)
    assert left_out.load(VolumeFiles(fresh.generation(1))).letters == ()
    assert left_out.load(VolumeFiles(env.generation(1))).letters == ()


def test_topic_ids_of_another_start_are_no_loss(tmp_path: Path) -> None:
    """The remedy for a topic that was created again: begin at its first record."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    folder_at(env.generation(0)).save_topic_ids({"in": "old"})
    source = Fake({"in": {0: 300}}, ids={"in": "new"})
    with pytest.raises(DriverError):
        start(flow(generation=1, startFrom={"generation": 0}), env, source)
    start(flow(generation=1, startFrom={"offsets": "earliest"}), env, source)


@pytest.mark.parametrize("trigger", [CONTINUOUS, MICRO_BATCH], ids=["continuous", "micro-batch"])
def test_lost_commits_of_such_a_generation_do_not_start_it_over(
    trigger: Any, tmp_path: Path
) -> None:
    env = LocalEnvironment(tmp_path / "c")
    spec = flow(FILES, trigger, generation=1, startFrom={"offsets": "earliest"})
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    folder_at(env.generation(0)).repair(flow(FILES, trigger))
    source = Fake({"in": {0: 300}})
    generations = Generations(spec, VolumeCheckpoints(env))
    start(spec, env, source)
    used = generations.batch_known_elsewhere()
    assert used == 1
    folder = generations.current
    folder.continue_after(used, PlannedQuery(1, 4, long_running=False))
    committed(path_of(folder), entry(p0=100), entry(p0=200), entry(p0=300), first=2)
    for file in (path_of(folder) / "commits").iterdir():
        file.unlink()
    plain = LocalEnvironment(tmp_path / "d")  # what an ordinary checkpoint does
    folder_at(plain.generation(0)).repair(flow(FILES, trigger))
    write(read(path_of(folder)), plain.generation(0))
    ordinary = folder_at(plain.generation(0)).repair(flow(FILES, trigger))
    assert ordinary.after is not None
    # The sink knows batches up to 3, perhaps 4, and from now on would skip what gets these.
    start(spec, env, source)
    again = Generations(spec, VolumeCheckpoints(env)).batch_known_elsewhere()
    assert again is None, f"begins anew after {again}: 2, 3 and 4 get other records"


def test_a_new_partition_that_only_transactions_know(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    folder_at(env.generation(0)).transaction_names("payments", "numbers")
    spec = flow(
        kafka_sink(delivery="ExactlyOnce"), CONTINUOUS, generation=1, startFrom={"generation": 0}
    )
    source = Fake({"in": {0: 300, 1: 300}})
    _, starting = start(spec, env, source, lambda names: {"in": {0: 120, 1: 50}})
    assert starting == '{"in": {"0": 120, "1": 50}}'


def test_a_group_without_an_offset_of_a_partition_reads_its_earliest(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    spec = flow(generation=1, startFrom={"consumerGroup": "g"})
    source = Fake({"in": {0: 300, 1: 300}}, {"in": {0: 40, 1: 40}}, group={"in": {0: 50}})
    warning, starting = start(spec, env, source)
    assert starting == '{"in": {"0": 50, "1": 40}}'
    assert warning is None


def test_a_group_does_so_too_without_failing_on_loss(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    spec = flow(generation=1, startFrom={"consumerGroup": "g"}, fail=False)
    source = Fake({"in": {0: 300, 1: 300}}, {"in": {0: 40, 1: 40}}, group={"in": {0: 50}})
    warning, _ = start(spec, env, source)
    assert warning is None


class Broker(Admin):
    """Of one partition, whose first record of that time comes after the first question."""

    def __init__(self) -> None:
        self.end = 10

    @property
    def _spec(self) -> Any:
        class Specs:
            latest = staticmethod(lambda: "latest")
            earliest = staticmethod(lambda: "earliest")
            forTimestamp = staticmethod(lambda at: at)

        return Specs

    def _offsets(self, partitions: Partitions, spec: Any) -> Offsets:
        found = self.end if spec == "latest" else (10 if self.end > 10 else -1)
        self.end += 1
        return {"in": {0: found}}


def test_a_record_that_comes_meanwhile_is_not_skipped() -> None:
    assert Broker().at_time(Partitions({"in": [0]}), 123) == {"in": {0: 10}}


def test_earliest_is_no_offset_of_a_batch(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    folder_at(env.generation(0)).repair(flow(FILES))
    spec = flow(FILES, generation=1, startFrom={"offsetsByPartition": {"in": {"0": -2}}})
    start(spec, env, Fake({"in": {0: 300}}))
    assert goes_on(spec, env).reads() == {0: {"in": {0: 0}}}


def test_topics_of_a_group_that_the_stream_does_not_read(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    folder_at(env.generation(0)).repair(flow(FILES))
    spec = flow(FILES, generation=1, startFrom={"consumerGroup": "g"})
    start(spec, env, Fake({"in": {0: 300}}, group={"in": {0: 50}, "other": {0: 5}}))
    assert goes_on(spec, env).reads() == {0: {"in": {0: 50}}}


def test_back_to_a_generation_whose_next_numbers_another_has_used(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    folder_at(env.generation(0)).repair(flow(FILES))
    spec = flow(FILES, generation=1, startFrom={"generation": 0})
    source = Fake({"in": {0: 300}})
    start(spec, env, source)
    one = Generations(spec, VolumeCheckpoints(env))
    used = one.batch_known_elsewhere()
    assert used == 1
    one.current.continue_after(used, PlannedQuery(1, 4, long_running=False))
    committed(path_of(one.current), entry(p0=200), entry(p0=300), first=2)
    back = Generations(flow(FILES), VolumeCheckpoints(env))
    start(flow(FILES), env, source)
    assert back.batch_known_elsewhere() == 3, "the sink skips batches 2 and 3 of generation 0"


BEGINNINGS: list[tuple[dict[str, Any], Fake, Fake]] = [
    ({"generation": 0}, Fake({"in": {0: 300, 1: 300}}), Fake({"in": {0: 400, 1: 400}})),
    ({"offsets": "earliest"}, Fake({"in": {0: 300, 1: 300}}), Fake({"in": {0: 400, 1: 400}})),
    ({"offsets": "latest"}, Fake({"in": {0: 300, 1: 300}}), Fake({"in": {0: 300, 1: 300}})),
    (
        {"timestamp": "2026-11-26T08:00:00Z"},
        Fake({"in": {0: 300, 1: 300}}, at={"in": {0: 5, 1: 6}}),
        Fake({"in": {0: 300, 1: 300}}, at={"in": {0: 5, 1: 6}}),
    ),
    (
        {"consumerGroup": "g"},
        Fake({"in": {0: 300, 1: 300}}, group={"in": {0: 5}}),
        Fake({"in": {0: 300, 1: 300}}, group={"in": {0: 5}}),
    ),
]


@pytest.mark.parametrize(
    ("begins", "before", "after"), BEGINNINGS, ids=[next(iter(each[0])) for each in BEGINNINGS]
)
def test_it_begins_at_the_same_place_wherever_it_crashes(
    begins: dict[str, Any],
    before: Fake,
    after: Fake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    spec = flow(FILES, generation=1, startFrom=begins)

    def begin(env: LocalEnvironment, source: Fake) -> None:
        start(spec, env, source)
        generations = Generations(spec, VolumeCheckpoints(env))
        used = generations.batch_known_elsewhere()
        if used is not None:
            generations.current.continue_after(used, PlannedQuery(2, 4, long_running=False))

    def prepared(name: str) -> LocalEnvironment:
        env = LocalEnvironment(tmp_path / name)
        committed(env.generation(0), entry(p0=0, p1=0), entry(p0=100, p1=100))
        zero = folder_at(env.generation(0))
        zero.save_topic_ids({"in": "a"})
        left_out.save(
            VolumeFiles(path_of(zero)), LeftOut((DeadLetter(Position("in", 0, 120), "a", 1.0),))
        )
        zero.repair(flow(FILES))
        return env

    before.ids = after.ids = {"in": "a"}
    whole = prepared("whole")
    begin(whole, after)
    for crash in crashes(more_than=20):
        env = prepared(str(crash.step))
        crash(partial(begin, env, before))
        if not crash.came:
            continue
        begin(env, after)
        assert read(env.generation(1)) == read(whole.generation(1)), crash.step
        for stored in ("first_offsets", "start_from", "topic_ids"):
            one, other = (folder_at(it.generation(1)) for it in (env, whole))
            assert getattr(one, stored)() == getattr(other, stored)(), crash.step
        assert left_out.load(VolumeFiles(env.generation(1))) == left_out.load(
            VolumeFiles(whole.generation(1))
        )


def test_what_the_status_knows_of_a_generation() -> None:
    """So a checkpoint that is not there any more is not taken for one that has not begun."""
    seen = StreamStatus.model_validate({"epoch": 7, "effective": {"checkpointGeneration": 1}})
    assert known_commit(seen, 1) == 7
    assert known_commit(seen, 2) is None
    assert known_commit(StreamStatus(), 0) is None


def test_a_generation_that_is_gone_does_not_begin_anew(tmp_path: Path) -> None:
    """By the status; or by a later one, which a rollback has come from."""
    env = LocalEnvironment(tmp_path / "c")
    later = flow(generation=2, startFrom={"offsets": "earliest"})
    Generations(later, VolumeCheckpoints(env)).check_first_start(None)
    start(later, env, Fake({"in": {0: 300}}))
    Generations(later, VolumeCheckpoints(env)).check_first_start(None)
    for spec, known, why in (
        (later, 7, "epoch 7 was committed"),
        (flow(), None, "generation 2 is there"),
        (flow(generation=1, startFrom={"offsets": "latest"}), None, "generation 2 is there"),
    ):
        with pytest.raises(DriverError, match=why) as raised:
            Generations(spec, VolumeCheckpoints(env)).check_first_start(known)
        failure = raised.value.failure
        assert (failure.reason, failure.recoverable) == ("CheckpointMissing", True)
    newest = flow(generation=3, startFrom={"offsets": "latest"})
    Generations(newest, VolumeCheckpoints(env)).check_first_start(None)
    # One that has begun, and has not committed.
    begun = Generations(flow(), VolumeCheckpoints(env))
    begun.current.save_first_offsets({"in": {0: 0}})
    begun.check_first_start(None)
    # A copy by hand is no generation.
    env.generation(1).with_name("c.generation-2.bak").mkdir()
    assert VolumeCheckpoints(env).generations().keys() == {0, 2}


@pytest.mark.parametrize(
    ("begins", "moved"),
    [
        ({"offsetsByPartition": {"in": {"0": 40, "1": -1}}}, False),
        ({"timestamp": "2026-11-26T08:00:00Z"}, False),
        ({"offsets": "earliest"}, False),
        ({"consumerGroup": "others"}, False),
    ],
)
def test_what_has_planned_a_batch_begins_where_it_did(
    begins: dict[str, Any], moved: bool, tmp_path: Path
) -> None:
    """Only an earlier generation is looked at again: what others mean by now would skip records."""
    env = LocalEnvironment(tmp_path / "c")
    spec = flow(generation=1, startFrom=begins)
    at = {"in": {0: 50, 1: 500}}
    _, before = start(spec, env, Fake({"in": {0: 500, 1: 500}}, at=at, group=at))
    write({"sources/0/0": initial(50), "offsets/0": entry(p0=90, p1=520)}, env.generation(1))
    start(spec, env, Fake({"in": {0: 500, 1: 500}}, at=at, group=at))  # writes the metadata
    files = read(env.generation(1))
    later = {"in": {0: 60, 1: 800}}
    moves = Fake({"in": {0: 800, 1: 800}}, at=later, group=later)
    _, after = start(spec, env, moves)
    assert after == before
    assert read(env.generation(1)) == files


def test_topics_that_are_created_again_before_a_commit(tmp_path: Path) -> None:
    """Offsets of the old ones stand for nothing, whichever generation has met the new ones."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=1000))
    old = VolumeFiles(env.generation(0))
    CheckpointFolder(old).save_topic_ids({"in": "old"})
    spec = flow(fail=False, generation=1, startFrom={"generation": 0})
    start(spec, env, Fake({"in": {0: 2000}}, ids={"in": "old"}))
    # Generation 0 went on, has accepted that the topic is another one, and reads it.
    committed(env.generation(0), entry(p0=5), first=1)
    CheckpointFolder(old).save_topic_ids({"in": "new"})
    source = Fake({"in": {0: 3000}}, ids={"in": "new"})
    assert start(spec, env, source) == (None, '{"in": {"0": 5}}')
    # As after a crash before the ids were stored.
    folder_at(env.generation(1)).save_topic_ids({"in": "old"})
    assert start(spec, env, source) == (None, '{"in": {"0": 5}}')
    # And here it is accepted, while generation 0 still knows the old one.
    other = LocalEnvironment(tmp_path / "d")
    committed(other.generation(0), entry(p0=1000))
    CheckpointFolder(VolumeFiles(other.generation(0))).save_topic_ids({"in": "old"})
    warning, _ = start(spec, other, source)
    assert warning is not None
    assert warning.reason == "DataLoss"
    for _ in range(2):
        assert start(spec, other, source) == (None, '{"in": {"0": 0}}')


@pytest.mark.parametrize(
    "begins", [{"offsets": "latest"}, {"timestamp": "2026-11-26T08:00:00Z"}], ids=str
)
def test_a_topic_that_is_added_before_the_first_batch(
    begins: dict[str, str], tmp_path: Path
) -> None:
    """It begins where startFrom says; the others stay where they are."""
    env = LocalEnvironment(tmp_path / "c")
    spec = flow(generation=1, startFrom=begins)
    start(spec, env, Fake({"in": {0: 500}}, at={"in": {0: 500}}))
    both = {"in": {0: 700}, "more": {0: 900}}
    for newest in (both, {"in": {0: 800}, "more": {0: 950}}):
        _, starting = start(spec, env, Fake(newest, at=newest))
        assert json.loads(starting) == {"in": {"0": 500}, "more": {"0": 900}}


def test_an_accepted_loss_is_not_found_again(tmp_path: Path) -> None:
    """Its transactions would be forgotten again with it, and their records written again."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=40))
    sink = kafka_sink(delivery="ExactlyOnce")
    spec = flow(sink, fail=False, generation=1, startFrom={"generation": 0})
    source = Fake({"in": {0: 900}}, earliest={"in": {0: 120}})
    warning, starting = start(spec, env, source)
    assert warning is not None
    assert warning.reason == "DataLoss"
    folder = folder_at(env.generation(1))
    names = folder.transaction_names("payments", "numbers")
    for _ in range(2):
        assert start(spec, env, source) == (None, starting)
        assert folder.transaction_names("payments", "numbers") == names
