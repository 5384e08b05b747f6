"""A stream under numbered traffic is broken in five ways; nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from e2e.chaos import faults
from e2e.cluster_stream import Stopwatch, Stream, kafka_to_kafka, manifest
from e2e.install import Installation
from testkit.cluster.traffic import Receiver, Sender, create_topics
from testkit.kubernetes.kubectl import Kube, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

RECORDS = 20_000
SECONDS = 120
PARTITIONS = 4
# Traffic goes on while the last fault heals, but not for ever.
RECORDS_AT_MOST = 10 * RECORDS
# So many numbers, spread by their keys, are in every partition.
LATER = 60


@dataclass
class Healed:
    """What one fault cost."""

    fault: str
    seconds: float
    duplicates: int


def test_nothing_is_lost_whatever_fails(
    installation: Installation, kube: Kube, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """20,000 numbers through five faults: every one arrives, the stream is Ready after each."""
    source, sink = f"{topic}-in", f"{topic}-out"
    create_topics(installation.kafka.external, **{source: PARTITIONS, sink: PARTITIONS})
    stream = Stream(kube, "numbers")
    spec = kafka_to_kafka(installation.kafka.internal, source, sink, faults.SQL_THAT_POISON_FAILS)
    start = Stopwatch()
    kube.apply(manifest(stream.name, spec))
    stream.wait_ready()
    first_ready = start.seconds
    external = installation.kafka.external
    with (
        Receiver(external, sink) as out,
        Sender(external, source, RECORDS / SECONDS, RECORDS_AT_MOST) as numbers,
    ):
        wait_for("first records out", lambda: out.arrivals.counts, 60, stream.situation)
        strikes: dict[str, Callable[[], None]] = {
            "query failed": lambda: faults.fail_query(stream, external, source, out),
            "JVM killed": _counted(stream, "process", faults.kill_jvm),
            "driver pod deleted": _counted(stream, "pod", faults.delete_driver_pod),
            "executor deleted": _counted(stream, "query", faults.delete_an_executor),
            "operator away, spec edited": _operator_away(stream, spec),
        }
        healed = [_heal(stream, numbers, out, fault, strike) for fault, strike in strikes.items()]
        numbers.wait_until_sent(RECORDS, 2 * SECONDS)
        sent = numbers.finish()
        out.wait_for_all(range(sent), 120)
        lost = out.arrivals.missing(range(sent))
    with capsys.disabled():
        print(f"\nfirst Ready after {first_ready:.1f} s; {sent} records sent, {len(lost)} lost")
        for each in healed:
            print(
                f"  {each.fault}: Ready again after {each.seconds:.1f} s, "
                f"{each.duplicates} duplicates"
            )
    assert sent >= RECORDS
    assert lost == []


def _heal(
    stream: Stream, numbers: Sender, out: Receiver, fault: str, strike: Callable[[], None]
) -> Healed:
    """Strikes, and waits until the stream is Ready again and all that it replays has come out."""
    duplicates = out.arrivals.duplicates
    watch = Stopwatch()
    strike()
    stream.wait_ready()
    ready_after = watch.seconds
    # Partitions keep their order: once later numbers are out of all, so are the replayed ones.
    later = range(numbers.sent, numbers.sent + LATER)
    wait_for(
        f"numbers {later} out after: {fault}",
        lambda: not out.arrivals.missing(later),
        120,
        stream.situation,
    )
    return Healed(fault, ready_after, out.arrivals.duplicates - duplicates)


def _counted(stream: Stream, level: str, strike: Callable[[Stream], None]) -> Callable[[], None]:
    """The fault, and the proof that the operator saw it: one more restart at that level."""

    def run() -> None:
        before = stream.restarts(level)
        strike(stream)
        wait_for(
            f"a restart at level {level}",
            lambda: stream.restarts(level) > before,
            120,
            stream.situation,
        )

    return run


def _operator_away(stream: Stream, spec: dict[str, object]) -> Callable[[], None]:
    def run() -> None:
        pod = stream.kube.get("pod", stream.driver_pod) or {}
        with faults.OperatorAway(stream.kube):
            edited = {**spec, "trigger": {"continuous": {"checkpointInterval": "2s"}}}
            stream.kube.apply(manifest(stream.name, edited))
        wait_for(
            "the edit to reach the driver",
            lambda: (
                (stream.kube.get("pod", stream.driver_pod) or pod)["metadata"]["uid"]
                != pod["metadata"]["uid"]
            ),
            120,
            stream.situation,
        )

    return run
