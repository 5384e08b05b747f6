"""Classifies exceptions: a reason, transient or permanent, and what to do about it.

The classes and Spark's error conditions decide, never the text of a message. An exception arrives
wrapped (StreamingQueryException around SparkException around the root cause), so its causes are
read from the root outward, and the first one that a rule matches decides. An exception without a
rule is transient: a needless retry costs little, a missing retry stops the stream.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock.api.v1alpha1.status import LastFailure

# Spark reports only that a task has failed.
TASK_FAILED = "TaskFailed"
TOPIC_MISSING = "TopicMissing"
KAFKA_AUTHORIZATION = "KafkaAuthorization"

_MAX_MESSAGE_CHARACTERS = 600
_KAFKA = "org.apache.kafka.common"


@dataclass(frozen=True)
class ExceptionInfo:
    """One exception in a chain of causes."""

    classes: tuple[str, ...]
    """Its class and the superclasses, fully qualified, nearest first."""
    message: str
    condition: str | None = None
    """Spark's error condition, such as UNRESOLVED_COLUMN.WITH_SUGGESTION, if it has one."""


@dataclass(frozen=True)
class Failure:
    """A classified failure, without the time when it happened."""

    reason: str
    message: str
    permanent: bool = False
    recoverable: bool = False
    """Permanent, but its cause may go away without a new spec, so it is rechecked now and then."""
    maybe_poison: bool = False
    """Transient, but permanent if it repeats without progress: the transform cannot process a
    record, and every restart reads that record again."""

    def to_status(self, time: datetime) -> LastFailure:
        """The failure as the status reports it."""
        return LastFailure(
            reason=self.reason, message=self.message, permanent=self.permanent, time=time
        )


