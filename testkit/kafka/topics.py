"""Topics of the test broker, and numbered records in and out of them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from penstock.api.v1alpha1.stream import ContinuousStream
from testkit.streams.streams import CONTINUOUS, kafka_sink, kafka_source, stream
from testkit.wait import wait_for


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
