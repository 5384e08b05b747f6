"""`--with-kafka`: a broker on this machine, its topics, and the tasks that feed and show them."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.api.modes import Mode
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.command_line import CommandError
from penstock.driver.checkpoint.start_position import depends_on_start_time
from penstock.driver.jvm import Jvm
from penstock.driver.logs import log_event
from penstock.local.errors import print_message, refusing
from penstock.local.kafka.broker import Broker, BrokerError
from penstock.local.kafka.clients import (
    CALL_SECONDS,
    Feed,
    KafkaClients,
    describe,
    lines_of,
    print_records,
    send_lines,
)
from penstock.local.kafka.stream_on_broker import (
    partitions_to_feed,
    redirect,
    topic_to_feed,
    topics_to_create,
)
from penstock.local.options import LocalKafkaOptions
from penstock.local.tools import jars
from penstock.local.view.progress import Row
from penstock.local.workspace import CHOOSE_FOLDER, Workspace

_END_SECONDS = 5.0


@contextlib.contextmanager
def with_kafka(
    options: LocalKafkaOptions, stream: ContinuousStream, workspace: Workspace, java: str
) -> Iterator[tuple[ContinuousStream, LocalKafka]]:
    """Starts a broker without waiting for it, and redirects the stream to it.

    The broker stops when the block ends. Raises CommandError for options that cannot work.
    """
    topics = topics_to_create(stream.spec, options.partitions, options.topic)
    feed = _feed(options, stream.spec)
    folder = jars.jar_folder(jars.BROKER, stream.spec.spark_conf, print_message)
    with refusing(workspace.broker, CHOOSE_FOLDER):
        broker = Broker(workspace.broker, folder, java)
    redirected = redirect(stream, broker.bootstrap)
    for place in redirected.dropped:
        print_message(f"ignored, because the local broker has no security: {place}")
    sink = stream.spec.sink.kafka
    show = sink.topic if options.show and sink is not None else None
    try:
        with refusing(workspace.broker, CHOOSE_FOLDER):
            broker.start_process()
        yield redirected.stream, LocalKafka(broker, topics, feed, show)
    finally:
        broker.stop()


def _feed(options: LocalKafkaOptions, spec: StreamSpec) -> Feed | None:
    topic = topic_to_feed(spec, options.topic)
    if options.feed is None or topic is None:
        return None
    try:
        lines = lines_of(options.feed.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--feed {options.feed}: {error}", code=2) from error
    if not lines:
        raise CommandError(f"--feed {options.feed}: the file has no lines", code=2)
    start = threading.Event()
    if not depends_on_start_time(spec):
        start.set()
    return Feed(
        topic,
        lines,
        options.rate,
        options.once,
        start,
        partitions_to_feed(spec, topic),
        before_query=spec.trigger.mode is Mode.AVAILABLE_NOW,
    )


@dataclass
class LocalKafka:
    """The broker, its topics, and the tasks that use them while the driver runs."""

    broker: Broker
    topics: Mapping[str, int]
    """Topics to create, with their numbers of partitions."""
    feed: Feed | None = None
    show: str | None = None
    """The topic to print."""
    failure: BrokerError | None = None
    """Why the broker did not start. The driver reports the first line of an exception only."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _end_seconds: float | None = _END_SECONDS
    """How long each task may take to end; None: until it has."""
    _threads: list[threading.Thread] = field(default_factory=list)

    def rows(self) -> tuple[Row, ...]:
        topics = ", ".join(f"{topic} ({count})" for topic, count in self.topics.items())
        kafka = self.broker.bootstrap
        if not self.broker.running:
            kafka = f"stopped unexpectedly: see {self.broker.log}"
        feed = "" if self.feed is None else str(self.feed)
        return (("kafka", kafka), ("topics", topics), ("feed", feed))

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
        try:
            self.broker.wait_until_ready()
        except BrokerError as error:
            self.failure = error
            raise
        clients = KafkaClients(jvm.gateway, self.broker.bootstrap)
        clients.create_topics(self.topics)
        try:
            self._start_show(clients)
            # Afterwards, so every record that results from the feed is printed.
            self._start_feed(clients)
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(self._end_seconds)

    def _start_show(self, clients: KafkaClients) -> None:
        topic, ready = self.show, threading.Event()
        if topic is not None:
            self._thread("show", lambda: print_records(clients, topic, self._stop, ready))
            ready.wait(CALL_SECONDS)

    def _start_feed(self, clients: KafkaClients) -> None:
        feed = self.feed
        if feed is not None and feed.before_query:
            send_lines(clients, feed, self._stop)
        elif feed is not None:
            self._thread("feed", lambda: send_lines(clients, feed, self._stop))

    def _thread(self, name: str, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:  # the stream runs on without it
                if not self._stop.is_set():
                    log_event(f"{name} stopped", logging.WARNING, error=describe(error))

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)
