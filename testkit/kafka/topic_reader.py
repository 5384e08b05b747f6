"""Reads topics up to their ends, again and again, and each time only what is new.

A look at a topic by a new client costs the broker 16 ms of processor time and takes 60 ms. A test
that waits for records looks several times a second.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

_SECONDS = 30
# What a client says of brokers that are, or were, away: it connects again by itself.
_OUTAGES = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)


@dataclass
class _Partition:
    next: int = 0
    """The offset from which nothing has been read yet."""
    messages: list[Message] = field(default_factory=list)


class TopicReader:
    """A consumer outside of any group. Not for use by two threads.

    What compaction removes from the middle of a topic is still returned: `forget` the topic first.
    """

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "test",  # the client wants one; a broker never learns of it
                # A commit waits for the group's coordinator, which may be the broker that is away,
                # and the next assignment waits for the commit.
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # The end behind a transaction's marker is known by an empty answer only, which by
                # default takes half a second.
                "fetch.wait.max.ms": 10,
                "reconnect.backoff.max.ms": 500,  # a broker of a test is away for seconds
                "log_level": 3,
            }
        )
        self._read: dict[str, dict[int, _Partition]] = {}

    def forget(self, topic: str) -> None:
        """Reads this topic from its beginning the next time: it is not the one of before."""
        self._read.pop(topic, None)

    def read(self, topic: str) -> list[Message]:
        """All that is in the topic up to the end that it has now; offsets may be missing.

        Raises KafkaException while a partition has no leader.
        """
        bounds = self._bounds(topic)
        known = self._read.setdefault(topic, {})
        for number, (_, end) in bounds.items():
            if known.setdefault(number, _Partition()).next > end:
                known[number] = _Partition()  # created again
        behind = {n: end for n, (begin, end) in bounds.items() if max(known[n].next, begin) < end}
        if behind:
            starts = {n: max(known[n].next, bounds[n][0]) for n in behind}
            self._consumer.assign([TopicPartition(topic, n, at) for n, at in starts.items()])
            try:
                self._read_up_to(known, behind)
            finally:
                self._consumer.unassign()
        return [
            message
            for number, (begin, _) in bounds.items()
            for message in known[number].messages
            if message.offset() >= begin
        ]

    def _bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        numbers = self._consumer.list_topics(topic, _SECONDS).topics[topic].partitions
        places = {number: TopicPartition(topic, number) for number in numbers}
        return {n: self._consumer.get_watermark_offsets(p, _SECONDS) for n, p in places.items()}

    def _read_up_to(self, known: dict[int, _Partition], ends: dict[int, int]) -> None:
        left = set(ends)
        while left:
            message = self._consumer.poll(_SECONDS)
            assert message is not None
            partition, offset, error = message.partition(), message.offset(), message.error()
            if error is not None and error.code() in _OUTAGES:
                continue
            assert error is None or error.code() == KafkaError._PARTITION_EOF, error
            if error is not None:
                # The end may have moved on meanwhile, over records that are left to the next call.
                known[partition].next = min(offset, ends[partition])
                left.discard(partition)
            elif offset < ends[partition]:
                known[partition].messages.append(message)
                known[partition].next = offset + 1
            if offset >= ends[partition] - 1:
                left.discard(partition)
