"""The columns that sources have, and those that sinks take.

Imports no parser: the driver asks these rules too, about the columns of its DataFrame.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.api.v1alpha1 import Sink, Source
from penstock.api.v1alpha1.jdbc_sink import JdbcSink

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
# The columns of Spark's sources (Structured Streaming Programming Guide, and its Kafka Integration
# Guide), with the names that Spark prints for their types.
_KAFKA = {
    "key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint",
    "timestamp": "timestamp", "timestampType": "int",
}  # fmt: skip
_RATE = {"timestamp": "timestamp", "value": "bigint"}
_TEXT = ("string", "binary")
_TYPES: dict[str, tuple[str, ...]] = {
    "key": _TEXT,
    "value": _TEXT,
    "headers": (HEADERS_TYPE,),
    "partition": ("int",),
}
_CASTS = {
    "key": "CAST(... AS STRING)",
    "value": "CAST(... AS STRING), or to_json(struct(...))",
    "headers": "array(struct('a' AS key, CAST(... AS BINARY) AS value))",
    "topic": "CAST(... AS STRING)",
    "partition": "CAST(... AS INT)",
}
# The columns that Spark's writer reads (KafkaWriter of Spark 4.2): the first of each exact name.
_WRITTEN = ("key", "value", "headers", "topic", "partition")
# What a stream without a transform passes to Kafka. A row of the Kafka source also has topic and
# partition, which would send the record back to its own topic.
_PASSED = ("key", "value", "headers")


@dataclass(frozen=True)
class Column:
    """A column of a relation."""

    name: str | None
    """As it is written; None for a name that Spark makes of an expression, such as `(a + 1)`."""
    type: str | None = None
    """Spark's name of the type; None if unknown."""
    origin: str | None = None
    """The column of the source whose values it certainly passes on."""


Columns = tuple[Column, ...]


def source_columns(source: Source) -> Columns | None:
    """The columns of the view `source`; None if only Spark knows them."""
    if source.kafka is not None:
        headers = {"headers": HEADERS_TYPE} if source.kafka.include_headers else {}
        types = _KAFKA | headers
    elif source.rate is not None:
        types = _RATE
    elif source.socket is not None:
        timestamp = {"timestamp": "timestamp"} if source.socket.include_timestamp else {}
        types = {"value": "string"} | timestamp
    else:
        return None
    return tuple(Column(name, of_type, origin=name) for name, of_type in types.items())


def passed_columns(columns: Sequence[str], sink: Sink) -> list[str] | None:
    """The columns that a stream without a transform passes to its sink; None means all."""
    if sink.kafka is None:
        return None
    kept = [column for column in columns if column in _PASSED]
    return kept or None


def find_column_problems(columns: Sequence[Column], sink: Sink) -> list[str]:
    """Why a sink does not take rows of these columns; each begins with the sink's field.

    The rules are those of KafkaWriter.validateQuery in Spark 4.2, and one more: of two columns of
    one name Spark writes the first without a word, where the second is meant (`SELECT *, ... AS
    value`).

    Kafka's writer finds its columns by their exact names, also where SQL ignores case.
    """
    if sink.custom is not None:
        return _missing_folders(columns, sink.custom.partition_by)
    if sink.jdbc is not None:
        return _missing_for_upsert(columns, sink.jdbc)
    if sink.kafka is None:
        return []
    read = _read_by(sink)
    by_name = {column.name: column for column in reversed(columns)}
    problems = []
    if "value" not in by_name:
        problems.append(_missing_value(columns))
    if sink.kafka.topic is None and "topic" not in by_name:
        near = _in_other_case("topic", columns)
        how = "select a column named topic" if near is None else f"rename {near} to topic"
        problems.append(f"spec.sink.kafka needs a topic: set topic, or {how}")
    expected = _TYPES if sink.kafka.topic is not None else {**_TYPES, "topic": ("string",)}
    for name in read:
        if _differ([column for column in columns if column.name == name]):
            problems.append(
                f"spec.sink.kafka gets two columns named {name}, and Spark writes the first of "
                f"them: keep one, such as SELECT * EXCEPT ({name}), ... AS {name}"
            )
    for name, types in expected.items():
        column = by_name.get(name)
        if column is None or column.type is None or _fits(column.type, types):
            continue
        advice = f": use {_CASTS[name]} AS {name}" if name in _CASTS else ""
        problems.append(
            f"spec.sink.kafka takes a column {name} of type {' or '.join(map(_shown, types))}, not "
            f"{_shown(column.type)}{advice}"
        )
    return problems


