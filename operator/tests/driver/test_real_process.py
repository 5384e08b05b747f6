"""The driver as the pod runs it: a process, its signals, its exit codes, its log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.cluster.broker import free_ports
from penstock.stream.resource import ContinuousStream
from penstock.stream.status import Failure
from tests.driver.running import Topics, wait_for
from tests.driver.streams import kafka_sink, kafka_source, stream

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

# Spark says this at each start of a continuous query; it is true and harmless.
EXPECTED_WARNINGS = ("Disabling AQE",)


class Process:
    """`python3 -m penstock.driver` on one stream and one checkpoint."""

    def __init__(self, it: ContinuousStream, folder: Path, class_path: str, *program: str) -> None:
        (self.port,) = free_ports(1)
        self.termination_log = folder / "termination-log"
        self.log = folder / f"driver-{time.monotonic_ns()}.log"
        (folder / "stream.yaml").write_text(it.to_yaml())
        command = [
            sys.executable, *(program or ("-m", "penstock.driver")), str(folder / "stream.yaml"),
            "--checkpoint", str(folder / "checkpoint"), "--class-path", class_path,
            "--http-port", str(self.port), "--termination-log", str(self.termination_log),
        ]  # fmt: skip
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log)

    def probe(self, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    def page(self, path: str) -> str:
        """What is served there; nothing while nothing is."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return self.probe("/readyz") == 200

        wait_for("ready", ready)

    @property
    def jvm(self) -> int:
        """Its process id."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        (jvm,) = (int(pid) for pid in children.split())
        return jvm


@contextmanager
def driver(it: ContinuousStream, folder: Path, class_path: str, *program: str) -> Iterator[Process]:
    """A driver's process for the length of the block; `program` is Python's way to it."""
    process = Process(it, folder, class_path, *program)
    try:
        yield process
    finally:
        process.process.kill()
        process.process.wait()


@contextmanager
def traffic(topics: Topics, topic: str) -> Iterator[list[int]]:
    """Numbers, about two hundred a second, for the length of the block; what was sent is kept."""
    sent, stop = [0], threading.Event()

    def send() -> None:
        while not stop.wait(0.05):
            topics.send(topic, range(sent[0], sent[0] + 10))
            sent[0] += 10

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join()


def test_a_killed_jvm_loses_nothing_and_a_stop_is_clean(
    topics: Topics, class_path: str, tmp_path: Path
) -> None:
    source, sink = topics.make(), topics.make()
    flow = stream(
        kafka_source(topics.bootstrap, topics=[source], startingOffsets="earliest"),
        kafka_sink(topics.bootstrap, topic=sink),
    )
    with traffic(topics, source) as sent:
        with driver(flow, tmp_path, class_path) as first:
            first.wait_ready()
            assert first.probe("/livez") == 200
            os.kill(first.jvm, signal.SIGKILL)
            assert first.process.wait(30) == 1
        failure = Failure.model_validate_json(first.termination_log.read_text())
        assert failure.reason == "DriverKilled"
        assert "137" in failure.message
        with driver(flow, tmp_path, class_path) as second:
            second.wait_ready()
    # Both are over; what the second had not committed is replayed by a third.
    numbers = range(sent[0])
    with driver(flow, tmp_path, class_path) as third:
        received = topics.wait_received(sink, numbers)
        third.process.send_signal(signal.SIGTERM)
        assert third.process.wait(30) == 0
    duplicates = sum(received.values()) - len(received)
    print(f"{len(numbers)} sent, {duplicates} duplicates over two kills")
    lines = third.log.read_text().splitlines()
    loud = [
        line
        for line in lines
        if (" WARN " in line or " ERROR " in line)
        and not any(expected in line for expected in EXPECTED_WARNINGS)
    ]
    # Neither a warning for each record, nor one for each task that a stop ends.
    assert loud == []
    steps = [json.loads(line)["message"] for line in lines if line.startswith("{")]
    assert steps[-2:] == ["stopping", "stopped"]


def test_an_end_of_restarts_holds_across_processes(class_path: str, tmp_path: Path) -> None:
    """The kubelet would start a container whose JVM dies for ever."""
    once = stream(restart={"maxAttempts": 1})
    with driver(once, tmp_path, class_path) as first:
        first.wait_ready()
        os.kill(first.jvm, signal.SIGKILL)
        assert first.process.wait(30) == 1
    with driver(once, tmp_path, class_path) as second:
        wait_for("failed", lambda: 'state{state="Failed"} 1.0' in second.page("/metrics"))
        assert second.probe("/readyz") == 503
        second.process.send_signal(signal.SIGTERM)
        assert second.process.wait(30) == 0
    assert "restart.maxAttempts is 1" in second.log.read_text()
    with driver(once, tmp_path, class_path) as third:
        third.wait_ready()


def test_a_spec_that_cannot_be_read_ends_the_process(tmp_path: Path) -> None:
    (tmp_path / "stream.yaml").write_text("kind: ContinuousStream\n")
    done = subprocess.run(
        [sys.executable, "-m", "penstock.driver", tmp_path / "stream.yaml", "--checkpoint", "x"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "metadata" in done.stderr
