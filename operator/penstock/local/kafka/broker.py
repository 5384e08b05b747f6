"""A real Kafka broker of one node on loopback. Ready in a few seconds; ends with its parent."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import socket
import time
from pathlib import Path

from penstock.local.tools.child_process import ChildProcess

BASE_PROPERTIES = Path(__file__).with_name("server.properties")
_START_SECONDS = 120.0
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
)
# Relative to its folder, whose path may hold what has a meaning in the file: letters beyond
# Latin-1, a backslash, or the comma between log.dirs.
_PROPERTIES = "server.properties"
_DATA = "data"
_STARTED = "Kafka Server started"
# Linux gives clients those from 32768 (net.ipv4.ip_local_port_range), macOS those from 49152.
_PORTS = range(20_000, 32_000)


class BrokerError(RuntimeError):
    """The broker did not start; the message has the end of its log."""


class Broker:
    """One broker. Its data survives `stop` and `kill`, and a later object over the folder finds it.

    `jars` is a folder with all jars of its class path.
    """

    cluster_id = "penstockLocalTestAAAAA"

    def __init__(
        self, folder: Path, jars: Path, java: str = "java", *, makes_topics: bool = False
    ) -> None:
        """`makes_topics`: it creates a topic that a client names and that does not exist."""
        self._makes_topics = makes_topics
        self._folder = folder
        # It runs in its folder, so a path of its command line is absolute.
        java = str(Path(java).absolute()) if os.sep in java else java
        self._command = [java, *_JVM, *_LOGGING, "-cp", f"{jars.absolute()}/*"]
        self._port, self._controller_port = free_ports(2)
        self._process: ChildProcess | None = None
        self._starts = 0
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _PROPERTIES).write_text(self._settings(), encoding="ascii")

    @property
    def bootstrap(self) -> str:
        """Its address, for a client's bootstrap.servers."""
        return f"127.0.0.1:{self._port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    @property
    def log(self) -> Path:
        """The output of the last start's process."""
        return self._folder / f"broker-{self._starts}.log"

    def start(self) -> None:
        self.start_process()
        self.wait_until_ready()

    def start_process(self) -> None:
        """Starts its process, which first formats a new folder, without waiting."""
        if not self.running:
            self._starts += 1
            self.log.unlink(missing_ok=True)
            command = [*self._java("kafka.Kafka"), _PROPERTIES]
            if not (self._folder / _DATA / "meta.properties").exists():
                command = ["sh", "-c", f"{self._format_command()} && exec {shlex.join(command)}"]
            self._process = ChildProcess(command, log=self.log, folder=self._folder)

    def wait_until_ready(self) -> None:
        """Waits until it accepts clients; raises BrokerError if it does not in two minutes."""
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while _STARTED not in self.log.read_text(errors="replace"):
            if not self._process.running or time.monotonic() > deadline:
                output = self._process.last_lines()
                self._process.kill()
                raise BrokerError(
                    f"the Kafka broker did not start. The end of its log, {self.log}:\n{output}"
                )
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends it cleanly; its data stays."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """Ends it as a power cut would; acknowledged records stay."""
        if self._process is not None:
            self._process.kill()

    def _format_command(self) -> str:
        tool = [*self._java("kafka.tools.StorageTool"), "format", "--ignore-formatted"]
        return shlex.join([*tool, "-t", self.cluster_id, "-c", _PROPERTIES])

    def _java(self, main: str) -> list[str]:
        """The command line that runs one of Kafka's classes, without its arguments."""
        return [*self._command, main]

    def _settings(self) -> str:
        client, controller = f"127.0.0.1:{self._port}", f"127.0.0.1:{self._controller_port}"
        return BASE_PROPERTIES.read_text() + "\n".join(
            [
                "",
                "listener.security.protocol.map=INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
                f"listeners=INTERNAL://{client},CONTROLLER://{controller}",
                f"advertised.listeners=INTERNAL://{client}",
                f"controller.quorum.voters=1@{controller}",
                f"log.dirs={_DATA}",
                *(["auto.create.topics.enable=true"] if self._makes_topics else []),
                "",
            ]
        )


def free_ports(count: int) -> list[int]:
    """Free loopback ports. All are bound at the same time, so they differ.

    They are below the ports that the kernel gives to clients. A client that keeps connecting to
    one of those while its broker is away may get it as its own port, and connect to itself.
    """
    with contextlib.ExitStack() as stack:
        sockets: list[socket.socket] = []
        while len(sockets) < count:
            item = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                item.bind(("127.0.0.1", random.choice(_PORTS)))  # noqa: S311
                sockets.append(item)
        return [item.getsockname()[1] for item in sockets]
