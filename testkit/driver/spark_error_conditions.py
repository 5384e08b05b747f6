"""The error conditions that Spark and its Kafka connector ship, and failures with them.

Both ship a list. Which code raises a condition is in the constants of the class files.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyspark

from penstock.driver.exceptions.chain import ExceptionInfo
from penstock.driver.exceptions.classify import classify
from penstock.driver.failures import Failure

_JARS = Path(pyspark.__file__).parent / "jars"
LEGACY = "_LEGACY_ERROR_TEMP_"
"""How the names begin of those that have no name of their own yet."""
# Spark's code that runs over rows, in the executors: it evaluates expressions, parses and writes
# records, and calls the functions and the processors of users.
_OVER_ROWS = (
    "org/apache/spark/api/python/",
    "org/apache/spark/sql/errors/ExecutionErrors",
    "org/apache/spark/sql/errors/QueryExecutionErrors",
    "org/apache/spark/sql/catalyst/CatalystTypeConverters",
    "org/apache/spark/sql/catalyst/csv/",
    "org/apache/spark/sql/catalyst/encoders/",
    "org/apache/spark/sql/catalyst/expressions/",
    "org/apache/spark/sql/catalyst/json/",
    "org/apache/spark/sql/catalyst/util/",
    "org/apache/spark/sql/catalyst/xml/",
    "org/apache/spark/sql/execution/aggregate/",
    "org/apache/spark/sql/execution/python/",
    "org/apache/spark/sql/execution/streaming/operators/",
    "org/apache/spark/sql/execution/streaming/state/",
    "org/apache/spark/types/variant/",
    "org/apache/spark/unsafe/",
)
# A constant text of a class file: its tag, its length, and a name of a condition.
_CONSTANT = re.compile(rb"\x01(..)([A-Z_][A-Z0-9_]+(?:\.[A-Z0-9_]+)?)", re.DOTALL)
_PARAMETER = re.compile(r"<(\w+)>")


_TEXT = "card 4111"
_EXCEPTION = ("java.lang.Exception", "java.lang.Throwable", "java.lang.Object")
_RUNTIME = ("java.lang.RuntimeException", *_EXCEPTION)
# The classes that Spark gives its conditions, nearest first.
CLASSES = {
    "SparkException": ("org.apache.spark.SparkException", *_EXCEPTION),
    "SparkRuntimeException": ("org.apache.spark.SparkRuntimeException", *_RUNTIME),
    "SparkIllegalArgumentException": (
        "org.apache.spark.SparkIllegalArgumentException",
        "java.lang.IllegalArgumentException",
        *_RUNTIME,
    ),
    "SparkUnsupportedOperationException": (
        "org.apache.spark.SparkUnsupportedOperationException",
        "java.lang.UnsupportedOperationException",
        *_RUNTIME,
    ),
    "AnalysisException": ("org.apache.spark.sql.AnalysisException", *_EXCEPTION),
    "SparkUpgradeException": ("org.apache.spark.SparkUpgradeException", *_RUNTIME),
}
_STREAM_FAILED = ExceptionInfo(
    ("org.apache.spark.sql.streaming.StreamingQueryException", *_EXCEPTION),
    f"terminated with exception: {_TEXT}",
    "STREAM_FAILED",
    "XXKST",
)
_ABORTED = ExceptionInfo(
    CLASSES["SparkException"], f"Job aborted due to stage failure: {_TEXT}", in_task=True
)


class Condition(NamedTuple):
    """One error condition, or one of its cases."""

    name: str
    """With its case: CAST_INVALID_INPUT, INVALID_FORMAT.MISMATCH_INPUT."""
    sql_state: str | None
    parameters: frozenset[str]
    """What its message tells of."""


@cache
def of_spark() -> tuple[Condition, ...]:
    """All of Spark's, and their cases; also those that have no name yet."""
    with zipfile.ZipFile(next(_JARS.glob("spark-common-utils_*.jar"))) as jar:
        return tuple(_conditions(jar.read("error/error-conditions.json")))


@cache
def of_the_connector(jars: Path) -> tuple[Condition, ...]:
    """Those of Spark's Kafka connector."""
    found: list[Condition] = []
    for path in jars.glob("spark-*.jar"):
        with zipfile.ZipFile(path) as jar:
            for name in jar.namelist():
                if name.startswith("error/") and name.endswith("-conditions.json"):
                    found += _conditions(jar.read(name))
    return tuple(found)


@cache
def named_over_rows() -> frozenset[str]:
    """The names, with or without a case, in the code of Spark that runs over rows."""
    names: set[str] = set()
    for path in _JARS.glob("spark-*.jar"):
        with zipfile.ZipFile(path) as jar:
            for name in jar.namelist():
                if name.startswith(_OVER_ROWS):
                    names.update(_constants(jar.read(name)))
    return frozenset(names)


def is_raised_over_rows(name: str) -> bool:
    """Whether that code names the condition, or the condition of which it is a case."""
    named = named_over_rows()
    main = name.partition(".")[0]
    has_named_cases = any(each.startswith(f"{main}.") for each in named)
    return name in named or (main in named and not (has_named_cases and name != main))


def failure_of(condition: Condition, classes: tuple[str, ...], *, wrapped: bool = True) -> Failure:
    """The failure of a query in one of whose tasks the condition was raised over a record."""
    thrown = ExceptionInfo(classes, _TEXT, condition.name, condition.sql_state, in_task=True)
    return classify([_STREAM_FAILED, *([_ABORTED] if wrapped else []), thrown])


def shows_its_text(failure: Failure) -> bool:
    """Whether the text of the exception is anywhere in what leaves the driver."""
    return "4111" in failure.to_status(datetime(2026, 1, 1, tzinfo=UTC)).model_dump_json()


def _constants(class_file: bytes) -> Iterator[str]:
    for found in _CONSTANT.finditer(class_file):
        length = int.from_bytes(found[1], "big")
        if length == len(found[2]):
            yield found[2].decode()


def _conditions(document: bytes) -> Iterator[Condition]:
    for name, described in json.loads(document).items():
        state, message = described.get("sqlState"), described["message"]
        cases = described.get("subClass", {})
        yield Condition(name, state, _parameters(message))
        for case, more in cases.items():
            yield Condition(f"{name}.{case}", state, _parameters([*message, *more["message"]]))


def _parameters(message: list[str]) -> frozenset[str]:
    return frozenset(_PARAMETER.findall(" ".join(message)))
