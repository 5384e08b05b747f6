"""Somebody deletes or changes each object of a stream under traffic, one after another.

It is as before within seconds, or the status says what to do; no record is lost.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.chaos.faults import Target
from e2e.chaos.objects_by_hand import ACTS, USERS_SECRET, Act, ByHand, shape
from e2e.chaos.observers import StatusLog, commits_on_node
from testkit.cluster.install import Installation
from testkit.cluster.stream import Stream, small_stream
from testkit.errors import WaitTimeout
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.traffic import Receiver, Sender
from testkit.kubernetes.kubectl import Kube
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import kafka_to_kafka

pytestmark = [pytest.mark.full, pytest.mark.timeout(5400)]

PER_SECOND = 20
RECORDS_AT_MOST = PER_SECOND * 5400
PARTITIONS = 2
# With this many consecutive numbers each partition gets some, since their keys differ.
LATER = 20
PATIENCE_SECONDS = 180.0


@dataclass(frozen=True)
class Outcome:
    act: Act
    said: float | None
    """Seconds until the status said it; None if it need not."""
    healed: float | None
    """Seconds until all was as before and new records arrived, after what was to be done."""
    states: tuple[str, ...]
    replaced: tuple[str, ...]
    duplicates: int

    def row(self) -> str:
        said = "" if self.said is None else f"said after {self.said:.1f} s, "
        healed = "NEVER healed" if self.healed is None else f"healed after {self.healed:.1f} s"
        pods = f", replaced {', '.join(self.replaced)}" if self.replaced else ""
        return f"{said}{healed}{pods}, duplicates {self.duplicates}; {' '.join(self.states)}"

    @property
    def replaced_needlessly(self) -> bool:
        driver = any("-driver-" in name for name in self.replaced)
        return (driver and self.act.replaces != "driver") or (
            bool(self.replaced) and not self.act.replaces
        )


@pytest.mark.proves("failures.md#somebody-deletes-or-changes-an-object-of-the-stream")
def test_every_object_by_hand(
    installation: Installation,
    kube: Kube,
    topic: str,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    source, sink = f"{topic}-in", f"{topic}-out"
    external = installation.kafka.external
    create_topics(external, {source: PARTITIONS, sink: PARTITIONS})
    spec = kafka_to_kafka(installation.kafka.internal, source, sink)
    # A producer has no rack.
    spec["source"]["kafka"]["secretOptions"] = {
        "kafka.client.rack": {"name": USERS_SECRET, "key": "value"}
    }
    stream = Stream(kube, "numbers")
    target = Target(installation, stream, spec, source, Receiver(external, sink))
    ByHand(target).create_users_secret()
    kube.apply(small_stream(stream.name, spec))
    stream.wait_ready()
    with (
        StatusLog(stream) as status,
        commits_on_node(installation.cluster, stream, tmp_path / "checkpoint") as commits,
        target.out as out,
        Sender(external, source, PER_SECOND, RECORDS_AT_MOST) as numbers,
    ):
        # A spec has not proved itself until it has committed records.
        stream.wait_for("the first records committed", stream.has_committed_records, 60)
        outcomes = []
        for act in _chosen():
            outcome = _outcome(act, ByHand(target), numbers, status)
            print(f"{act}: {outcome.row()}", flush=True)
            outcomes.append(outcome)
        sent = numbers.finish()
        out.wait_for_all(range(sent), 120)
        lost = out.arrivals.missing(range(sent))
    for outcome in outcomes:
        record_figure(str(outcome.act), outcome.row())
    record_figure("records sent", sent)
    replays = commits.replays_of_committed(source, numbers.places, out.arrivals.copies)
    assert lost == []
    assert replays == []
    assert [each.row() for each in outcomes if each.healed is None] == []
    assert [each.row() for each in outcomes if each.replaced_needlessly] == []


def _chosen() -> list[Act]:
    """Those whose name PENSTOCK_FAULT (an expression) matches; all without it."""
    return [act for act in ACTS if re.search(os.environ.get("PENSTOCK_FAULT", ""), str(act))]


def _outcome(act: Act, it: ByHand, numbers: Sender, status: StatusLog) -> Outcome:
    stream, arrivals = it.target.stream, it.target.out.arrivals
    kind, name = act.kind, it.named(act.kind) if act.restored else ""
    before = shape(it.kube.get(kind, name)) if act.restored else {}
    pods, duplicates, began = _uids(stream), arrivals.duplicates, time.time()

    def as_before() -> bool:
        later = range(first, first + LATER)
        is_restored = not act.restored or shape(it.kube.get(kind, name)) == before
        # Spark misses the pod of an executor that it cannot see after half a minute.
        is_whole = bool(it.target.executors()) and stream.is_ready()
        return is_restored and is_whole and not arrivals.missing(later)

    act.do(it)
    said = healed = None
    try:
        if act.said:
            stream.wait_for(act.said, lambda: _says(stream, act.said), PATIENCE_SECONDS)
            said = time.time() - began
        if act.remedy is not None:
            began = time.time()
            act.remedy(it)
        first = numbers.sent + LATER
        stream.wait_for(f"as before: {act}", as_before, PATIENCE_SECONDS)
        healed = time.time() - began
    except WaitTimeout as error:
        print(f"\n{act}: {error}")
    now = _uids(stream)
    return Outcome(
        act,
        said,
        healed,
        tuple(status.said(began)),
        tuple(sorted(name for name, uid in pods.items() if now.get(name) != uid)),
        arrivals.duplicates - duplicates,
    )


def _uids(stream: Stream) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in stream.pods()}


def _says(stream: Stream, words: str) -> bool:
    """Whether a condition says it, in its reason or its message."""
    return any(
        words in f"{each['reason']}: {each['message']}"
        for each in stream.status().get("conditions", [])
    )
