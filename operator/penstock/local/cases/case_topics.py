"""The topics of one case: made anew, given its records, and read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from penstock.local.cases.comparison import KafkaRecord
from penstock.local.kafka.clients import CALL_SECONDS, KafkaClients

_POLL_MILLISECONDS = 200
# A topic that was deleted is gone a moment later.
_RETRY_SECONDS = 0.1
_NEVER = str(2**63 - 1)
# A case's times may be of any year, and the broker would refuse or delete such records.
_CONFIG = {
    "message.timestamp.before.max.ms": _NEVER,
    "message.timestamp.after.max.ms": _NEVER,
    "retention.ms": "-1",
}


@dataclass(frozen=True)
class SentRecord:
    """A record to send."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None]
    timestamp_ms: int | None


class CaseTopics:
    """The topics of the case that runs. Each case finds them empty, from offset 0 on."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients
        self._read: dict[tuple[str, int], int] = {}

    def make(self, topics: Mapping[str, int]) -> None:
        """Makes these topics, in place of those of earlier cases."""
        jvm = self._clients.jvm
        self._read = {}
        with closing(self._clients.admin()) as admin:
            old = jvm.java.util.ArrayList(self._clients.result(admin.listTopics().names()))
            if not old.isEmpty():
                self._clients.result(admin.deleteTopics(old).all())
            new = jvm.java.util.ArrayList()
            for topic, partitions in topics.items():
                new.add(self._clients.new_topic(topic, partitions, _CONFIG))
            self._create(admin, new)

    def _create(self, admin: Any, topics: Any) -> None:
        from py4j.protocol import Py4JJavaError

        deadline = time.monotonic() + CALL_SECONDS
        while True:
            try:
                self._clients.result(admin.createTopics(topics).all())
                return
            except Py4JJavaError as error:
                cause = error.java_exception.getCause()
                exists = cause is not None and "TopicExists" in cause.getClass().getName()
                if not exists or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)

    def names(self) -> set[str]:
        """Those that are there, also if the broker has made them for a record."""
        with closing(self._clients.admin()) as admin:
            return set(self._clients.result(admin.listTopics().names()))

    def send(self, records: Iterable[SentRecord]) -> dict[tuple[str, int], int]:
        """Sends records in this order; by partition, where each ends afterwards."""
        jvm, kafka = self._clients.jvm, self._clients.kafka
        ends: dict[tuple[str, int], int] = {}
        with closing(self._clients.producer("ByteArray")) as producer:
            futures = []
            for it in records:
                headers = jvm.java.util.ArrayList()
                for name, value in it.headers.items():
                    headers.add(kafka.common.header.internals.RecordHeader(name, value))
                of_record = (it.topic, it.partition, it.timestamp_ms, it.key, it.value, headers)
                new = kafka.clients.producer.ProducerRecord(*of_record)
                futures.append(producer.send(new))
            for future in futures:
                sent = self._clients.result(future)
                ends[sent.topic(), sent.partition()] = sent.offset() + 1
        return ends

    def new_records(self, topics: Iterable[str]) -> list[KafkaRecord]:
        """What was committed in the topics since the last call, in the order of each partition."""
        jvm, kafka = self._clients.jvm, self._clients.kafka
        found: list[KafkaRecord] = []
        options = {"isolation.level": "read_committed"}
        with closing(self._clients.consumer("ByteArray", **options)) as consumer:
            places = jvm.java.util.ArrayList()
            for topic in topics:
                for number in range(consumer.partitionsFor(topic).size()):
                    places.add(kafka.common.TopicPartition(topic, number))
            if places.isEmpty():
                return []
            consumer.assign(places)
            ends = consumer.endOffsets(places)
            for place in places:
                consumer.seek(place, self._read.get((place.topic(), place.partition()), 0))
            deadline = time.monotonic() + CALL_SECONDS
            while any(consumer.position(place) < ends.get(place) for place in places):
                if time.monotonic() > deadline:
                    raise TimeoutError("the broker does not give what it has")
                polled = consumer.poll(jvm.java.time.Duration.ofMillis(_POLL_MILLISECONDS))
                records = polled.iterator()
                while records.hasNext():
                    found.append(kafka_record(records.next()))
            for place in places:
                self._read[place.topic(), place.partition()] = consumer.position(place)
        return found


def kafka_record(java: Any) -> KafkaRecord:
    """Kafka's ConsumerRecord as a value."""
    headers = {str(it.key()): it.value() for it in java.headers().toArray()}
    return KafkaRecord(
        java.topic(), java.partition(), java.offset(), java.key(), java.value(), headers
    )
