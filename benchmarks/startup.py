"""Measures the time from a driver's start, and from a failure, to the next commit.

    python -m benchmarks.startup --rounds 3 [--json FILE]

Every round measures each variant once, so a busy machine slows all of them. Quote the ratios within
a round. The stream is rate to noop in continuous mode with two partitions and epochs of 500 ms:
there is no broker, so only the driver's own work is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.jvm import ENV_JAVA_OPTIONS, Jvm, fast_start_options
from testkit.driver.checkpoints import folder_at
from testkit.driver.class_archive import archive, java_options
from testkit.driver.in_process_driver import running
from testkit.kafka.jars import connector_jars
from testkit.streams.streams import RATE, manifest
from testkit.wait import wait_for

TIMEOUT_SECONDS = 120.0
INTERVAL = "500ms"
_OPTIONS = fast_start_options([], heap_mebibytes=1024, cores=0)

# The same stream, started as in Spark's own documentation.
PLAIN_PYSPARK = """
import sys, time
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.driver.extraClassPath", sys.argv[2]).getOrCreate())
source = spark.readStream.format("rate").option("numPartitions", 2).load()
source.createOrReplaceTempView("source")
(spark.sql("SELECT * FROM source").writeStream.format("noop").queryName("bench")
 .option("checkpointLocation", sys.argv[1]).trigger(continuous="500 milliseconds").start())
sys.stdin.read()
"""

STREAM = manifest(
    "bench",
    {
        "image": "none",
        "source": RATE,
        "sink": {"noop": {}},
        "trigger": {"continuous": {"checkpointInterval": INTERVAL}},
    },
    "bench",
)

Measurements = dict[str, list[float]]


def class_path() -> str:
    """The jars in the driver's image besides pyspark's own."""
    return f"{connector_jars()}/*"


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Checks every 10 ms, because the wait is part of a measurement."""
    wait_for(what, holds, TIMEOUT_SECONDS, every=0.01)


class Started:
    """A process with a checkpoint; the end of the block kills it and its JVM."""

    def __init__(self, command: list[str], folder: Path, java_options: list[str]) -> None:
        self._command = [sys.executable, *command]
        self._environment = {**os.environ, ENV_JAVA_OPTIONS: " ".join(java_options)}
        self.checkpoint = folder_at(folder)

    def __enter__(self) -> Started:
        self.begun = time.monotonic()
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(self, *_: object) -> None:
        """Kills the process and waits for its JVM, which would slow the next measurement."""
        children = self._children()
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        wait_until(lambda: not any(map(psutil.pid_exists, children)), "JVM gone")

    def commit_after(self, epoch: int | None) -> float:
        """Seconds from the start to a commit after this epoch."""
        before = -1 if epoch is None else epoch
        wait_until(lambda: self._has_more_than(before), "a commit")
        return time.monotonic() - self.begun

    def kill_jvm(self) -> None:
        """Kills the JVM as the kernel does without free memory; waits until the driver exits."""
        for pid in self._children():
            os.kill(pid, 9)
        self._process.wait(TIMEOUT_SECONDS)

    def _has_more_than(self, before: int) -> bool:
        epoch = self.checkpoint.progress.committed_epoch()
        return epoch is not None and epoch > before

    def _children(self) -> list[int]:
        try:
            return [child.pid for child in psutil.Process(self._process.pid).children()]
        except psutil.NoSuchProcess:
            return []


