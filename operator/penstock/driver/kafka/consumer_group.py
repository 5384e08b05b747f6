"""Shows the committed offsets to Kafka's own tools, as those of a consumer group.

The group has no members, and nothing reads its offsets back: the checkpoint alone says where the
stream continues.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from penstock.api.v1alpha1 import KafkaSource
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import (
    CONSUMER_GROUP_HAS_MEMBERS,
    KAFKA_AUTHORIZATION,
    Failure,
)
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.admin import Admin
from penstock.driver.kafka.offsets import Offsets

INTERVAL_SECONDS = 5.0
# Kafka forgets an offset of a group without members some time after it was committed, also that of
# a partition that does not move (offsets.retention.minutes).
REFRESH_SECONDS = 60.0
# How long others are known to commit to the group: they may do so less often than this stream.
OTHERS_SECONDS = 5 * REFRESH_SECONDS
# A broker that does not answer is reported by the source's monitor, within seconds.
_ATTEMPTS = 3
_CLOSE_SECONDS = 2.0


class ConsumerGroup:
    """Commits to the group in a thread of its own, at most every few seconds, until `close`."""

    def __init__(
        self,
        jvm: Jvm,
        stream: ContinuousStream,
        secrets: Path,
        offsets: Callable[[], tuple[Offsets, Offsets] | None],
    ) -> None:
        """`offsets` are the stream's committed and newest ones. Without a group nothing is done."""
        self.warning: Failure | None = None
        """Why the group does not show where the stream is, if it does not."""
        self._jvm = jvm
        self._source = stream.spec.source.kafka
        self._stream = f"{stream.metadata.namespace}/{stream.metadata.name}"
        self._secrets = secrets
        self._offsets = offsets
        self._admin: Admin | None = None
        self._shown: Offsets = {}
        self._refresh_at = 0.0
        self._others_until = 0.0
        self._failures = 0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if self._source is not None and self._source.consumer_group is not None:
            show = partial(self._run, self._source, self._source.consumer_group)
            self._thread = threading.Thread(target=show, name="consumer-group", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Commits what is left; waits up to 2 s for it."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)

    def _run(self, source: KafkaSource, group: str) -> None:
        ends = False
        while not ends:
            ends = self._closed.wait(INTERVAL_SECONDS)
            if self._jvm.exit_code is not None:
                return
            try:
                self._show(source, group)
            except Exception as error:  # the stream runs on
                self._disconnect()
                self._failures += 1
                failure = classify_exception(error)
                if failure.permanent or self._failures >= _ATTEMPTS:
                    self.warning = not_committed(source, group, failure)
        self._disconnect()

    def _show(self, source: KafkaSource, group: str) -> None:
        now = time.monotonic()
        offsets, is_refresh_due = committable(self._offsets()), now >= self._refresh_at
        if not offsets or (offsets == self._shown and not is_refresh_due):
            return
        if self._admin is None:
            self._admin = Admin(self._jvm.gateway, source, self._secrets)
        if is_refresh_due:
            notes = self._admin.group_notes(group) if self._shown else {}
            if has_others(notes, self._shown, self._stream):
                self._others_until = now + OTHERS_SECONDS
            self._refresh_at = now + REFRESH_SECONDS
        self._admin.commit_to_group(group, offsets, self._stream)
        self._shown, self._failures = offsets, 0
        self.warning = shared(group) if now < self._others_until else None

    def _disconnect(self) -> None:
        """A new client reads its credentials again."""
        admin, self._admin = self._admin, None
        if admin is not None and self._jvm.exit_code is None:
            with contextlib.suppress(Exception):  # the JVM ends
                admin.close()


def committable(offsets: tuple[Offsets, Offsets] | None) -> Offsets:
    """The committed offsets of the partitions that there are: Kafka refuses others.

    >>> committable(({"a": {0: 7, 1: -2}, "gone": {0: 5}}, {"a": {0: 9, 1: 9, 2: 9}}))
    {'a': {0: 7}}
    """
    committed, newest = offsets or ({}, {})
    return {
        topic: {number: offset for number, offset in committed[topic].items() if offset >= 0}
        for topic in newest
        if topic in committed
    }


def has_others(notes: Mapping[tuple[str, int], str], shown: Offsets, stream: str) -> bool:
    """Whether somebody else has committed to the group since the stream did.

    `notes` are the notes at the group's offsets, `shown` the offsets that the stream committed.
    """
    return any(
        notes.get((topic, number), stream) != stream for topic in shown for number in shown[topic]
    )


def shared(group: str) -> Failure:
    """The warning that there are others."""
    return Failure(
        "ConsumerGroupShared",
        f"The stream runs, and somebody else commits offsets of its partitions to the consumer "
        f"group {group} too: another stream, or a person. Name a group of its own in "
        "spec.source.kafka.consumerGroup. Its offsets do not move the stream.",
    )


def not_committed(source: KafkaSource, group: str, failure: Failure) -> Failure:
    """The warning that Kafka does not take the offsets."""
    reason, why = "ConsumerGroupNotCommitted", failure.message
    if failure.reason == CONSUMER_GROUP_HAS_MEMBERS:
        reason = failure.reason
        why = (
            "It has members, and Kafka takes offsets from them alone. Name another group in "
            "spec.source.kafka.consumerGroup, or stop the members."
        )
    elif failure.reason == KAFKA_AUTHORIZATION:
        why = f"Its principal needs Read on the group: {_grant(source, group)}"
    return Failure(
        reason, f"The stream runs, and the consumer group {group} does not show its offsets. {why}"
    )


def _grant(source: KafkaSource, group: str) -> str:
    user = (source.sasl and source.sasl.username) or "NAME"
    return shlex.join(
        [
            *("kafka-acls", "--bootstrap-server", source.bootstrap_servers, "--add"),
            *("--allow-principal", f"User:{user}", "--operation", "Read", "--group", group),
        ]
    )
