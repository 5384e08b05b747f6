"""The tasks of `--with-kafka`: creating topics, feeding one and printing another's records."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.driver.jvm import Jvm
from penstock.driver.logs import log_event
from penstock.local.kafka.broker import Broker, BrokerError
from penstock.local.kafka.clients import CALL_SECONDS, KafkaClients
from penstock.local.kafka.feed import Feed, send_all, send_lines
from penstock.local.kafka.show import print_records
from penstock.local.view.rows import Row

_END_SECONDS = 5.0


@dataclass
class SideTasks:
    """The broker, its topics, and the tasks that use them."""

    broker: Broker
    topics: Mapping[str, int]
    """Topics to create, with their numbers of partitions."""
    feed: Feed | None = None
    show: str | None = None
    """The topic to print."""
    stop: threading.Event = field(default_factory=threading.Event)
    failure: BrokerError | None = None
    """Why the broker did not start. The driver reports the first line of an exception only."""
    _end_seconds: float | None = _END_SECONDS
    """How long each may take to end; None: until it has."""
    _threads: list[threading.Thread] = field(default_factory=list)

    def rows(self) -> tuple[Row, ...]:
        """Their rows of the live view."""
        topics = ", ".join(f"{topic} ({count})" for topic, count in self.topics.items())
        kafka = self.broker.bootstrap
        if not self.broker.running:
            kafka = f"stopped unexpectedly: see {self.broker.log}"
        feed = self.feed
        fed = "" if feed is None else f"{feed.sent:,} lines sent to {feed.topic}"
        done = ", end of the file" if feed is not None and feed.done else ""
        return (("kafka", kafka), ("topics", topics), ("feed", fed + done))

    def on_query_running(self) -> None:
        """Starts the feed: the query reads every record from now on."""
        if self.feed is not None:
            self.feed.start.set()

    def on_query_completed(self) -> None:
        """Gives the tasks the time that they need to end: nobody waits for Ctrl-C to work."""
        self._end_seconds = None

    @contextlib.contextmanager
    def running(self, jvm: Jvm) -> Iterator[None]:
        """Creates the topics, then runs the tasks in threads until the block ends."""
        self._wait_for_broker()
        clients = KafkaClients(jvm.gateway, self.broker.bootstrap)
        clients.create_topics(self.topics)
        try:
            self._start_show(clients)
            # Afterwards, so every record that results from the feed is printed.
            self._start_feed(clients)
            yield
        finally:
            self.stop.set()
            for thread in self._threads:
                thread.join(self._end_seconds)

    def _wait_for_broker(self) -> None:
        try:
            self.broker.wait_until_ready()
        except BrokerError as error:
            self.failure = error
            raise

    def _start_show(self, clients: KafkaClients) -> None:
        topic, ready = self.show, threading.Event()
        if topic is not None:
            self._thread("show", lambda: print_records(clients, topic, self.stop, ready))
            ready.wait(CALL_SECONDS)

    def _start_feed(self, clients: KafkaClients) -> None:
        feed = self.feed
        if feed is None:
            return
        if feed.before_query:
            send_all(clients, feed, self.stop)
        else:
            self._thread("feed", lambda: send_lines(clients, feed, self.stop))

    def _thread(self, name: str, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:  # the stream goes on without it
                if not self.stop.is_set():
                    log_event(f"{name} stopped", logging.WARNING, error=repr(error))

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)
