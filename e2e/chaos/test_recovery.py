"""Five faults hit a stream under numbered traffic; no record is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from e2e.chaos import faults
from e2e.cluster_stream import Stopwatch, Stream, small_stream
from e2e.install import Installation
from testkit.cluster.traffic import Receiver, Sender, create_topics
from testkit.kubernetes.kubectl import Kube
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import kafka_to_kafka

pytestmark = pytest.mark.timeout(1800)

RECORDS = 20_000
SECONDS = 120
PARTITIONS = 4
# Traffic continues during the last recovery, up to this limit.
RECORDS_AT_MOST = 10 * RECORDS
# With this many consecutive numbers every partition gets some, since their keys differ.
LATER = 60


@dataclass
class Recovery:
    """The cost of one fault."""

    fault: str
    seconds: float
    duplicates: int


def test_nothing_is_lost_whatever_fails(
    installation: Installation, kube: Kube, topic: str, record_figure: RecordFigure
) -> None:
    """20,000 numbers and five faults: every number arrives, and the stream is Ready after each."""
    source, sink = f"{topic}-in", f"{topic}-out"
    create_topics(installation.kafka.external, **{source: PARTITIONS, sink: PARTITIONS})
    stream = Stream(kube, "numbers")
    spec = kafka_to_kafka(
        installation.kafka.internal, source, sink, transform={"sql": faults.SQL_THAT_POISON_FAILS}
    )
    start = Stopwatch()
    kube.apply(small_stream(stream.name, spec))
    stream.wait_ready()
    first_ready = start.seconds
    external = installation.kafka.external
    with (
        Receiver(external, sink) as out,
        Sender(external, source, RECORDS / SECONDS, RECORDS_AT_MOST) as numbers,
    ):
        stream.wait_for("the first records in the sink", lambda: out.arrivals.counts, 60)
        faults_to_inject: dict[str, Callable[[], None]] = {
            "query failed": lambda: faults.fail_query(stream, external, source, out),
            "JVM killed": _counted(stream, "process", faults.kill_jvm),
            "driver pod deleted": _counted(stream, "pod", faults.delete_driver_pod),
            "executor deleted": _counted(stream, "query", faults.delete_an_executor),
            "spec edited while the operator is stopped": _edit_without_operator(stream, spec),
        }
        recoveries = [
            _recover(stream, numbers, out, fault, inject)
            for fault, inject in faults_to_inject.items()
        ]
        numbers.wait_until_sent(RECORDS, 2 * SECONDS)
        sent = numbers.finish()
        out.wait_for_all(range(sent), 120)
        lost = out.arrivals.missing(range(sent))
    record_figure("seconds until the first Ready", first_ready)
    record_figure("records sent", sent)
    record_figure("records lost", len(lost))
    for each in recoveries:
        record_figure(f"{each.fault}: seconds until Ready", each.seconds)
        record_figure(f"{each.fault}: duplicates", each.duplicates)
    assert sent >= RECORDS
    assert lost == []


def _recover(
    stream: Stream, numbers: Sender, out: Receiver, fault: str, inject: Callable[[], None]
) -> Recovery:
    """Injects a fault; waits until the stream is Ready again and has replayed all records."""
    duplicates = out.arrivals.duplicates
    watch = Stopwatch()
    inject()
    stream.wait_ready()
    ready_after = watch.seconds
    # Partitions keep their order: later numbers arrive after all the replayed ones.
    later = range(numbers.sent, numbers.sent + LATER)
    stream.wait_for(
        f"numbers {later} in the sink after: {fault}",
        lambda: not out.arrivals.missing(later),
        120,
    )
    return Recovery(fault, ready_after, out.arrivals.duplicates - duplicates)


def _counted(stream: Stream, level: str, inject: Callable[[Stream], None]) -> Callable[[], None]:
    """The fault, followed by a wait until the operator has counted one more restart."""

    def run() -> None:
        before = stream.restarts(level)
        inject(stream)
        stream.wait_for(
            f"a restart at level {level}",
            lambda: stream.restarts(level) > before,
            120,
        )

    return run


def _edit_without_operator(stream: Stream, spec: dict[str, object]) -> Callable[[], None]:
    def run() -> None:
        pod = stream.kube.get("pod", stream.driver_pod) or {}
        with faults.OperatorStopped(stream.kube):
            edited = {**spec, "trigger": {"continuous": {"checkpointInterval": "2s"}}}
            stream.kube.apply(small_stream(stream.name, edited))
        stream.wait_for(
            "a driver pod with the edit",
            lambda: (
                (stream.kube.get("pod", stream.driver_pod) or pod)["metadata"]["uid"]
                != pod["metadata"]["uid"]
            ),
            120,
        )

    return run
