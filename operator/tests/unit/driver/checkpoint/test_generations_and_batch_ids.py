"""A generation for a sink that may know batches of another one by their ids."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.checkpoint.batch_ids import LogShape
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.generations import Generations
from penstock.driver.checkpoint.left_out import DeadLetter
from penstock.driver.checkpoint.storage.volume import VolumeCheckpoints
from penstock.driver.environment import LocalEnvironment
from penstock.driver.failures import DriverError
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.record_position import Position
from testkit.driver.checkpoints import METADATA, crashes, folder_at, note, path_of, read, write
from testkit.driver.generations import FILES, MadeUpSource, committed, entry, flow, start
from testkit.streams.streams import (
    CONTINUOUS,
    MICRO_BATCH,
)


def goes_on(spec: Any, env: LocalEnvironment) -> CheckpointFolder:
    """As QueryRuntime.check_query lets it, where the sink knows batches from elsewhere."""
    generations = Generations(spec, VolumeCheckpoints(env))
    used = generations.batch_known_elsewhere()
    assert used is not None
    generations.current.continue_after(used, LogShape(1, 4, long_running=False))
    return generations.current


def test_a_batch_that_a_sink_may_know_keeps_its_records(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    spec = flow(FILES, generation=1, startFrom={"offsets": "earliest"})
    start(spec, env, MadeUpSource({"in": {0: 150}}))
    write({"offsets/0": entry(p0=150), "metadata": METADATA}, env.generation(1))
    before = read(env.generation(1))
    other = flow(FILES, generation=1, startFrom={"timestamp": "2026-11-26T08:00:00Z"})
    warning, _ = start(other, env, MadeUpSource({"in": {0: 150}}, at={"in": {0: 70}}))
    assert warning is not None
    assert warning.reason == "GenerationExists"
    assert read(env.generation(1)) == before


@pytest.mark.parametrize("trigger", [CONTINUOUS, MICRO_BATCH], ids=["continuous", "micro-batch"])
def test_lost_commits_of_such_a_generation_do_not_start_it_over(
    trigger: Any, tmp_path: Path
) -> None:
    """Only the micro-batch engine's plans show what is done; else the start is refused."""
    env = LocalEnvironment(tmp_path / "c")
    spec = flow(FILES, trigger, generation=1, startFrom={"offsets": "earliest"})
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    folder_at(env.generation(0)).repair(flow(FILES, trigger))
    source = MadeUpSource({"in": {0: 300}})
    generations = Generations(spec, VolumeCheckpoints(env))
    start(spec, env, source)
    used = generations.batch_known_elsewhere()
    assert used == 1
    folder = generations.current
    folder.continue_after(used, LogShape(1, 4, long_running=False))
    committed(path_of(folder), entry(p0=100), entry(p0=200), entry(p0=300), first=2)
    for file in (path_of(folder) / "commits").iterdir():
        file.unlink()
    if trigger is CONTINUOUS:
        with pytest.raises(DriverError, match="no readable commit"):
            start(spec, env, source)
        return
    # The sink knows batches up to 3, perhaps 4, and from now on would skip what gets these.
    start(spec, env, source)
    again = Generations(spec, VolumeCheckpoints(env)).batch_known_elsewhere()
    assert again is None, f"begins anew after {again}: 2, 3 and 4 get other records"


def test_earliest_is_no_offset_of_a_batch(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    folder_at(env.generation(0)).repair(flow(FILES))
    spec = flow(FILES, generation=1, startFrom={"offsetsByPartition": {"in": {"0": -2}}})
    start(spec, env, MadeUpSource({"in": {0: 300}}))
    assert goes_on(spec, env).next_offsets() == {0: {"in": {0: 0}}}


def test_topics_of_a_group_that_the_stream_does_not_read(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    folder_at(env.generation(0)).repair(flow(FILES))
    spec = flow(FILES, generation=1, startFrom={"consumerGroup": "g"})
    start(spec, env, MadeUpSource({"in": {0: 300}}, group={"in": {0: 50}, "other": {0: 5}}))
    assert goes_on(spec, env).next_offsets() == {0: {"in": {0: 50}}}


def test_back_to_a_generation_whose_next_numbers_another_has_used(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path / "c")
    committed(env.generation(0), entry(p0=0), entry(p0=100))
    folder_at(env.generation(0)).repair(flow(FILES))
    spec = flow(FILES, generation=1, startFrom={"generation": 0})
    source = MadeUpSource({"in": {0: 300}})
    start(spec, env, source)
    one = Generations(spec, VolumeCheckpoints(env))
    used = one.batch_known_elsewhere()
    assert used == 1
    one.current.continue_after(used, LogShape(1, 4, long_running=False))
    committed(path_of(one.current), entry(p0=200), entry(p0=300), first=2)
    back = Generations(flow(FILES), VolumeCheckpoints(env))
    start(flow(FILES), env, source)
    assert back.batch_known_elsewhere() == 3, "the sink skips batches 2 and 3 of generation 0"


NEWEST = {"in": {0: 300, 1: 300}}
MOVED = MadeUpSource({"in": {0: 400, 1: 400}})
AT: Offsets = {"in": {0: 5, 1: 6}}
BEGINNINGS: list[tuple[dict[str, Any], MadeUpSource, MadeUpSource]] = [
    ({"generation": 0}, MadeUpSource(NEWEST), MOVED),
    ({"offsets": "earliest"}, MadeUpSource(NEWEST), MOVED),
    ({"offsets": "latest"}, MadeUpSource(NEWEST), MadeUpSource(NEWEST)),
    (
        {"timestamp": "2026-11-26T08:00:00Z"},
        MadeUpSource(NEWEST, at=AT),
        MadeUpSource(NEWEST, at=AT),
    ),
    ({"consumerGroup": "g"}, MadeUpSource(NEWEST, group=AT), MadeUpSource(NEWEST, group=AT)),
]


@pytest.mark.proves("how-to/rewind.md")
@pytest.mark.parametrize(
    ("begins", "before", "after"), BEGINNINGS, ids=[next(iter(each[0])) for each in BEGINNINGS]
)
def test_it_begins_at_the_same_place_wherever_it_crashes(
    begins: dict[str, Any],
    before: MadeUpSource,
    after: MadeUpSource,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    spec = flow(FILES, generation=1, startFrom=begins)

    def begin(env: LocalEnvironment, source: MadeUpSource) -> None:
        start(spec, env, source)
        generations = Generations(spec, VolumeCheckpoints(env))
        used = generations.batch_known_elsewhere()
        if used is not None:
            generations.current.continue_after(used, LogShape(2, 4, long_running=False))

    def prepared(name: str) -> LocalEnvironment:
        env = LocalEnvironment(tmp_path / name)
        committed(env.generation(0), entry(p0=0, p1=0), entry(p0=100, p1=100))
        zero = folder_at(env.generation(0))
        letter = DeadLetter(Position("in", 0, 120), "a", 1.0)
        note(zero, topic_ids={"in": "a"}, dead_letters=(letter,))
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
        one, other = (folder_at(it.generation(1)).notes.read() for it in (env, whole))
        assert one == other, crash.step
