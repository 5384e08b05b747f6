"""The columns that sources have, and those that sinks take.

Imports no parser: the driver asks these rules too, about the columns of its DataFrame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.api.v1alpha1 import Sink, Source

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
    "topic": "CAST(... AS STRING)",
    "partition": "CAST(... AS INT)",
}
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
    event_time: bool | None = None
    """Whether it carries the watermark; None if unknown."""
    fields: Columns | None = ()
    """The fields of a struct that may carry the watermark; None if they are unknown."""
    declared: Columns | None = None
    """All fields of a struct, or of the structs of an array, if the query's text declares them."""
    origin: str | None = None
    """The column of the source whose values it certainly passes on."""


Columns = tuple[Column, ...]


def source_columns(source: Source, watermark_column: str | None) -> Columns | None:
    """The columns of the view `source`; None if only Spark knows them."""
    if source.kafka is not None:
        columns = _columns(_KAFKA)
        if source.kafka.include_headers:
            fields = tuple(Column(name, event_time=False) for name in ("key", "value"))
            columns += (Column("headers", HEADERS_TYPE, declared=fields),)
    elif source.rate is not None:
        columns = _columns(_RATE)
    elif source.socket is not None:
        columns = _columns({"value": "string"})
        if source.socket.include_timestamp:
            columns += _columns({"timestamp": "timestamp"})
    else:
        schema = source.custom.schema_ if source.custom is not None else None
        declared = None if schema is None else _declared(schema)
        if declared is None:
            return None
        columns = declared
    return tuple(_of_source(column, watermark_column) for column in columns)


def passed_columns(columns: Sequence[str], sink: Sink) -> list[str] | None:
    """The columns that a stream without a transform passes to its sink; None means all."""
    if sink.kafka is None:
        return None
    kept = [column for column in columns if column in _PASSED]
    return kept or None


def find_column_problems(columns: Sequence[Column], sink: Sink) -> list[str]:
    """Why a sink does not take rows of these columns; each begins with the sink's field.

    The rules are those of KafkaWriter.validateQuery in Spark 4.2.

    Kafka's writer finds its columns by their exact names, also where SQL ignores case.
    """
    if sink.kafka is None:
        return []
    by_name = {each.name: each for each in columns}
    found = []
    if "value" not in by_name:
        found.append(_missing_value(columns))
    if sink.kafka.topic is None and "topic" not in by_name:
        found.append("spec.sink.kafka needs a topic: set topic, or select a column named topic")
    expected = _TYPES if sink.kafka.topic is not None else {**_TYPES, "topic": ("string",)}
    for name, types in expected.items():
        column = by_name.get(name)
        if column is None or column.type is None or _fits(column.type, types):
            continue
        advice = f": use {_CASTS[name]} AS {name}" if name in _CASTS else ""
        found.append(
            f"spec.sink.kafka takes a column {name} of type {' or '.join(types).upper()}, not "
            f"{column.type.upper()}{advice}"
        )
    return found


def find_routing_warnings(columns: Sequence[Column], sink: Sink) -> list[str]:
    """Columns of the Kafka source that Spark's writer takes for the destination of a record."""
    if sink.kafka is None:
        return []
    passed = {column.name: column for column in columns if column.name == column.origin}
    found = []
    if "partition" in passed:
        found.append(
            "the rows have the source's column partition, so Spark writes each record to the "
            "partition of that number, and fails if the output topic has fewer: leave the column "
            "out, unless the topics have the same partitions"
        )
    if sink.kafka.topic is None and "topic" in passed:
        found.append(
            "the rows have the source's column topic, so each record goes back to the topic that "
            "it came from, and is read again, for ever: set spec.sink.kafka.topic, or select "
            "another name AS topic"
        )
    return found


def _fits(of_type: str, types: Sequence[str]) -> bool:
    is_text = of_type.startswith(("string ", "varchar", "char"))  # with a collation or a length
    may_fit = any(each.startswith(f"{of_type}<") for each in types)  # an array of unknown elements
    return of_type in types or may_fit or ("string" in types and is_text)


def _missing_value(columns: Sequence[Column]) -> str:
    names = [each.name for each in columns if each.name is not None]
    near = [name for name in names if name.lower() == "value"]
    if near:
        return f"spec.sink.kafka needs a column named value, in lower case: rename {near[0]}"
    listed = f" (it has {', '.join(names[:10])})" if names else ""
    return (
        f"spec.sink.kafka needs a column named value{listed}: select one, such as "
        "to_json(struct(*)) AS value"
    )


def united(one: Column, other: Column) -> Column:
    """A column with the name of one, and what it has in common with the other."""
    return replace(
        one,
        origin=one.origin if one.origin == other.origin else None,
        type=one.type if one.type == other.type else None,
        event_time=one.event_time if one.event_time == other.event_time else None,
        fields=one.fields if one.fields == other.fields else None,
        declared=one.declared if one.declared == other.declared else None,
    )


def unsure_of_event_time(columns: Columns | None) -> Columns | None:
    """The same fields, where it is unknown whether those that carry the watermark keep it."""
    return columns and tuple(
        replace(
            column,
            event_time=False if column.event_time is False else None,
            declared=unsure_of_event_time(column.declared),
        )
        for column in columns
    )


def _columns(types: Mapping[str, str]) -> Columns:
    return tuple(Column(name, of_type) for name, of_type in types.items())


def _of_source(column: Column, watermark_column: str | None) -> Column:
    """A column of the source. Without a watermark, whether it could have one."""
    name = str(column.name)
    event_time: bool | None
    if watermark_column is None:
        event_time = None if column.type is None else column.type == "timestamp"
    elif any(each in watermark_column for each in ".`"):
        event_time = None
    else:
        event_time = name.lower() == watermark_column.lower()
    return replace(column, event_time=event_time, origin=name)


def _declared(schema: str) -> Columns | None:
    """The columns of a schema that the spec declares in DDL; None if it cannot be read."""
    from penstock.sql.struct_fields import columns_of_schema  # imports the parser

    return columns_of_schema(schema)
