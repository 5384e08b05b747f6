"""`penstock run` as a user runs it: with real Spark and Kafka, a terminal and Ctrl-C."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.driver.jvm import ENV_JAVA_OPTIONS
from testkit.driver.class_archive import command_environment
from testkit.kafka.jars import connector_jars
from testkit.kafka.topics import Topics
from testkit.streams.examples import FOLDER, consume, produce
from testkit.streams.streams import AVAILABLE_NOW, kafka_sink, kafka_source, stream
from testkit.wait import PATIENCE_SECONDS, wait_for

_STOP_SECONDS = 60
PAYMENTS = (FOLDER / "data" / "payments.jsonl").read_text().splitlines()


def flagged(lines: list[str]) -> set[str]:
    return {line for line in lines if json.loads(line)["paymentId"] % 10 == 3}


@pytest.fixture
def environment() -> dict[str, str]:
    return command_environment()


class Command:
    """`penstock run --plain ...`, its log lines and the records that it prints."""

    def __init__(self, folder: Path, environment: dict[str, str], *arguments: str | Path) -> None:
        stamp = time.monotonic_ns()
        self._log, self._rows = folder / f"{stamp}.log", folder / f"{stamp}.rows"
        with self._log.open("wb") as log, self._rows.open("wb") as rows:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli", "run", "--plain", *arguments],
                cwd=folder, env=environment, stdout=rows, stderr=log,
            )  # fmt: skip

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def rows(self) -> list[str]:
        # Records may hold the other characters at which splitlines splits.
        return self._rows.read_text(encoding="utf-8").removesuffix("\n").split("\n")

    def entries(self, message: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]
        return [entry for entry in lines if entry["message"] == message]

    def wait(self, message: str, field: str = "message") -> dict[str, Any]:
        """Waits for a log line with this message and a field, and returns the first."""

        def found() -> list[dict[str, Any]]:
            assert self.process.poll() is None, self.log
            return [entry for entry in self.entries(message) if field in entry]

        wait_for(f"{message} with {field}; the log:\n{self.log}", lambda: bool(found()))
        return found()[0]

    def interrupt(self) -> int:
        """Sends Ctrl-C, and returns the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(_STOP_SECONDS)


@contextlib.contextmanager
def command(folder: Path, environment: dict[str, str], *arguments: str | Path) -> Iterator[Command]:
    running = Command(folder, environment, *arguments)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def accepts_connections(bootstrap: str) -> bool:
    host, _, port = bootstrap.partition(":")
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 5).close()
        return True
    return False


