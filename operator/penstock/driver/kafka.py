"""What Kafka knows about the source, asked through the admin client in the driver's own JVM.

The same client library, network path and options as the query's own, so that what this finds the
query finds too.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.driver.credentials import PREFIX, security_options
from penstock.driver.failures import DriverError, Trouble
from penstock.stream.spec import KafkaSource

# topic -> partition -> offset of the next record
Offsets = Mapping[str, Mapping[int, int]]

REQUEST_TIMEOUT_MS = 5_000
CALL_TIMEOUT_MS = 10_000
# Spark's own word for "from the earliest" (Structured Streaming + Kafka Integration Guide).
EARLIEST = -2
LATEST = -1


@dataclass(frozen=True)
class Partitions:
    """The partitions a query will read, by topic."""

    numbers: Mapping[str, Sequence[int]]

    @property
    def total(self) -> int:
        """Tasks that the query runs."""
        return sum(len(of_topic) for of_topic in self.numbers.values())


def client_options(source: KafkaSource, secrets: Path) -> dict[str, str]:
    """The source's options for Kafka's own clients: those with the prefix `kafka.`, without it."""
    given = {**source.options, **security_options(source, secrets)}
    theirs = {
        name.removeprefix(PREFIX): value for name, value in given.items() if name.startswith(PREFIX)
    }
    return {
        **theirs,
        "bootstrap.servers": source.bootstrap_servers,
        "request.timeout.ms": str(REQUEST_TIMEOUT_MS),
        "default.api.timeout.ms": str(CALL_TIMEOUT_MS),
    }


def starting_offsets(first: Offsets, newest: Offsets) -> str:
    """Spark's startingOffsets: where the stream first began, and new partitions from the earliest.

    So also a partition that ends before it began: its topic was made anew. Spark wants every
    partition named, and only those that exist.
    """

    def start(topic: str, partition: int, end: int) -> int:
        offset = first.get(topic, {}).get(partition, EARLIEST)
        return offset if offset <= end else EARLIEST

    return json.dumps(
        {
            topic: {str(partition): start(topic, partition, end) for partition, end in ends.items()}
            for topic, ends in newest.items()
        },
        sort_keys=True,
    )


def first_offsets(asked: Mapping[str, Mapping[str, int]], newest: Offsets) -> Offsets:
    """Where a stream begins that begins now: as asked by partition, else at the newest.

    Spark wants every partition named and no other, and dies of an assertion otherwise.
    """
    if not asked:
        return newest
    given = {(topic, int(number)) for topic, numbers in asked.items() for number in numbers}
    there = {(topic, number) for topic, ends in newest.items() for number in ends}
    wrong = [
        f"{words} {', '.join(f'{topic} {number}' for topic, number in sorted(partitions))}"
        for words, partitions in (("does not name", there - given), ("names", given - there))
        if partitions
    ]
    if wrong:
        raise DriverError(
            Trouble(
                "StartingOffsetsIncomplete",
                f"startingOffsetsByPartition {' and '.join(wrong)}: it must name every partition "
                "that is read, and only those",
                permanent=True,
                curable=True,
            )
        )

    def begin(topic: str, number: int, end: int) -> int:
        offset = asked[topic][str(number)]
        return end if offset == LATEST else offset

    return {
        topic: {number: begin(topic, number, end) for number, end in ends.items()}
        for topic, ends in newest.items()
    }


def lags(committed: Offsets, newest: Offsets) -> Mapping[tuple[str, int], int]:
    """Records between the two, by topic and partition.

    A partition without a committed offset has not been begun.
    """
    return {
        (topic, partition): max(0, end - committed.get(topic, {}).get(partition, 0))
        for topic, ends in newest.items()
        for partition, end in ends.items()
    }


def lag(committed: Offsets, newest: Offsets) -> int:
    """Records between the two in all."""
    return sum(lags(committed, newest).values())


def require_a_known_broker(bootstrap_servers: str) -> None:
    """Raises a passing failure if no broker's name resolves.

    Kafka's client calls that a wrong configuration, and it is the most ordinary thing when
    everything is applied at once and the broker's Service comes a little later.
    """
    hosts = [server.strip().rpartition(":")[0] for server in bootstrap_servers.split(",")]
    for host in hosts:
        try:
            socket.getaddrinfo(host.strip("[]"), None)
        except OSError:
            continue
        return
    raise DriverError(
        Trouble("BrokerUnreachable", f"no address is known for {', '.join(hosts)}; trying again")
    )


class Admin:
    """An admin client for one source. Calls are bounded in time; not for use by two threads."""

    def __init__(self, gateway: Any, source: KafkaSource, secrets: Path) -> None:
        require_a_known_broker(source.bootstrap_servers)
        self._jvm = gateway.jvm
        self._source = source
        options = self._jvm.java.util.HashMap()
        for name, value in client_options(source, secrets).items():
            options.put(name, value)
        self._client = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(options)

    def partitions(self) -> Partitions:
        """The partitions to read; a missing topic raises Kafka's own exception."""
        names = self._jvm.java.util.ArrayList()
        topics = self._names()
        for topic in topics:
            names.add(topic)
        described = self._result(self._client.describeTopics(names).allTopicNames())
        counts = {topic: described.get(topic).partitions().size() for topic in topics}
        return Partitions(chosen(counts, self._source.assign))

    def _names(self) -> list[str]:
        """Topics by name, or those that match the pattern now, as Spark matches it."""
        source = self._source
        if source.topic_pattern is None:
            return sorted(source.topics or source.assign or ())
        pattern = self._jvm.java.util.regex.Pattern.compile(source.topic_pattern)
        listed = self._result(self._client.listTopics().names())
        found = sorted(str(name) for name in listed if pattern.matcher(name).matches())
        if not found:
            raise DriverError(
                Trouble(
                    "TopicMissing",
                    f"no topic matches topicPattern {source.topic_pattern}. Create one, or correct "
                    "the pattern.",
                    permanent=True,
                    curable=True,
                )
            )
        return found

    def newest(self, partitions: Partitions) -> Offsets:
        """The offset that the next record of each partition will get."""
        latest = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
        wanted = self._jvm.java.util.HashMap()
        for topic, partition in _each(partitions):
            wanted.put(self._topic_partition(topic, partition), latest)
        found = self._result(self._client.listOffsets(wanted).all())
        newest: dict[str, dict[int, int]] = {}
        for topic, partition in _each(partitions):
            offset = found.get(self._topic_partition(topic, partition)).offset()
            newest.setdefault(topic, {})[partition] = offset
        return newest

    def close(self) -> None:
        """Lets go of its connections."""
        self._client.close(self._jvm.java.time.Duration.ofMillis(0))

    def _topic_partition(self, topic: str, partition: int) -> Any:
        return self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)

    def _result(self, future: Any) -> Any:
        unit = self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        return future.get(2 * CALL_TIMEOUT_MS, unit)


def chosen(
    counts: Mapping[str, int], assign: Mapping[str, Sequence[int]] | None
) -> dict[str, list[int]]:
    """The partitions to read of those there are: all, or the assigned ones."""
    if assign is None:
        return {topic: list(range(count)) for topic, count in counts.items()}
    for topic, numbers in assign.items():
        missing = [number for number in numbers if number >= counts[topic]]
        if missing:
            raise DriverError(
                Trouble(
                    "PartitionMissing",
                    f"assign names partition {missing[0]} of {topic}, which has {counts[topic]}",
                    permanent=True,
                    curable=True,
                )
            )
    return {topic: sorted(set(numbers)) for topic, numbers in assign.items()}


def _each(partitions: Partitions) -> Iterable[tuple[str, int]]:
    return ((topic, number) for topic, of in sorted(partitions.numbers.items()) for number in of)
