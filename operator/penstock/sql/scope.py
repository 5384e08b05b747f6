"""The columns that an expression of a query can name, and what is known about their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from penstock.sql.columns import Column, Columns, united
from penstock.sql.statement import type_name
from penstock.sql.time_windows import is_time_window

# Spark resolves these names to functions where no column has them (LiteralFunctionResolution).
LITERAL_FUNCTIONS = frozenset(
    ("current_date", "current_timestamp", "current_time", "current_user", "user", "session_user",
     "grouping__id")
)  # fmt: skip
# sqlglot may take the unit of timestampadd(HOUR, ...) for a column.
_UNITS = frozenset(
    ("year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second",
     "millisecond", "microsecond")
)  # fmt: skip


_UNKNOWN = Column(None)
_ATOMIC = ("binary", "string", "bigint", "int", "timestamp", "boolean", "double")
# Stars in nested queries multiply.
_MAX_COLUMNS = 5_000


@dataclass(frozen=True)
class Relation:
    """The rows of a FROM item or of a query."""

    is_stream: bool
    columns: Columns | None = None
    """None if unknown."""
    aggregated: bool = False
    """Whether an aggregate made them."""


class _Index:
    """The columns of some relations by name, in lower case."""

    def __init__(self, relations: Iterable[Relation]) -> None:
        self._columns: dict[str, Column] = {}
        self._complete = True
        for relation in relations:
            self._complete = self._complete and relation.columns is not None
            for column in relation.columns or ():
                self._add(column)

    def _add(self, column: Column) -> None:
        if column.name is None:
            self._complete = False
            return
        name = column.name.lower()
        other = self._columns.get(name)
        # Two of one name: ambiguous, or a join that names both sides alike.
        self._columns[name] = column if other is None else united(replace(other, type=None), column)

    def find(self, name: str) -> Column | None:
        """The column of that name; one that is unknown in every respect if it may be there."""
        return self._columns.get(name) or (None if self._complete else _UNKNOWN)


@dataclass(frozen=True)
class Scope:
    """The relations of one FROM clause by name, and the types of the stream's own functions."""

    relations: tuple[tuple[str, Relation], ...] = ()
    function_types: dict[str, str | None] = field(default_factory=dict)
    aliases: frozenset[str] = frozenset()
    """Names that the SELECT itself gives, which its other expressions can use."""

    @property
    def columns(self) -> Columns | None:
        """All columns, in order; None if those of a relation are unknown."""
        found: list[Column] = []
        for _, relation in self.relations:
            if relation.columns is None:
                return None
            found += relation.columns
        return tuple(found)

    @cached_property
    def _all(self) -> _Index:
        return _Index(each for _, each in self.relations)

    @cached_property
    def _by_relation(self) -> dict[str, _Index]:
        named: dict[str, list[Relation]] = {}
        for name, relation in self.relations:
            named.setdefault(name, []).append(relation)
        return {name: _Index(relations) for name, relations in named.items()}

    def find(self, node: exp.Column) -> Column | None:
        """The column that a node names; None if there is certainly none."""
        parts = [each.name.lower() for each in node.parts]
        if len(parts) > 1 and parts[0] in self._by_relation:
            return _field(self._by_relation[parts[0]].find(parts[1]), len(parts) - 2)
        return _field(self._all.find(parts[0]), len(parts) - 1)

    def unknown_columns(self, nodes: Iterable[exp.Expr]) -> Iterator[exp.Column]:
        """The nodes that name a column which is certainly not there."""
        listed = list(nodes)
        # Also the parameters of lambdas, wherever they stand.
        known = self.aliases | LITERAL_FUNCTIONS | _UNITS | _parameters(listed)
        for node in listed:
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                continue
            if node.parts[0].name.lower() not in known and self.find(node) is None:
                yield node


def type_of(node: exp.Expr, scope: Scope) -> str | None:
    """Spark's name for the type of an expression; None if it is not certain."""
    match node:
        case exp.Alias() | exp.Paren():
            return type_of(node.this, scope)
        case exp.Column():
            found = scope.find(node)
            return None if found is None else found.type
        case exp.Cast():
            return type_name(node.to)
        case exp.Literal():
            return "string" if node.is_string else None
        case exp.Count():
            return "bigint"
        case exp.Boolean() | exp.Predicate() | exp.Not() | exp.And() | exp.Or():
            return "boolean"
        case exp.Struct():
            return "struct"
        case exp.Anonymous():
            if is_time_window(node) and node.name.lower() != "window_time":
                return "struct"
            return scope.function_types.get(node.name.lower())
    return None


def carries_event_time(node: exp.Expr, scope: Scope) -> bool | None:
    """Whether an expression carries the watermark, as a column or a window over one does.

    Spark keeps the watermark in the column's metadata, so no function of it does, not even a cast
    or window.start (measured with 4.2).
    """
    match node:
        case exp.Alias() | exp.Paren():
            return carries_event_time(node.this, scope)
        case exp.Column():
            found = scope.find(node)
            return None if found is None else found.event_time
        case exp.Star():
            columns = scope.columns
            return None if columns is None else _any(each.event_time for each in columns)
        case exp.Anonymous():
            if is_time_window(node) and node.expressions:
                return carries_event_time(node.expressions[0], scope)
    return False


def output_columns(select: exp.Select, scope: Scope) -> Columns | None:
    """The columns that a SELECT makes; None if they cannot be told."""
    made: list[Column] = []
    for each in select.expressions:
        columns = _outputs(each, scope)
        if columns is None or len(made) > _MAX_COLUMNS:
            return None
        made += columns
    return tuple(made)


def _outputs(node: exp.Expr, scope: Scope) -> Columns | None:
    if isinstance(node, exp.Star):
        return _star(node, scope.columns)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        named = [each for name, each in scope.relations if name == node.table.lower()]
        return _star(node.this, named[0].columns) if len(named) == 1 else None
    if isinstance(node, exp.Aliases | exp.Explode | exp.Inline | exp.Stack | exp.UDTF):
        return None
    if isinstance(node, exp.QueryTransform):
        return None
    if isinstance(node, exp.Anonymous) and not node.name.isidentifier():
        return None
    return (Column(_name_of(node), type_of(node, scope), carries_event_time(node, scope)),)


def _name_of(node: exp.Expr) -> str | None:
    """The name that Spark gives to a column; None if it is not a plain word."""
    if isinstance(node, exp.Cast | exp.Paren):
        return _name_of(node.this)  # Spark omits a cast in the name
    return node.output_name or None


def _star(star: exp.Star, columns: Columns | None) -> Columns | None:
    if columns is None or star.args.get("replace") or star.args.get("rename"):
        return None
    excluded = {each.name.lower() for each in star.args.get("except_") or ()}
    return tuple(each for each in columns if (each.name or "").lower() not in excluded)


def _field(column: Column | None, depth: int) -> Column | None:
    """A field of a struct column."""
    if column is None or depth == 0:
        return column
    if column.type in _ATOMIC:
        return None
    return replace(_UNKNOWN, event_time=None if column.event_time is None else False)


def _parameters(nodes: Iterable[exp.Expr]) -> frozenset[str]:
    lambdas = (each for each in nodes if isinstance(each, exp.Lambda))
    return frozenset(name.name.lower() for each in lambdas for name in each.expressions)


def _any(values: Iterable[bool | None]) -> bool | None:
    listed = list(values)
    if True in listed:
        return True
    return None if None in listed else False