class Bench:
    """Takes the measurements, by name, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.measurements: Measurements = {}
        self._runs = 0
        (folder / "stream.yaml").write_text(json.dumps(STREAM))

    @property
    def as_in_a_pod(self) -> list[str]:
        """The JVM options of the image: fast_start_options and the archive."""
        return java_options(class_path())

    def round(self) -> None:
        self._start("start: as in a pod", self.as_in_a_pod)
        self._start("start: without the archive", _OPTIONS)
        self._start("start: without the archive and C1", [])
        self._plain_pyspark("start: pyspark as shipped")
        self._killed("level 2: as in a pod", self.as_in_a_pod)
        self._killed("level 2: without the archive", _OPTIONS)

    def _fresh(self) -> Path:
        self._runs += 1
        return self.folder / f"checkpoint-{self._runs}"

    def _driver(self, folder: Path, options: list[str]) -> Started:
        stream = str(self.folder / "stream.yaml")
        more = ["--checkpoint", str(folder), "--class-path", class_path()]
        return Started(["-m", "penstock.driver", stream, *more], folder, options)

    def _add(self, name: str, seconds: float) -> None:
        self.measurements.setdefault(name, []).append(seconds)
        print(f"  {seconds:6.2f} s  {name}", flush=True)

    def _start(self, name: str, options: list[str]) -> None:
        with self._driver(self._fresh(), options) as started:
            self._add(name, started.commit_after(None))

    def _plain_pyspark(self, name: str) -> None:
        folder = self._fresh()
        with Started(["-c", PLAIN_PYSPARK, folder.as_uri(), class_path()], folder, []) as started:
            self._add(name, started.commit_after(None))

    def _killed(self, name: str, options: list[str]) -> None:
        """From the kill of the JVM to the first commit of a new process, without a kubelet."""
        folder = self._fresh()
        with self._driver(folder, options) as first:
            first.commit_after(1)
            dead = time.monotonic()
            first.kill_jvm()
        epoch = first.checkpoint.progress.committed_epoch()
        with self._driver(folder, options) as second:
            second.commit_after(epoch)
            self._add(name, time.monotonic() - dead)


def measure_level_1(bench: Bench, rounds: int) -> None:
    """From a query's failure to the next commit in the same session, including the back-off."""
    jvm = Jvm.launch(768, class_path(), "127.0.0.1", bench.as_in_a_pod)
    stream = ContinuousStream.model_validate(STREAM)
    try:
        with running(stream, jvm, bench.folder / "level-1") as driver:
            driver.wait_ready()
            for number in range(1, rounds + 1):
                session = driver.runtime.session
                assert session is not None
                failed = time.monotonic()
                session.sparkContext.cancelAllJobs()
                driver.wait(
                    "a commit after the restart",
                    lambda report, number=number: (  # type: ignore[misc]
                        report.query_restarts >= number and report.committed
                    ),
                )
                bench._add("level 1: in the same session", time.monotonic() - failed)
    finally:
        jvm.end()


def ratios(measurements: Measurements) -> dict[str, list[float]]:
    """The ratios to quote, for each round."""
    pod, level_2 = "start: as in a pod", "level 2: as in a pod"
    shipped = "start: pyspark as shipped"
    pairs = {
        "start: archive / no archive": (pod, "start: without the archive"),
        "start: as in a pod / as shipped": (pod, shipped),
        "start: without archive and C1 / as shipped": (
            "start: without the archive and C1",
            shipped,
        ),
        "level 2: archive / no archive": (level_2, "level 2: without the archive"),
        "level 1 / level 2": ("level 1: in the same session", level_2),
    }
    return {
        name: [a / b for a, b in zip(measurements[one], measurements[other], strict=True)]
        for name, (one, other) in pairs.items()
    }


def table(title: str, measurements: Measurements) -> str:
    rows = [f"{title:<48}  median    min    max"]
    for name, values in measurements.items():
        shown = (statistics.median(values), min(values), max(values))
        rows.append(f"{name:<48}  " + " ".join(f"{value:6.2f}" for value in shown))
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.startup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write all measurements to this file")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        bench = Bench(folder)
        archive(class_path())
        for number in range(given.rounds):
            print(f"round {number + 1} of {given.rounds}", flush=True)
            bench.round()
        measure_level_1(bench, given.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    quotients = ratios(bench.measurements)
    print()
    print(table("ratio, round by round", quotients))
    print()
    print(table("seconds on this machine, now", bench.measurements))
    if given.json is not None:
        result = {"seconds": bench.measurements, "ratios": quotients}
        given.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
