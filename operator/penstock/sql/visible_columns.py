"""The columns that an expression of a query can name, and what is known about their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from penstock.sql.columns import Column, Columns, united

UNKNOWN = Column(None, fields=None)
"""A value of which nothing is known."""
_WITHOUT_EVENT_TIME = Column(None, event_time=False)
ATOMIC = (
    "bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "smallint",
    "string", "timestamp", "tinyint",
)  # fmt: skip
"""Types without fields."""


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
        if self._otherwise is not UNKNOWN:
            self._otherwise = UNKNOWN if relation.is_stream else _WITHOUT_EVENT_TIME

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
class Scope:
    """The relations of one FROM clause by name, and the types of the stream's own functions."""

    relations: tuple[tuple[str, Relation], ...] = ()
    function_types: dict[str, str | None] = field(default_factory=dict)
    aliases: Mapping[str, exp.Expr | None] = field(default_factory=dict)
    """Names that the SELECT itself gives, which its other expressions can use, with what they name;
    None for the column of a time window."""

    @property
    def columns(self) -> Columns | None:
        """All columns, in order; None if those of a relation are unknown."""
        found: list[Column] = []
        for _, relation in self.relations:
            if relation.columns is None:
                return None
            found += relation.columns
        return tuple(found)

    def relations_called(self, names: Sequence[str]) -> list[Relation]:
        """Those that a name of one part, in lower case, means before it can mean a column."""
        return [relation for name, relation in self.relations if [name] == list(names)]

    @cached_property
    def _all(self) -> _Index:
        return _Index(each for _, each in self.relations)

    @cached_property
    def _by_relation(self) -> dict[str, _Index]:
        named: dict[str, list[Relation]] = {}
        for name, relation in self.relations:
            named.setdefault(name, []).append(relation)
        return {name: _Index(relations) for name, relations in named.items()}

    @cached_property
    def values(self) -> dict[int, Column]:
        """What `expressions.value_of` has found, by the identity of the node."""
        return {}

    def find(self, node: exp.Column) -> Column | None:
        """The column that a node names; None if there is certainly none."""
        return field_of(*self.split(names_of(node)))

    def is_field(self, node: exp.Column) -> bool:
        """Whether a node names a field of a column and not a column."""
        return bool(self.split(names_of(node))[1])

    def split(self, names: Sequence[str]) -> tuple[Column | None, Sequence[str]]:
        """The column that the first names mean, and the others, which lead to a field of it.

        None instead of the column if there is certainly none.
        """
        if len(names) > 1 and names[0] in self._by_relation:
            return self._by_relation[names[0]].find(names[1]), names[2:]
        return self._all.find(names[0]), names[1:]


def field_of(column: Column | None, path: Sequence[str]) -> Column | None:
    """A field of a struct column, by the names that lead to it; None if there is certainly none."""
    for name in path:
        if column is None or column.type in ATOMIC:
            return None
        if column.declared is not None:
            column = next((each for each in column.declared if _is_named(each, name)), None)
            continue
        if column.fields is None:
            return UNKNOWN
        named = [each for each in column.fields if _is_named(each, name)]
        column = named[0] if named else _WITHOUT_EVENT_TIME
    return column


def names_of(node: exp.Column) -> list[str]:
    """The names of a path, in lower case."""
    return [part.name.lower() for part in node.parts]


def _is_named(column: Column, name: str) -> bool:
    return (column.name or "").lower() == name
