"""Names of columns and fields that are certainly not there, and those that only Spark can judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.columns import Column, Columns
from penstock.sql.expressions import aliased, field_name, starred_columns, value_of
from penstock.sql.visible_columns import ATOMIC, Scope, field_of, names_of

# Spark resolves these names to functions where no column has them (LiteralFunctionResolution).
_LITERAL_FUNCTIONS = frozenset(
    ("current_date", "current_timestamp", "current_time", "current_user", "user", "session_user",
     "grouping__id")
)  # fmt: skip
# sqlglot may take the unit of timestampadd(HOUR, ...) for a column.
_UNITS = frozenset(
    ("year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second",
     "millisecond", "microsecond")
)  # fmt: skip


@dataclass(frozen=True)
class UnknownName:
    """What names a column, or a field of one, that is not there as far as the text shows."""

    node: exp.Expr
    name: str
    """The part of it that is not there."""
    beside: Columns | None = ()
    """The fields of the struct that lacks it; empty if the column itself is missing; None if
    nothing shows what fields the struct has, so that only Spark can say whether it is there."""


def unknown_names(nodes: Iterable[exp.Expr], scope: Scope) -> Iterator[UnknownName]:
    """Judges each of the nodes by itself, not what is below it."""
    listed = list(nodes)
    parameters = {
        parameter.name.lower()
        for node in listed
        if isinstance(node, exp.Lambda)
        for parameter in node.expressions
    }
    # A lambda's parameters are known wherever they stand.
    known = parameters | _LITERAL_FUNCTIONS | _UNITS
    excluded = {id(name) for node in listed if _is_qualified_star(node) for name in _excluded(node)}
    for node in listed:
        if id(node) in excluded:
            continue
        if _is_qualified_star(node):
            yield from _unknown_star(node, scope)
        elif isinstance(node, exp.Column):
            if names_of(node)[0] not in known:
                yield from _unknown_column(node, scope)
        elif isinstance(node, exp.Dot | exp.Bracket):
            name, base = field_name(node), node.this
            is_value = not isinstance(base, exp.Identifier) or base.name.lower() in parameters
            if name is not None and is_value:
                yield from _unknown_field(node, value_of(base, scope), [name])


def _unknown_column(node: exp.Column, scope: Scope) -> list[UnknownName]:
    column, path = scope.split(names_of(node))
    alias = aliased(node, scope)
    found = [] if column is None else [_unknown_field(node, column, path)]
    if alias is not None:  # which of both Spark takes depends on the clause
        found.append(_unknown_field(node, alias, names_of(node)[1:]))
    if not found:
        return [UnknownName(node, node.name)]
    return min(found, key=lambda names: (len(names), *(name.beside is not None for name in names)))


def _unknown_field(node: exp.Expr, column: Column, path: Sequence[str]) -> list[UnknownName]:
    """The first name of a path that is not there."""
    for name in path:
        if column.type == "map":
            return []
        if column.declared is None and column.type not in ATOMIC:
            return [UnknownName(node, name, None)]
        found = field_of(column, [name])
        if found is None:
            return [UnknownName(node, name, column.declared or ())]
        column = found
    return []


def _is_qualified_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column | exp.Dot) and node.is_star


def _excluded(node: exp.Expr) -> list[exp.Column]:
    """The names in `name.* EXCEPT (...)`."""
    star = node.this if isinstance(node, exp.Column) else node.expression
    return star.args.get("except_") or []


def _unknown_star(node: exp.Expr, scope: Scope) -> Iterator[UnknownName]:
    """Judges `name.*` of a struct, and what it excludes."""
    columns = starred_columns(node, scope)
    if columns is not None:
        present = {str(column.name).lower() for column in columns}
        for name in _excluded(node):
            if len(name.parts) == 1 and name.name.lower() not in present:
                yield UnknownName(name, name.name, columns)
    elif isinstance(node, exp.Column):
        names = names_of(node)[:-1]
        if scope.relations_called(names):
            return
        column, path = scope.split(names)
        if column is not None:
            yield from _unknown_field(node, column, [*path, "*"])
        elif names[0] not in scope.aliases:
            yield UnknownName(node, names[0])
    else:
        yield UnknownName(node, "*", None)
