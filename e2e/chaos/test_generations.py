"""A stream is rewound and goes back, and its query gets state and a second read, under traffic."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from e2e.chaos.faults import Target
from testkit.cluster.install import Installation
from testkit.cluster.stream import Stream, small_stream
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.topics import Topics
from testkit.kafka.traffic import Receiver, Sender
from testkit.kubernetes.kubectl import Kube
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import BOTH_ENGINES, CONTINUOUS, kafka_to_kafka

PER_SECOND, PARTITIONS, AGO_SECONDS = 50, 2, 20
_COUNTS = "SELECT key, value FROM source GROUP BY key, value"
_TWICE = (
    "SELECT key, value FROM source WHERE partition = 0 "
    "UNION ALL SELECT key, value FROM source WHERE partition > 0"
)

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]


@pytest.mark.proves("how-to/rewind.md")
@pytest.mark.parametrize("trigger", BOTH_ENGINES)
def test_nothing_is_lost_and_the_copies_are_those_announced(
    trigger: dict[str, Any],
    installation: Installation,
    kube: Kube,
    topic: str,
    record_figure: RecordFigure,
) -> None:
    """What two generations read comes twice; what goes on where another one is does not."""
    source, sink = f"{topic}-in", f"{topic}-out"
    external, is_continuous = installation.kafka.external, trigger is CONTINUOUS
    create_topics(external, {source: PARTITIONS, sink: 1})
    stream = Stream(kube, "rewound")
    more: dict[str, Any] = {} if is_continuous else {"outputMode": "update"}
    spec = kafka_to_kafka(installation.kafka.internal, source, sink, trigger, **more)
    kube.apply(small_stream(stream.name, spec))
    stream.wait_ready()
    with (
        Receiver(external, sink) as out,
        Sender(external, source, PER_SECOND, PER_SECOND * 900) as numbers,
    ):
        target = Target(installation, stream, spec, source, out)
        target.wait_until_flows(numbers, "the start")
        numbers.wait_until_sent(numbers.sent + AGO_SECONDS * PER_SECOND)

        def copies_of(what: str, generation: int, **edit: Any) -> int:
            """The copies that an edit makes."""
            known = out.arrivals.duplicates
            stream.edit(**edit)
            ran = f"generation {generation}"
            stream.wait_for(ran, lambda: stream.generation() == generation, 120)
            stream.wait_ready()
            target.wait_until_flows(numbers, what)
            copies = out.arrivals.duplicates - known
            record_figure(f"copies, {what}", copies)
            return copies

        began, rewound = numbers.sent, datetime.now(UTC).timestamp() - AGO_SECONDS
        start = datetime.fromtimestamp(rewound, UTC).isoformat(timespec="milliseconds")
        anew = {"generation": 1, "startFrom": {"timestamp": start}}
        copies = copies_of("a rewind", 1, checkpoint=anew)
        assert AGO_SECONDS * PER_SECOND * 0.8 < copies < AGO_SECONDS * PER_SECOND * 2
        back = {"generation": 0, "startFrom": None}
        until = numbers.sent
        copies = copies_of("the way back", 0, checkpoint=back)
        assert 0 < copies < (until - began) + 20 * PER_SECOND
        edits: dict[str, dict[str, Any]] = {
            "state": {"sql": _COUNTS},
            "a second read of the source": {"sql": _TWICE},
        }
        for before, (what, transform) in enumerate(() if is_continuous else edits.items(), 1):
            begun = before - 1 if before == 1 else before
            on = {"generation": before + 1, "startFrom": {"generation": begun, "timestamp": None}}
            assert copies_of(what, before + 1, transform=transform, checkpoint=on) == 0
        sent = numbers.finish()
        out.wait_for_all(range(sent), 120)
        lost = out.arrivals.missing(range(sent))
    record_figure("records sent", sent)
    record_figure("copies", out.arrivals.duplicates)
    assert lost == []
    assert stream.restarts("pod") == 0


@pytest.mark.proves(8)
def test_another_generation_begins_where_the_lost_one_had_arrived(
    installation: Installation, kube: Kube, topic: str
) -> None:
    """Its volume comes back empty, and then not at all: nothing begins anew by itself."""
    source, sink = f"{topic}-in", f"{topic}-out"
    external = installation.kafka.external
    create_topics(external, {source: PARTITIONS, sink: 1})
    topics, stream = Topics(external), Stream(kube, "lost")
    kube.apply(small_stream(stream.name, kafka_to_kafka(installation.kafka.internal, source, sink)))
    stream.wait_ready()
    claim = f"{stream.name}-checkpoint"
    for generation, is_empty in ((1, True), (2, False)):
        sent = 100 * generation
        topics.send(source, range(sent - 100, sent))
        stream.wait_for("all committed", partial(_has_committed, stream, sent), 60)
        stream.edit(suspend=True)
        stream.wait_for("no driver", lambda: kube.get("pod", stream.driver_pod) is None, 120)
        lost = kube.get("pvc", claim)
        assert lost is not None
        kube.delete("pvc", claim)
        if is_empty:
            metadata = {key: lost["metadata"][key] for key in ("name", "labels")}
            volume = {key: lost["spec"][key] for key in ("accessModes", "resources")}
            kube.apply({**lost, "metadata": metadata, "spec": volume, "status": None})
        stream.edit(suspend=False)
        stream.wait_stalled("CheckpointMissing")
        offsets = stream.status()["committedOffsets"]
        at = {source: {str(it["partition"]): it["offset"] for it in offsets}}
        anew = {"generation": generation, "startFrom": {"offsetsByPartition": at}}
        stream.edit(checkpoint=anew)
        stream.wait_ready()
    topics.send(source, range(200, 250))
    received = topics.wait_received(sink, range(250))
    assert sum(received.values()) == 250


def _has_committed(stream: Stream, records: int) -> bool:
    offsets = stream.status().get("committedOffsets", ())
    return sum(int(it["offset"]) for it in offsets) == records
