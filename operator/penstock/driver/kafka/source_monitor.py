"""Monitors the source: its partitions, their newest offsets, and whether it answers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from penstock.api.v1alpha1 import KafkaSource, StreamSpec
from penstock.contract.sizing import stated_partitions
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import TOPIC_MISSING, DriverError, Failure
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.admin import Admin, matching, partitions_of
from penstock.driver.kafka.calls_with_deadline import CallsWithDeadline
from penstock.driver.kafka.data_loss import KafkaSnapshot
from penstock.driver.kafka.offsets import Offsets, Partitions

# Spark itself looks for partitions at each epoch, and a query that finds a new one commits nothing
# until there is a core for it. So executors should not be requested much later than that.
POLL_INTERVAL_SECONDS = 10.0
# A broker that has just started does not know all topics yet, so a topic counts as missing only
# after two polls in a row.
_RETRY_INTERVAL_SECONDS = 2.0
TOPIC_RECREATED = "TopicRecreated"

T = TypeVar("T")


class SourceMonitor(Protocol):
    """The state of a source."""

    @property
    def partition_count(self) -> int | None:
        """The number of partitions at the last poll; None before the first."""

    @property
    def partitions_by_topic(self) -> Mapping[str, Sequence[int]] | None:
        """The partition numbers by topic; None also if the source has no topics."""

    @property
    def newest_offsets(self) -> Offsets | None:
        """The end of each partition at the last poll; None if the source has no offsets."""

    @property
    def earliest_offsets(self) -> Offsets | None:
        """The first offset of each partition at the last poll; None if there are no offsets."""

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """The ids of the topics that the query reads, when they were first seen."""

    @property
    def failure(self) -> Failure | None:
        """A failure that must end the planned or running query; Spark does not report it."""

    @property
    def outage(self) -> Failure | None:
        """Why the source does not answer. A query resumes by itself when it answers again."""

    @property
    def answered_at(self) -> float | None:
        """When the source last answered, on the monotonic clock; None if nothing is asked."""

    def poll(self) -> None:
        """Asks the source now; raises the source's own exceptions."""

    def snapshot(self) -> KafkaSnapshot | None:
        """The topics and their offsets at this moment; None if the source has no offsets."""

    def fetch_newest_offsets(self) -> Offsets:
        """The end of each partition at this moment."""

    def named(self, topics: Iterable[str]) -> list[str]:
        """Those of these topics that the spec names, whether they exist or not."""

    def reset(self) -> None:
        """Discards what earlier polls found."""

    def close(self) -> None:
        """Ends the polling; does not wait for its end."""


class FixedSourceMonitor:
    """A source whose number of partitions follows from the spec."""

    partitions_by_topic: Mapping[str, Sequence[int]] | None = None
    newest_offsets: Offsets | None = None
    earliest_offsets: Offsets | None = None
    topic_ids: Mapping[str, str] = {}
    failure: Failure | None = None
    outage: Failure | None = None
    answered_at: float | None = None

    def __init__(self, partitions: int) -> None:
        self._stated = partitions
        self.partition_count: int | None = None

    def poll(self) -> None:
        """Takes the number of partitions from the spec."""
        self.partition_count = self._stated

    def snapshot(self) -> KafkaSnapshot | None:
        """None: this source has no offsets."""
        return None

    def fetch_newest_offsets(self) -> Offsets:
        """Empty: this source has no offsets."""
        return {}

    def named(self, topics: Iterable[str]) -> list[str]:
        """Empty: this source has no topics."""
        return []

    def reset(self) -> None:
        """Discards the number of partitions until the next poll."""
        self.partition_count = None

    def close(self) -> None:
        """Nothing is polled."""


