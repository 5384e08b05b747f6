"""The whole driver killed at random moments under traffic, in each mode: nothing lost.

And each duplicate explained: a number may come once more for each kill that found it in the sink
and not yet committed in the checkpoint. `make torture` is the same with thirty kills a mode.
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

from penstock.driver.checkpoint.files import kafka_offsets
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.kafka.offsets import Offsets
from testkit.driver.driver_process import Process, driver, traffic
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import EACH_MODE, MICRO_BATCH

KILLS = int(os.environ.get("PENSTOCK_KILLS", "3"))
SEED = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))

pytestmark = [pytest.mark.real, pytest.mark.timeout(180 + 60 * KILLS)]


@dataclass
class Kill:
    """What one kill left behind."""

    moment: str
    committed: Offsets
    """Where the checkpoint goes on from."""
    planned: Offsets | None
    """Where the batch ends that was planned and not committed."""
    in_doubt: frozenset[int] = frozenset()
    """Numbers in the sink that are not committed: they may come again."""
    duplicates: int = 0
    """In the sink, of all kills so far."""


def await_the_moment(process: Process, chance: random.Random) -> str:
    """Some moment of the driver's life: on its way to the first commit, or in its work."""
    process.wait_alive()
    if chance.random() < 1 / 3:
        seconds = chance.uniform(0, 8)
        time.sleep(seconds)
        return f"{seconds:.1f} s after its start"
    process.wait_ready()
    seconds = chance.uniform(0, 4)
    time.sleep(seconds)
    return f"{seconds:.1f} s after it was ready"


def what_is_left(moment: str, folder: CheckpointFolder) -> Kill:
    """The checkpoint's own account, right after the kill."""
    epoch = folder.progress.committed_epoch()
    next_one = folder.path / "offsets" / str(0 if epoch is None else epoch + 1)
    planned = kafka_offsets(next_one.read_bytes()) if next_one.exists() else None
    return Kill(moment, folder.progress.committed_offsets() or {}, planned)


def is_before(offsets: Offsets, topic: str, partition: int, offset: int) -> bool:
    """Whether a record comes before these offsets."""
    return offset < offsets.get(topic, {}).get(partition, 0)


@pytest.mark.parametrize("trigger", EACH_MODE)
def test_a_driver_killed_at_random_moments_loses_nothing(
    trigger: dict[str, Any], topics: Topics, class_path: str, tmp_path: Path
) -> None:
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink, trigger)
    print(f"\nPENSTOCK_SEED={SEED}")
    chance, folder = random.Random(SEED), CheckpointFolder(tmp_path / "checkpoint")
    kills: list[Kill] = []

    def account(kill: Kill) -> None:
        """What the sink holds of the dead: the next one has begun, and is seconds from writing."""
        received = topics.received(sink)
        where = {number: environment for environment, number in topics.placed(source).items()}
        kill.duplicates = sum(received.values()) - len(received)
        kill.in_doubt = frozenset(
            n for n in received if not is_before(kill.committed, source, *where[n])
        )
        print(f"killed {kill.moment}: {len(kill.in_doubt)} written and not committed")
        if trigger is MICRO_BATCH:
            planned = kill.planned or {}
            beyond = [n for n in kill.in_doubt if not is_before(planned, source, *where[n])]
            assert not beyond, "more than one batch was in doubt"

    with traffic(topics, source) as sent:
        while len(kills) < KILLS:
            with driver(flow, tmp_path, class_path) as process:
                process.wait_alive()
                if kills:
                    account(kills[-1])
                moment = await_the_moment(process, chance)
                process.kill()
            kills.append(what_is_left(moment, folder))
    numbers = range(sent[0])
    with driver(flow, tmp_path, class_path) as process:
        process.wait_alive()
        account(kills[-1])
        received = topics.wait_received(sink, numbers)
        assert process.stop() == 0
    counts = [kill.duplicates for kill in kills] + [sum(received.values()) - len(received)]
    caused = [after - before for before, after in pairwise(counts)]
    print(f"{len(numbers)} sent, 0 lost, duplicates for each kill: {caused}")
    unexplained = {
        n: copies
        for n, copies in received.items()
        if copies - 1 > sum(n in kill.in_doubt for kill in kills)
    }
    assert not unexplained
    assert set(received) == set(numbers)
