"""The fields of structs that the text of a query declares, as from_json and CAST do."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.sql.columns import Column, Columns
from penstock.sql.statement import type_name

# Functions whose second argument is the schema of what they parse.
_BY_NAME = frozenset({"from_csv", "from_xml"})


def declared_fields(node: exp.Expr) -> Columns | None:
    """All fields of the struct that an expression makes, or of the structs of an array.

    None unless its own text declares them.
    """
    match node:
        case exp.Cast():
            return _fields(node.to)
        case exp.FromJson():
            return _fields_in(node.expression)
        case exp.Anonymous() if node.name.lower() in _BY_NAME and len(node.expressions) > 1:
            return _fields_in(node.expressions[1])
    return None


def _fields_in(schema: exp.Expr | None) -> Columns | None:
    """Of a schema as a string in DDL: a type, or columns."""
    if not isinstance(schema, exp.Literal) or not schema.is_string:
        return None
    for text in (schema.name, f"STRUCT<{schema.name}>"):
        try:
            fields = _fields(exp.DataType.build(text, dialect="spark"))
        except (SqlglotError, ValueError, RecursionError):
            continue
        if fields is not None:
            return fields
    return None


def _fields(of_type: exp.Expr | None) -> Columns | None:
    if not isinstance(of_type, exp.DataType):
        return None
    if of_type.this is exp.DataType.Type.ARRAY and len(of_type.expressions) == 1:
        fields = _fields(of_type.expressions[0])
        # A field of an array of structs is an array of that field.
        return fields and tuple(replace(each, type=None) for each in fields)
    if of_type.this is not exp.DataType.Type.STRUCT:
        return None
    found = []
    for each in of_type.expressions:
        if not isinstance(each, exp.ColumnDef) or each.kind is None:
            return None
        fields = _fields(each.kind)
        found.append(Column(each.name, type_name(each.kind), event_time=False, declared=fields))
    return tuple(found) or None
