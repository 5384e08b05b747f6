"""Monitors the source: its partitions, their newest offsets, and whether it answers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from penstock.api.v1alpha1 import KafkaSource, StreamSpec
from penstock.contract.sizing import stated_partitions
from penstock.driver.calls_with_deadline import CallsWithDeadline
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import TOPIC_MISSING, DriverError, Failure
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.admin import Admin, first_look, matching, partitions_of
from penstock.driver.kafka.data_loss import KafkaSnapshot
from penstock.driver.kafka.held_records import Holds, held
from penstock.driver.kafka.offsets import FirstLook, Offsets, Partitions

# Spark itself looks for partitions at each epoch, and a query that finds a new one commits nothing
# until there is a core for it. So executors should not be requested much later than that.
POLL_INTERVAL_SECONDS = 10.0
# A broker that has just started does not know all topics yet, so a topic counts as missing only
# after two polls in a row.
_RETRY_INTERVAL_SECONDS = 2.0
TOPIC_RECREATED = "TopicRecreated"

T = TypeVar("T")


@dataclass(frozen=True)
class SourceView:
    """What is known of a source at one moment."""

    partition_count: int | None = None
    """None before the source was asked."""
    partitions_by_topic: Mapping[str, Sequence[int]] | None = None
    """Partition numbers; None also if the source has no topics."""
    earliest_offsets: Offsets | None = None
    """The first offset that each partition still has; None if the source has no offsets."""
    newest_offsets: Offsets | None = None
    """The end of each partition, for the stream's reader."""
    held: Holds | None = None
    """What open transactions hold back; None of a source that is read whatever is open."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """The ids of the topics with which the query was planned, and of those that a pattern has
    found since then."""
    failure: Failure | None = None
    """A failure that must end the planned or running query; Spark does not report it."""
    outage: Failure | None = None
    """Why the source does not answer. A query resumes by itself when it answers again."""
    answered_at: float | None = None
    """When the source last answered, on the monotonic clock; None if nothing is asked."""


class SourceMonitor:
    """A source whose number of partitions follows from the spec."""

    def __init__(self, partitions: int | None = None) -> None:
        self._stated = partitions
        self._known = SourceView()

    @property
    def view(self) -> SourceView:
        """What is known of the source now."""
        return self._known

    def poll(self) -> None:
        """Asks the source for its partitions now; raises the source's own exceptions."""
        self._known = SourceView(self._stated)

    def snapshot(self) -> KafkaSnapshot | None:
        """Asks for topic ids and offsets now; None if the source has no offsets."""
        return None

    def first_look(self) -> FirstLook | None:
        """Asks which topics exist, and where they end; None if the source has no topics.

        Waits a moment if one is missing: see `_RETRY_INTERVAL_SECONDS`.
        """
        return None

    def fetch_newest_offsets(self) -> Offsets:
        """Asks for the end of each partition now."""
        return {}

    def fetch_log_ends(self) -> Offsets:
        """Asks for the end of each partition's log now, which its reader may not reach yet."""
        return {}

    def fetch_offsets_at(self, timestamp_ms: int) -> Offsets:
        """Asks for each partition's first record of this time or later; else its end."""
        return {}

    def fetch_group_offsets(self, group: str) -> Offsets:
        """Asks for what a consumer group has committed."""
        return {}

    def named_by_spec(self, topics: Iterable[str]) -> list[str]:
        """Those of these topics that the spec names, whether they exist or not."""
        return []

    def reset(self) -> None:
        """Discards what is known; nothing is found either until the next `poll`."""
        self._known = SourceView()

    def close(self) -> None:
        """Ends the polling; does not wait for its end."""


