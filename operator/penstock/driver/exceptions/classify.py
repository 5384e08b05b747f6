"""Classifies exceptions: a reason, transient or permanent, and what to do about it.

An exception arrives wrapped (StreamingQueryException around SparkException around the root cause),
so its causes are read from the root outward, and the first one that a rule matches decides: first
the specific rules and the verdicts about the checkpoint, then the services that user code calls,
the other verdicts on Spark's conditions, and classes (rules.py, spark_error_conditions.py), and
last whatever else user code throws in a task: that is a record's fault. Any other exception without
a rule is transient: a needless retry costs little, a missing retry stops the stream.

A message is shown only if it cannot quote a record: the exception was not thrown in a task, or its
class is known to quote none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from penstock.contract.remedies import REMEDIES
from penstock.driver.exceptions.chain import ExceptionInfo, python_classes, read_python_chain
from penstock.driver.exceptions.malformed_records import SchemaField, why_malformed
from penstock.driver.exceptions.python_traceback import read_telling_traceback, read_traceback
from penstock.driver.exceptions.rules import (
    CLASSES,
    CLOCKS_DIFFER,
    LAST,
    SERVICES,
    SPECIFIC,
    Rule,
    of_condition,
)
from penstock.driver.failures import (
    MALFORMED_RECORD,
    MODULE_MISSING,
    PYTHON_FAILED,
    RECORD_NOT_WRITABLE,
    RECORD_TOO_LARGE,
    DriverError,
    Failure,
)

_MAX_MESSAGE_CHARACTERS = 600
_RECORD_ERROR = "A record could not be processed. Its contents are not shown here."
# Kafka's producer reports them with a later record, or at the end of the epoch or batch.
_REPORTED_LATE = frozenset({RECORD_NOT_WRITABLE, RECORD_TOO_LARGE})
_NOT_SHOWN = "A task failed. The message is not shown here, because it may quote a record."
_PYTHON = "org.apache.spark.api.python.PythonException"
_PYTHON_DATA_SOURCE = "PYTHON_DATA_SOURCE_ERROR"
_INVALID_RECORD = "org.apache.kafka.common.InvalidRecordException"
# LogValidator of the brokers.
_OUT_OF_RANGE = re.compile(
    r"Timestamp -?[0-9]+ of message with offset -?[0-9]+ is out of range\. The timestamp should be "
    r"within \[-?[0-9]+, -?[0-9]+\]\.?"
)
_TIMEOUT = "org.apache.kafka.common.errors.TimeoutException"
_UNKNOWN_TOPIC = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
# Names of topics as Kafka allows them: nothing else of a record can be in such a message.
_TOPIC = r"([a-zA-Z0-9._-]{1,249})"
_NO_PARTITION = re.compile(
    rf"Partition (-?[0-9]+) of topic {_TOPIC} with partition count ([0-9]+) is not present in "
    r"metadata after [0-9]+ ms\."
)
_NO_TOPIC = re.compile(rf"Topic {_TOPIC} not present in metadata after [0-9]+ ms\.")
_NOT_ALLOWED = re.compile(rf"Not authorized to access topics: \[{_TOPIC}(, {_TOPIC})*\]")
_NAMES_TOPICS = re.compile(
    r"Not authorized to access topics: |Topic .* not present in metadata", re.DOTALL
)


def classify_exception(error: BaseException) -> Failure:
    """The failure behind any Python exception, from the JVM or not. Never raises.

    The JVM may exit while its exception is read: then the class of the Python exception decides.
    """
    if isinstance(error, DriverError):
        return error.failure
    try:
        return classify(read_python_chain(error))
    except Exception:
        # Its text may contain the JVM's stack trace, and with it a record.
        return classify([ExceptionInfo(python_classes(error), "")])


def classify(
    chain: Sequence[ExceptionInfo],
    *,
    reads_ahead: bool = False,
    fields: Collection[SchemaField] = (),
) -> Failure:
    """The failure behind a chain of causes, outermost exception first.

    `reads_ahead`: the query may have read more records when one of them fails. `fields`: of the
    schemas that it reads records with.
    """
    failure = _judge(chain, fields)
    in_hand = next((info.in_hand for info in chain if info.in_hand is not None), None)
    is_late = failure.reason in _REPORTED_LATE
    if in_hand is None or not (failure.maybe_poison or is_late):
        return failure
    if is_late or reads_ahead:
        where = f"The record is {in_hand} (topic/partition@offset), or was read before it."
        return replace(failure, message=f"{failure.message} {where}")
    where = f"The record is {in_hand} (topic/partition@offset)."
    return replace(failure, message=f"{failure.message} {where}", record=in_hand)


def _judge(chain: Sequence[ExceptionInfo], fields: Collection[SchemaField]) -> Failure:
    if not chain:
        return Failure("Unknown", "The query failed without an exception.")
    in_task = any(exception.in_task for exception in chain)
    failure = _missing_target(chain) or _python_without_a_record(chain) or _differing_clocks(chain)
    if failure is None:
        failure = _malformed(chain, fields) if in_task else _python_data_source(chain)
    if failure:
        return failure
    for find_rule in (_specific_rule, _general_rule, _last_rule):
        for exception in reversed(chain):
            if rule := find_rule(exception, in_task):
                return _failure(rule, exception, in_task)
    root = chain[-1]
    return _failure(Rule(root.classes[0]), root, in_task)


def _specific_rule(exception: ExceptionInfo, in_task: bool) -> Rule | None:
    rule = of_condition(exception.condition, exception.sql_state, in_task=in_task)
    if rule is not None and rule.reason is not None:  # about the checkpoint, or lost records
        return rule
    return next((rule for rule in SPECIFIC if _matches(rule, exception, in_task)), None)


def _general_rule(exception: ExceptionInfo, in_task: bool) -> Rule | None:
    service = next((rule for rule in SERVICES if _matches(rule, exception, in_task)), None)
    return (
        service
        or of_condition(exception.condition, exception.sql_state, in_task=in_task)
        or next((rule for rule in CLASSES if _matches(rule, exception, in_task)), None)
    )


def _last_rule(exception: ExceptionInfo, in_task: bool) -> Rule | None:
    return next((rule for rule in LAST if _matches(rule, exception, in_task)), None)


def _missing_target(chain: Sequence[ExceptionInfo]) -> Failure | None:
    """A record's topic or partition that does not exist, as Kafka's producer says it.

    The producer knows the topic's partitions, so the brokers are well; but it throws the
    TimeoutException that it also throws when they are not (KafkaProducer.waitOnMetadata). Only its
    message tells the two apart.
    """
    unknown = any(_UNKNOWN_TOPIC in exception.classes for exception in chain)
    for exception in chain:
        if _TIMEOUT not in exception.classes:
            continue
        if partition := _NO_PARTITION.fullmatch(exception.message):
            number, topic, count = partition.groups()
            return _not_writable(
                f"A record's column partition is {number}, but the topic {topic} has {count} "
                "partitions."
            )
        if unknown and (topics := _NO_TOPIC.fullmatch(exception.message)):
            return _not_writable(
                f"The topic {topics[1]}, which a record's column topic names, does not exist."
            )
    return None


def _differing_clocks(chain: Sequence[ExceptionInfo]) -> Failure | None:
    """A time that the broker refuses: of the executor's clock, because Spark writes no other.

    The producer gives every record that a broker refuses the same exception, if there are several
    in a batch, and leaves it to the message to tell the cases apart (Sender.failBatch).
    """
    for exception in chain:
        if _INVALID_RECORD in exception.classes and _OUT_OF_RANGE.fullmatch(exception.message):
            return _failure(CLOCKS_DIFFER, exception, in_task=True)
    return None


def _malformed(chain: Sequence[ExceptionInfo], fields: Collection[SchemaField]) -> Failure | None:
    """A record that is not what the schema of from_json says, under mode FAILFAST."""
    why = why_malformed(chain, fields)
    if why is None:
        return None
    return Failure(
        MALFORMED_RECORD,
        f"A record could not be read with from_json: {why}. Its contents are not shown here.",
        recoverable=True,
        maybe_poison=True,
    )


def _python_without_a_record(chain: Sequence[ExceptionInfo]) -> Failure | None:
    """What Python on the executors could not do with any record: the image or the code is wrong."""
    for exception in chain:
        raised = read_traceback(exception.message) if _PYTHON in exception.classes else None
        if raised is None or not (raised.is_import_error or raised.is_before_records):
            continue
        reason, advice = PYTHON_FAILED, ""
        if raised.is_import_error:
            reason, advice = MODULE_MISSING, REMEDIES[MODULE_MISSING].action
        what = f"{raised.place} {_shortened(raised.shown_message)}".strip()
        return Failure(reason, f"{what} {advice}".strip(), permanent=True, recoverable=True)
    return None


def _python_data_source(chain: Sequence[ExceptionInfo]) -> Failure | None:
    """A data source in Python that raised an exception while Spark planned with it.

    Spark calls it an error of analysis, as if nothing outside of the query took part; but its
    server may be away, or refuse a password. The whole traceback is the message.
    """
    for exception in chain:
        if exception.condition != _PYTHON_DATA_SOURCE:
            continue
        if (raised := read_telling_traceback(exception.message)) is not None:
            words = "" if raised.reads_records else _shortened(raised.message)
            return Failure(
                "PythonDataSourceError",
                f"The data source raised {raised.place} {words}".strip(),
                permanent=raised.is_error_of_code,
                recoverable=raised.is_import_error,
            )
    return None


def _not_writable(message: str) -> Failure:
    advice = REMEDIES[RECORD_NOT_WRITABLE].action
    return Failure(RECORD_NOT_WRITABLE, f"{message} {advice}", recoverable=True, maybe_poison=True)


def _matches(rule: Rule, exception: ExceptionInfo, in_task: bool) -> bool:
    return (
        (rule.name in exception.classes or (exception.condition or "").startswith(rule.name))
        and (not rule.thrown_by or exception.thrown_by.startswith(rule.thrown_by))
        and (rule.in_task is None or rule.in_task == in_task)
        and (rule.http_status is None or rule.http_status == exception.http_status)
        and (not rule.sql_states or (exception.sql_state or "").startswith(rule.sql_states))
    )


def _failure(rule: Rule, exception: ExceptionInfo, in_task: bool) -> Failure:
    condition = None if _is_legacy(exception.condition) else exception.condition
    named_after = (condition or exception.classes[0].rsplit(".", 1)[-1]).split(".", 1)[0]
    return Failure(
        reason=rule.reason or _camel(named_after),
        message=_sentences(_message(rule, exception, in_task), rule.advice),
        permanent=rule.permanent,
        recoverable=rule.recoverable or rule.is_record_error,
        maybe_poison=rule.is_record_error,
    )


def _message(rule: Rule, exception: ExceptionInfo, in_task: bool) -> str:
    shown = not in_task or (rule.shows_message and not _quotes_a_record(exception.message))
    if shown and (rule.shows_message or not rule.is_record_error):
        return _headline(exception)
    name = exception.condition or exception.classes[0]
    words = _RECORD_ERROR if rule.is_record_error else _NOT_SHOWN
    raised = read_traceback(exception.message)
    return " ".join(part for part in (f"[{name}]", raised and raised.place, words) if part)


def _quotes_a_record(message: str) -> bool:
    """Whether Kafka quotes a record's column topic, and it is no name of a topic."""
    if not _NAMES_TOPICS.match(message):
        return False
    return not (_NOT_ALLOWED.fullmatch(message) or _NO_TOPIC.fullmatch(message))


def _is_legacy(condition: str | None) -> bool:
    return condition is None or condition.startswith("_LEGACY_ERROR_TEMP_")


def _headline(exception: ExceptionInfo) -> str:
    """The message's first line, without the plans and stack traces that follow."""
    lines = [line.strip() for line in exception.message.splitlines() if line.strip()]
    return _shortened(lines[0] if lines else exception.classes[0])


def _sentences(message: str, advice: str) -> str:
    """Both, with a stop between them: Kafka's messages often end without."""
    if not advice:
        return message
    return f"{message}{'' if message.endswith(('.', '!', '?', ':')) else '.'} {advice}"


def _shortened(text: str) -> str:
    max_length = _MAX_MESSAGE_CHARACTERS
    return text if len(text) <= max_length else f"{text[:max_length]}..."


def _camel(name: str) -> str:
    """UNRESOLVED_COLUMN -> UnresolvedColumn; FileNotFoundException -> FileNotFound."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    if len(words) == 1 and not name.isupper():
        return re.sub(r"(Exception|Error)$", "", words[0].lstrip("0123456789")) or "Unknown"
    return "".join(word.capitalize() for word in words).lstrip("0123456789") or "Unknown"
