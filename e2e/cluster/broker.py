"""A real Kafka broker on loopback, for tests that need no cluster. Ready in a few seconds."""

import contextlib
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster.errors import ClusterError
from e2e.cluster.jars import kafka_jars
from e2e.cluster.leash import Leashed
from e2e.cluster.paths import CHECKOUT
from e2e.cluster.proc import run

BASE_PROPERTIES = CHECKOUT / "e2e" / "kafka" / "server.properties"
_CLUSTER_ID = "penstockLocalTestAAAAA"
_START_SECONDS = 60
_JVM = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]


class LocalBroker:
    """One broker whose data and address survive ``stop``, ``kill`` and ``start``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._controller_port = free_ports(2)
        self._process: Leashed | None = None
        self._starts = 0
        self._properties = folder / "server.properties"
        self._properties.write_text(self._settings())
        java = self._java("kafka.tools.StorageTool")
        run([*java, "format", "-t", _CLUSTER_ID, "-c", self._properties], timeout=60)

    @property
    def bootstrap(self) -> str:
        """What a client calls bootstrap.servers."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and come back when it accepts clients."""
        if self._process is not None and self._process.running:
            return
        self._starts += 1
        log = self._folder / f"broker-{self._starts}.log"
        self._process = Leashed([*self._java("kafka.Kafka"), self._properties], log=log)
        deadline = time.monotonic() + _START_SECONDS
        while "Kafka Server started" not in log.read_text(errors="replace"):
            if not self._process.running or time.monotonic() > deadline:
                words = self._process.last_words()
                self._process.kill()
                raise ClusterError(f"the Kafka broker did not start; its last words:\n{words}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it in good order; what was written stays."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End it as a power cut would; what was acknowledged stays."""
        if self._process is not None:
            self._process.kill()

    def _settings(self) -> str:
        client, controller = f"127.0.0.1:{self._port}", f"127.0.0.1:{self._controller_port}"
        return BASE_PROPERTIES.read_text() + "\n".join(
            [
                "",
                "listener.security.protocol.map=INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
                f"listeners=INTERNAL://{client},CONTROLLER://{controller}",
                f"advertised.listeners=INTERNAL://{client}",
                f"controller.quorum.voters=1@{controller}",
                f"log.dirs={self._folder / 'data'}",
                "",
            ]
        )

    @staticmethod
    def _java(main: str) -> list[str | Path]:
        logging = [
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
        ]
        return ["java", *_JVM, *logging, "-cp", f"{kafka_jars()}/*", main]


@contextlib.contextmanager
def local_broker() -> Iterator[LocalBroker]:
    """A fresh broker without topics, gone with all its data at the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-kafka-"))
    broker: LocalBroker | None = None
    try:
        broker = LocalBroker(folder)
        broker.start()
        yield broker
    finally:
        if broker is not None:
            broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Loopback ports nobody listens on. All are held at once, so they differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [item.getsockname()[1] for item in sockets]
