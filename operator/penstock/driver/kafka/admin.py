"""Topics, partitions and offsets, from Kafka's admin client in the driver's own JVM.

It has the client library, the network path and the options of the query's own clients, so that both
get the same answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.api.kafka_options import CLIENT_PREFIX
from penstock.api.v1alpha1 import KafkaSource
from penstock.api.v1alpha1.kafka_connection import KafkaClient
from penstock.contract.remedies import REMEDIES
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import KAFKA_AUTHORIZATION, TOPIC_MISSING, DriverError, Failure
from penstock.driver.jvm import java_class
from penstock.driver.kafka.offsets import FirstLook, Offsets, Partitions, selected_partitions
from penstock.driver.kafka.security import security_options

REQUEST_TIMEOUT_MS = 5_000
CALL_TIMEOUT_MS = 10_000


def client_options(client: KafkaClient, secrets: Path) -> dict[str, str]:
    """The source's or sink's options for Kafka's own clients, without the prefix `kafka.`.

    In lower case, in which Spark gives them to its own clients.
    """
    given = [*client.options.items(), *security_options(client, secrets).items()]
    return {
        **{
            name.lower().removeprefix(CLIENT_PREFIX): value
            for name, value in given
            if name.lower().startswith(CLIENT_PREFIX)
        },
        "bootstrap.servers": client.bootstrap_servers,
        "request.timeout.ms": str(REQUEST_TIMEOUT_MS),
        "default.api.timeout.ms": str(CALL_TIMEOUT_MS),
    }


# Uuid.ZERO_UUID: brokers before 2.8 have no topic ids.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True)
class Topic:
    """A topic, as Kafka describes it."""

    id: str
    """Tells the topic from an earlier one of the same name (KIP-516)."""
    partitions: int


@dataclass(frozen=True)
class Replicas:
    """The copies of a topic."""

    assigned: int
    """Of the partition with the fewest."""
    needed: int
    """So many have to be in sync, or the topic takes no record that waits for all of them."""


@dataclass(frozen=True)
class TransactionLog:
    """The topic in which the brokers keep the state of transactions."""

    exists: bool
    replicas: int
    """In sync, of its worst partition; the number of brokers if it does not exist yet."""
    needed: int
    """So many, or it takes nothing, or cannot be created."""


_TRANSACTION_LOG = "__transaction_state"
# Each of them has the time of one call (CALL_TIMEOUT_MS) from the moment when the first one begins.
_FENCED_TOGETHER = 100
# ListOffsetsResponse.UNKNOWN_OFFSET
_NO_RECORD = -1
# Of a Java map from TopicPartition to ListOffsetsResultInfo, as text. A topic's name has none of
# the signs around it.
_OFFSET = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]+)=ListOffsetsResultInfo\(offset=(-?[0-9]+),")


class Admin:
    """An admin client with the options of a source or sink.

    It is not thread-safe. It may block while it resolves names (calls_with_deadline.py). It raises
    Kafka's own exceptions, which `classify_exception` reads.
    """

    def __init__(self, gateway: Any, client: KafkaClient, secrets: Path) -> None:
        self._gateway = gateway
        options = self._class("java.util.HashMap")()
        for name, value in client_options(client, secrets).items():
            options.put(name, value)
        level = options.get("isolation.level") or "read_uncommitted"
        self._levels = self._class("org.apache.kafka.common.IsolationLevel")
        self._isolation = self._levels.valueOf(str(level).upper())
        self.reads_committed = str(level).lower() == "read_committed"
        """Whether a reader with the source's options stops before a transaction that is open."""
        self._client = self._class("org.apache.kafka.clients.admin.AdminClient").create(options)

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Topics by name. Raises DriverError, which names those that are missing."""
        names = list(names)
        found = self.existing_topics(names)
        if missing := [name for name in names if name not in found]:
            subject = "The topic {} does" if len(missing) == 1 else "The topics {} do"
            named = " and ".join(missing)
            advice = REMEDIES[TOPIC_MISSING].action
            raise _missing(f"{subject.format(named)} not exist. {advice}")
        return found

    def existing_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of the topics that exist, by name."""
        names = list(names)
        wanted = self._class("java.util.ArrayList")()
        for name in names:
            wanted.add(name)
        described = self._client.describeTopics(wanted).topicNameValues()
        found = {}
        for name in names:
            try:
                topic = self._description(name, described.get(name))
            except Exception as error:
                if classify_exception(error).reason != TOPIC_MISSING:
                    raise
            else:
                found[name] = Topic(topic.topicId().toString(), topic.partitions().size())
        return found

    def _description(self, name: str, future: Any) -> Any:
        try:
            return self._result(future)
        except Exception as error:
            failure = classify_exception(error)
            if failure.reason not in (KAFKA_AUTHORIZATION, TOPIC_MISSING):
                raise
            # Kafka's message is "Topic authorization failed.", without the topic.
            raise DriverError(replace(failure, message=f"{name}: {failure.message}")) from error

    def replicas(self, name: str) -> Replicas:
        """The copies of a topic that exists. May need rights on its configuration."""
        asked = self._class("java.util.List").of(name)
        described = self._client.describeTopics(asked).topicNameValues().get(name)
        partitions = self._result(described).partitions()
        needed = self._setting("TOPIC", name, "min.insync.replicas")
        return Replicas(min(each.replicas().size() for each in partitions), int(needed or 1))

    def may_write(self, name: str) -> bool:
        """Whether the client's user may write to the topic, as far as the broker says it.

        Raises UnknownTopicOrPartitionException if it is missing.
        """
        options = self._class("org.apache.kafka.clients.admin.DescribeTopicsOptions")()
        asked = self._class("java.util.Collections").singletonList(name)
        described = self._client.describeTopics(
            asked, options.includeAuthorizedOperations(True)
        ).topicNameValues()
        allowed = self._description(name, described.get(name)).authorizedOperations()
        write = self._class("org.apache.kafka.common.acl.AclOperation").WRITE
        return allowed is None or bool(allowed.contains(write))

    def matching(self, pattern: str) -> list[str]:
        """The topics whose whole names match a Java regular expression, as Spark matches them."""
        return matching(self._gateway, pattern, self._result(self._client.listTopics().names()))

    def newest(self, partitions: Partitions) -> Offsets:
        """Where each partition ends for a reader with the source's isolation level.

        Spark starts `latest`, and ends a batch, there: with read_committed before the first
        transaction that is open.
        """
        return self._offsets(partitions, self._spec.latest())

    def log_ends(self, partitions: Partitions) -> Offsets:
        """Where each partition's log ends (its high watermark), whoever may read up to there."""
        return self._offsets(partitions, self._spec.latest(), self._levels.READ_UNCOMMITTED)

    def earliest(self, partitions: Partitions) -> Offsets:
        """The offset of the first record that each partition still has, or of its next one."""
        return self._offsets(partitions, self._spec.earliest())

    def at_time(self, partitions: Partitions, timestamp_ms: int) -> Offsets:
        """The offset of each partition's first record with this timestamp or a later one.

        Where there is none: its end.
        """
        ends_before = self.newest(partitions)  # first, or a record that comes now is skipped
        found = self._offsets(partitions, self._spec.forTimestamp(timestamp_ms))
        return {
            topic: {
                n: end if found[topic][n] == _NO_RECORD else found[topic][n]
                for n, end in ends.items()
            }
            for topic, ends in ends_before.items()
        }

    def creates_topics(self) -> bool:
        """Whether the brokers create a missing topic when a producer writes to it."""
        setting = self._broker_setting("auto.create.topics.enable")
        return setting is None or setting.lower() != "false"

    def cluster_id(self) -> str:
        return str(self._result(self._client.describeCluster().clusterId()))

    def transaction_log(self) -> TransactionLog:
        """How the brokers keep the state of transactions. May need rights on the cluster."""
        asked = self._class("java.util.List").of(_TRANSACTION_LOG)
        described = self._client.describeTopics(asked).topicNameValues().get(_TRANSACTION_LOG)
        try:
            partitions = self._result(described).partitions()
        except Exception as error:
            if classify_exception(error).reason != TOPIC_MISSING:
                raise
            brokers = self._result(self._client.describeCluster().nodes()).size()
            factor = self._broker_setting("transaction.state.log.replication.factor")
            return TransactionLog(exists=False, replicas=brokers, needed=int(factor or 1))
        least = self._setting("TOPIC", _TRANSACTION_LOG, "min.insync.replicas")
        in_sync = min(partition.isr().size() for partition in partitions)
        return TransactionLog(exists=True, replicas=in_sync, needed=int(least or 1))

    def longest_transaction_ms(self) -> int | None:
        """How long the brokers leave a transaction open; may need rights on the cluster."""
        setting = self._broker_setting("transaction.max.timeout.ms")
        return None if setting is None else int(setting)

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Aborts what these ids have left open, and refuses what their producers still send.

        With one call for each: in a call for several, Kafka's client pauses after each id of a
        broker, also after a success, from 0.1 s up to 1 s (AdminApiDriver, kafka-clients 3.9): 16
        ids of one broker took longer than the call may (measured).
        """
        ids = self._class("java.util.List")
        for first in range(0, len(transactional_ids), _FENCED_TOGETHER):
            names = transactional_ids[first : first + _FENCED_TOGETHER]
            calls = [self._client.fenceProducers(ids.of(name)).all() for name in names]
            for call in calls:
                self._result(call)

    def may_commit(self, group: str) -> bool:
        """Whether this client may commit offsets of a consumer group, which need not exist."""
        options = self._class("org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions")()
        groups = self._class("java.util.List").of(group)
        asked = options.includeAuthorizedOperations(True)
        described = self._client.describeConsumerGroups(groups, asked).describedGroups().get(group)
        operations = self._result(described).authorizedOperations()
        read = self._class("org.apache.kafka.common.acl.AclOperation").READ
        # Brokers without an authorizer allow everything, and those of before 2.3 do not say.
        return operations is None or bool(operations.contains(read))

    def committed(self, group: str) -> Offsets:
        """The offsets of a consumer group, without those of transactions that are not over."""
        options = self._class("org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions")()
        found = self._result(
            self._client.listConsumerGroupOffsets(
                group, options.requireStable(True)
            ).partitionsToOffsetAndMetadata()
        )
        offsets: dict[str, dict[int, int]] = {}
        for partition in found:
            at = found.get(partition)
            if at is not None:
                of_topic = offsets.setdefault(str(partition.topic()), {})
                of_topic[int(partition.partition())] = int(at.offset())
        return offsets

    def _broker_setting(self, name: str) -> str | None:
        """A setting of one of the brokers; None if they do not know it."""
        brokers = self._result(self._client.describeCluster().nodes())
        return self._setting("BROKER", brokers.iterator().next().idString(), name)

    def _setting(self, kind: str, of: str, name: str) -> str | None:
        resource = "org.apache.kafka.common.config.ConfigResource"
        asked = self._class(resource)(getattr(self._class(f"{resource}$Type"), kind), of)
        only = self._class("java.util.Collections").singletonList(asked)
        entry = self._result(self._client.describeConfigs(only).all()).get(asked).get(name)
        return None if entry is None else str(entry.value())

    def commit_to_group(self, group: str, offsets: Offsets, note: str) -> None:
        """Commits offsets to a consumer group, which must have no members, with a note at each."""
        wanted = self._class("java.util.HashMap")()
        committed = self._class("org.apache.kafka.clients.consumer.OffsetAndMetadata")
        for topic, of_topic in offsets.items():
            for number, offset in of_topic.items():
                wanted.put(self._topic_partition(topic, number), committed(offset, note))
        self._result(self._client.alterConsumerGroupOffsets(group, wanted).all())

    def group_notes(self, group: str) -> dict[tuple[str, int], str]:
        """The note at each offset of a consumer group, by topic and partition."""
        listed = self._client.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()
        entries = self._result(listed).entrySet()
        return {
            (entry.getKey().topic(), entry.getKey().partition()): entry.getValue().metadata()
            for entry in entries
            if entry.getValue() is not None
        }

    def close(self) -> None:
        self._client.close(self._class("java.time.Duration").ofMillis(0))

    @property
    def _spec(self) -> Any:
        return self._class("org.apache.kafka.clients.admin.OffsetSpec")

    def _offsets(self, partitions: Partitions, spec: Any, isolation: Any = None) -> Offsets:
        isolation = isolation or self._isolation
        options = self._class("org.apache.kafka.clients.admin.ListOffsetsOptions")(isolation)
        asked = self._for_each(partitions, spec)
        found = self._result(self._client.listOffsets(asked, options).all()).toString()
        offsets = {(topic, int(n)): int(at) for topic, n, at in _OFFSET.findall(found)}
        return {
            topic: {n: offsets[topic, n] for n in of}
            for topic, of in sorted(partitions.numbers.items())
        }

    def _for_each(self, partitions: Partitions, value: Any) -> Any:
        """A Java map from each partition to the same value.

        In a few calls into the JVM, however many there are: with some for each, a thousand
        partitions took seconds, and are asked for every ten (measured).
        """
        named = json.dumps({topic: list(of) for topic, of in partitions.numbers.items()})
        array = self._class("org.apache.spark.sql.kafka010.JsonUtils").partitions(named)
        every = self._class("scala.collection.immutable.ArraySeq").unsafeWrapArray(array)
        pairs = every.zipAll(every.take(0), None, value)
        maps = getattr(self._class("scala.collection.immutable.Map$"), "MODULE$")
        by_partition = getattr(maps, "from")(pairs)
        return self._class("scala.jdk.javaapi.CollectionConverters").asJava(by_partition)

    def _topic_partition(self, topic: str, partition: int) -> Any:
        return self._class("org.apache.kafka.common.TopicPartition")(topic, partition)

    def _class(self, name: str) -> Any:
        return java_class(self._gateway, name)

    def _result(self, future: Any) -> Any:
        unit = self._class("java.util.concurrent.TimeUnit").MILLISECONDS
        return future.get(2 * CALL_TIMEOUT_MS, unit)


def matching(gateway: Any, pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a Java regular expression matches as a whole, sorted."""
    compiled = java_class(gateway, "java.util.regex.Pattern").compile(pattern)
    return sorted(str(name) for name in names if compiled.matcher(name).matches())