class DriverError(Exception):
    """A failure that Penstock itself found and classified."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.reason}: {failure.message}")
        self.failure = failure


@dataclass(frozen=True)
class _Rule:
    name: str
    """A class of the exception, or a prefix of its condition."""
    reason: str | None = None
    """None: derived from the condition, or from the name of the class."""
    permanent: bool = False
    recoverable: bool = False
    advice: str = ""
    is_record_error: bool = False
    """One record causes it: its message may contain that record, so the message is not shown."""


_RECORD_ERROR = "A record could not be processed. Its contents are not shown here."

# Conditions that a query gets on the state of another query.
_CHANGED_STATE = (
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
)

# The first rule that matches the innermost exception decides. Subclasses come before superclasses:
# in Kafka an unknown topic is a RetriableException, because it waits for its metadata.
_RULES: tuple[_Rule, ...] = (
    _Rule("_LEGACY_ERROR_TEMP_3102", "UnsupportedOperation", permanent=True),
    _Rule("_LEGACY_ERROR_TEMP_2256", "UnsupportedOperation", permanent=True),
    _Rule("STREAMING_OUTPUT_MODE", "UnsupportedOperation", permanent=True),
    _Rule("STREAMING_REAL_TIME_MODE", "UnsupportedOperation", permanent=True),
    _Rule("NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING", "UnsupportedOperation", permanent=True),
    _Rule(
        "KAFKA_DATA_LOSS",
        "DataLoss",
        permanent=True,
        advice="The next records are gone from Kafka (retention, or the topic was created again). "
        "To continue with the records that are left, set spec.source.kafka.failOnDataLoss to "
        "false.",
    ),
    # SparkRuntimeExceptions that no record causes; the rule for all others is below.
    _Rule(
        "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
        "CheckpointDamaged",
        permanent=True,
        advice="Restore the checkpoint's volume.",
    ),
    *(
        _Rule(
            name,
            "StateOfAnotherQuery",
            permanent=True,
            advice="The checkpoint contains the state of another query. Restore the previous "
            "query, or apply this one under another name, where it starts at its startingOffsets.",
        )
        for name in _CHANGED_STATE
    ),
    # The next start finds out whether records are lost, and how many (data_loss.py).
    _Rule("org.apache.kafka.clients.consumer.OffsetOutOfRangeException", "OffsetOutOfRange"),
    _Rule("org.apache.spark.sql.AnalysisException", permanent=True),
    _Rule(
        f"{_KAFKA}.errors.UnknownTopicOrPartitionException",
        TOPIC_MISSING,
        permanent=True,
        recoverable=True,
        advice="Create the topic, or correct its name.",
    ),
    _Rule(f"{_KAFKA}.errors.InvalidTopicException", "TopicInvalid", permanent=True),
    _Rule(
        f"{_KAFKA}.errors.AuthenticationException",
        "KafkaAuthentication",
        permanent=True,
        recoverable=True,
        advice="Check the credentials in the options.",
    ),
    _Rule(
        f"{_KAFKA}.errors.AuthorizationException",
        KAFKA_AUTHORIZATION,
        permanent=True,
        recoverable=True,
        advice="Grant the stream's principal the missing rights.",
    ),
    _Rule(
        f"{_KAFKA}.errors.SerializationException",
        "Serialization",
        is_record_error=True,
    ),
    _Rule(f"{_KAFKA}.errors.RecordTooLargeException", "RecordTooLarge", permanent=True),
    _Rule(f"{_KAFKA}.config.ConfigException", "KafkaOptionInvalid", permanent=True),
    _Rule(f"{_KAFKA}.errors.RetriableException", "BrokerUnreachable"),
    _Rule("java.util.concurrent.TimeoutException", "BrokerUnreachable"),
    _Rule("org.apache.spark.SparkClassNotFoundException", "ClassNotFound", permanent=True),
    _Rule("java.lang.OutOfMemoryError", "OutOfMemory", advice="Give the executors more memory."),
    _Rule("org.apache.spark.SparkArithmeticException", is_record_error=True),
    _Rule("org.apache.spark.SparkDateTimeException", is_record_error=True),
    _Rule("org.apache.spark.SparkNumberFormatException", is_record_error=True),
    _Rule("org.apache.spark.SparkArrayIndexOutOfBoundsException", is_record_error=True),
    _Rule("org.apache.spark.SparkRuntimeException", is_record_error=True),
    _Rule("org.apache.spark.SparkUnsupportedOperationException", permanent=True),
    _Rule("java.lang.IllegalArgumentException", "OptionInvalid", permanent=True),
    _Rule("org.apache.spark.SparkException", TASK_FAILED),
)


def classify(chain: Sequence[ExceptionInfo]) -> Failure:
    """The failure behind a chain of causes, outermost exception first."""
    if not chain:
        return Failure("Unknown", "The query failed without an exception.")
    for exception in reversed(chain):
        for rule in _RULES:
            if rule.name in exception.classes or (exception.condition or "").startswith(rule.name):
                return _failure(rule, exception)
    root = chain[-1]
    return Failure(_camel(root.classes[0].rsplit(".", 1)[-1]), _headline(root))


def _failure(rule: _Rule, exception: ExceptionInfo) -> Failure:
    condition = None if _is_legacy(exception.condition) else exception.condition
    named_after = (condition or exception.classes[0].rsplit(".", 1)[-1]).split(".", 1)[0]
    message = (
        f"[{exception.condition or exception.classes[0]}] {_RECORD_ERROR}"
        if rule.is_record_error
        else _headline(exception)
    )
    return Failure(
        reason=rule.reason or _camel(named_after),
        message=f"{message} {rule.advice}".strip(),
        permanent=rule.permanent,
        recoverable=rule.recoverable,
        maybe_poison=rule.is_record_error,
    )


def _is_legacy(condition: str | None) -> bool:
    return condition is None or condition.startswith("_LEGACY_ERROR_TEMP_")


def _headline(exception: ExceptionInfo) -> str:
    """The message's first line, without the plans and stack traces that follow."""
    lines = [line.strip() for line in exception.message.splitlines() if line.strip()]
    headline = lines[0] if lines else exception.classes[0]
    return (
        headline
        if len(headline) <= _MAX_MESSAGE_CHARACTERS
        else f"{headline[:_MAX_MESSAGE_CHARACTERS]}..."
    )


def _camel(name: str) -> str:
    """UNRESOLVED_COLUMN -> UnresolvedColumn; FileNotFoundException -> FileNotFound."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    if len(words) == 1 and not name.isupper():
        return re.sub(r"(Exception|Error)$", "", words[0].lstrip("0123456789")) or "Unknown"
    return "".join(word.capitalize() for word in words).lstrip("0123456789") or "Unknown"
