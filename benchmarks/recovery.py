"""Measures where the seconds of a recovery go, and draws them.

    python -m benchmarks.recovery FILE --rounds 3 [--cluster [--image REF]] [--label WORDS]
    python -m benchmarks.recovery FILE --picture SVG

A stream of a Kafka topic gets a hundred records a second. Without --cluster its driver is killed,
with the archive of classes and without; with it, its query, an executor, the JVM and the pod. The
stages are those of the driver's log. The silence ends with the first record in the sink; the
recovery ends when records need less than half a second again. FILE collects runs: one of an older
image, and one of this checkout. Quote ratios within a run.
"""

from __future__ import annotations

import argparse
import functools
import json
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Producer

from benchmarks.recovery_picture import draw
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.jvm import ENV_JAVA_OPTIONS, fast_start_options
from testkit.cluster.install import install
from testkit.cluster.kind_cluster import ensure_cluster
from testkit.cluster.stream import Stream, small_stream
from testkit.driver.driver_process import Process
from testkit.kafka.broker import running_broker
from testkit.kafka.jars import connector_jars
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.traffic import Arrivals, Receiver, Sender
from testkit.streams.streams import kafka_to_kafka, stream
from testkit.wait import wait_for

PARTITIONS, PER_SECOND = 2, 100
TIMEOUT_SECONDS = 180.0
# The code is compiled by then.
WARM_SECONDS = 20.0
IN_TIME_MS = 500.0
FAULT_NUMBER = 10**9
# A record whose key is a time to come, in milliseconds, fails until then.
SQL = """
SELECT key, CASE
  WHEN CAST(CAST(key AS STRING) AS BIGINT)
       > CAST(java_method('java.lang.System', 'currentTimeMillis') AS BIGINT)
  THEN raise_error('injected') ELSE value END AS value
FROM source
"""
# Kills every process with a name in its container.
_KILL = """
import os
for pid in filter(str.isdigit, os.listdir('/proc')):
    if open(f'/proc/{pid}/comm').read().strip() == 'java':
        os.kill(int(pid), 9)
"""
# As psutil does, which older images do not have.
_STARTED = """
import os
ticks = int(open('/proc/1/stat').read().rpartition(')')[2].split()[19])
booted = next(line for line in open('/proc/stat') if line.startswith('btime'))
print(int(booted.split()[1]) + ticks / os.sysconf('SC_CLK_TCK'))
"""

Stages = dict[str, float]
"""Seconds by stage, in order."""
Faults = Mapping[str, Callable[[], None]]
"""What makes a fault, by its name."""

NOTICED, PYTHON, CATCHING_UP = "noticed, started", "Python", "catching up"
# By the step of the driver's log that begins it.
_STAGES = {
    "discover": "JVM, partitions",
    "check_checkpoint": "checkpoint",
    "start_session": "Spark",
    "check_query": "plan, executors",
    "start_query": "first epoch",
}
ORDER = (NOTICED, PYTHON, *_STAGES.values(), CATCHING_UP)


def stages(
    log: Iterable[str], killed: float, started: float | None, first: float, in_time: float
) -> Stages:
    """Divides a recovery by the lines of the driver's log; all times in seconds since 1970.

    `started`: when the driver's new process began; None if the old one lives on. `first`: the first
    record in the sink; `in_time`: the first one that is not late any more.
    """
    marks = [(killed, NOTICED)]
    if started is not None:
        marks.append((started, PYTHON))
    for line in log:
        fields = json.loads(line) if line.startswith("{") else {}
        name = _STAGES.get(fields.get("step", ""))
        if name is not None:
            at = datetime.fromisoformat(fields["time"]).timestamp()
            if killed < at < first:
                marks.append((at, name))
    marks += [(first, CATCHING_UP), (in_time, "")]
    found: Stages = {}
    for (begins, name), (ends, _) in pairwise(marks):
        found[name] = found.get(name, 0.0) + ends - begins
    return found


def ends_of_silence(arrivals: Arrivals, killed: float) -> tuple[float, float] | None:
    """When the longest silence after the kill ended, and when a record was in time again.

    None if none was yet.
    """
    copies, latencies = arrivals.copies, arrivals.latencies_ms
    after = [
        (copy.at, late)
        for copy, late in zip(copies, latencies, strict=False)
        if copy.at > killed - 1
    ]
    times = [at for at, _ in after]
    _, first = max((b - a, b) for a, b in pairwise(times))
    in_time = next((at for at, late in after if at >= first and late < IN_TIME_MS), None)
    return None if in_time is None else (first, in_time)


class Target(Protocol):
    """A stream that runs, with what can be done to it."""

    faults: Faults

    def log(self) -> list[str]: ...

    def started(self) -> float:
        """When the driver's process began."""
        ...


class Laptop:
    """The driver as a process."""

    def __init__(self, flow: ContinuousStream, folder: Path, options: list[str] | None) -> None:
        environment = None if options is None else {ENV_JAVA_OPTIONS: " ".join(options)}
        class_path = f"{connector_jars()}/*"
        self._start = functools.partial(Process, flow, folder, class_path, environment=environment)
        self.process = self._start()
        name = "process" if options is None else "process, without the archive"
        self.faults: Faults = {name: self._kill}
        self._started = 0.0

    def _kill(self) -> None:
        self.process.kill()
        self._started = time.time()
        self.process = self._start()

    def log(self) -> list[str]:
        return self.process.log.read_text().splitlines()

    def started(self) -> float:
        return self._started


