"""The proxy does to connections what its methods say."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from testkit.kafka.toxic_proxy import ToxicProxy


@pytest.fixture
def proxy() -> Iterator[ToxicProxy]:
    """A proxy to a server that sends back what it gets."""
    server = socket.create_server(("127.0.0.1", 0))

    def echo(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(100):
                connection.sendall(data)

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    proxy = ToxicProxy()
    with proxy.to(server.getsockname()[1]):
        yield proxy
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def connect(proxy: ToxicProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), 10)


def ask(connection: socket.socket) -> bytes:
    connection.sendall(b"hello")
    return connection.recv(100)


def test_it_passes_data_on_late_too(proxy: ToxicProxy) -> None:
    with connect(proxy) as connection:
        assert ask(connection) == b"hello"
        proxy.delay = 0.01
        assert ask(connection) == b"hello"


def test_a_half_open_connection_stays_dead(proxy: ToxicProxy) -> None:
    with connect(proxy) as old:
        assert ask(old) == b"hello"
        proxy.swallow()
        proxy.heal()
        old.settimeout(0.1)
        with pytest.raises(TimeoutError):
            ask(old)
        with connect(proxy) as new:
            assert ask(new) == b"hello"


def test_a_reset_reaches_the_client(proxy: ToxicProxy) -> None:
    with connect(proxy) as connection:
        assert ask(connection) == b"hello"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            connection.recv(100)


def test_a_close_of_the_broker_reaches_the_client_late(proxy: ToxicProxy) -> None:
    with connect(proxy) as connection:
        assert ask(connection) == b"hello"
        proxy.close_delay = 0.5
        proxy.close_broker_ends()
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        connection.settimeout(10)
        assert connection.recv(100) == b""
