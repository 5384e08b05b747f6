"""Sends numbered records to one topic and reads another: counts lost records and duplicates."""

from __future__ import annotations

import functools
import json
import logging
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Message, Producer

from testkit.kafka.deliveries import Copy, Place
from testkit.wait import wait_for


def numbered(number: int) -> str:
    """A record with its number and the time it was sent (ms since 1970)."""
    return json.dumps({"n": number, "ms": time.time() * 1000})


@dataclass
class Arrivals:
    """The numbers that arrived, how often each one did, and the latencies."""

    counts: Counter[int] = field(default_factory=Counter)
    copies: list[Copy] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)

    @property
    def duplicates(self) -> int:
        """Arrivals beyond the first of each number."""
        return sum(self.counts.values()) - len(self.counts)

    def has(self, number: int) -> bool:
        return number in self.counts

    def missing(self, sent: Iterable[int]) -> list[int]:
        """The numbers that were sent and did not arrive."""
        return [number for number in sent if number not in self.counts]


class _SinceDelivery(logging.Handler):
    """The client's log lines since the last delivery: they tell why there is no other."""

    def __init__(self) -> None:
        super().__init__()
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=200)

    def emit(self, record: logging.LogRecord) -> None:
        lines = self._first if len(self._first) < 100 else self._last
        lines.append(f"{time.time():.3f} {record.getMessage()}")

    def clear(self) -> None:
        self._first.clear()
        self._last.clear()

    def __str__(self) -> str:
        return "\n".join([*self._first, "...", *self._last])


class Sender:
    """Sends 0, 1, 2, ... at a constant rate from a thread, until it is stopped."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        per_second: float,
        at_most: int,
        record: Callable[[int], str] = numbered,
    ) -> None:
        self._record = record
        self._log = _SinceDelivery()
        logger = logging.Logger(f"sender to {topic}")
        logger.addHandler(self._log)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 0,
                "enable.idempotence": True,  # else a broker's end could bring a record in twice
                "message.timeout.ms": 0,  # no limit: a record waits until the broker is back
                "debug": "broker,eos",
            },
            logger=logger,
        )
        self._topic = topic
        self._pause = 1 / per_second
        self._at_most = at_most
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent = 0
        self.places: dict[int, Place] = {}
        """Where the broker has put each number that it has acknowledged."""

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> int:
        """Stops, waits until the broker has every record, and returns their count."""
        self._stop.set()
        self._thread.join(30)
        left = self._producer.flush(60)
        assert left == 0, f"{left} records did not reach the broker. The client says:\n{self._log}"
        return self.sent

    def wait_until_sent(self, count: int) -> None:
        wait_for(f"{count} records sent", lambda: self.sent >= count, 60)

    def _run(self) -> None:
        start = time.monotonic()
        while not self._stop.is_set() and self.sent < self._at_most:
            self._producer.produce(
                self._topic,
                key=str(self.sent),
                value=self._record(self.sent),
                on_delivery=functools.partial(self._delivered, self.sent),
            )
            self._producer.poll(0)
            self.sent += 1
            ahead = start + self.sent * self._pause - time.monotonic()
            if ahead > 0:
                self._stop.wait(ahead)

    def _delivered(self, number: int, error: object, message: Message) -> None:
        assert error is None, error
        self._log.clear()
        self.places[number] = (message.partition(), message.offset())


class Receiver:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"e2e-{uuid.uuid4()}",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",  # librdkafka's default, unlike Kafka's
                "enable.auto.commit": False,
                "log_level": 3,
            }
        )
        self._consumer.subscribe([topic])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.arrivals = Arrivals()

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        self._consumer.close()

    def wait_for_all(self, sent: Collection[int], timeout: float) -> None:
        """Waits until every number in `sent` has arrived."""
        wait_for(
            f"{len(sent)} numbers out",
            lambda: not self.arrivals.missing(sent),
            timeout,
            lambda: f"missing: {self.arrivals.missing(sent)[:20]}...",
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            # One at a time: consume() waits for a whole batch, which would count as latency.
            message = self._consumer.poll(0.2)
            if message is None or message.error() is not None:
                continue
            now = time.time() * 1000
            record = json.loads(message.value())
            self.arrivals.counts[record["n"]] += 1
            self.arrivals.copies.append(Copy(record["n"], message.timestamp()[1] / 1000))
            self.arrivals.latencies_ms.append(now - record["ms"])
