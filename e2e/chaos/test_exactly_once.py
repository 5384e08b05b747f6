"""A stream that writes exactly once, while its JVMs, pods and executors are killed and frozen.

PENSTOCK_KILLS says how often. The same kills of a stream that writes at least once must show
copies, or they would prove nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import pytest

from e2e.chaos import faults
from e2e.chaos.faults import Target
from testkit.cluster.install import Installation
from testkit.cluster.stream import IN_DRIVER, KIND, SMALL_EXECUTORS, Stream, small_stream
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.traffic import Receiver, Sender
from testkit.kubernetes.kubectl import Kube, Object
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import REAL_TIME, kafka_to_kafka

KILLS = int(os.environ.get("PENSTOCK_KILLS", "20"))
PER_SECOND = 50
PARTITIONS = 4

pytestmark = [pytest.mark.full, pytest.mark.timeout(600 + 120 * KILLS)]


def kill_an_executors_jvm(target: Target) -> None:
    target.signal(target.executor(), "KILL")


class Zombies:
    """Executors that are frozen in a transaction, and wake up when they are given up."""

    def __init__(self) -> None:
        self.woken = 0
        """How many did: the kubelet may have ended one before."""

    def __call__(self, target: Target) -> None:
        pod = target.executor()
        name = pod["metadata"]["name"]
        target.signal(pod, "STOP")

        def is_given_up() -> bool:
            found = target.stream.kube.get("pod", name)
            return found is None or "deletionTimestamp" in found["metadata"]

        target.stream.wait_for(f"{name} given up", is_given_up, faults.PATIENCE_SECONDS)
        woken = target.jvm(pod, "kill -CONT ${process#/proc/} && echo woken || :")
        self.woken += woken.count("woken")


def kills_with(zombies: Zombies) -> list[Callable[[Target], None]]:
    """In this order: Kubernetes restarts a container after a delay that ends with its pod."""
    return [
        faults.kill_jvm,
        zombies,
        lambda target: target.stream.delete_driver_pod(),
        kill_an_executors_jvm,
        faults.delete_an_executor,
    ]


def kills_of_one_pod() -> list[Callable[[Target], None]]:
    """The same of the driver's pod alone."""
    return [
        faults.kill_jvm,
        frozen_for_a_moment,
        lambda target: target.stream.delete_driver_pod(),
        faults.exhaust_driver,
    ]


def frozen_for_a_moment(target: Target) -> None:
    """Less than what the driver takes for the end of its JVM."""
    with faults.driver_frozen(target):
        time.sleep(10)


_CONTINUOUS = {"continuous": {"checkpointInterval": "2s"}}
_BATCHES = {"microBatch": {"interval": "500ms"}}


@pytest.mark.proves(2)
@pytest.mark.parametrize(
    ("delivery", "trigger", "executor", "kills"),
    [
        pytest.param("ExactlyOnce", _CONTINUOUS, SMALL_EXECUTORS, KILLS, id="exactly once"),
        pytest.param("ExactlyOnce", _BATCHES, SMALL_EXECUTORS, KILLS, id="in batches"),
        pytest.param("ExactlyOnce", REAL_TIME, SMALL_EXECUTORS, KILLS, id="in real-time mode"),
        pytest.param("ExactlyOnce", _CONTINUOUS, IN_DRIVER, KILLS, id="in one pod"),
        pytest.param(
            "ExactlyOnce", REAL_TIME, IN_DRIVER, KILLS, id="in real-time mode, in one pod"
        ),
        pytest.param("AtLeastOnce", _CONTINUOUS, SMALL_EXECUTORS, 5, id="at least once"),
    ],
)
def test_each_record_is_there_once(
    delivery: str,
    trigger: dict[str, Any],
    executor: Object,
    kills: int,
    installation: Installation,
    kube: Kube,
    topic: str,
    record_figure: RecordFigure,
) -> None:
    """None is lost, and a consumer that reads read_committed sees none twice."""
    source, sink = f"{topic}-in", f"{topic}-out"
    external = installation.kafka.external
    create_topics(external, {source: PARTITIONS, sink: PARTITIONS})
    stream, zombies = Stream(kube, f"once-{topic[-4:]}"), Zombies()
    spec = kafka_to_kafka(installation.kafka.internal, source, sink, trigger, executor=executor)
    spec["sink"]["kafka"]["delivery"] = delivery
    kube.apply(small_stream(stream.name, spec))
    stream.wait_ready()
    with (
        Receiver(external, sink) as out,
        Sender(external, source, PER_SECOND, PER_SECOND * 120 * (kills + 5)) as numbers,
    ):
        target = Target(installation, stream, spec, source, out)
        target.wait_until_flows(numbers, "the start")
        each = kills_of_one_pod() if executor == IN_DRIVER else kills_with(zombies)
        for number, kill in enumerate(islice(cycle(each), kills), 1):
            stream.wait_ready(faults.PATIENCE_SECONDS)
            kill(target)
            target.wait_until_flows(numbers, f"kill {number}")
            print(f"kill {number}: {out.arrivals.duplicates} copies so far", flush=True)
        sent = numbers.finish()
        out.wait_for_all(range(sent), 120)
        time.sleep(5)  # a copy would come later
        lost = out.arrivals.missing(range(sent))
    kube.delete(KIND, stream.name)
    record_figure("kills, and frozen executors that woke up", (kills, zombies.woken))
    record_figure("records sent", sent)
    record_figure("records lost", len(lost))
    record_figure("copies", out.arrivals.duplicates)
    assert lost == []
    if delivery == "ExactlyOnce":
        assert out.arrivals.duplicates == 0
    else:
        assert out.arrivals.duplicates > 0, "the kills would show nothing"
