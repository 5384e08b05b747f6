"""Runs the driver as a process, as in its pod, and sends traffic to it."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.background_threads import repeat_in_background
from penstock.driver.checkpoint.progress import ProgressReader
from penstock.driver.jvm import ENV_JAVA_OPTIONS
from testkit import system_packages
from testkit.driver.class_archive import driver_environment
from testkit.kafka.broker import free_ports
from testkit.kafka.topics import Topics
from testkit.wait import wait_for

# Harmless warnings of Spark: at a start after async progress tracking was on, and about time, on a
# busy machine.
EXPECTED_WARNINGS = (
    "Batch completion log latest batch id",
    "Current batch is falling behind",
    "Neither Kafka's brokers nor the name server answered within 15 s",
)
_WARNINGS = ('"WARN"', '"WARNING"', '"ERROR"', '"FATAL"')


def is_expected(line: str) -> bool:
    """Whether a line of a log is one of the harmless warnings."""
    return any(known in line for known in EXPECTED_WARNINGS)


def is_warning(line: str) -> bool:
    """Whether a line of a log is a warning or an error, and not an expected one."""
    return any(word in line for word in _WARNINGS) and not is_expected(line)


class WallClock:
    """The wall clock of a driver and its JVM. Files still get the machine's time."""

    def __init__(self, folder: Path) -> None:
        system_packages.require("cc")
        library, self._ahead = folder / "wall_clock.so", folder / "wall_clock"
        source = Path(__file__).with_name("wall_clock.c")
        compile_ = ["cc", "-O1", "-fPIC", "-shared", "-nostdlib", str(source), "-o", str(library)]
        subprocess.run(compile_, check=True, timeout=60)
        self.environment = {"LD_PRELOAD": str(library), "WALL_CLOCK_AHEAD": str(self._ahead)}
        self.set_ahead(0)

    def set_ahead(self, seconds: int) -> None:
        """Makes it jump to this many seconds ahead of the machine's clock."""
        with self._ahead.open("r+b" if self._ahead.exists() else "wb", buffering=0) as file:
            file.write(struct.pack("@l", seconds))


class Process:
    """`python3 -m penstock.driver` with one stream and one checkpoint."""

    def __init__(
        self,
        it: ContinuousStream,
        folder: Path,
        class_path: str,
        *program: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        (self.port,) = free_ports(1)
        self.termination_log = folder / "termination-log"
        self.log = folder / f"driver-{time.monotonic_ns()}.log"
        (folder / "stream.yaml").write_text(it.to_yaml())
        command = [
            sys.executable, *(program or ("-m", "penstock.driver")), str(folder / "stream.yaml"),
            "--checkpoint", str(folder / "checkpoint"), "--class-path", class_path,
            "--secrets", str(folder / "secrets"),
            "--http-port", str(self.port), "--termination-log", str(self.termination_log),
        ]  # fmt: skip
        with self.log.open("wb") as log:
            given = environment or {}
            fast = {} if ENV_JAVA_OPTIONS in given else driver_environment(class_path)
            env = {**os.environ, **fast, **given}
            self.process = subprocess.Popen(command, stderr=log, env=env)

    def probe(self, path: str) -> int:
        """The status code of a GET; 0 without an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    def page(self, path: str) -> str:
        """The body of a GET; empty without an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def wait_alive(self) -> None:
        """Waits until the driver serves /livez; its JVM starts after that."""
        self._wait_for_answer("alive", "/livez")

    def wait_ready(self) -> None:
        self._wait_for_answer("ready", "/readyz")

    def _wait_for_answer(self, what: str, path: str) -> None:
        def answers() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return self.probe(path) == 200

        wait_for(what, answers, detail=self.log.read_text)

    @property
    def children(self) -> list[int]:
        return [child.pid for child in psutil.Process(self.process.pid).children()]

    @property
    def jvm(self) -> int:
        (jvm,) = self.children
        return jvm

    def kill(self, at: Callable[[], bool] = lambda: True) -> None:
        """Kills all of its processes at once, like the loss of a node; waits until they are gone.

        `at` chooses the moment: it is called while all processes are suspended, until it is true.
        """
        self.freeze(at)  # so that no process sees another one die
        children = self.children
        for pid in (*children, self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        wait_for("gone", lambda: not any(_is_running(pid) for pid in children))

    def kill_ahead(self, progress: ProgressReader, ahead: Callable[[], int]) -> int:
        """Kills it after a commit, when `ahead` counts something that is written and not committed;
        returns that count.
        """
        counted: list[int] = []

        def is_ahead() -> bool:
            counted.append(ahead())
            return counted[-1] > 0

        self.wait_ready()
        before = progress.committed_epoch() or 0
        wait_for("a commit", lambda: (progress.committed_epoch() or 0) > before)
        self.kill(is_ahead)
        return counted[-1]

    def freeze(self, at: Callable[[], bool] = lambda: True) -> None:
        """Suspends all of its processes, as on a node that hangs, at a moment as above."""
        wait_for("the moment", lambda: self._is_suspended_at(at))

    def wake(self) -> None:
        for pid in (self.process.pid, *self.children):
            os.kill(pid, signal.SIGCONT)

    def _is_suspended_at(self, at: Callable[[], bool]) -> bool:
        """Suspends all processes; resumes them if `at` is false."""
        for pid in (self.process.pid, *self.children):
            os.kill(pid, signal.SIGSTOP)
        if at():
            return True
        self.wake()
        return False

    def stop(self, seconds: float = 60) -> int:
        """Sends SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def warnings(self) -> list[str]:
        """The warnings and errors in its log, without the expected ones."""
        return [line for line in self.log.read_text().splitlines() if is_warning(line)]


def _is_running(pid: int) -> bool:
    """False for a zombie, which has exited and only waits for its parent."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def driver(
    it: ContinuousStream,
    folder: Path,
    class_path: str,
    *program: str,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Process]:
    """A driver process during the block; `program` are Python's arguments that start it."""
    process = Process(it, folder, class_path, *program, environment=environment)
    try:
        yield process
    finally:
        process.process.kill()
        process.process.wait()


# The pause of `traffic` for two hundred numbers a second. A driver takes most of a core for them.
LOAD = 0.05


@contextmanager
def traffic(topics: Topics, topic: str, every: float = 0.2) -> Iterator[list[int]]:
    """Sends ten numbers at a time during the block; yields the count in a list.

    `every`: the pause in seconds, by default for about fifty numbers a second.
    """
    sent = [0]

    def send() -> None:
        topics.send(topic, range(sent[0], sent[0] + 10))
        sent[0] += 10

    with repeat_in_background(send, every):
        yield sent
