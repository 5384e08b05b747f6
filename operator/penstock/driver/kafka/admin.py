"""Topics, partitions and offsets, from Kafka's admin client in the driver's own JVM.

It has the client library, the network path and the options of the query's own clients, so that both
get the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.api.kafka_options import CLIENT_PREFIX
from penstock.api.v1alpha1 import KafkaSource
from penstock.api.v1alpha1.kafka_connection import KafkaClient
from penstock.contract.remedies import REMEDIES
from penstock.driver.failures import TOPIC_MISSING, DriverError, Failure
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


_CLASS = "dev.penstock.spark.driver.KafkaAdmin"


class Admin:
    """An admin client with the options of a source or sink: KafkaAdmin.java, in the driver's JVM.

    It is not thread-safe. It may block while it resolves names (calls_with_deadline.py). It raises
    Kafka's own exceptions, which `classify_exception` reads.
    """

    def __init__(self, gateway: Any, client: KafkaClient, secrets: Path) -> None:
        options = client_options(client, secrets)
        self._java = java_class(gateway, _CLASS)(json.dumps(options), 2 * CALL_TIMEOUT_MS)
        self.reads_committed = options.get("isolation.level", "").lower() == "read_committed"
        """Whether a reader with the source's options stops before a transaction that is open."""

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
        found = json.loads(self._java.topics(json.dumps(list(names))))
        return {name: Topic(**topic) for name, topic in found.items()}

    def replicas(self, name: str) -> Replicas:
        """The copies of a topic that exists. May need rights on its configuration."""
        return Replicas(**json.loads(self._java.replicas(name)))

    def may_write(self, name: str) -> bool:
        """Whether the client's user may write to the topic, as far as the broker says it.

        Raises UnknownTopicOrPartitionException if it is missing.
        """
        return bool(self._java.mayWrite(name))

    def matching(self, pattern: str) -> list[str]:
        """The topics whose whole names match a Java regular expression, as Spark matches them."""
        return _names_in(self._java.topicsMatching(pattern))

    def newest(self, partitions: Partitions) -> Offsets:
        """Where each partition ends for a reader with the source's isolation level.

        Spark starts `latest`, and ends a batch, there: with read_committed before the first
        transaction that is open.
        """
        return _offsets(self._java.newest(_numbers(partitions)))

    def log_ends(self, partitions: Partitions) -> Offsets:
        """Where each partition's log ends (its high watermark), whoever may read up to there."""
        return _offsets(self._java.logEnds(_numbers(partitions)))

    def earliest(self, partitions: Partitions) -> Offsets:
        """The offset of the first record that each partition still has, or of its next one."""
        return _offsets(self._java.earliest(_numbers(partitions)))

    def at_time(self, partitions: Partitions, timestamp_ms: int) -> Offsets:
        """The offset of each partition's first record with this timestamp or a later one.

        Where there is none: its end.
        """
        return _offsets(self._java.atTime(_numbers(partitions), timestamp_ms))

    def creates_topics(self) -> bool:
        """Whether the brokers create a missing topic when a producer writes to it."""
        setting = self._java.brokerSetting("auto.create.topics.enable")
        return setting is None or setting.lower() != "false"

    def cluster_id(self) -> str:
        return str(self._java.clusterId())

    def transaction_log(self) -> TransactionLog:
        """How the brokers keep the state of transactions. May need rights on the cluster."""
        return TransactionLog(**json.loads(self._java.transactionLog()))

    def longest_transaction_ms(self) -> int | None:
        """How long the brokers leave a transaction open; may need rights on the cluster."""
        setting = self._java.brokerSetting("transaction.max.timeout.ms")
        return None if setting is None else int(setting)

    def newest_committed(self, groups: Sequence[str], *, stable: bool) -> int | None:
        """The largest offset that any of these groups has; None if they have none.

        `stable`: it waits for transactions that are not over.
        """
        newest: int = self._java.newestCommitted(json.dumps(list(groups)), stable)
        return None if newest < 0 else newest

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Aborts what these ids have left open, and refuses what their producers still send."""
        self._java.fence(json.dumps(list(transactional_ids)))

    def may_commit(self, group: str) -> bool:
        """Whether this client may commit offsets of a consumer group, which need not exist."""
        return bool(self._java.mayCommit(group))

    def committed(self, group: str) -> Offsets:
        """The offsets of a consumer group, without those of transactions that are not over."""
        return _offsets(self._java.committed(group))

    def commit_to_group(self, group: str, offsets: Offsets, note: str) -> None:
        """Commits offsets to a consumer group, which must have no members, with a note at each."""
        self._java.commitToGroup(group, json.dumps(offsets), note)

    def group_notes(self, group: str) -> dict[tuple[str, int], str]:
        """The note at each offset of a consumer group, by topic and partition."""
        notes = json.loads(self._java.groupNotes(group))
        return {
            (topic, int(number)): note
            for topic, of_topic in notes.items()
            for number, note in of_topic.items()
        }

    def close(self) -> None:
        self._java.close()


def matching(gateway: Any, pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a Java regular expression matches as a whole, sorted."""
    return _names_in(java_class(gateway, _CLASS).matching(pattern, json.dumps(list(names))))


def _names_in(answer: str) -> list[str]:
    return [str(name) for name in json.loads(answer)]


def _offsets(answer: str) -> Offsets:
    return {
        topic: {int(number): offset for number, offset in of_topic.items()}
        for topic, of_topic in json.loads(answer).items()
    }


def _numbers(partitions: Partitions) -> str:
    return json.dumps({topic: list(of) for topic, of in partitions.numbers.items()})


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
