"""Every error condition that Spark ships has a verdict.

Those of the Kafka connector: integration/driver/test_failures.py.
"""

from __future__ import annotations

import doctest
import json
import zipfile
from pathlib import Path

import pyspark
import pytest

from penstock.driver.exceptions import conditions, python_traceback
from penstock.driver.exceptions.conditions import BY_SQLSTATE, OF_SPARK, Verdict, verdict

_SPARK = next(Path(pyspark.__file__).parent.glob("jars/spark-common-utils_*.jar"))


def spark_conditions() -> dict[str, str | None]:
    """All conditions of Spark with a SQLSTATE, also the sub-conditions."""
    with zipfile.ZipFile(_SPARK) as jar:
        document = json.loads(jar.read("error/error-conditions.json"))
    return {
        full: condition.get("sqlState")
        for name, condition in document.items()
        if not name.startswith("_LEGACY_ERROR_TEMP_")
        for full in (name, *(f"{name}.{sub}" for sub in condition.get("subClass", {})))
    }


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
    assert doctest.testmod(conditions).failed == 0
    assert doctest.testmod(python_traceback).failed == 0
