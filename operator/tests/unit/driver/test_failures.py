"""The reasons of exceptions, with the chains of causes that Spark 4.2 and Kafka 3.9 throw."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.driver.failures import ExceptionInfo, classify
from penstock.driver.java_exceptions import classify_exception

EXCEPTION = ("java.lang.Exception", "java.lang.Throwable", "java.lang.Object")
RUNTIME = ("java.lang.RuntimeException", *EXCEPTION)
KAFKA = ("org.apache.kafka.common.KafkaException", *RUNTIME)
API = ("org.apache.kafka.common.errors.ApiException", *KAFKA)
RETRIABLE = ("org.apache.kafka.common.errors.RetriableException", *API)
ANALYSIS = ("org.apache.spark.sql.AnalysisException", *EXCEPTION)
SPARK = ("org.apache.spark.SparkException", *EXCEPTION)

WRAPPER = ExceptionInfo(
    ("org.apache.spark.sql.streaming.StreamingQueryException", *EXCEPTION),
    "[STREAM_FAILED] Query terminated", "STREAM_FAILED",
)  # fmt: skip
EXECUTION = ExceptionInfo(("java.util.concurrent.ExecutionException", *EXCEPTION), "wrapped")
ABORTED = ExceptionInfo(
    SPARK, "Job aborted due to stage failure: Task 0 failed 1 times\nDriver stacktrace:"
)


def kafka_error(name: str, parents: tuple[str, ...]) -> ExceptionInfo:
    return ExceptionInfo((f"org.apache.kafka.common.errors.{name}", *parents), "Kafka's message")


@pytest.mark.parametrize(
    ("chain", "reason", "permanent", "recoverable"),
    [
        (
            [ExceptionInfo(ANALYSIS, "no Aggregate", "_LEGACY_ERROR_TEMP_3102")],
            "UnsupportedOperation", True, False,
        ),
        (
            [ExceptionInfo(("org.apache.spark.sql.catalyst.parser.ParseException", *ANALYSIS),
                           "bad", "PARSE_SYNTAX_ERROR")],
            "ParseSyntaxError", True, False,
        ),
        (
            [ExceptionInfo(("x.ExtendedAnalysisException", *ANALYSIS), "no column",
                  "UNRESOLVED_COLUMN.WITH_SUGGESTION")],
            "UnresolvedColumn", True, False,
        ),
        (
            [EXECUTION, kafka_error("UnknownTopicOrPartitionException",
                ("org.apache.kafka.common.errors.InvalidMetadataException",
                 "org.apache.kafka.common.errors.RefreshRetriableException", *RETRIABLE))],
            "TopicMissing", True, True,
        ),
        (
            [EXECUTION, kafka_error("TopicAuthorizationException",
                ("org.apache.kafka.common.errors.AuthorizationException", *API))],
            "KafkaAuthorization", True, True,
        ),
        (
            [WRAPPER, kafka_error("SaslAuthenticationException",
                ("org.apache.kafka.common.errors.AuthenticationException", *API))],
            "KafkaAuthentication", True, True,
        ),
        (
            [WRAPPER, ABORTED, kafka_error("TimeoutException", RETRIABLE)],
            "BrokerUnreachable", False, False,
        ),
        ([WRAPPER, ABORTED, kafka_error("DisconnectException", RETRIABLE)],
         "BrokerUnreachable", False, False),
        ([ExceptionInfo(("java.util.concurrent.TimeoutException", *EXCEPTION), "")],
         "BrokerUnreachable", False, False),
        ([WRAPPER, ABORTED], "TaskFailed", False, False),
        (
            [WRAPPER, ABORTED, ExceptionInfo(("x.KafkaIllegalStateException", *RUNTIME), "lost",
                                    "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE")],
            "DataLoss", True, False,
        ),
        (
            [WRAPPER, ExceptionInfo(("org.apache.spark.SparkRuntimeException", *RUNTIME),
                                    "other state",
                                    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA")],
            "StateOfAnotherQuery", True, False,
        ),
        # The next start finds out whether records are lost.
        (
            [WRAPPER, ABORTED, ExceptionInfo(
                ("org.apache.kafka.clients.consumer.OffsetOutOfRangeException",
                 "org.apache.kafka.clients.consumer.InvalidOffsetException", *KAFKA), "in-0: 7")],
            "OffsetOutOfRange", False, False,
        ),
        ([WRAPPER, ExceptionInfo(("java.io.FileNotFoundException", *EXCEPTION), "/x")],
         "FileNotFound", False, False),
        ([ExceptionInfo(("java.lang.OutOfMemoryError", "java.lang.Error"), "Java heap space")],
         "OutOfMemory", False, False),
        ([], "Unknown", False, False),
    ],
)  # fmt: skip
def test_reasons(
    chain: list[ExceptionInfo], reason: str, permanent: bool, recoverable: bool
) -> None:
    failure = classify(chain)
    assert (failure.reason, failure.permanent, failure.recoverable) == (
        reason,
        permanent,
        recoverable,
    )


def test_the_operation_is_named() -> None:
    message = "Continuous processing does not support Aggregate operations.;\nAggregate [...]"
    failure = classify([ExceptionInfo(ANALYSIS, message, "_LEGACY_ERROR_TEMP_3102")])
    assert "Aggregate" in failure.message
    assert "\n" not in failure.message


def test_the_contents_of_a_record_are_never_shown() -> None:
    """The message of an ANSI cast error contains the value."""
    classes = ("org.apache.spark.SparkNumberFormatException", *RUNTIME)
    exception = ExceptionInfo(
        classes, "The value 'card 4111' of the type STRING", "CAST_INVALID_INPUT"
    )
    failure = classify([WRAPPER, ABORTED, exception])
    assert failure.reason == "CastInvalidInput"
    assert "4111" not in failure.message
    assert failure.maybe_poison
    assert not failure.permanent


def test_a_python_exception_is_transient() -> None:
    failure = classify_exception(ValueError("spec.source names no source"))
    assert failure.reason == "Value"
    assert not failure.permanent


NAMES = st.from_regex(r"[A-Za-z_$.0-9]{1,40}", fullmatch=True)


@given(
    st.lists(st.builds(ExceptionInfo, st.tuples(NAMES), st.text(), st.none() | NAMES), max_size=5)
)
def test_any_exception_can_be_reported(chain: list[ExceptionInfo]) -> None:
    failure = classify(chain).to_status(datetime.now(UTC))
    assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", failure.reason)
    assert len(failure.message) < 2000