class KafkaSourceMonitor(SourceMonitor):
    """Polls Kafka in a thread of its own. No method waits longer than one bounded call.

    The thread and the methods each swap a reference of their own. What the thread has found counts
    only while it is based on what the methods know: a poll that ends after a `reset` or a
    `snapshot` changes nothing.
    """

    def __init__(self, jvm: Jvm, source: KafkaSource, secrets: Path) -> None:
        super().__init__()
        self._jvm = jvm
        self._source = source
        self._secrets = secrets
        self._calls = CallsWithDeadline("kafka")
        self._admin: Admin | None = None
        """Used only by calls, which follow one another."""
        self._polled = (self._known, self._known)
        """What the last poll was based on, and what is known since then."""
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    @property
    def view(self) -> SourceView:
        """What is known of the source now."""
        base, (polled_base, polled) = self._known, self._polled
        return polled if polled_base is base else base

    def poll(self) -> None:
        """Asks for the partitions now. The first call starts the polling thread."""
        _ = self._jvm.gateway  # waits until the JVM has started
        partitions = self._call(lambda admin: partitions_of(admin, self._source))
        self._known = _with_partitions(self.view, partitions)
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_polling, name="monitor", daemon=True)
            self._thread.start()

    def snapshot(self) -> KafkaSnapshot:
        """Asks for topic ids and offsets now. The query is planned with these ids."""
        partitions, snapshot = self._call(self._ask)
        known = _with_offsets(_with_partitions(self.view, partitions), snapshot)
        self._known = replace(known, topic_ids=snapshot.ids)
        return snapshot

    def first_look(self) -> FirstLook:
        """Asks which topics exist, and where they end."""
        _ = self._jvm.gateway  # waits until the JVM has started
        first = self._call(lambda admin: first_look(admin, self._source))
        by_pattern = self._source.topic_pattern is not None
        if first.offsets if by_pattern else first.offsets.keys() >= set(first.named):
            return first
        self._closed.wait(_RETRY_INTERVAL_SECONDS)
        second = self._call(lambda admin: first_look(admin, self._source))
        return replace(
            first,
            offsets={**second.offsets, **first.offsets},
            ids={**second.ids, **first.ids},
        )

    def fetch_newest_offsets(self) -> Offsets:
        """Asks for the end of each partition now."""
        numbers = self.view.partitions_by_topic
        assert numbers is not None
        return self._call(lambda admin: admin.newest(Partitions(numbers)))

    def fetch_log_ends(self) -> Offsets:
        """Asks for the end of each partition's log now, which its reader may not reach yet."""
        numbers = self.view.partitions_by_topic
        assert numbers is not None
        return self._call(lambda admin: admin.log_ends(Partitions(numbers)))

    def fetch_offsets_at(self, timestamp_ms: int) -> Offsets:
        """Asks for each partition's first record of this time or later; else its end."""
        numbers = self.view.partitions_by_topic
        assert numbers is not None
        return self._call(lambda admin: admin.at_time(Partitions(numbers), timestamp_ms))

    def fetch_group_offsets(self, group: str) -> Offsets:
        """Asks for what a consumer group has committed."""
        return self._call(lambda admin: admin.committed(group))

    def named_by_spec(self, topics: Iterable[str]) -> list[str]:
        """Those of these topics that the spec names; its pattern is matched by Java."""
        if self._source.topic_pattern is not None:
            return matching(self._jvm.gateway, self._source.topic_pattern, topics)
        names = self._source.topics or self._source.assign or ()
        return sorted(set(topics).intersection(names))

    def close(self) -> None:
        """Ends the polling and the connections; does not wait for their end."""
        self._closed.set()

    def _keep_polling(self) -> None:
        before: str | None = None
        while self._jvm.exit_code is None and not self._closed.is_set():
            reason: str | None = None
            base, known = self._known, self.view
            try:
                self._refresh()
            except Exception as error:  # an unreachable broker must not end the polling
                failure = classify_exception(error)
                reason = failure.reason
                if reason != TOPIC_MISSING:
                    self._polled = base, replace(known, outage=failure)
                elif before == reason:
                    self._polled = base, replace(known, failure=failure)
            before = reason
            failed = reason is not None
            self._closed.wait(_RETRY_INTERVAL_SECONDS if failed else POLL_INTERVAL_SECONDS)
        with contextlib.suppress(DriverError):  # the network does not answer
            self._calls.call(self._disconnect)

    def _refresh(self) -> None:
        base, known = self._known, self.view
        if known.partition_count is None:
            return
        partitions, snapshot = self._call(self._ask)
        planned = known.topic_ids
        recreated = [t for t, id_ in planned.items() if snapshot.ids.get(t, id_) != id_]
        view = replace(
            _with_offsets(_with_partitions(known, partitions), snapshot),
            topic_ids={**snapshot.ids, **planned} if planned else planned,
            failure=_topic_recreated(recreated[0]) if recreated else None,
        )
        self._polled = base, view

    def _ask(self, admin: Admin) -> tuple[Partitions, KafkaSnapshot]:
        partitions = partitions_of(admin, self._source)
        earliest, newest = admin.earliest(partitions), admin.newest(partitions)
        # Last, so that it is never before the others.
        uncommitted_ends = admin.log_ends(partitions) if admin.reads_committed else None
        return partitions, KafkaSnapshot(partitions.ids, earliest, newest, uncommitted_ends)

    def _call(self, ask: Callable[[Admin], T]) -> T:
        return self._calls.call(lambda: self._with_admin(ask), self.view.partition_count or 0)

    def _with_admin(self, ask: Callable[[Admin], T]) -> T:
        """A failure replaces the admin client: a new one reads its credentials again."""
        if self._admin is None:
            self._admin = Admin(self._jvm.gateway, self._source, self._secrets)
        try:
            return ask(self._admin)
        except Exception:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None and self._jvm.exit_code is None:
            with contextlib.suppress(Exception):  # what failed before is what is reported
                admin.close()


def _with_partitions(known: SourceView, partitions: Partitions) -> SourceView:
    """Also the end of what was wrong before: the source has answered."""
    return replace(
        known,
        partition_count=partitions.total,
        partitions_by_topic=partitions.numbers,
        failure=None,
        outage=None,
        answered_at=time.monotonic(),
    )


def _with_offsets(known: SourceView, snapshot: KafkaSnapshot) -> SourceView:
    holds = None
    if snapshot.uncommitted_ends is not None:
        holds = held(known.held or {}, snapshot.newest, snapshot.uncommitted_ends, time.monotonic())
    return replace(
        known, earliest_offsets=snapshot.earliest, newest_offsets=snapshot.newest, held=holds
    )


def _topic_recreated(topic: str) -> Failure:
    """Transient: the next start finds out what it means for the checkpoint."""
    return Failure(
        TOPIC_RECREATED,
        f"The topic {topic} was deleted and created again while the query was reading it.",
    )


def source_monitor(jvm: Jvm, spec: StreamSpec, secrets: Path) -> SourceMonitor:
    """The monitor for the spec's source."""
    if spec.source.kafka is not None:
        return KafkaSourceMonitor(jvm, spec.source.kafka, secrets)
    return SourceMonitor(stated_partitions(spec.source, spec.spark_conf))
