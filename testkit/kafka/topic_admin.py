"""Creates and deletes topics."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from testkit.wait import wait_for

# Without the notices (log_level 6) of a client that ends.
_QUIET = {"log_level": 3}
# The client gives up after 60 s, and its error names what it waited for.
_PATIENCE_SECONDS = 90


def create_topics(
    bootstrap: str,
    partitions: Mapping[str, int],
    replicas: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    """Creates topics, given with their numbers of partitions. An existing topic is an error.

    Each has its leaders at the end. A broker names itself as the leader some time before it takes
    records, and a producer of Java that comes too early may never get rid of its first ones: it
    then repeats OUT_OF_ORDER_SEQUENCE_NUMBER until they expire (seen with version 4.3.1).
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    wait_for("brokers in service", lambda: _in_service(admin) >= replicas, 60)
    topics = [
        NewTopic(name, count, replicas, config=dict(config or {}))
        for name, count in partitions.items()
    ]
    for future in admin.create_topics(topics, operation_timeout=30).values():
        future.result(_PATIENCE_SECONDS)
    wanted = [
        TopicPartition(name, part) for name, count in partitions.items() for part in range(count)
    ]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", **_QUIET})

    def led() -> bool:
        try:
            return all(
                consumer.get_watermark_offsets(partition, timeout=10) for partition in wanted
            )
        except KafkaException:
            return False

    try:
        wait_for(f"leaders of {', '.join(partitions)}", led, 60)
    finally:
        consumer.close()


def _in_service(admin: AdminClient) -> int:
    """The brokers that their controller has not fenced, as it does with one too busy to report.

    A client that finds none at first waits for one in vain until its request ends: it asks nobody
    again (librdkafka 2.16: "waiting for controller").
    """
    metadata = admin.list_topics(timeout=30)
    return len(metadata.brokers) if metadata.controller_id >= 0 else 0


def delete_topics(bootstrap: str, *topics: str) -> None:
    """Deletes the topics that exist, and waits until they are gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    there = [topic for topic in topics if topic in admin.list_topics(timeout=30).topics]
    if there:
        for future in admin.delete_topics(there, operation_timeout=30).values():
            future.result(_PATIENCE_SECONDS)
    wait_for(
        "topics gone",
        lambda: not set(topics) & set(admin.list_topics(timeout=30).topics),
        60,
    )
