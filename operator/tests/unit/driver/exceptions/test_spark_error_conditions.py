"""Every error condition that Spark ships has a verdict.

Those of the Kafka connector: integration/driver/spark/test_spark_error_conditions.py.
"""

from __future__ import annotations

import doctest

import pytest

from penstock.driver.exceptions import python_traceback, spark_error_conditions
from penstock.driver.exceptions.spark_error_conditions import (
    BY_SQLSTATE,
    OF_SPARK,
    Verdict,
    verdict,
)
from testkit.driver.spark_error_conditions import LEGACY, of_spark


def spark_conditions() -> dict[str, str | None]:
    """The SQLSTATEs of all named conditions of Spark, and of their cases."""
    return {each.name: each.sql_state for each in of_spark() if not each.name.startswith(LEGACY)}


@pytest.mark.proves("failures.md#what-is-shown-of-records")
def test_every_condition_has_a_verdict() -> None:
    """A new version of Spark fails here with those that nobody has judged."""
    unknown = {n: state for n, state in spark_conditions().items() if verdict(n, state) is None}
    assert unknown == {}


def test_no_entry_is_of_no_use() -> None:
    """A condition that Spark no longer has, or a SQLSTATE."""
    known = spark_conditions()
    assert [n for n in OF_SPARK if not any(name.startswith(n) for name in known)] == []
    states = [state or "" for state in known.values()]
    assert [s for s in BY_SQLSTATE if not any(state.startswith(s) for state in states)] == []


@pytest.mark.parametrize(
    ("condition", "sql_state", "expected"),
    [
        ("STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY", "42K03", Verdict.NO_STATE),
        ("CANNOT_LOAD_STATE_STORE.UNEXPECTED_FILE_SIZE", "58030", Verdict.DAMAGED_STATE),
        ("CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR", "58030", Verdict.TRANSIENT),
        ("CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT", "58030", Verdict.TRANSIENT),
        ("KAFKA_DATA_LOSS.PARTITIONS_DELETED", "22000", Verdict.DATA_LOSS),
        ("KAFKA_NULL_TOPIC_IN_DATA", None, Verdict.RECORD),
        ("MALFORMED_LOG_FILE", "KD002", Verdict.DAMAGED),
        ("STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL", "42802", Verdict.PROCESSOR),
        ("INTERNAL_ERROR", "XX000", Verdict.TRANSIENT),
        ("NOT_OF_THIS_VERSION", None, None),
    ],
)
def test_verdicts(condition: str, sql_state: str | None, expected: Verdict | None) -> None:
    assert verdict(condition, sql_state) is expected


def test_the_examples() -> None:
    assert doctest.testmod(spark_error_conditions).failed == 0
    assert doctest.testmod(python_traceback).failed == 0