def partitions_of(admin: Admin, source: KafkaSource) -> Partitions:
    """The partitions to read. Raises DriverError if a topic is missing."""
    names = _names(admin, source)
    if not names:
        raise _missing(
            f"No topic matches topicPattern {source.topic_pattern}. Create one, or correct the "
            "pattern."
        )
    return _partitions(admin.topics(names), source.assign)


def first_look(admin: Admin, source: KafkaSource) -> FirstLook:
    """The topics to read that exist."""
    names = _names(admin, source)
    partitions = _partitions(admin.existing_topics(names))
    pattern = source.topic_pattern
    return FirstLook(
        names if pattern is None else [pattern], admin.newest(partitions), partitions.ids
    )


def _names(admin: Admin, source: KafkaSource) -> Sequence[str]:
    """The topics that the source names, or those that match its pattern now."""
    if source.topic_pattern is None:
        return sorted(source.topics or source.assign or ())
    return admin.matching(source.topic_pattern)


def _partitions(
    topics: Mapping[str, Topic], assign: Mapping[str, Sequence[int]] | None = None
) -> Partitions:
    counts = {name: topic.partitions for name, topic in topics.items()}
    ids = {name: topic.id for name, topic in topics.items() if topic.id != _NO_ID}
    return Partitions(selected_partitions(counts, assign), ids)


def _missing(message: str) -> DriverError:
    return DriverError(Failure(TOPIC_MISSING, message, permanent=True, recoverable=True))
