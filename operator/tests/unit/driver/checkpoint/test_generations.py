"""Where a generation of a checkpoint begins: real folders, and a source that is made up."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.status import StreamStatus
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.generations import Generations, known_commit
from penstock.driver.checkpoint.left_out import DeadLetter
from penstock.driver.checkpoint.start_position import note_first_look
from penstock.driver.checkpoint.storage.volume import VolumeCheckpoints, VolumeFiles
from penstock.driver.environment import LocalEnvironment
from penstock.driver.failures import DriverError
from penstock.driver.kafka.offsets import FirstLook
from penstock.driver.record_position import Position
from testkit.driver.checkpoints import METADATA, crashes, folder_at, note, read, write
from testkit.driver.generations import MadeUpSource, committed, entry, flow, initial, start
from testkit.streams.streams import (
    CONTINUOUS,
    MICRO_BATCH,
    REAL_TIME,
    kafka_sink,
)


def test_a_generation_that_was_taken_back_begins_where_the_earlier_one_is_now(
    tmp_path: Path,
) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0, p1=0), entry(p0=100, p1=100))
    spec = flow(generation=1, startFrom={"generation": 0})
    start(spec, env, MadeUpSource({"in": {0: 300, 1: 300}}))
    # It could not run (an executor's image, a bad SQL): taken back, and generation 0 went on.
    committed(env.generation(0), entry(p0=200, p1=200), first=2)
    _, starting = start(spec, env, MadeUpSource({"in": {0: 300, 1: 300}}))
    assert starting == '{"in": {"0": 200, "1": 200}}'


@pytest.mark.parametrize("delivery", ["AtLeastOnce", "ExactlyOnce"])
def test_so_does_one_whose_first_batch_was_planned(delivery: str, tmp_path: Path) -> None:
    """And failed: what the earlier one has read since then would be read again."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    spec = flow(kafka_sink(delivery=delivery), generation=1, startFrom={"generation": 0})
    start(spec, env, MadeUpSource({"in": {0: 150}}))
    begun = {"sources/0/0": initial(100), "offsets/0": entry(p0=150), "metadata": METADATA}
    write(begun, env.generation(1))
    start(spec, env, MadeUpSource({"in": {0: 150}}))
    kept = read(env.generation(1)).keys()
    assert "sources/0/0" in kept, "it began there"
    assert ("offsets/0" in kept) is (delivery == "AtLeastOnce")
    committed(env.generation(0), entry(p0=5000), first=2)
    for _ in range(2):
        warning, starting = start(spec, env, MadeUpSource({"in": {0: 5000}}))
        assert (warning, starting) == (None, '{"in": {"0": 5000}}')
        assert not {"sources/0/0", "offsets/0"} & read(env.generation(1)).keys()


def test_a_start_that_is_corrected_before_a_commit_counts(tmp_path: Path) -> None:
    """Real-time mode writes no offsets before its first batch ends; Spark begins at its own."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    latest = flow(trigger=REAL_TIME, generation=1, startFrom={"offsets": "latest"})
    start(latest, env, MadeUpSource({"in": {0: 1000}}))
    write({"sources/0/0": initial(1000), "metadata": METADATA}, env.generation(1))
    right = flow(trigger=REAL_TIME, generation=1, startFrom={"generation": 0})
    warning, starting = start(right, env, MadeUpSource({"in": {0: 1200}}))
    assert (warning, starting) == (None, '{"in": {"0": 100}}')
    assert "sources/0/0" not in read(env.generation(1))


def test_dead_letters_stay_until_something_is_committed(tmp_path: Path) -> None:
    """A start that reads the record again would copy it again, for ever."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    source = MadeUpSource({"in": {0: 300}}, ids={"in": "a"})
    spec = flow(trigger=REAL_TIME, generation=1, startFrom={"generation": 0})
    start(spec, env, source)
    here, before = folder_at(env.generation(1)), folder_at(env.generation(0))
    found, later = (DeadLetter(Position("in", 0, at), "a", 1.0) for at in (107, 108))
    note(here, dead_letters=(found,))
    start(spec, env, source)
    assert here.notes.read().dead_letters == (found,)
    # Generation 0 went on once more, and has left out another one.
    committed(env.generation(0), entry(p0=105), first=2)
    note(before, dead_letters=(later,))
    start(spec, env, source)
    assert set(here.notes.read().dead_letters) == {found, later}


