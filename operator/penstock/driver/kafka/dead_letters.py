"""The dead-letter topic: checked before each start, and given a record, raw."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from penstock.api.v1alpha1 import KafkaSource
from penstock.contract.remedies import REMEDIES
from penstock.driver.calls_with_deadline import CallsWithDeadline
from penstock.driver.exceptions.chain import read_python_chain
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import (
    BROKER_UNREACHABLE,
    DEAD_LETTER_NOT_WRITTEN,
    KAFKA_AUTHORIZATION,
    TOPIC_MISSING,
    DriverError,
    Failure,
)
from penstock.driver.jvm import Jvm
from penstock.driver.kafka import records
from penstock.driver.kafka.admin import Admin, matching
from penstock.driver.record_position import Position

# As Kafka Connect's __connect.errors.topic.
_HEADER = "__penstock.errors."


class DeadLetterTopic:
    """The topic that the source names for the records that the query cannot process, if any."""

    def __init__(self, jvm: Jvm, source: KafkaSource | None, secrets: Path) -> None:
        self._jvm = jvm
        self._source = source
        self._secrets = secrets
        self._calls = CallsWithDeadline("dead-letters")
        self._uncopied: Position | None = None
        """The record that the topic did not take when it was last tried."""
        self._just_checked = False

    @property
    def name(self) -> str | None:
        """None without dead letters."""
        letters = None if self._source is None else self._source.dead_letters
        return None if letters is None else letters.topic

    def check(self) -> None:
        """Raises DriverError if the topic is missing, may not be written, or is read by the source;
        or Kafka's error. While a copy waits for the topic, DeadLetterNotWritten.
        """
        source, name = self._source, self.name
        if source is None or name is None:
            return
        pattern, gateway = source.topic_pattern, self._jvm.gateway
        if pattern is not None and matching(gateway, pattern, [name]):
            raise _refusal(
                "DeadLettersAreRead",
                f"The dead-letter topic {name} matches topicPattern, so each of its records would "
                f"be read, and fail, again. {REMEDIES['DeadLettersAreRead'].action}",
                recoverable=False,
            )

        def ask() -> None:
            with closing(Admin(gateway, source, self._secrets)) as admin:
                _require_writable(admin, name)

        try:
            self._calls.call(ask)
        except DriverError as refused:
            if self._uncopied is None or not refused.failure.permanent:
                raise
            raise self._not_written(refused.failure.message, lasts=True) from refused
        self._just_checked = True

    def check_before_start(self) -> None:
        """Checks, unless there was a check since the last start."""
        if not self._just_checked:
            self.check()
        self._just_checked = False

    def copy(self, record: Position, headers: Mapping[str, str]) -> bool:
        """Copies a record with more headers, and returns once all replicas in sync have it.

        False: Kafka has it no longer, so no query will read it. Raises DeadLetterNotWritten if the
        topic does not take it; Kafka's own exceptions, and DriverError, if it cannot be read.
        """
        source, name, gateway = self._source, self.name, self._jvm.gateway
        assert source is not None
        assert name is not None

        def read() -> Any | None:
            with closing(records.KafkaRecords(gateway, source, self._secrets)) as reader:
                return reader.at(record)

        original = self._calls.call(read)
        if original is None:
            self._uncopied = None
            return False
        of_record = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "timestamp": str(original.timestamp()),
        }
        all_headers = {f"{_HEADER}{key}": value for key, value in {**of_record, **headers}.items()}
        try:
            self._calls.call(
                lambda: records.copy(gateway, source, self._secrets, original, name, all_headers)
            )
        except Exception as error:
            if self._jvm.is_gone_after(error):
                raise
            self._uncopied = record
            lasts = classify_exception(error).reason != BROKER_UNREACHABLE
            raise self._not_written(_message(error), lasts=lasts) from error
        self._uncopied = None
        return True

    def _not_written(self, why: str, *, lasts: bool) -> DriverError:
        """`lasts`: it is not only for a moment, so the executors are released."""
        return DriverError(
            Failure(
                DEAD_LETTER_NOT_WRITTEN,
                f"The record {self._uncopied} cannot be copied to the dead-letter topic "
                f"{self.name}: {why} {REMEDIES[DEAD_LETTER_NOT_WRITTEN].action}",
                permanent=lasts,
                recoverable=True,
                maybe_poison=True,  # so it counts for restart.maxAttempts
                record=self._uncopied,
            )
        )


def _message(error: Exception) -> str:
    """Without the advice for a record that the query writes, which is about another topic."""
    if isinstance(error, DriverError):
        return error.failure.message
    root = read_python_chain(error)[-1]
    return root.message.partition("\n")[0] or root.classes[0].rpartition(".")[2]


def _require_writable(admin: Admin, name: str) -> None:
    try:
        may_write = admin.may_write(name)
    except Exception as error:
        reason = classify_exception(error).reason
        if reason == TOPIC_MISSING:
            raise _refusal(
                TOPIC_MISSING,
                f"The dead-letter topic {name} does not exist. Create it, or correct "
                "spec.source.kafka.deadLetters.topic.",
            ) from error
        if reason != KAFKA_AUTHORIZATION:
            raise
        may_write = False  # nor even describe it
    if not may_write:
        raise _refusal(
            KAFKA_AUTHORIZATION,
            f"The source's user may not write to the dead-letter topic {name}. "
            f"{REMEDIES[KAFKA_AUTHORIZATION].action}",
        )


def _refusal(reason: str, message: str, *, recoverable: bool = True) -> DriverError:
    return DriverError(Failure(reason, message, permanent=True, recoverable=recoverable))
