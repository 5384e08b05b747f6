"""Edits that cannot run, under traffic: the stream is back on the spec before by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.chaos import faults
from e2e.chaos.faults import Target
from testkit.cluster.install import Installation
from testkit.cluster.stream import KIND, Stream, small_stream
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.traffic import Receiver, Sender
from testkit.kubernetes.kubectl import Kube
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import BOTH_ENGINES, kafka_to_kafka

PER_SECOND, PARTITIONS = 50, 2
_THROWS = "SELECT key, CAST(raise_error('no') AS STRING) AS value FROM source"
EDITS: dict[str, dict[str, Any]] = {
    "an image that does not exist": {
        "image": "localhost/penstock/none:0", "rollout": {"deadline": "20s"},
    },
    "a transform that throws at once": {"transform": {"sql": _THROWS}},
    "a field that does not exist": {"transform": {"sql": "SELECT key, nothing FROM source"}},
    "executors that fit on no node": {
        "executor": {"resources": {"requests": {"cpu": "400"}, "limits": {"cpu": "400"}}},
        "rollout": {"deadline": "40s"},
    },
}  # fmt: skip
# Refused by the driver that runs, so that nothing is stopped.
REFUSED = {"a field that does not exist"}

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


@pytest.mark.proves("edits.md#an-edit-that-does-not-run")
@pytest.mark.parametrize("trigger", BOTH_ENGINES)
def test_the_spec_before_runs_again(
    trigger: dict[str, Any],
    installation: Installation,
    kube: Kube,
    topic: str,
    record_figure: RecordFigure,
) -> None:
    """And nothing is lost, nor counted as a failure's restart of a pod."""
    source, sink = f"{topic}-in", f"{topic}-out"
    external = installation.kafka.external
    create_topics(external, {source: PARTITIONS, sink: 1})
    stream = Stream(kube, "rollback")
    spec = kafka_to_kafka(installation.kafka.internal, source, sink, trigger)
    manifest = small_stream(stream.name, spec)
    kube.apply(manifest)
    stream.wait_ready()
    before = stream.status()["effective"]["revision"]
    with (
        Receiver(external, sink) as out,
        Sender(external, source, PER_SECOND, PER_SECOND * 1700) as numbers,
    ):
        target = Target(installation, stream, spec, source, out)
        target.wait_until_flows(numbers, "the start")
        # A spec counts once it has committed records.
        stream.wait_for("the record", lambda: _last_ready(stream) == before, 60)
        for what, edit in EDITS.items():
            known = len(out.arrivals.latencies_ms)
            stream.edit(**edit)

            def is_back() -> bool:
                stalled, ready = stream.condition("Stalled"), stream.condition("Ready")
                is_refused = stalled.get("status") == "True" and ready["status"] == "True"
                runs = stream.status()["effective"]["revision"]
                return is_refused and bool(runs == before)

            stream.wait_for(f"back from {what}", is_back, faults.PATIENCE_SECONDS)
            stalled = stream.condition("Stalled")
            assert (stalled["reason"] == "RolledBack") is (what not in REFUSED), stalled
            assert not stream.is_ready()
            target.wait_until_flows(numbers, what)
            slowest = max(out.arrivals.latencies_ms[known:]) / 1000
            record_figure(f"slowest record in seconds, {what}", round(slowest, 1))
            whole = [{"op": "replace", "path": "/spec", "value": manifest["spec"]}]
            kube.run("patch", KIND, stream.name, "--type=json", "-p", json.dumps(whole))
            stream.wait_ready()
        sent = numbers.finish()
        out.wait_for_all(range(sent), 120)
        lost = out.arrivals.missing(range(sent))
    record_figure("records sent", sent)
    record_figure("copies", out.arrivals.duplicates)
    assert lost == []
    assert stream.restarts("pod") == 0


def _last_ready(stream: Stream) -> str | None:
    last: str | None = stream.status().get("rollout", {}).get("lastReadyRevision")
    return last