class InCluster:
    """The driver in its pod."""

    def __init__(self, running: Stream, fail_query: Callable[[], None]) -> None:
        self._stream = running
        self.faults: Faults = {
            "query": fail_query,
            "executor": self._delete_executor,
            "JVM": self._kill_jvm,
            "pod": functools.partial(self._delete, running.driver_pod),
        }

    def _delete(self, pod: str) -> None:
        self._stream.kube.run("delete", "pod", pod, "--grace-period=0", "--force")

    def _delete_executor(self) -> None:
        self._delete(self._stream.executors()[0]["metadata"]["name"])

    def _python(self, program: str) -> str:
        return self._stream.kube.run(
            "exec", self._stream.driver_pod, "--", "python3", "-c", program
        )

    def _kill_jvm(self) -> None:
        self._python(_KILL)

    def log(self) -> list[str]:
        return self._stream.kube.run("logs", self._stream.driver_pod).splitlines()

    def started(self) -> float:
        return float(self._python(_STARTED))


@dataclass
class Traffic:
    """Numbered records from one topic to another."""

    bootstrap: str
    source: str
    out: Receiver
    numbers: Sender

    def flow(self) -> None:
        """Waits until the newest records arrive."""
        sent = self.numbers.sent
        self.out.wait_for_all(range(sent, sent + PER_SECOND), TIMEOUT_SECONDS)

    def fail_query(self) -> None:
        """Sends a record over which the query fails once."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 3})
        until = int((time.time() + 0.3) * 1000)  # sooner than the query runs again
        value = json.dumps({"n": FAULT_NUMBER, "ms": 0})
        producer.produce(self.source, key=str(until), value=value)
        producer.flush(30)

    def recover(self, target: Target, fault: str) -> Stages:
        """Makes a fault, and tells where the time to the recovery went."""
        time.sleep(WARM_SECONDS)
        before, killed = target.started(), time.time()
        target.faults[fault]()
        self.flow()
        started = target.started()
        look = functools.partial(ends_of_silence, self.out.arrivals, killed)
        found = wait_for("records in time", look, TIMEOUT_SECONDS)
        assert found is not None
        first, in_time = found
        return stages(target.log(), killed, None if started == before else started, first, in_time)


@contextmanager
def traffic(bootstrap: str, internal: str) -> Iterator[tuple[Traffic, dict[str, Any]]]:
    """Records, and the spec of the stream that they pass."""
    source, sink = (f"recovery-{uuid.uuid4().hex[:8]}-{way}" for way in ("in", "out"))
    create_topics(bootstrap, {source: PARTITIONS, sink: PARTITIONS})
    trigger = {"continuous": {"checkpointInterval": "1s"}}
    spec = kafka_to_kafka(internal, source, sink, trigger, transform={"sql": SQL})
    with (
        Receiver(bootstrap, sink) as out,
        Sender(bootstrap, source, PER_SECOND, PER_SECOND * 10_000) as numbers,
    ):
        yield Traffic(bootstrap, source, out, numbers), spec


def on_this_machine(rounds: int) -> Iterator[tuple[str, Stages]]:
    """Each fault of a driver without a cluster, with what it took."""
    without_archive = fast_start_options([], heap_mebibytes=768, cores=0)
    with running_broker() as broker:
        for options in [None, without_archive] * rounds:
            with (
                traffic(broker.bootstrap, broker.bootstrap) as (records, spec),
                tempfile.TemporaryDirectory() as folder,
            ):
                laptop = Laptop(stream(**spec), Path(folder), options)
                try:
                    laptop.process.wait_ready()
                    records.flow()
                    for fault in laptop.faults:
                        yield fault, records.recover(laptop, fault)
                finally:
                    laptop.process.kill()


def on_a_cluster(rounds: int, image: str | None) -> Iterator[tuple[str, Stages]]:
    """Each fault on the test cluster, with what it took."""
    installation = install(ensure_cluster())
    kafka = installation.kafka
    kube = installation.kube("recovery")
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube.namespace}})
    try:
        with traffic(kafka.external, kafka.internal) as (records, spec):
            running = Stream(kube, "recovery")
            kube.apply(small_stream(running.name, spec | ({"image": image} if image else {})))
            running.wait_ready()
            records.flow()
            target = InCluster(running, records.fail_query)
            for _ in range(rounds):
                for fault in target.faults:
                    yield fault, records.recover(target, fault)
                    running.wait_ready()
    finally:
        installation.kube("").delete("namespace", kube.namespace)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.recovery", description=__doc__)
    parser.add_argument("file", type=Path, help="JSON: the runs so far, to which this one is added")
    parser.add_argument("--picture", type=Path, help="draw the runs of the file, and run nothing")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--image", help="the stream's image; default: that of this checkout")
    parser.add_argument("--label", default="", help="what the run is named in the picture")
    given = parser.parse_args()
    runs = json.loads(given.file.read_text()) if given.file.exists() else []
    if given.picture is not None:
        draw(runs, ORDER, given.picture)
        return
    taken: dict[str, list[Stages]] = {}
    where = "cluster" if given.cluster else "laptop"
    measured = (
        on_a_cluster(given.rounds, given.image) if given.cluster else on_this_machine(given.rounds)
    )
    for fault, found in measured:
        if fault not in taken:
            taken[fault] = []
            run = {"label": given.label, "where": where, "fault": fault, "rounds": taken[fault]}
            runs.append(run)
        taken[fault].append(found)
        given.file.write_text(json.dumps(runs, indent=1) + "\n")
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in found.items())
        print(f"{fault}: {sum(found.values()):.1f} s: {parts}", flush=True)


if __name__ == "__main__":
    main()