def test_dead_letters_of_another_start_are_not_left_out(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    letter = DeadLetter(Position("in", 0, 7), "a", 1.0)
    note(folder_at(env.generation(0)), dead_letters=(letter,))
    source = MadeUpSource({"in": {0: 300}}, ids={"in": "a"})
    start(flow(generation=1, startFrom={"generation": 0}), env, source)
    start(flow(generation=1, startFrom={"offsets": "earliest"}), env, source)
    fresh = LocalEnvironment(tmp_path / "d")
    start(flow(generation=1, startFrom={"offsets": "earliest"}), fresh, source)
    assert folder_at(fresh.generation(1)).notes.read().dead_letters == ()
    assert folder_at(env.generation(1)).notes.read().dead_letters == ()


def test_topic_ids_of_another_start_are_no_loss(tmp_path: Path) -> None:
    """The remedy for a topic that was created again: begin at its first record."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    note(folder_at(env.generation(0)), topic_ids={"in": "old"})
    source = MadeUpSource({"in": {0: 300}}, ids={"in": "new"})
    with pytest.raises(DriverError):
        start(flow(generation=1, startFrom={"generation": 0}), env, source)
    start(flow(generation=1, startFrom={"offsets": "earliest"}), env, source)


def test_a_new_partition_that_only_transactions_know(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    folder_at(env.generation(0)).transaction_names("payments", "numbers")
    spec = flow(
        kafka_sink(delivery="ExactlyOnce"), CONTINUOUS, generation=1, startFrom={"generation": 0}
    )
    source = MadeUpSource({"in": {0: 300, 1: 300}})
    _, starting = start(spec, env, source, lambda names: {"in": {0: 120, 1: 50}})
    assert starting == '{"in": {"0": 120, "1": 50}}'


def test_a_group_without_an_offset_of_a_partition_reads_its_earliest(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    spec = flow(generation=1, startFrom={"consumerGroup": "g"})
    source = MadeUpSource({"in": {0: 300, 1: 300}}, {"in": {0: 40, 1: 40}}, group={"in": {0: 50}})
    warning, starting = start(spec, env, source)
    assert starting == '{"in": {"0": 50, "1": 40}}'
    assert warning is None


def test_a_group_does_so_too_without_failing_on_loss(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    spec = flow(generation=1, startFrom={"consumerGroup": "g"}, fail=False)
    source = MadeUpSource({"in": {0: 300, 1: 300}}, {"in": {0: 40, 1: 40}}, group={"in": {0: 50}})
    warning, _ = start(spec, env, source)
    assert warning is None


@pytest.mark.parametrize("trigger", [CONTINUOUS, MICRO_BATCH], ids=["continuous", "micro-batch"])
def test_epochs_without_records_are_no_progress(trigger: dict[str, Any], tmp_path: Path) -> None:
    """The first record fails, the edit is rolled back, and comes again corrected a day later."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=100))
    spec = flow(trigger=trigger, generation=1, startFrom={"generation": 0})
    start(spec, env, MadeUpSource({"in": {0: 100}}))
    committed(env.generation(1), entry(p0=100), entry(p0=100))
    committed(env.generation(0), entry(p0=5000), first=1)
    source = MadeUpSource({"in": {0: 5000}})
    for _ in range(2):
        assert start(spec, env, source) == (None, None)
        assert folder_at(env.generation(1)).next_offsets() == {0: {"in": {0: 5000}}}
    # Also of a partition that was added, and after a crash in between.
    both = MadeUpSource({"in": {0: 6000, 1: 50}})
    for crash in crashes(more_than=5):
        whole = LocalEnvironment(tmp_path / f"{crash.step}")
        for number in (0, 1):
            shutil.copytree(env.generation(number), whole.generation(number))
        committed(whole.generation(0), entry(p0=6000, p1=50), first=2)
        committed(whole.generation(1), entry(p0=5000, p1=0), first=2)
        crash(partial(start, spec, whole, both))
        assert start(spec, whole, both) == (None, None)
        assert folder_at(whole.generation(1)).next_offsets() == {0: {"in": {0: 6000, 1: 50}}}
        assert start(spec, whole, both) == (None, None)
    # Nor do they hold a start that is corrected.
    other = flow(trigger=trigger, generation=1, startFrom={"offsets": "earliest"})
    assert start(other, env, source) == (None, None)
    assert folder_at(env.generation(1)).next_offsets() == {0: {"in": {0: 0}}}
    committed(env.generation(1), entry(p0=1), first=2)
    warning, _ = start(spec, env, source)
    assert warning is not None
    assert warning.reason == "GenerationExists"
    # Without its first offsets it has read something.
    note(folder_at(env.generation(1)), first_offsets=None)
    assert start(other, env, source) == (None, None)
    assert folder_at(env.generation(1)).next_offsets() == {0: {"in": {0: 1}}}


@pytest.mark.parametrize("names", [{"consumerGroup": "g"}, {"generation": 0}], ids=str)
def test_what_was_known_is_not_needed_again(names: dict[str, Any], tmp_path: Path) -> None:
    """A group expires, and an earlier generation may be removed."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=50))
    spec = flow(generation=1, startFrom=names)
    _, before = start(spec, env, MadeUpSource({"in": {0: 300}}, group={"in": {0: 50}}))
    shutil.rmtree(env.generation(0))
    assert start(spec, env, MadeUpSource({"in": {0: 300}})) == (None, before)
    (env.generation(1) / "penstock" / "notes.json").unlink()
    with pytest.raises(DriverError) as raised:
        start(spec, env, MadeUpSource({"in": {0: 300}}))
    assert raised.value.failure.reason == "StartPositionUnknown"


def test_what_the_status_knows_of_a_generation() -> None:
    """So a checkpoint that is not there any more is not taken for one that has not begun."""
    seen = StreamStatus.model_validate({"epoch": 7, "effective": {"checkpointGeneration": 1}})
    assert known_commit(seen, 1) == 7
    assert known_commit(seen, 2) is None
    assert known_commit(StreamStatus(), 0) is None


@pytest.mark.proves(8)
def test_a_generation_that_is_gone_does_not_begin_anew(tmp_path: Path) -> None:
    """By the status; or by a later one, which a rollback has come from."""
    env = LocalEnvironment(tmp_path / "c")
    later = flow(generation=2, startFrom={"offsets": "earliest"})
    Generations(later, VolumeCheckpoints(env)).check_first_start(None)
    start(later, env, MadeUpSource({"in": {0: 300}}))
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
    note(begun.current, first_offsets={"in": {0: 0}})
    begun.check_first_start(None)
    # A copy by hand is no generation.
    env.generation(1).with_name("c.generation-2.bak").mkdir()
    assert VolumeCheckpoints(env).generations().keys() == {0, 2}


@pytest.mark.proves("how-to/rewind.md")
@pytest.mark.parametrize(
    "begins",
    [
        {"offsetsByPartition": {"in": {"0": 40, "1": -1}}},
        {"timestamp": "2026-11-26T08:00:00Z"},
        {"offsets": "earliest"},
        {"consumerGroup": "others"},
    ],
    ids=str,
)
def test_what_has_planned_a_batch_begins_where_it_did(
    begins: dict[str, Any], tmp_path: Path
) -> None:
    """Only an earlier generation is looked at again: what others mean by now would skip records."""
    env = LocalEnvironment(tmp_path / "c")
    spec = flow(generation=1, startFrom=begins)
    at = {"in": {0: 50, 1: 500}}
    _, before = start(spec, env, MadeUpSource({"in": {0: 500, 1: 500}}, at=at, group=at))
    write({"sources/0/0": initial(50), "offsets/0": entry(p0=90, p1=520)}, env.generation(1))
    start(spec, env, MadeUpSource({"in": {0: 500, 1: 500}}, at=at, group=at))  # writes the metadata
    files = read(env.generation(1))
    later = {"in": {0: 60, 1: 800}}
    moves = MadeUpSource({"in": {0: 800, 1: 800}}, at=later, group=later)
    _, after = start(spec, env, moves)
    assert after == before
    assert read(env.generation(1)) == files


def test_topics_that_are_created_again_before_a_commit(tmp_path: Path) -> None:
    """Offsets of the old ones stand for nothing, whichever generation has met the new ones."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=1000))
    old = VolumeFiles(env.generation(0))
    note(CheckpointFolder(old), topic_ids={"in": "old"})
    spec = flow(fail=False, generation=1, startFrom={"generation": 0})
    start(spec, env, MadeUpSource({"in": {0: 2000}}, ids={"in": "old"}))
    # Generation 0 went on, has accepted that the topic is another one, and reads it.
    committed(env.generation(0), entry(p0=5), first=1)
    note(CheckpointFolder(old), topic_ids={"in": "new"})
    source = MadeUpSource({"in": {0: 3000}}, ids={"in": "new"})
    assert start(spec, env, source) == (None, '{"in": {"0": 5}}')
    # As after a crash before the ids were stored.
    note(folder_at(env.generation(1)), topic_ids={"in": "old"})
    assert start(spec, env, source) == (None, '{"in": {"0": 5}}')
    # And here it is accepted, while generation 0 still knows the old one.
    other = LocalEnvironment(tmp_path / "d")
    committed(other.generation(0), entry(p0=1000))
    note(folder_at(other.generation(0)), topic_ids={"in": "old"})
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
    start(spec, env, MadeUpSource({"in": {0: 500}}, at={"in": {0: 500}}))
    both = {"in": {0: 700}, "more": {0: 900}}
    for newest in (both, {"in": {0: 800}, "more": {0: 950}}):
        _, starting = start(spec, env, MadeUpSource(newest, at=newest))
        assert json.loads(starting) == {"in": {"0": 500}, "more": {"0": 900}}


def test_an_accepted_loss_is_not_found_again(tmp_path: Path) -> None:
    """Its transactions would be forgotten again with it, and their records written again."""
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=40))
    sink = kafka_sink(delivery="ExactlyOnce")
    spec = flow(sink, fail=False, generation=1, startFrom={"generation": 0})
    source = MadeUpSource({"in": {0: 900}}, earliest={"in": {0: 120}})
    warning, starting = start(spec, env, source)
    assert warning is not None
    assert warning.reason == "DataLoss"
    folder = folder_at(env.generation(1))
    names = folder.transaction_names("payments", "numbers")
    for _ in range(2):
        assert start(spec, env, source) == (None, starting)
        assert folder.transaction_names("payments", "numbers") == names


