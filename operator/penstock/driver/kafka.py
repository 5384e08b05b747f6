"""What Kafka knows about the source, asked through the admin client in the driver's own JVM.

The same client library, network path and options as the query's own, so that what this finds the
query finds too.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.driver.failures import DriverError, Trouble
from penstock.stream.spec import KafkaSource

# topic -> partition -> offset of the next record
Offsets = Mapping[str, Mapping[int, int]]

REQUEST_TIMEOUT_MS = 5_000
CALL_TIMEOUT_MS = 10_000
# Spark's own word for "from the earliest" (Structured Streaming + Kafka Integration Guide).
EARLIEST = -2


@dataclass(frozen=True)
class Partitions:
    """The partitions a query will read, by topic."""

    count: Mapping[str, int]

    @property
    def total(self) -> int:
        """Tasks that the query runs."""
        return sum(self.count.values())


def client_options(source: KafkaSource) -> dict[str, str]:
    """The source's options for Kafka's own clients: those with the prefix `kafka.`, without it."""
    prefix = "kafka."
    theirs = {
        name.removeprefix(prefix): value
        for name, value in source.options.items()
        if name.startswith(prefix)
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


def lag(committed: Offsets, newest: Offsets) -> int:
    """Records between the two; a partition without a committed offset has not been begun."""
    return sum(
        max(0, end - committed.get(topic, {}).get(partition, 0))
        for topic, ends in newest.items()
        for partition, end in ends.items()
    )


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

    def __init__(self, gateway: Any, source: KafkaSource) -> None:
        require_a_known_broker(source.bootstrap_servers)
        self._jvm = gateway.jvm
        self._topics = list(source.topics)
        options = self._jvm.java.util.HashMap()
        for name, value in client_options(source).items():
            options.put(name, value)
        self._client = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(options)

    def partitions(self) -> Partitions:
        """How many partitions each topic has; a missing topic raises Kafka's own exception."""
        names = self._jvm.java.util.ArrayList()
        for topic in self._topics:
            names.add(topic)
        described = self._result(self._client.describeTopics(names).allTopicNames())
        return Partitions(
            {topic: described.get(topic).partitions().size() for topic in self._topics}
        )

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


def _each(partitions: Partitions) -> Iterable[tuple[str, int]]:
    return (
        (topic, partition)
        for topic, count in sorted(partitions.count.items())
        for partition in range(count)
    )
