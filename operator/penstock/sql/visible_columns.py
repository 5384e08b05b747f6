"""The columns that an expression of a query can name, and what is known about their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from penstock.sql.columns import Column, Columns, united

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
_UNKNOWN = Column(None, fields=None)
_WITHOUT_EVENT_TIME = Column(None, event_time=False)
_ATOMIC = (
    "bigint", "binary", "boolean", "date", "decimal", "double", "int", "string", "timestamp"
)  # fmt: skip


@dataclass(frozen=True)
class Relation:
    """The rows of a FROM item or of a query."""

    is_stream: bool
    columns: Columns | None = None
    """None if unknown."""
    aggregated: bool = False
    """Whether an aggregate or DISTINCT made them, or rows that they are made of."""
    grouped: bool = False
    """Whether it was an aggregate, so that outputMode complete can sort them."""


class _Index:
    """The columns of some relations by name, in lower case."""

    def __init__(self, relations: Iterable[Relation]) -> None:
        self._columns: dict[str, Column] = {}
        self._otherwise: Column | None = None
        for relation in relations:
            if relation.columns is None:
                self._add_unknown(relation)
            for column in relation.columns or ():
                self._add(column, relation)

    def _add_unknown(self, relation: Relation) -> None:
        if self._otherwise is not _UNKNOWN:
            self._otherwise = _UNKNOWN if relation.is_stream else _WITHOUT_EVENT_TIME

    def _add(self, column: Column, relation: Relation) -> None:
        if not relation.is_stream:
            column = replace(column, event_time=False, fields=(), origin=None)
        if column.name is None:
            self._add_unknown(relation)
            return
        name = column.name.lower()
        other = self._columns.get(name)
        # Two of one name: ambiguous, or a join that names both sides alike.
        self._columns[name] = column if other is None else united(replace(other, type=None), column)

    def find(self, name: str) -> Column | None:
        """The column of that name; one that is unknown in every respect if it may be there."""
        return self._columns.get(name) or self._otherwise


@dataclass(frozen=True)
class UnknownColumn:
    """What names a column, or a field of one, that is certainly not there."""

    node: exp.Column
    fields: Columns
    """Those of the struct that lacks it; empty if the column itself is missing."""


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
        if self._is_qualified(parts):
            return field_of(self._by_relation[parts[0]].find(parts[1]), parts[2:])
        return field_of(self._all.find(parts[0]), parts[1:])

    def is_field(self, node: exp.Column) -> bool:
        """Whether a node names a field of a column and not a column."""
        parts = [each.name.lower() for each in node.parts]
        return len(parts) > (2 if self._is_qualified(parts) else 1)

    def _is_qualified(self, parts: Sequence[str]) -> bool:
        return len(parts) > 1 and parts[0] in self._by_relation

    def unknown_columns(self, nodes: Iterable[exp.Expr]) -> Iterator[UnknownColumn]:
        """The nodes that name a column which is certainly not there."""
        listed = list(nodes)
        # Also the parameters of lambdas, wherever they stand.
        known = self.aliases | LITERAL_FUNCTIONS | _UNITS | _parameters(listed)
        for node in listed:
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                continue
            if node.parts[0].name.lower() not in known and self.find(node) is None:
                yield UnknownColumn(node, self._declared_beside(node))

    def _declared_beside(self, node: exp.Column) -> Columns:
        """The fields of the struct in which a node names another one; empty if it names none."""
        parts = [each.name.lower() for each in node.parts]
        start = 2 if self._is_qualified(parts) else 1
        index = self._by_relation[parts[0]] if start == 2 else self._all
        column = index.find(parts[start - 1])
        for name in parts[start:]:
            if column is None or column.declared is None:
                break
            found = field_of(column, [name])
            if found is None:
                return column.declared
            column = found
        return ()


def field_of(column: Column | None, path: Sequence[str]) -> Column | None:
    """A field of a struct column, by the names that lead to it; None if there is certainly none."""
    for name in path:
        if column is None or column.type in _ATOMIC:
            return None
        if column.declared is not None:
            column = next((each for each in column.declared if _is_named(each, name)), None)
            continue
        if column.fields is None:
            return _UNKNOWN
        named = [each for each in column.fields if _is_named(each, name)]
        column = named[0] if named else _WITHOUT_EVENT_TIME
    return column


def _is_named(column: Column, name: str) -> bool:
    return (column.name or "").lower() == name


def _parameters(nodes: Iterable[exp.Expr]) -> frozenset[str]:
    lambdas = (each for each in nodes if isinstance(each, exp.Lambda))
    return frozenset(name.name.lower() for each in lambdas for name in each.expressions)
