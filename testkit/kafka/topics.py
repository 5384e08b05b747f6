"""Topics of a test broker, and numbered records to send to and read from them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.kafka.offsets import Offsets
from testkit.kafka.deliveries import CommitLog, Copy
from testkit.kafka.topic_admin import create_topics
from testkit.kafka.topic_reader import TopicReader
from testkit.streams.streams import CONTINUOUS, kafka_to_kafka, stream
from testkit.wait import wait_for


class Topics:
    """Creates topics with unique names, and sends and reads numbered records."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer_options = {"bootstrap.servers": bootstrap, "acks": "all"}
        self._producer = Producer(self._producer_options)
        self._reader = TopicReader(bootstrap)
        self._compacted: set[str] = set()

    def bootstrap_as(self, host: str) -> str:
        """The broker's address with another name of its host."""
        return f"{host}:{self.bootstrap.rpartition(':')[2]}"

    def make(
        self,
        partitions: int = 2,
        name: str | None = None,
        replicas: int = 1,
        config: dict[str, str] | None = None,
    ) -> str:
        name = name or f"t-{uuid.uuid4().hex[:8]}"
        create_topics(self.bootstrap, {name: partitions}, replicas, config)
        self._reader.forget(name)
        if (config or {}).get("cleanup.policy") == "compact":
            self._compacted.add(name)
        return name

    def leaders(self, topic: str) -> set[int]:
        partitions = self._admin.list_topics(topic, timeout=30).topics[topic].partitions
        return {int(partition.leader) for partition in partitions.values()}

    def grow(self, topic: str, partitions: int) -> None:
        for future in self._admin.create_partitions([NewPartitions(topic, partitions)]).values():
            future.result(30)

    def delete(self, topic: str) -> None:
        """Deletes a topic and waits until the broker no longer lists it."""
        for future in self._admin.delete_topics([topic], operation_timeout=30).values():
            future.result(30)
        wait_for(f"{topic} gone", lambda: topic not in self._admin.list_topics(timeout=30).topics)

    def configure(self, topic: str, setting: str, value: str) -> None:
        """Changes one setting of a topic."""
        entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        asked = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([asked]).values():
            future.result(30)

    def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Deletes the records before these offsets, as retention does."""
        before = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        for future in self._admin.delete_records(before).values():
            future.result(30)

    def send(
        self, topic: str, numbers: range, partition: int | None = None, *, keys: bool = True
    ) -> None:
        """Sends each number as a record and waits for the acknowledgements."""
        more = {} if partition is None else {"partition": partition}
        # A producer that already runs learns of a new partition only after minutes.
        producer = self._producer if partition is None else Producer(self._producer_options)
        for number in numbers:
            key = str(number).encode() if keys else None
            producer.produce(topic, str(number).encode(), key, **more)
        assert producer.flush(30) == 0

    def send_in_transactions(self, topic: str, numbers: range, each: int = 20) -> None:
        """Sends numbers in transactions of some, each after one that is aborted."""
        producer = Producer({**self._producer_options, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(30)
        for start in range(numbers.start, numbers.stop, each):
            for aborted in (True, False):
                producer.begin_transaction()
                for number in range(start, start + each):
                    text = str(number + 1_000_000 * aborted).encode()
                    producer.produce(topic, text, text)
                assert producer.flush(30) == 0
                if aborted:
                    producer.abort_transaction(30)
                else:
                    producer.commit_transaction(30)

    def received(self, topic: str) -> Counter[int]:
        """The numbers in the topic, and how often each occurs."""
        return Counter(self.placed(topic).values())

    def placed(self, topic: str) -> dict[tuple[int, int], int]:
        """The numbers in the topic, by partition and offset."""
        return {
            (message.partition(), message.offset()): int(message.value())
            for message in self.messages(topic)
        }

    def last_values(self, topic: str) -> dict[int, int]:
        """The last number of each number as a key, in a topic of one partition."""
        messages = sorted(self.messages(topic), key=lambda message: int(message.offset()))
        return {int(message.key()): int(message.value()) for message in messages}

    def copies(self, topic: str) -> list[Copy]:
        """The numbers in the topic, with the times at which they were written."""
        return [
            Copy(int(message.value()), message.timestamp()[1] / 1000)
            for message in self.messages(topic)
        ]

    def latencies(self, topic: str) -> list[float]:
        """Seconds from the time in each record's only header, in milliseconds, to its own."""
        messages = self.messages(topic)
        return [(it.timestamp()[1] - int(it.headers()[0][1])) / 1000 for it in messages]

    def replays_of_committed(self, commits: CommitLog, source: str, sink: str) -> list[Copy]:
        """The copies in the sink of records that had been committed before: guarantee 2."""
        places = {number: place for place, number in self.placed(source).items()}
        return commits.replays_of_committed(source, places, self.copies(sink))

    def messages(self, topic: str) -> list[Message]:
        """What a read_committed consumer finds in the topic."""
        if topic in self._compacted:
            self._reader.forget(topic)
        return self._reader.read(topic)

    def wait_received(self, topic: str, numbers: Iterable[int]) -> Counter[int]:
        """Waits until all these numbers are in the topic; returns what it then holds."""
        wanted = set(numbers)

        def all_received() -> list[Counter[int]]:
            try:
                received = self.received(topic)
            except KafkaException:  # a broker that has just started, or a leader that moves
                return []
            return [received] if wanted <= set(received) else []

        return wait_for(f"{len(wanted)} numbers in {topic}", all_received, every=0.25)[0]


def total(offsets: Offsets | None) -> int:
    """The number of records before these offsets."""
    return sum(n for of in (offsets or {}).values() for n in of.values())


def number_flow(
    topics: Topics,
    source: str,
    sink: str,
    trigger: dict[str, Any] = CONTINUOUS,
    of_source: dict[str, Any] | None = None,
    **spec: Any,
) -> ContinuousStream:
    """A stream that copies all numbers of one topic to another."""
    return stream(**kafka_to_kafka(topics.bootstrap, source, sink, trigger, of_source, **spec))
