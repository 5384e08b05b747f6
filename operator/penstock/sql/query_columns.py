"""The columns that a query makes, as far as its text shows: names, and what they pass on.

Types of expressions and fields of structs are left to Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.api.v1alpha1.transforms import SOURCE_VIEW
from penstock.sql import supported_operations as op
from penstock.sql.columns import Column, Columns
from penstock.sql.function_operations import is_own, operation_of
from penstock.sql.query_operations import (
    constant_identifier,
    own_expressions,
    relation_name,
)

# What takes text, and no bytes (asked of Spark 4.2, which takes bytes in other functions: split).
_TEXT_ONLY = (exp.FromJson, exp.JSONExtractScalar, exp.ParseJSON, exp.ParseUrl)
_TEXT_ONLY_BY_NAME = (
    "from_csv", "from_xml", "json_array_length", "json_object_keys", "json_tuple", "try_parse_json",
)  # fmt: skip
_Type = exp.DataType.Type
_NOT_OF_BYTES = (
    _Type.TINYINT, _Type.SMALLINT, _Type.INT, _Type.BIGINT, _Type.DECIMAL, _Type.FLOAT,
    _Type.DOUBLE, _Type.BOOLEAN, _Type.DATE, _Type.TIMESTAMPTZ,
)  # fmt: skip
# Stars in nested queries multiply.
_MAX_COLUMNS = 5_000
_Relations = Sequence[tuple[str, Columns | None]]
_Ctes = Mapping[str, Columns | None]


@dataclass
class ColumnReader:
    """Reads which columns a query makes of those of the view `source`."""

    source: Columns | None
    """None if unknown."""
    own_functions: Collection[str]
    """The functions that the stream declares, in lower case."""
    bytes_as_text: list[exp.Expr] = field(default_factory=list)
    """What takes text, or makes a number of it, and is given a column of bytes."""

    def read(self, node: exp.Expr, ctes: _Ctes) -> Columns | None:
        """The columns of a query or a FROM item; None if they cannot be told."""
        clause = node.args.get("with_")
        for cte in clause.expressions if clause is not None else ():
            ctes = {**ctes, cte.alias.lower(): _renamed(self.read(cte.this, ctes), cte)}
        made: Columns | None = None
        match node:
            case exp.Select():
                made = self._made_by(node, ctes)
            case exp.SetOperation():
                made = _united(self.read(node.left, ctes), self.read(node.right, ctes))
            case exp.Subquery():
                made = self.read(node.this, ctes)
            case exp.Table() if not node.db:
                name = (constant_identifier(node.this) or node.name).lower()
                made = ctes.get(name, self.source if name == SOURCE_VIEW else None)
        if isinstance(node, exp.Subquery | exp.Table) and any(
            node.args.get(each) for each in ("joins", "pivots", "laterals")
        ):
            return None
        return _renamed(made, node)

    def _made_by(self, select: exp.Select, ctes: _Ctes) -> Columns | None:
        clause, joins = select.args.get("from_"), select.args.get("joins") or []
        items = [each.this for each in (clause, *joins) if each is not None]
        relations = [(relation_name(item), self.read(item, ctes)) for item in items]
        relations += [("", None) for _ in select.args.get("laterals") or ()]
        for expression in own_expressions(select):
            given = _given_as_text(expression, self.own_functions)
            if isinstance(given, exp.Column) and _type(given, relations) == "binary":
                self.bytes_as_text.append(expression)
        is_plain = not any(
            join.method or join.kind in ("SEMI", "ANTI") or join.args.get("using") for join in joins
        )
        made: list[Column] = []
        for expression in select.expressions:
            columns = self._selected(expression, relations, is_plain)
            if columns is None or len(made) > _MAX_COLUMNS:
                return None
            made += columns
        return tuple(made)

    def _selected(self, node: exp.Expr, relations: _Relations, is_plain: bool) -> Columns | None:
        if isinstance(node, exp.Star):
            starred = [columns for _, columns in relations]
            return _starred(node, starred) if is_plain else None
        if isinstance(node, exp.Column) and node.is_star:
            name = node.table.lower() if len(node.parts) == 2 else None
            starred = [columns for called, columns in relations if called == name]
            return _starred(node.this, starred) if starred else None
        generators = exp.Aliases | exp.UDTF | exp.QueryTransform
        generates = operation_of(node, self.own_functions) is op.GENERATE
        if generates or node.is_star or isinstance(node, generators):
            return None
        value = node.unalias().unnest()
        passed = _column(value, relations) if isinstance(value, exp.Column) else None
        return (replace(passed or Column(None), name=_name_of(node)),)


def _given_as_text(node: exp.Expr, own_functions: Collection[str]) -> exp.Expr | None:
    """What a function of text is given, or a cast to a number or a time."""
    if isinstance(node, exp.Func) and is_own(node, own_functions):
        return None
    if isinstance(node, exp.Anonymous) and node.name.lower() in _TEXT_ONLY_BY_NAME:
        return node.expressions[0].unnest() if node.expressions else None
    is_one = isinstance(node, _TEXT_ONLY)
    if is_one or (isinstance(node, exp.Cast) and node.to.this in _NOT_OF_BYTES):
        given: exp.Expr = node.this
        return given.unnest()
    return None


def _column(node: exp.Column, relations: _Relations) -> Column | None:
    """The column of a relation that a node names; None if that is not certain."""
    qualifier, name = node.table.lower(), node.name.lower()
    asked = [columns for called, columns in relations if qualifier in ("", called)]
    if len(node.parts) > 2 or any(columns is None for columns in asked):
        return None
    named = [column for columns in asked for column in columns or () if _is_named(column, name)]
    return named[0] if len(named) == 1 else None


def _type(node: exp.Column, relations: _Relations) -> str | None:
    column = _column(node, relations)
    return None if column is None else column.type


def _is_named(column: Column, name: str) -> bool:
    return (column.name or "").lower() == name


def _starred(star: exp.Expr, relations: Sequence[Columns | None]) -> Columns | None:
    if star.args.get("replace") or star.args.get("rename"):
        return None
    excluded = star.args.get("except_") or ()
    if any(len(identifier.parts) > 1 for identifier in excluded):
        return None  # a field of a column
    names, made = {identifier.name.lower() for identifier in excluded}, list[Column]()
    for columns in relations:
        if columns is None:
            return None
        made += [column for column in columns if (column.name or "").lower() not in names]
    return tuple(made)


def _name_of(node: exp.Expr) -> str | None:
    """The name that Spark gives to a column; None if it is not a plain word."""
    if isinstance(node, exp.Cast | exp.Paren):
        return _name_of(node.this)  # Spark omits a cast in the name
    return node.output_name or None


def _united(left: Columns | None, right: Columns | None) -> Columns | None:
    """The columns of a set operation: the names of the left side, and what both sides agree on."""
    if left is None or right is None or len(left) != len(right):
        return None
    pairs = zip(left, right, strict=True)
    return tuple(
        one if (one.origin, one.type) == (other.origin, other.type) else Column(one.name)
        for one, other in pairs
    )


def _renamed(columns: Columns | None, node: exp.Expr) -> Columns | None:
    """The columns under the names that an alias such as AS t(a, b) gives them."""
    alias = node.args.get("alias")
    names = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    if not names or columns is None:
        return columns
    if len(names) != len(columns):
        return None
    return tuple(
        replace(column, name=name.name) for column, name in zip(columns, names, strict=True)
    )
