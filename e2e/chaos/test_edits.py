"""Edits of a query under traffic, while the operator is killed at random.

PENSTOCK_EDITS says how many.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import pytest

from e2e.chaos import faults
from e2e.chaos.faults import Target
from testkit.cluster.install import Installation
from testkit.cluster.stream import Stream, small_stream
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.traffic import Receiver, Sender
from testkit.kubernetes.kubectl import Kube
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import BOTH_ENGINES, kafka_to_kafka

EDITS = int(os.environ.get("PENSTOCK_EDITS", "50"))
PER_SECOND = 50
PARTITIONS = 4

pytestmark = [pytest.mark.full, pytest.mark.timeout(600 + 60 * EDITS)]


@pytest.mark.parametrize("trigger", BOTH_ENGINES)
def test_no_record_is_lost(
    trigger: dict[str, Any],
    installation: Installation,
    kube: Kube,
    topic: str,
    record_figure: RecordFigure,
) -> None:
    """And no pod of the stream is replaced."""
    source, sink = f"{topic}-in", f"{topic}-out"
    external = installation.kafka.external
    create_topics(external, {source: PARTITIONS, sink: 1})
    stream, chance = Stream(kube, "edited"), random.Random(EDITS)
    spec = kafka_to_kafka(installation.kafka.internal, source, sink, trigger)
    kube.apply(small_stream(stream.name, spec))
    stream.wait_ready()
    uids = {pod["metadata"]["uid"] for pod in stream.pods()}
    seconds, gaps = [], []
    with (
        Receiver(external, sink) as out,
        Sender(external, source, PER_SECOND, PER_SECOND * 60 * (EDITS + 5)) as numbers,
    ):
        target = Target(installation, stream, spec, source, out)
        target.wait_until_flows(numbers, "the start")
        for edit in range(1, EDITS + 1):
            known, began = len(out.arrivals.latencies_ms), time.monotonic()
            stream.edit(transform={"sql": f"SELECT key, value FROM source WHERE offset >= -{edit}"})
            is_killed = chance.random() < 0.2
            if is_killed:
                time.sleep(chance.uniform(0, 3))
                faults.kill_leader(target)
            stream.wait_for("Ready with the edit", stream.is_ready, faults.PATIENCE_SECONDS)
            if not is_killed:
                seconds.append(time.monotonic() - began)
            target.wait_until_flows(numbers, f"edit {edit}")
            gaps.append(max(out.arrivals.latencies_ms[known:]) / 1000)
        sent = numbers.finish()
        out.wait_for_all(range(sent), 120)
        lost = out.arrivals.missing(range(sent))
    record_figure("edits", EDITS)
    record_figure("seconds until Ready, median and most", _median_and_most(seconds))
    record_figure("slowest record of an edit in seconds, median and most", _median_and_most(gaps))
    record_figure("records sent", sent)
    record_figure("copies", out.arrivals.duplicates)
    assert lost == []
    assert {pod["metadata"]["uid"] for pod in stream.pods()} == uids
    assert stream.status()["restarts"]["total"] == 0


def _median_and_most(values: list[float]) -> tuple[float, float]:
    return round(sorted(values)[len(values) // 2], 1), round(max(values), 1)
