"""A driver that runs in the test's own process, and the numbered traffic around it."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from penstock.driver.engine import Engine
from penstock.driver.jvm import Jvm
from penstock.driver.loop import Loop
from penstock.driver.metrics import Metrics
from penstock.driver.place import Local, Place
from penstock.driver.pod import Api
from penstock.driver.server import Health
from penstock.driver.situation import Policy
from penstock.stream.resource import ContinuousStream
from penstock.stream.status import DriverReport, QueryState
from tests.driver.streams import CONTINUOUS, kafka_sink, kafka_source, stream

PATIENCE = 90.0


def wait_for(what: str, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Returns when it holds; says what it waited for when it does not."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)


@contextlib.contextmanager
def over_and_over(what: Callable[[], object], every: float) -> Iterator[None]:
    """Does it beside the block, with so many seconds between."""
    stop = threading.Event()

    def go_on() -> None:
        while not stop.wait(every):
            what()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Running:
    """A driver's loop in a thread, and every report it made."""

    def __init__(
        self,
        stream: ContinuousStream,
        jvm: Jvm,
        place: Place,
        policy: Policy,
        api: Api | None = None,
    ) -> None:
        self.reports: list[DriverReport] = []
        self.health, self.metrics = Health(), Metrics()
        self.engine = Engine(stream, place, jvm, api)
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self._loop = Loop(
            self.engine, jvm, policy, "hash", self.health, self.metrics, self.reports.append
        )
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._loop.run(self.stop)
        except BaseException as error:
            self.error = error
            self.engine.let_go()

    @property
    def last(self) -> DriverReport:
        """The newest report."""
        return (
            self.reports[-1]
            if self.reports
            else DriverReport(spec_hash="", state=QueryState.STARTING)
        )

    def wait(self, what: str, holds: Callable[[DriverReport], bool]) -> DriverReport:
        """The newest report, once it is so."""
        wait_for(
            f"{what}; the last report: {self.last!r}",
            lambda: self.error is not None or holds(self.last),
        )
        if self.error is not None:
            raise self.error
        return self.last

    def wait_failure(self, reason: str) -> DriverReport:
        """Once its last failure has this reason."""
        return self.wait(
            f"failed for {reason}",
            lambda report: report.last_failure is not None and report.last_failure.reason == reason,
        )

    def wait_ready(self) -> DriverReport:
        """Once its query has committed an epoch."""
        wait_for("ready", lambda: self.health.ready)
        return self.last


@contextlib.contextmanager
def running(
    stream: ContinuousStream,
    jvm: Jvm,
    where: Path | Place,
    policy: Policy | None = None,
    api: Api | None = None,
) -> Iterator[Running]:
    """A driver for the length of the block, stopped in good order at its end."""
    place = Local(where) if isinstance(where, Path) else where
    policy = policy or replace(Policy.of(stream.spec), backoff_base=0.1)
    it = Running(stream, jvm, place, policy, api)
    try:
        yield it
    finally:
        it.stop.set()
        it.thread.join(PATIENCE)
        assert not it.thread.is_alive()


class Topics:
    """Topics under names of their own, and numbered records in and out of them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer_options = {"bootstrap.servers": bootstrap, "acks": "all"}
        self._producer = Producer(self._producer_options)

    def make(self, partitions: int = 2, name: str | None = None) -> str:
        """A new topic."""
        name = name or f"t-{uuid.uuid4().hex[:8]}"
        for future in self._admin.create_topics([NewTopic(name, partitions, 1)]).values():
            future.result(30)
        return name

    def grow(self, topic: str, partitions: int) -> None:
        """More partitions for a topic."""
        for future in self._admin.create_partitions([NewPartitions(topic, partitions)]).values():
            future.result(30)

    def delete(self, topic: str) -> None:
        """Deletes a topic and waits until the broker has forgotten it."""
        for future in self._admin.delete_topics([topic], operation_timeout=30).values():
            future.result(30)
        wait_for(f"{topic} gone", lambda: topic not in self._admin.list_topics(timeout=30).topics)

    def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Deletes the records before these offsets, as retention would."""
        before = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        for future in self._admin.delete_records(before).values():
            future.result(30)

    def send(self, topic: str, numbers: range, partition: int | None = None) -> None:
        """Numbers, each a record, acknowledged."""
        more = {} if partition is None else {"partition": partition}
        # A producer of long standing learns of a new partition only after minutes.
        producer = self._producer if partition is None else Producer(self._producer_options)
        for number in numbers:
            producer.produce(topic, str(number).encode(), str(number).encode(), **more)
        assert producer.flush(30) == 0

    def received(self, topic: str) -> Counter[int]:
        """The numbers in the topic, with how often each is there."""
        return Counter(self.placed(topic).values())

    def placed(self, topic: str) -> dict[tuple[int, int], int]:
        """The numbers in the topic, by partition and offset."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "test"})
        try:
            partitions = consumer.list_topics(topic, 30).topics[topic].partitions
            bounds = {
                p: consumer.get_watermark_offsets(TopicPartition(topic, p), 30) for p in partitions
            }
            consumer.assign([TopicPartition(topic, p, bounds[p][0]) for p in partitions])
            there = sum(end - begin for begin, end in bounds.values())
            found: dict[tuple[int, int], int] = {}
            while len(found) < there:
                message = consumer.poll(30)
                assert message is not None
                if message.offset() < bounds[message.partition()][1]:
                    found[(message.partition(), message.offset())] = int(message.value())
            return found
        finally:
            consumer.close()

    def wait_received(self, topic: str, numbers: Iterable[int]) -> Counter[int]:
        """What is in the topic, once every one of the numbers is."""
        wanted = set(numbers)

        def missing() -> set[int]:
            try:
                return wanted - set(self.received(topic))
            except KafkaException:  # a broker that has just started
                return wanted

        wait_for(f"{len(wanted)} numbers in {topic}", lambda: not missing())
        return self.received(topic)


def number_flow(
    topics: Topics,
    source: str,
    sink: str,
    trigger: dict[str, Any] = CONTINUOUS,
    of_source: dict[str, Any] | None = None,
    **spec: Any,
) -> ContinuousStream:
    """Numbers from the first record of a topic into another one."""
    return stream(
        kafka_source(
            topics.bootstrap, topics=[source], startingOffsets="earliest", **(of_source or {})
        ),
        kafka_sink(topics.bootstrap, topic=sink),
        trigger=trigger,
        **spec,
    )