class KafkaSourceMonitor:
    """Polls Kafka in a thread of its own. No method waits longer than one bounded call."""

    def __init__(self, jvm: Jvm, source: KafkaSource, secrets: Path) -> None:
        self._jvm = jvm
        self._source = source
        self._secrets = secrets
        self._calls = CallsWithDeadline("kafka")
        self._admin: Admin | None = None
        """Used only by calls, which follow one another."""
        self._lock = threading.Lock()
        """Guards what follows, and is never held during a call."""
        self._resets = 0
        self._partitions: Partitions | None = None
        self._first_ids: Mapping[str, str] = {}
        """The ids of the topics at the last snapshot, with which the query was planned, and of
        those that a pattern has found since then."""
        self._newest_offsets: Offsets | None = None
        self._earliest_offsets: Offsets | None = None
        self._failure: Failure | None = None
        self._outage: Failure | None = None
        self._answered_at: float | None = None
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    @property
    def partition_count(self) -> int | None:
        """The number of partitions at the last poll."""
        partitions = self._partitions
        return None if partitions is None else partitions.total

    @property
    def partitions_by_topic(self) -> Mapping[str, Sequence[int]] | None:
        """The partition numbers by topic at the last poll."""
        partitions = self._partitions
        return None if partitions is None else partitions.numbers

    @property
    def newest_offsets(self) -> Offsets | None:
        """The end of each partition at the last poll."""
        return self._newest_offsets

    @property
    def earliest_offsets(self) -> Offsets | None:
        """The first offset that each partition still had at the last poll."""
        return self._earliest_offsets

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """The ids of the topics that the query reads, when they were first seen."""
        return self._first_ids

    @property
    def failure(self) -> Failure | None:
        """A topic is missing in two polls in a row, or is not the one of the last snapshot."""
        return self._failure

    @property
    def outage(self) -> Failure | None:
        """Why the last poll failed, for any other reason than a missing topic."""
        return self._outage

    @property
    def answered_at(self) -> float | None:
        """When the last poll succeeded, on the monotonic clock."""
        return self._answered_at

    def poll(self) -> None:
        """Asks for the partitions now. The first call starts the polling thread."""
        _ = self._jvm.gateway  # waits until the JVM has started
        partitions = self._call(lambda admin: partitions_of(admin, self._source))
        with self._lock:
            self._partitions, self._failure, self._outage = partitions, None, None
            self._answered_at = time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_polling, name="monitor", daemon=True)
            self._thread.start()

    def fetch_newest_offsets(self) -> Offsets:
        """Asks for the end of each partition now."""
        partitions = self._partitions
        assert partitions is not None
        return self._call(lambda admin: admin.newest(partitions))

    def named(self, topics: Iterable[str]) -> list[str]:
        """Those of these topics that the spec names; its pattern is matched by Java."""
        if self._source.topic_pattern is not None:
            return matching(self._jvm.gateway, self._source.topic_pattern, topics)
        names = self._source.topics or self._source.assign or ()
        return sorted(set(topics).intersection(names))

    def snapshot(self) -> KafkaSnapshot:
        """Asks for topic ids and offsets now."""
        partitions, snapshot = self._call(self._ask)
        with self._lock:
            self._first_ids = partitions.ids
            self._take(partitions, snapshot)
            self._failure = self._outage = None
        return snapshot

    def reset(self) -> None:
        """Discards what was found; the thread finds nothing either until the next `poll`."""
        with self._lock:
            self._resets += 1
            self._partitions = self._newest_offsets = self._earliest_offsets = None
            self._failure = self._outage = None
            self._first_ids = {}

    def close(self) -> None:
        """Ends the polling and the connections; does not wait for their end."""
        self._closed.set()

    def _keep_polling(self) -> None:
        before: str | None = None
        while self._jvm.exit_code is None and not self._closed.is_set():
            reason: str | None = None
            try:
                self._refresh()
            except Exception as error:  # an unreachable broker must not end the polling
                failure = classify_exception(error)
                reason = failure.reason
                self._failed(failure, repeated=before == reason)
            before = reason
            failed = reason is not None
            self._closed.wait(_RETRY_INTERVAL_SECONDS if failed else POLL_INTERVAL_SECONDS)
        with contextlib.suppress(DriverError):  # the network does not answer
            self._calls.call(self._disconnect)

    def _refresh(self) -> None:
        resets = self._resets
        if self._partitions is None:
            return
        partitions, snapshot = self._call(self._ask)
        with self._lock:
            if self._resets != resets:
                return
            self._take(partitions, snapshot)
            first = self._first_ids
            recreated = [t for t, id_ in first.items() if partitions.ids.get(t, id_) != id_]
            if first:
                self._first_ids = {**partitions.ids, **first}
            self._failure = _topic_recreated(recreated[0]) if recreated else None
            self._outage = None

    def _take(self, partitions: Partitions, snapshot: KafkaSnapshot) -> None:
        self._partitions = partitions
        self._newest_offsets, self._earliest_offsets = snapshot.newest, snapshot.earliest
        self._answered_at = time.monotonic()

    def _failed(self, failure: Failure, *, repeated: bool) -> None:
        with self._lock:
            if self._partitions is None:  # reset meanwhile
                return
            if failure.reason != TOPIC_MISSING:
                self._outage = failure
            elif repeated:
                self._failure = failure

    def _ask(self, admin: Admin) -> tuple[Partitions, KafkaSnapshot]:
        partitions = partitions_of(admin, self._source)
        return partitions, KafkaSnapshot(
            partitions.ids, admin.earliest(partitions), admin.newest(partitions)
        )

    def _call(self, ask: Callable[[Admin], T]) -> T:
        return self._calls.call(lambda: self._with_admin(ask))

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
    return FixedSourceMonitor(stated_partitions(spec.source, spec.spark_conf))
