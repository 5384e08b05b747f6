"""Kills the whole driver at random times while records become dead letters.

No record is lost: each is in the sink or in the dead letters, and the bad ones in no other place.
`make test` kills twice in continuous mode, `make test-all` ten times in each mode;
PENSTOCK_SEED repeats a run's moments.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from testkit.driver.driver_process import LOAD, driver, traffic
from testkit.kafka.topics import Topics, number_flow
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import CONTINUOUS, EACH_MODE

SEED = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
# One number of so many is bad, and only in the first of them: each costs two restarts.
EVERY, AMONG = 97, 500
FAILS: dict[str, Any] = {
    "sql": f"""
        SELECT key, IF(n % {EVERY} = 0 AND n < {AMONG}, raise_error(text), text) AS value
        FROM (SELECT key, CAST(value AS STRING) AS text, CAST(CAST(value AS STRING) AS INT) AS n
              FROM source)"""
}

pytestmark = pytest.mark.timeout(2000)


@pytest.mark.proves(37)
@pytest.mark.parametrize(
    ("trigger", "times"),
    [
        pytest.param(CONTINUOUS, 2, id="continuous, twice"),
        *(
            pytest.param(*mode.values, 10, id=f"{mode.id}, ten times", marks=pytest.mark.full)
            for mode in EACH_MODE
        ),
    ],
)
def test_kills_at_random_times_lose_no_record_and_no_dead_letter(
    trigger: dict[str, Any],
    times: int,
    topics: Topics,
    class_path: str,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    source, sink, letters = topics.make(), topics.make(), topics.make(1)
    dead = {"deadLetters": {"topic": letters, "maxPerMinute": 1000}}
    flow = number_flow(topics, source, sink, trigger, dead, transform=FAILS)
    record_figure("PENSTOCK_SEED", SEED)
    chance = random.Random(SEED)
    with traffic(topics, source, LOAD) as sent:
        for _ in range(times):
            with driver(flow, tmp_path, class_path) as process:
                process.wait_alive()
                time.sleep(chance.uniform(5, 20))
                process.kill()
    numbers = range(sent[0])
    bad = {number for number in range(0, AMONG, EVERY) if number in numbers}
    with driver(flow, tmp_path, class_path) as process:
        received = topics.wait_received(sink, set(numbers) - bad)
        copied = topics.wait_received(letters, bad)
        assert process.stop() == 0
    record_figure("copies of dead letters", dict(copied))
    assert set(received) == set(numbers) - bad
    assert set(copied) == bad
