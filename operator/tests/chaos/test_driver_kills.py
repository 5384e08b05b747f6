"""Kills the whole driver at random times under traffic, in each mode, and loses nothing.

Each duplicate is explained: a number may be written once more for each kill that found it in the
sink and not yet committed in the checkpoint, and never after its commit. The first kill hits a
driver that commits, the second one that starts. `make test` kills twice in continuous mode,
`make test-all` thirty times in each mode; PENSTOCK_SEED repeats a run's moments.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.kafka.offsets import Offsets
from testkit.driver.checkpoints import folder_at, kafka_offsets, path_of
from testkit.driver.driver_process import LOAD, Process, driver, traffic
from testkit.kafka.deliveries import commits_of
from testkit.kafka.topics import Topics, number_flow
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import CONTINUOUS, EACH_MODE, MICRO_BATCH
from testkit.wait import wait_for

SEED = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))

pytestmark = pytest.mark.timeout(2000)


@dataclass
class Kill:
    moment: str
    committed: Offsets
    """The offsets that the checkpoint continues from."""
    planned: Offsets | None
    """The end of the batch that was planned and not committed."""
    in_doubt: frozenset[int] = frozenset()
    """Numbers in the sink that are not committed, so they may be written again."""
    duplicates: int = 0
    """Duplicates in the sink after all kills so far."""


def wait_for_random_moment(process: Process, chance: random.Random, number: int) -> str:
    """Waits until the random moment of a kill, before the first commit of this driver or after it.

    Returns a description of the moment.
    """
    process.wait_alive()
    if number == 1 or (number > 1 and chance.random() < 1 / 3):
        seconds = chance.uniform(0, 8)
        time.sleep(seconds)
        return f"{seconds:.1f} s after its start"
    process.wait_ready()
    seconds = chance.uniform(0, 4)
    time.sleep(seconds)
    return f"{seconds:.1f} s after it was ready"


def state_after_kill(moment: str, folder: CheckpointFolder) -> Kill:
    epoch = folder.progress.committed_epoch()
    next_one = path_of(folder) / "offsets" / str(0 if epoch is None else epoch + 1)
    planned = kafka_offsets(next_one.read_bytes()) if next_one.exists() else None
    return Kill(moment, folder.progress.committed_offsets() or {}, planned)


def is_before(offsets: Offsets, topic: str, partition: int, offset: int) -> bool:
    """Whether a record comes before these offsets."""
    return offset < offsets.get(topic, {}).get(partition, 0)


@pytest.mark.proves(1, 2, "failures.md#the-driver-is-killed")
@pytest.mark.parametrize(
    ("trigger", "times"),
    [
        pytest.param(CONTINUOUS, 2, id="continuous, twice"),
        *(
            pytest.param(*mode.values, 30, id=f"{mode.id}, thirty times", marks=pytest.mark.full)
            for mode in EACH_MODE
        ),
    ],
)
def test_a_driver_killed_at_random_times_loses_nothing(
    trigger: dict[str, Any],
    times: int,
    topics: Topics,
    class_path: str,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink, trigger)
    record_figure("PENSTOCK_SEED", SEED)
    chance, folder = random.Random(SEED), folder_at(tmp_path / "checkpoint")
    kills: list[Kill] = []

    def check_sink(kill: Kill) -> None:
        """Checks the sink before the next driver, which has just started, writes to it."""
        received = topics.received(sink)
        where = {number: place for place, number in topics.placed(source).items()}
        kill.duplicates = sum(received.values()) - len(received)
        kill.in_doubt = frozenset(
            n for n in received if not is_before(kill.committed, source, *where[n])
        )
        record_figure(f"written and not committed when killed {kill.moment}", len(kill.in_doubt))
        if trigger is MICRO_BATCH:
            planned = kill.planned or {}
            beyond = [n for n in kill.in_doubt if not is_before(planned, source, *where[n])]
            assert not beyond, "more than one batch was in doubt"

    with commits_of(path_of(folder)) as commits, traffic(topics, source, LOAD) as sent:
        while len(kills) < times:
            with driver(flow, tmp_path, class_path) as process:
                process.wait_alive()
                if kills:
                    check_sink(kills[-1])
                else:  # a real-time query is ready before its first commit
                    wait_for("a commit", lambda: folder.progress.committed_epoch() is not None)
                moment = wait_for_random_moment(process, chance, len(kills))
                process.kill()
            kills.append(state_after_kill(moment, folder))
    numbers = range(sent[0])
    with driver(flow, tmp_path, class_path) as process:
        process.wait_alive()
        check_sink(kills[-1])
        received = topics.wait_received(sink, numbers)
        assert process.stop() == 0
    counts = [kill.duplicates for kill in kills] + [sum(received.values()) - len(received)]
    caused = [after - before for before, after in pairwise(counts)]
    record_figure("records sent", len(numbers))
    record_figure("duplicates for each kill", caused)
    unexplained = {
        n: copies
        for n, copies in received.items()
        if copies - 1 > sum(n in kill.in_doubt for kill in kills)
    }
    assert not unexplained
    assert topics.replays_of_committed(commits, source, sink) == []
    assert set(received) == set(numbers)
