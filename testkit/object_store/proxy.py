"""A proxy in front of an object store: it counts the requests, and breaks them."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from testkit.object_store.client import Answer, S3Client
from testkit.object_store.request import WRITES, Kind, S3Request
from testkit.object_store.reverse_proxy import ReverseProxy
from testkit.object_store.store import ObjectStore
from testkit.wait import PATIENCE_SECONDS

_CONDITIONS = frozenset({"if-match", "if-none-match"})


class HeldPut:
    """The first PUT that arrives at the proxy, and goes on to the store when it is released."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.arrived = threading.Event()
        self.released = threading.Event()
        self.answered = threading.Event()

    def takes(self, request: S3Request) -> bool:
        """Whether this is the one, which has arrived therefore."""
        takes = not self.arrived.is_set() and _is_put(request, self._text)
        if takes:
            self.arrived.set()
        return takes


class S3Proxy:
    """Answers at `endpoint` as the store does, with the same keys. Break it from any thread.

    A fault of PUTs is one of those whose /BUCKET/KEY has the text in it. Uploads of parts are PUTs.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._requests: list[tuple[Kind, str]] = []
        self._slow_downs, self._lost, self._cut = _Next(), _Next(), _Next()
        self._held: list[HeldPut] = []
        self._read_only = self._ignores_conditions = False
        self._server = ReverseProxy(store.endpoint, self._cuts, self._answer)
        self.endpoint = self._server.endpoint
        self.client = S3Client(self.endpoint, store.access_key, store.secret_key)

    @property
    def requests(self) -> list[tuple[Kind, str]]:
        """What has arrived since the last `reset`, broken or not: the kind, and /BUCKET/KEY."""
        with self._lock:
            return list(self._requests)

    @property
    def counts(self) -> Counter[Kind]:
        """How many of each kind have arrived since the last `reset`."""
        return Counter(kind for kind, _ in self.requests)

    def reset(self) -> None:
        """Counts from zero; the faults stay."""
        with self._lock:
            self._requests.clear()

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        """Cuts every connection, and each new one, which does not count."""
        self._server.accepts = False
        self._server.cut_connections()
        try:
            yield
        finally:
            self._server.accepts = True

    def slow_down(self, count: int, *, one_in: int = 1) -> None:
        """Answers 503 SlowDown to one in so many of the next requests, `count` times."""
        with self._lock:
            self._slow_downs = _Next(count, one_in=one_in)

    def lose_answers(self, count: int, text: str = "") -> None:
        """Passes the next PUTs on, and cuts the connection instead of answering."""
        with self._lock:
            self._lost = _Next(count, text)

    def cut_uploads(self, count: int) -> None:
        """Cuts both connections of each of the next PUTs, with half of the body at the store."""
        with self._lock:
            self._cut = _Next(count)

    @contextlib.contextmanager
    def hold(self, text: str) -> Iterator[HeldPut]:
        """Holds the next PUT until the end of the block, and then until the store has answered."""
        held = HeldPut(text)
        with self._lock:
            self._held.append(held)
        try:
            yield held
        finally:
            with self._lock:
                self._held.remove(held)
            held.released.set()
            assert not held.arrived.is_set() or held.answered.wait(PATIENCE_SECONDS)

    @contextlib.contextmanager
    def ignoring_conditions(self) -> Iterator[None]:
        """Is a store that knows neither If-Match nor If-None-Match."""
        self._ignores_conditions = True
        try:
            yield
        finally:
            self._ignores_conditions = False

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        """Answers 403 AccessDenied to all that writes, as to a key that may only read."""
        self._read_only = True
        try:
            yield
        finally:
            self._read_only = False

    @contextlib.contextmanager
    def serving(self) -> Iterator[S3Proxy]:
        with self._server.serving():
            yield self

    def _cuts(self, request: S3Request) -> bool:
        with self._lock:
            cuts = request.kind is Kind.PUT and self._cut.takes_one()
            if cuts:
                self._requests.append((request.kind, request.path))
            return cuts

    def _answer(self, request: S3Request) -> Answer | None:
        with self._lock:
            self._requests.append((request.kind, request.path))
            if self._read_only and request.kind in WRITES:
                return _error(403, "AccessDenied")
            if self._slow_downs.takes_one():
                return _error(503, "SlowDown")
            is_lost = _is_put(request, self._lost.text) and self._lost.takes_one()
            held = [each for each in self._held if each.takes(request)]
        for each in held:
            each.released.wait()
        try:
            answer = self._pass_on(request)
        finally:
            for each in held:
                each.answered.set()
        return None if is_lost else answer

    def _pass_on(self, request: S3Request) -> Answer:
        if not self._ignores_conditions or not _CONDITIONS & request.headers.keys():
            return self._server.forward(request)
        # The client's signature covers the conditions, so it needs another one.
        kept = {
            name: value
            for name, value in request.headers.items()
            if name.startswith("x-amz-meta-") or name == "content-type"
        }
        return self._store.send(
            request.method, request.path, query=request.query, headers=kept, body=request.content
        )


@contextlib.contextmanager
def s3_proxy(store: ObjectStore) -> Iterator[S3Proxy]:
    """A proxy without faults, during the block."""
    with S3Proxy(store).serving() as proxy:
        yield proxy


@dataclass
class _Next:
    """A fault of the next so many requests."""

    count: int = 0
    text: str = ""
    one_in: int = 1
    _seen: int = 0

    def takes_one(self) -> bool:
        if not self.count:
            return False
        self._seen += 1
        takes = self._seen % self.one_in == 0
        self.count -= takes
        return takes


def _is_put(request: S3Request, text: str) -> bool:
    return request.kind is Kind.PUT and text in request.path


def _error(status: int, code: str) -> Answer:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>By a test.</Message></Error>"
    length = str(len(body))
    headers = {"content-type": "application/xml", "content-length": length}
    return Answer(status, headers, body.encode())
