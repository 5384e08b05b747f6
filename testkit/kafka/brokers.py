"""Brokers for faults: several nodes of one cluster, and one behind a proxy."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from testkit.kafka.broker import Broker, free_ports
from testkit.kafka.jars import kafka_jars
from testkit.kafka.toxic_proxy import ToxicProxy

# Characters of a broker's log that a failed test prints.
_LOG_END = 10_000


class Node(Broker):
    """One broker of a cluster. The first is also the only controller, so it must not end."""

    def __init__(self, folder: Path, number: int, controller: Node | None = None) -> None:
        self._number = number
        self._controller = controller
        super().__init__(folder, kafka_jars())

    def _settings(self) -> str:
        # The controller notices within three seconds, instead of nine, that a broker has gone. One
        # that is only busy has reported to it several times by then.
        own = [
            f"node.id={self._number}",
            "broker.session.timeout.ms=3000",
            "broker.heartbeat.interval.ms=500",
        ]
        if self._controller is not None:
            port = self._controller._controller_port
            own += [
                "process.roles=broker",
                f"listeners=INTERNAL://{self.bootstrap}",
                f"controller.quorum.voters=1@127.0.0.1:{port}",
            ]
        return super()._settings() + "\n".join([*own, ""])


@contextlib.contextmanager
def two_brokers() -> Iterator[tuple[Node, Node]]:
    """Two brokers of one cluster; the second can be ended and started again."""
    with several_brokers(2) as (first, second):
        yield first, second


@contextlib.contextmanager
def several_brokers(count: int) -> Iterator[list[Node]]:
    """Brokers of one cluster; all but the first can be ended and started again."""
    with tempfile.TemporaryDirectory(prefix="penstock-kafka-") as folder:
        nodes = [Node(Path(folder) / "1", 1)]
        nodes += [Node(Path(folder) / str(n), n, nodes[0]) for n in range(2, count + 1)]
        try:
            for node in nodes:
                node.start_process()
            for node in nodes:
                node.wait_until_ready()
            yield nodes
        except BaseException:
            for log in (node.log for node in nodes if node.log.exists()):
                print(f"{log}:\n{log.read_text(errors='replace')[-_LOG_END:]}")
            raise
        finally:
            for node in reversed(nodes):
                node.kill()


class ProxiedBroker(Broker):
    """A broker with one more listener, which clients reach through a proxy only."""

    def __init__(self, folder: Path, proxy: ToxicProxy) -> None:
        (self.proxied_port,) = free_ports(1)
        self._proxy = proxy
        super().__init__(folder, kafka_jars())

    @property
    def proxied(self) -> str:
        """The address of the proxy, for a client's bootstrap.servers."""
        return f"127.0.0.1:{self._proxy.port}"

    def _settings(self) -> str:
        more = {
            "listener.security.protocol.map": "PROXIED:PLAINTEXT",
            "listeners": f"PROXIED://127.0.0.1:{self.proxied_port}",
            "advertised.listeners": f"PROXIED://{self.proxied}",
        }
        lines = []
        for line in super()._settings().splitlines():
            name = line.partition("=")[0]
            lines.append(f"{line},{more[name]}" if name in more else line)
        return "\n".join([*lines, ""])


@contextlib.contextmanager
def proxied_broker() -> Iterator[tuple[ProxiedBroker, ToxicProxy]]:
    """A broker, and the proxy before its second listener."""
    with tempfile.TemporaryDirectory(prefix="penstock-kafka-") as folder:
        proxy = ToxicProxy()
        broker = ProxiedBroker(Path(folder), proxy)
        with proxy.to(broker.proxied_port):
            try:
                broker.start()
                yield broker, proxy
            finally:
                broker.kill()
