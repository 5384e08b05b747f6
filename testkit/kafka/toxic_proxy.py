"""A TCP proxy between Kafka's clients and a broker: late, half-open, reset, closed late."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_CHUNK_BYTES = 65_536
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of no seconds: a close sends RST."""


@dataclass(eq=False)
class _Connection:
    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    dead: bool = False
    """Nothing passes any more, and neither end is told."""


class ToxicProxy:
    """Listens on loopback; `port` is known before the broker's. Change it from any thread."""

    def __init__(self) -> None:
        self.delay = 0.0
        """Seconds that each chunk of data waits."""
        self.close_delay = 0.0
        """Seconds until one end learns that the other has closed."""
        self._swallows = False
        self._target = 0
        self._connections: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])

    def swallow(self) -> None:
        """Makes every connection half-open for good, and those that are opened until `heal`."""
        self._do(lambda: self._set_dead(True))

    def heal(self) -> None:
        """New connections work again."""
        self._do(lambda: self._set_dead(False))

    def reset(self) -> None:
        """Ends every connection with RST at the client's end."""
        self._do(self._reset)

    def close_broker_ends(self) -> None:
        """Closes every connection at the broker's end; clients learn it after `close_delay`."""
        self._do(self._close_broker_ends)

    @contextlib.contextmanager
    def to(self, port: int) -> Iterator[ToxicProxy]:
        """Passes connections on to this port during the block."""
        self._target = port
        thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        thread.start()
        try:
            yield self
        finally:
            self._do(self._end)
            thread.join()
            self._loop.close()

    def _do(self, change: Callable[[], object]) -> None:
        done = threading.Event()

        def run() -> None:
            change()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(10)

    def _set_dead(self, dead: bool) -> None:
        self._swallows = dead
        for connection in self._connections:
            connection.dead = connection.dead or dead

    def _close_broker_ends(self) -> None:
        for connection in self._connections:
            connection.broker.close()

    def _reset(self) -> None:
        for connection in self._connections:
            raw = connection.client.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            connection.client.transport.abort()
            connection.broker.transport.abort()

    def _end(self) -> None:
        self._ended.set()

    async def _serve(self) -> None:
        self._ended = asyncio.Event()
        server = await asyncio.start_server(self._accept, sock=self._socket)
        await self._ended.wait()
        server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, broker = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        connection = _Connection(writer, broker, self._swallows)
        self._connections.add(connection)
        try:
            with contextlib.suppress(asyncio.CancelledError):  # the end of the proxy
                await asyncio.gather(
                    self._pass(connection, reader, broker),
                    self._pass(connection, answers, writer),
                )
        finally:
            self._connections.discard(connection)
            writer.close()
            broker.close()

    async def _pass(
        self, connection: _Connection, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(_CHUNK_BYTES):
                if self.delay:
                    await asyncio.sleep(self.delay)
                if not connection.dead:
                    sink.write(data)
                    await sink.drain()
        if connection.dead:
            return
        await asyncio.sleep(self.close_delay)
        sink.close()