def find_dropped_columns(columns: Sequence[Column], sink: Sink) -> list[str]:
    """Columns that Spark's writer drops without a word, where a user may mean that they are kept.

    Not those that `SELECT *` passes on from Kafka and nobody could mean, such as the offset.
    """
    if sink.kafka is None:
        return []
    read, warnings = _read_by(sink), []
    dropped = {column.name: column for column in columns if column.name not in (*read, None)}
    for name in [name for name in dropped if _meant(name, read) is not None]:
        del dropped[name]
        warnings.append(
            f"the column {name} is not written, because Spark's writer knows the name in lower "
            f"case only: write AS {_meant(name, read)}"
        )
    if sink.kafka.topic is not None:
        topics = [name for name, column in dropped.items() if _is_own_topic(column)]
        for name in topics:
            del dropped[name]
            warnings.append(
                f"the column {name} is not used, because spec.sink.kafka.topic names the topic of "
                "all records: remove one of them"
            )
    names = [str(name) for name, column in dropped.items() if not _is_passed_on(column)]
    if names:
        is_one = len(names) == 1
        lost = ", and a record gets the time at which it is written" if "timestamp" in names else ""
        warnings.append(
            f"the column{'' if is_one else 's'} {', '.join(names[:10])} {'is' if is_one else 'are'}"
            f" not written{lost}, because Spark's writer takes {', '.join(read)} only: put "
            f"{'it' if is_one else 'them'} into value, such as to_json(struct(...)) AS value, or "
            f"leave {'it' if is_one else 'them'} out"
        )
    return warnings


def find_routing_warnings(columns: Sequence[Column], sink: Sink) -> list[str]:
    """Columns of the Kafka source that Spark's writer takes for the destination of a record."""
    if sink.kafka is None:
        return []
    passed = {column.name: column for column in columns if column.name == column.origin}
    warnings = []
    if "partition" in passed:
        warnings.append(
            "the rows have the source's column partition, so Spark writes each record to the "
            "partition of that number, and fails if the output topic has fewer: leave the column "
            "out, unless the topics have the same partitions"
        )
    if sink.kafka.topic is None and "topic" in passed:
        warnings.append(
            "the rows have the source's column topic, so each record goes back to the topic that "
            "it came from, and is read again, for ever: set spec.sink.kafka.topic, or select "
            "another name AS topic"
        )
    return warnings


def _missing_for_upsert(columns: Sequence[Column], sink: JdbcSink) -> list[str]:
    """Columns of keys and latestBy that the rows do not have; Spark ignores case."""
    names = [column.name for column in columns if column.name is not None]
    if len(names) < len(columns):
        return []
    known = [name.lower() for name in names]
    asked = [("keys", key) for key in sink.keys]
    asked += [("latestBy", sink.latest_by)] if sink.latest_by is not None else []
    return [
        f"spec.sink.jdbc.{field}: the rows have {'no' if of == 0 else 'more than one'} column "
        f"{name} (they have {', '.join(names[:10])}): correct the name, or the query"
        for field, name in asked
        if (of := known.count(name.lower())) != 1
    ]


def _missing_folders(columns: Sequence[Column], folders: Sequence[str]) -> list[str]:
    """Columns of partitionBy that the rows do not have; here Spark ignores case."""
    names = [column.name for column in columns if column.name is not None]
    known = {name.lower() for name in names}
    missing = [folder for folder in folders if folder.lower() not in known]
    if not missing or len(names) < len(columns):
        return []
    return [
        f"spec.sink.custom.partitionBy: the rows have no column {missing[0]} (they have "
        f"{', '.join(names[:10])}): correct the name, or select the column"
    ]


def _read_by(sink: Sink) -> list[str]:
    """The columns that Spark's writer reads for this sink: no topic if the sink has one."""
    has_topic = sink.kafka is not None and sink.kafka.topic is not None
    return [name for name in _WRITTEN if not (has_topic and name == "topic")]


def _differ(columns: Sequence[Column]) -> bool:
    """Whether columns may hold different values: not a column that is there twice."""
    return len(columns) > 1 and (
        columns[0].origin is None or len({it.origin for it in columns}) > 1
    )


def _meant(name: str | None, read: Sequence[str]) -> str | None:
    """The column of the writer that a name is but for its case."""
    return next((each for each in read if name is not None and each == name.lower()), None)


def _in_other_case(name: str, columns: Sequence[Column]) -> str | None:
    names = (column.name for column in columns if column.name is not None)
    return next((each for each in names if each.lower() == name), None)


def _is_own_topic(column: Column) -> bool:
    """Whether the query makes a topic, and does not pass on that of the source."""
    return (column.name or "").lower() == "topic" and column.origin != "topic"


def _is_passed_on(column: Column) -> bool:
    """Whether Kafka's source has the column, and nobody could mean to write it elsewhere."""
    return column.origin == column.name and column.name in ("topic", "offset", "timestampType")


def _shown(of_type: str) -> str:
    """A type as SQL writes it, the names of fields as they are."""
    return re.sub(r"\b\w+\b(?!:)", lambda word: word[0].upper(), of_type)


def _fits(of_type: str, types: Sequence[str]) -> bool:
    is_text = of_type.startswith(("string ", "varchar", "char"))  # with a collation or a length
    may_fit = any(it.startswith(f"{of_type}<") for it in types)  # an array of unknown elements
    return of_type in types or may_fit or ("string" in types and is_text)


def _missing_value(columns: Sequence[Column]) -> str:
    names = [column.name for column in columns if column.name is not None]
    near = _in_other_case("value", columns)
    if near is not None:
        return f"spec.sink.kafka needs a column named value, in lower case: rename {near}"
    listed = f" (it has {', '.join(names[:10])})" if names else ""
    return (
        f"spec.sink.kafka needs a column named value{listed}: select one, such as "
        "to_json(struct(*)) AS value"
    )
