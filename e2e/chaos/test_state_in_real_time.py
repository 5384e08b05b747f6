"""State in real-time mode on the cluster, where a shuffle connects pods: exact through kills."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from e2e.chaos import faults
from e2e.chaos.faults import Target
from testkit.cluster.install import Installation
from testkit.cluster.stream import (
    IN_DRIVER,
    KIND,
    SMALL_EXECUTORS,
    Stopwatch,
    Stream,
    small_stream,
)
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.topics import Topics
from testkit.kubernetes.kubectl import Kube, Object
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import MICRO_BATCH, REAL_TIME, kafka_to_kafka
from testkit.wait import wait_for

pytestmark = pytest.mark.timeout(900)

KEYS = range(100)
# Nothing here waits for numbers.
_NOBODY: Any = None
COUNTS = """
SELECT key, CAST(count(*) AS STRING) AS value
FROM (SELECT CAST(value AS STRING) AS key FROM source) GROUP BY key
"""


@pytest.mark.proves(1, 14, 15)
@pytest.mark.parametrize(
    "executor",
    [
        pytest.param(SMALL_EXECUTORS, id="with executors"),
        pytest.param(IN_DRIVER, id="in one pod"),
    ],
)
def test_counts_are_exact_through_kills_and_switches_of_the_mode(
    executor: Object,
    installation: Installation,
    kube: Kube,
    topic: str,
    record_figure: RecordFigure,
) -> None:
    external, source, sink = installation.kafka.external, f"{topic}-in", f"{topic}-out"
    create_topics(external, {source: 2, sink: 1})
    topics, stream = Topics(external), Stream(kube, f"counts-{topic[-4:]}")
    spec = kafka_to_kafka(
        installation.kafka.internal, source, sink, REAL_TIME,
        transform={"sql": COUNTS}, outputMode="update", executor=executor,
    )  # fmt: skip
    kube.apply(small_stream(stream.name, spec))
    stream.wait_ready()
    assert stream.status()["cores"]["desired"] == 4
    assert stream.status()["statePartitions"] == 2
    sends = 0

    def count() -> float:
        """Seconds until each key was counted once more."""
        nonlocal sends
        topics.send(source, KEYS)
        sends, watch = sends + 1, Stopwatch()
        has_counted = partial(_has_counted, topics, sink, sends)
        wait_for("the exact counts", has_counted, 240, detail=lambda: stream.describe())
        return watch.seconds

    count()
    target = Target(installation, stream, spec, source, out=_NOBODY)
    strikes: dict[str, Callable[[], None]] = {
        "process": partial(faults.kill_jvm, target),
        "pod": stream.delete_driver_pod,
    }
    if executor != IN_DRIVER:
        strikes["query"] = partial(faults.delete_an_executor, target)
    for level, strike in strikes.items():
        before, watch = stream.restarts(level), Stopwatch()
        strike()
        restarted = partial(_has_restarted, stream, level, before)
        stream.wait_for(f"another restart of the {level}", restarted, 180)
        count()
        record_figure(f"seconds until counted after a restart of the {level}", watch.seconds)
    for mode, trigger in (("MicroBatch", MICRO_BATCH), ("RealTime", REAL_TIME)):
        stream.edit(trigger={"realTime": None, "microBatch": None, **trigger})
        runs = partial(_runs_in, stream, mode)
        stream.wait_for(f"the mode {mode}", runs, 180)
        record_figure(f"seconds until counted in the mode {mode}", count())
    assert stream.status()["statePartitions"] == 2
    kube.delete(KIND, stream.name)


def _has_restarted(stream: Stream, level: str, before: int) -> bool:
    return stream.restarts(level) > before


def _runs_in(stream: Stream, mode: str) -> bool:
    return bool(stream.is_ready() and stream.status().get("mode") == mode)


def _has_counted(topics: Topics, sink: str, times: int) -> bool:
    return topics.last_values(sink) == dict.fromkeys(KEYS, times)
