"""An HTTP server on loopback that hands each request to a function, and passes requests on."""

from __future__ import annotations

import contextlib
import http.client
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from testkit.object_store.client import Answer
from testkit.object_store.request import S3Request

_SECONDS = 60.0
# They belong to one connection. Each end of the proxy has its own.
_HOP_BY_HOP = frozenset({"connection", "expect", "keep-alive", "transfer-encoding"})
_WITHOUT_BODY = frozenset({http.HTTPStatus.NO_CONTENT, http.HTTPStatus.NOT_MODIFIED})


class ReverseProxy(socketserver.ThreadingTCPServer):
    """`answer` gets each request, and returns None to cut its connection.

    `cuts` is asked before that, and before the body is read: if it returns true, half of the
    request goes to the store, and the connection is cut.
    """

    request_queue_size = 128
    accepts = True
    """Whether new connections are served, and not cut."""

    def __init__(
        self,
        store: str,
        cuts: Callable[[S3Request], bool],
        answer: Callable[[S3Request], Answer | None],
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store, self.cuts, self.answer = urlsplit(store).netloc, cuts, answer
        self._connections: set[socket.socket] = set()
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            thread.join()
            self.cut_connections()
            self.server_close()  # waits for the threads of its connections

    def cut_connections(self) -> None:
        for connection in tuple(self._connections):
            _cut(connection)

    def forward(self, request: S3Request) -> Answer:
        """The store's answer to the same request: its signature covers the header Host too."""
        with self._sent(request, request.body) as connection:
            response = connection.getresponse()
            got = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, got, response.read())

    def forward_half(self, request: S3Request, half: bytes) -> None:
        """Sends only this part of the body, and closes."""
        with self._sent(request, half):
            pass

    @contextlib.contextmanager
    def _sent(self, request: S3Request, body: bytes) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection(self.store, timeout=_SECONDS)
        try:
            connection.putrequest(
                request.method, request.target, skip_host=True, skip_accept_encoding=True
            )
            for name, value in request.headers.items():
                if name not in _HOP_BY_HOP:
                    connection.putheader(name, value)
            connection.endheaders(body)
            yield connection
        finally:
            connection.close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves a connection in a thread, unless it is cut at once."""
        self._connections.add(request)
        if self.accepts:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints what is no end of a connection: those are what it is for."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ReverseProxy

    def _pass_on(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        length = int(headers.get("content-length", 0))
        request = S3Request(self.command, self.path, headers)
        if self.server.cuts(request):
            self.server.forward_half(request, self.rfile.read(length // 2))
            answer = None
        else:
            answer = self.server.answer(request.with_body(self.rfile.read(length)))
        if answer is None:
            self.close_connection = True
            _cut(self.connection)
        else:
            self._write(answer)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

    def _write(self, answer: Answer) -> None:
        is_head = self.command == "HEAD"
        headers = {name: text for name, text in answer.headers.items() if name not in _HOP_BY_HOP}
        if not is_head and answer.status not in _WITHOUT_BODY:
            headers["content-length"] = str(len(answer.body))
        self.send_response_only(answer.status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        if not is_head:
            self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # its other end was faster
        connection.shutdown(socket.SHUT_RDWR)
