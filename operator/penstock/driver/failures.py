"""From an exception to a reason: passing or permanent, and what to do about it.

Judged by classes and by Spark's error conditions, never by a message's words. An exception arrives
wrapped (StreamingQueryException around SparkException around what really happened), so its chain
of causes is read from the root outward and the first link that a rule knows decides. What no rule
knows is passing: an unknown failure that is tried again costs little, one that is not tried again
costs the stream.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock.api.v1alpha1.status import LastFailure

# Spark says no more than that a task has failed.
TASK_FAILED = "TaskFailed"
TOPIC_MISSING = "TopicMissing"
KAFKA_AUTHORIZATION = "KafkaAuthorization"

_LONGEST_MESSAGE = 600
_KAFKA = "org.apache.kafka.common"


@dataclass(frozen=True)
class ExceptionInfo:
    """One exception of a chain of causes."""

    classes: tuple[str, ...]
    """Its class and that class's ancestors, fully qualified, nearest first."""
    message: str
    condition: str | None = None
    """Spark's error condition, such as UNRESOLVED_COLUMN.WITH_SUGGESTION, if it has one."""


@dataclass(frozen=True)
class Failure:
    """A failure that has been understood, and that has not happened at a time yet."""

    reason: str
    message: str
    permanent: bool = False
    recoverable: bool = False
    """Permanent, but its cause may vanish without a new spec: worth a look now and then."""
    maybe_poison: bool = False
    """Passing, but if it comes again and again without progress it is permanent: a record that the
    transform cannot take, which every restart meets again."""

    def to_status(self, time: datetime) -> LastFailure:
        """The failure as it is reported."""
        return LastFailure(
            reason=self.reason, message=self.message, permanent=self.permanent, time=time
        )


class DriverError(Exception):
    """A failure that Penstock itself found; it carries its own judgement."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.reason}: {failure.message}")
        self.failure = failure


@dataclass(frozen=True)
class _Rule:
    name: str
    """A class of the link, or the beginning of its condition."""
    reason: str | None = None
    """None: made from the condition, or from the class's own name."""
    permanent: bool = False
    recoverable: bool = False
    advice: str = ""
    is_record_error: bool = False
    """Its message may show a record's contents, so it is not repeated; and the record stays."""


_DATA_ERROR = "a record could not be processed; its contents are not shown here"

# Conditions that a query meets over the state of another one.
_CHANGED_STATE = (
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
)

# The first that fits the innermost link wins; Kafka's own hierarchy decides the order (an unknown
# topic is a RetriableException to Kafka: it waits for metadata to settle).
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
        advice="The records that come next are gone from Kafka (retention, or the topic was made "
        'anew). To go on from what is there, set the source option failOnDataLoss to "false".',
    ),
    # SparkRuntimeExceptions, which are a record's fault otherwise.
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
            advice="The checkpoint holds the state of another query: go back to that one, or apply "
            "this one under another name.",
        )
        for name in _CHANGED_STATE
    ),
    # Whether records are really gone, the next start finds out, and by how many (data_loss.py).
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
        advice="Grant the stream's principal what it needs.",
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
    """What a chain of causes means; the outermost exception comes first."""
    if not chain:
        return Failure("Unknown", "the query failed without saying why")
    for link in reversed(chain):
        for rule in _RULES:
            if rule.name in link.classes or (link.condition or "").startswith(rule.name):
                return _failure(rule, link)
    root = chain[-1]
    return Failure(_camel(root.classes[0].rsplit(".", 1)[-1]), _headline(root))


def _failure(rule: _Rule, link: ExceptionInfo) -> Failure:
    condition = None if _is_legacy(link.condition) else link.condition
    named_after = (condition or link.classes[0].rsplit(".", 1)[-1]).split(".", 1)[0]
    message = (
        f"[{link.condition or link.classes[0]}] {_DATA_ERROR}"
        if rule.is_record_error
        else _headline(link)
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


def _headline(link: ExceptionInfo) -> str:
    """The message's first line: what follows are plans and stack traces."""
    lines = [line.strip() for line in link.message.splitlines() if line.strip()]
    headline = lines[0] if lines else link.classes[0]
    return headline if len(headline) <= _LONGEST_MESSAGE else f"{headline[:_LONGEST_MESSAGE]}..."


def _camel(name: str) -> str:
    """UNRESOLVED_COLUMN -> UnresolvedColumn; FileNotFoundException -> FileNotFound."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    if len(words) == 1 and not name.isupper():
        return re.sub(r"(Exception|Error)$", "", words[0].lstrip("0123456789")) or "Unknown"
    return "".join(word.capitalize() for word in words).lstrip("0123456789") or "Unknown"