@pytest.mark.proves(36)
def test_with_kafka_feeds_its_broker_and_stops_it_with_the_command(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """Stopped cleanly, started again over the same data, and then killed.

    The stream starts at the latest offsets, and the feed starts after the query.
    """
    (tmp_path / "first").write_text("\n".join(PAYMENTS[:50]))
    (tmp_path / "second").write_text("\n".join(PAYMENTS[50:]))
    own = ["--with-kafka", "--partitions", "2", "--rate", "500", "--once", "--show"]
    example = (FOLDER / "fraud-flags.yaml").read_text()
    file = tmp_path / "stream.yaml"
    file.write_text(example.replace("startingOffsets: earliest", "startingOffsets: latest"))
    with command(tmp_path, environment, *own, "--feed", "first", file) as first:
        bootstrap = first.wait("run")["kafka"]
        wait_for("flags shown", lambda: flagged(PAYMENTS[:50]) <= set(first.rows))
        kept = consume(bootstrap, "flags")
        assert {value for _, value in kept} == flagged(PAYMENTS[:50])
        assert first.interrupt() == 0
    assert not accepts_connections(bootstrap)
    assert "ERROR" not in first.log
    (stopped,) = first.entries("stopped")

    with command(tmp_path, environment, *own, "--feed", "second", file) as second:
        bootstrap = second.wait("run")["kafka"]
        # Known as soon as the checkpoint is checked: before that no number is reported.
        assert second.wait("stream", "epoch")["epoch"] == stopped["epoch"]
        wait_for("flags shown", lambda: flagged(PAYMENTS[50:]) <= set(second.rows))
        both = consume(bootstrap, "flags")
        assert {value for _, value in both} == flagged(PAYMENTS)
        second.process.kill()
    wait_for("the end of the broker", lambda: not accepts_connections(bootstrap))


def test_an_available_now_stream_reads_and_shows_the_whole_feed(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """Each line as it is, however slow --rate is; below a path that Java's settings cannot hold.

    A line that is too long for Kafka fails alone. The time zone is the image's, not the machine's.
    """
    folder = tmp_path / "żółw, é"
    folder.mkdir()
    lines = [f"{number} a\u2028b\x85c" for number in range(1000)]
    feed = [lines[0], "x" * 1_200_000, *lines[1:], "a tombstone"]
    (folder / "lines").write_text("\n".join(feed), encoding="utf-8")
    sql = """
    SELECT IF(value LIKE '% tombstone', NULL, concat(value, '|', hour(timestamp_seconds(0))))
           AS value
    FROM (SELECT CAST(value AS STRING) AS value FROM source)
    """
    source = kafka_source(startingOffsets="earliest")
    given = stream(source, kafka_sink(), trigger=AVAILABLE_NOW, transform={"sql": sql})
    (folder / "stream.yaml").write_text(given.to_yaml())
    environment |= {"TZ": "Asia/Kolkata"}
    own = ["--with-kafka", "--rate", "1", "--feed", "lines", "--once", "--show"]
    with command(folder, environment, *own, "stream.yaml") as running:
        assert running.process.wait(PATIENCE_SECONDS) == 0, running.log
    assert "ERROR" not in running.log
    assert sorted(running.rows) == sorted([*(f"{line}|0" for line in lines), "null"])
    (refused,) = running.entries("line 2 of --feed was not sent")
    assert refused["error"].startswith("RecordTooLargeException: The message is 1200")
    assert "JavaObject" not in running.log


MISSING = "SELECT missing(value) FROM source"


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        pytest.param(
            {"trigger": {"availableNow": {}}}, 0, '"Completed"', id="done", marks=pytest.mark.full
        ),
        pytest.param(
            {"transform": {"sql": MISSING}}, 1, "UnresolvedRoutine", id="refused by Spark"
        ),
    ],
)
def test_the_command_ends_with_its_query(
    changes: dict[str, Any], code: int, message: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    """When all input is read, and after a permanent failure."""
    (tmp_path / "stream.yaml").write_text(stream(**changes).to_yaml())
    with command(tmp_path, environment, "stream.yaml") as running:
        assert running.process.wait(PATIENCE_SECONDS) == code, running.log
    assert message in running.log


@pytest.mark.proves("failures.md#the-sources-topic-does-not-exist")
def test_a_missing_topic_can_be_waited_for(
    topics: Topics, tmp_path: Path, environment: dict[str, str]
) -> None:
    """As a pod waits for it; without --wait the command ends, as above."""
    missing, sink = f"{topics.make()}-later", topics.make()
    flow = stream(
        kafka_source(topics.bootstrap, topics=[missing]),
        kafka_sink(topics.bootstrap, topic=sink),
    )
    (tmp_path / "stream.yaml").write_text(flow.to_yaml())
    with command(tmp_path, environment, "stream.yaml") as running:
        assert running.process.wait(PATIENCE_SECONDS) == 1, running.log
    assert f"The topic {missing} does not exist." in running.log
    with command(tmp_path, environment, "--wait", "stream.yaml") as running:
        running.wait("failure", "reason")
        topics.make(name=missing)
        topics.send(missing, range(5))
        topics.wait_received(sink, range(5))
        assert running.interrupt() == 0, running.log


def test_brokers_out_of_reach_are_said_with_the_way_out(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    flow = stream(kafka_source("kafka.invalid:9092"), kafka_sink("kafka.invalid:9092"))
    (tmp_path / "stream.yaml").write_text(flow.to_yaml())
    with command(tmp_path, environment, "stream.yaml") as running:
        assert "--with-kafka" in running.wait("hint", "cause")["cause"]
        assert "bootstrap.servers. The name server" in running.wait("failure", "cause")["cause"]
        running.interrupt()


# docs/how-to/from-spark-submit.md, with a state.
_PLAIN_SPARK = """
import sys
from pyspark.sql import SparkSession
jars, bootstrap, source, sink, checkpoint = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.driver.extraClassPath", jars)
    .config("spark.sql.shuffle.partitions", "3")
    .getOrCreate()
)
read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
read = read.option("subscribe", source).option("startingOffsets", "earliest").load()
counts = read.groupBy("value").count().selectExpr("value AS key", "CAST(count AS STRING) AS value")
write = counts.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
write = write.option("topic", sink).option("checkpointLocation", checkpoint).outputMode("update")
write.trigger(availableNow=True).start().awaitTermination()
"""
_COUNTS = "SELECT value AS key, CAST(count(*) AS STRING) AS value FROM source GROUP BY value"


def test_the_checkpoint_of_plain_spark_goes_on(
    topics: Topics, tmp_path: Path, environment: dict[str, str]
) -> None:
    """Offsets and state: each count goes on where plain Spark has left it."""
    source, sink = topics.make(2), topics.make(1)
    folder = tmp_path / "checkpoint"
    plain: list[str | Path] = [f"{connector_jars()}/*", topics.bootstrap, source, sink, folder]
    produce(topics.bootstrap, source, ["a", "b", "a"])
    subprocess.run([sys.executable, "-c", _PLAIN_SPARK, *plain], check=True, timeout=300)
    assert sorted(consume(topics.bootstrap, sink)) == [("a", "2"), ("b", "1")]
    flow = stream(
        kafka_source(topics.bootstrap, topics=[source], startingOffsets="earliest"),
        kafka_sink(topics.bootstrap, topic=sink),
        transform={"sql": _COUNTS},
        outputMode="update",
        trigger=AVAILABLE_NOW,
    )
    (tmp_path / "stream.yaml").write_text(flow.to_yaml())
    produce(topics.bootstrap, source, ["a", "c"])
    with command(tmp_path, environment, "--checkpoint", folder, "stream.yaml") as running:
        assert running.process.wait(PATIENCE_SECONDS) == 0, running.log
    assert "Imported" in running.log
    assert sorted(consume(topics.bootstrap, sink)[2:]) == [("a", "3"), ("c", "1")]
    assert not list(folder.glob("*/.*.crc"))


# As a shell does: makes the command the foreground process of the terminal, which gets the keys.
_IN_FOREGROUND = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from penstock.cli import main
sys.exit(main(["run", *sys.argv[1:]]))
"""


class Terminal:
    """The command in a terminal of its own, and the text on it."""

    def __init__(self, folder: Path, environment: dict[str, str], *arguments: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.before = termios.tcgetattr(slave)
        self._slave, self._seen = slave, b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", _IN_FOREGROUND, *arguments],
            cwd=folder, env={**environment, "TERM": "xterm"},
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    @property
    def epoch(self) -> int:
        return int(re.findall(r"epoch +(\d+)", self.text())[-1])

    def text(self) -> str:
        """All output so far, without escape sequences."""
        while select.select([self._master], [], [], 0)[0]:
            self._seen += os.read(self._master, 65536)
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._seen.decode(errors="replace"))

    def wait(self, pattern: str) -> None:
        def shown() -> bool:
            assert self.process.poll() is None, self.text()
            return re.search(pattern, self.text()) is not None

        wait_for(f"{pattern} in {self.text()[-2000:]!r}", shown)

    @property
    def after(self) -> list[Any]:
        return termios.tcgetattr(self._slave)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)
        os.close(self._slave)


@pytest.mark.proves(36)
def test_the_live_view_in_a_terminal(tmp_path: Path, environment: dict[str, str]) -> None:
    """Epochs advance, records are printed above the view, and the log goes to its file."""
    (tmp_path / "stream.yaml").write_text(stream().to_yaml())
    terminal = Terminal(tmp_path, environment, "stream.yaml")
    try:
        terminal.wait(r"numbers  Running  continuous, an epoch every 1s")
        terminal.wait(r"epoch +\d+, committed 0 s ago")
        first = terminal.epoch
        wait_for("epochs", lambda: terminal.epoch >= first + 2)
        terminal.wait(r"\| +timestamp\|value\|")
        terminal.type(b"\x03")
        wait_for("the end", lambda: (terminal.text(), terminal.process.poll())[1] is not None)
        text = terminal.text()
        assert terminal.process.returncode == 0, text
        assert "numbers  Stopped" in text
        # No log lines: neither the driver's nor the JVM's.
        assert '"level"' not in text
        assert '"logger"' not in text
        assert terminal.after == terminal.before
    finally:
        terminal.close()
    log = (tmp_path / ".penstock" / "numbers" / "checkpoint.log").read_text()
    assert '"message": "stopped"' in log


@pytest.mark.full
def test_the_classes_of_the_first_run_are_archived_for_the_next(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """Neither waits for it. The JVM of the next run maps the archive."""
    del environment[ENV_JAVA_OPTIONS]
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    archives = tmp_path / "cache" / "penstock" / "run" / "classes"

    def run_briefly() -> list[str]:
        with command(tmp_path, environment, FOLDER / "rate-to-console.yaml") as running:
            entries = running.entries
            wait_for("it runs", lambda: any(row["state"] == "Running" for row in entries("stream")))
            children = psutil.Process(running.process.pid).children()
            mapped = [file.path for child in children for file in child.memory_maps()]
            assert running.interrupt() == 0
        return mapped

    run_briefly()
    wait_for("the archive", lambda: list(archives.glob("*.jsa")))
    (archive,) = archives.iterdir()
    assert str(archive) in run_briefly()


_INTERRUPTED_RUN = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == "pydantic_core":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
from penstock.cli import main
raise SystemExit(main(["run", "none.yaml"]))
"""


def test_ctrl_c_during_the_imports_prints_nothing() -> None:
    """They take a second, or many on a busy machine."""
    command = [sys.executable, "-c", _INTERRUPTED_RUN]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