class NotThereYet(MadeUpSource):
    """Its topic exists when it is asked for the second time."""

    def first_look(self) -> FirstLook:
        return FirstLook(["in"], {}, {})


@pytest.mark.parametrize("begins", [{"startFrom": {"offsets": "latest"}}, {}], ids=["asked", ""])
def test_a_topic_that_was_waited_for_is_read_from_its_first_record(
    begins: dict[str, Any], tmp_path: Path
) -> None:
    """Also by a generation that begins at the latest records; and what is corrected counts anew."""
    env = LocalEnvironment(tmp_path / "c")
    spec = flow(**begins)
    kafka = spec.source.kafka.model_copy(update={"starting_offsets": "latest"})
    spec = spec.model_copy(
        update={"source": spec.source.model_copy(update={"kafka": kafka})},
    )
    source = NotThereYet({"in": {0: 5}, "other": {0: 9}})
    folder = Generations(spec, VolumeCheckpoints(env)).current
    for _ in range(2):
        note_first_look(spec, folder, source)
    _, starting = start(spec, env, source)
    assert json.loads(starting) == {"in": {"0": 0}, "other": {"0": 9}}
    # Once it has begun, it is not asked again.
    note(folder, first_look=None)
    note_first_look(spec, folder, source)
    assert folder.notes.read().first_look is None
