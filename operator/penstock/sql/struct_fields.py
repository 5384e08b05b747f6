"""The types and fields of values that the text of a query declares, as from_json and CAST do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.sql.columns import Column, Columns, united
from penstock.sql.statement import type_name

_UNKNOWN = Column(None)
_UNREADABLE = (SqlglotError, ValueError, RecursionError)
_TYPES_OF_JSON = {
    bool: "boolean", float: "double", int: "bigint", str: "string", type(None): "string",
}  # fmt: skip
_TYPES_OF_AVRO = {
    "boolean": "boolean", "bytes": "binary", "double": "double", "float": "float", "int": "int",
    "long": "bigint", "string": "string",
}  # fmt: skip


def declared_value(node: exp.Expr) -> Column:
    """The type and all fields of what an expression makes, as far as its own text declares them.

    The fields of an array are those of its structs.
    """
    match node:
        case exp.Cast():
            return value_of_type(node.to)
        case exp.FromJson():
            return _parsed(node.expression)
        case exp.Anonymous(expressions=[_, schema, *options]):
            name = node.name.lower()
            if name in ("from_csv", "from_xml"):
                return _parsed(schema)
            if name == "from_avro" and not options:  # an option may name another schema
                return _from_json_text(schema, _avro_value)
    return _UNKNOWN


def value_of_declared(of_type: str) -> Column:
    """What is known of a value of a type that the spec declares."""
    try:
        return value_of_type(exp.DataType.build(of_type, dialect="spark"))
    except _UNREADABLE:
        return _UNKNOWN


def columns_of_schema(schema: str) -> Columns | None:
    """The columns of a schema in DDL; None if it cannot be read."""
    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({schema})", dialect="spark").this
    except (SqlglotError, RecursionError):
        return None
    if not isinstance(table, exp.Schema):
        return None
    return _columns_of(table.expressions)


def value_of_type(of_type: exp.Expr | None) -> Column:
    """What is known of a value of a type."""
    if not isinstance(of_type, exp.DataType):
        return _UNKNOWN
    return Column(None, type_name(of_type), False, declared=_fields(of_type))


def _parsed(schema: exp.Expr | None) -> Column:
    """Of a schema as a string in DDL (a type, or columns), or as an example of JSON."""
    if isinstance(schema, exp.Anonymous) and schema.name.lower() == "schema_of_json":
        (example, *options) = schema.expressions or [None]
        return _UNKNOWN if options else _from_json_text(example, _json_value)
    if not isinstance(schema, exp.Literal) or not schema.is_string:
        return _UNKNOWN
    for text in (schema.name, f"STRUCT<{schema.name}>"):
        try:
            made = value_of_type(exp.DataType.build(text, dialect="spark"))
        except _UNREADABLE:
            continue
        if made.declared is not None or made.type in ("array", "map"):
            return made
    return _UNKNOWN


def _fields(of_type: exp.DataType) -> Columns | None:
    if of_type.this is exp.DataType.Type.ARRAY and len(of_type.expressions) == 1:
        return _of_elements(value_of_type(of_type.expressions[0]).declared)
    if of_type.this is not exp.DataType.Type.STRUCT:
        return None
    return _columns_of(of_type.expressions)


def _columns_of(definitions: Sequence[exp.Expr]) -> Columns | None:
    found = []
    for definition in definitions:
        if not isinstance(definition, exp.ColumnDef):
            return None
        found.append(replace(value_of_type(definition.kind), name=definition.name))
    return tuple(found) or None


def _of_elements(fields: Columns | None) -> Columns | None:
    """A field of an array of structs is an array of that field."""
    return fields and tuple(replace(field, type=None) for field in fields)


def _from_json_text(schema: exp.Expr | None, read: Callable[[Any], Column]) -> Column:
    if not isinstance(schema, exp.Literal) or not schema.is_string:
        return _UNKNOWN
    try:
        return read(json.loads(schema.name))
    except _UNREADABLE:
        return _UNKNOWN


def _json_value(example: Any) -> Column:
    """As Spark infers it from an example."""
    if isinstance(example, dict):
        fields = [replace(_json_value(value), name=name) for name, value in example.items()]
        return Column(None, "struct", False, declared=tuple(fields) or None)
    if not isinstance(example, list):
        return Column(None, _TYPES_OF_JSON.get(type(example)), False)
    found: dict[str, Column] = {}
    for element in example:
        for field in _json_value(element).declared or ():
            name = str(field.name)
            found[name] = united(found[name], field) if name in found else field
    return Column(None, "array", False, declared=_of_elements(tuple(found.values()) or None))


def _avro_value(schema: Any) -> Column:
    """As Spark reads a schema of Avro; nothing of names that stand for a schema elsewhere."""
    if isinstance(schema, list):
        present = [member for member in schema if member != "null"]
        return _avro_value(present[0]) if len(present) == 1 else _UNKNOWN
    if isinstance(schema, str):
        return Column(None, _TYPES_OF_AVRO.get(schema), False)
    if not isinstance(schema, dict):
        return _UNKNOWN
    match schema.get("type"), schema.get("fields"), schema.get("items"):
        case "record", [*fields], _ if all(isinstance(field, dict) for field in fields):
            named = [
                replace(_avro_value(each.get("type")), name=each.get("name")) for each in fields
            ]
            return Column(None, "struct", False, declared=tuple(named) or None)
        case "array", _, items:
            return Column(None, "array", False, declared=_of_elements(_avro_value(items).declared))
        case "map", _, _:
            return Column(None, "map", False)
        case (dict() | list()) as inner, _, _:
            return _avro_value(inner)
    return _UNKNOWN
