"""Which columns of a query may carry its watermark, by the names that its text gives.

Spark 4.2 keeps the watermark in the metadata of a column. A renamed column has it, a field of a
struct, and a time window over such a column; the result of any other function has not, not even
that of a cast (measured). So only a name that the text gives to one of these may carry it. It is
the same name everywhere in the text: rather a query too many is left to Spark than one refused.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from penstock.sql import supported_operations as op
from penstock.sql.function_operations import operation_of
from penstock.sql.time_windows import WINDOW_COLUMNS, is_time_window

# What Spark calls an expression that the text does not name.
_MADE_BY_SPARK = re.compile(r"col\d*|.*\W.*", re.DOTALL)
_GROUPING_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


@dataclass(frozen=True)
class EventTime:
    """The names, in lower case, that may carry the watermark; None: any may."""

    names: frozenset[str] | None
    by_clause: bool = False
    """Whether a WATERMARK clause marks it; Spark finds that in a set operation by no name."""

    def may_be(self, name: str) -> bool:
        """False only if certainly nothing of this name carries the watermark."""
        return self.names is None or name in self.names or bool(_MADE_BY_SPARK.fullmatch(name))

    def may_group(self, select: exp.Select) -> bool:
        """False only if certainly no key of GROUP BY carries the watermark."""
        return any(self._may_carry(key) for key in _grouping_keys(select))

    def may_be_made(self, query: exp.Expr) -> bool:
        """False only if certainly no column of a query carries the watermark.

        Of a set operation Spark takes the columns of the left side (Union.output).
        """
        if self.by_clause and isinstance(query, exp.SetOperation):
            return True
        while isinstance(query, exp.SetOperation | exp.Subquery):
            query = query.this
        return not isinstance(query, exp.Select) or any(
            expression.is_star or self._may_carry(expression) for expression in query.expressions
        )

    def may_be_compared(self, join: exp.Join) -> bool:
        """False only if certainly no part of the condition tells which rows come too late."""
        condition = join.args.get("on")
        names = [*(join.args.get("using") or ())]
        names += [] if condition is None else condition.find_all(exp.Identifier)
        return bool(join.method) or any(self.may_be(name.name.lower()) for name in names)

    def _may_carry(self, node: exp.Expr) -> bool:
        value = node.unalias()
        if isinstance(value, exp.Star | exp.Aliases) or operation_of(value, ()) is op.GENERATE:
            return True
        name = _decisive_name(node)
        return name is not None and self.may_be(name)


def find_event_time(root: exp.Expr, columns: Iterable[str] | None) -> EventTime:
    """What may carry the watermark of these columns; None if they are unknown."""
    if columns is None or root.find(exp.Pivot):
        return EventTime(None)
    made: dict[str, list[str]] = defaultdict(list)
    for node in root.find_all(exp.Alias, exp.PropertyEQ):
        is_field = isinstance(node, exp.PropertyEQ)
        name = _decisive_name(node.expression if is_field else node.this)
        if name is not None:
            made[name].append((node.this.name if is_field else node.alias).lower())
    pending = [*columns, *WINDOW_COLUMNS, *filter(_MADE_BY_SPARK.fullmatch, made)]
    for node in root.find_all(exp.TableAlias, exp.Aliases):
        listed = node.args.get("columns") or node.expressions
        pending += [each.name.lower() for each in listed]
    names: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in names:
            names.add(name)
            pending += made[name]
    return EventTime(frozenset(names))


def _decisive_name(node: exp.Expr) -> str | None:
    """The name of the column or field that a value passes on; None for what is computed."""
    while True:
        if isinstance(node, exp.Alias | exp.Paren):
            node = node.this
        elif is_time_window(node) and node.expressions:
            node = node.expressions[0]
        elif isinstance(node, exp.Dot):
            return str(node.expression.name).lower()
        elif isinstance(node, exp.Bracket):
            (key, *_) = node.expressions
            return str(key.name).lower() if isinstance(key, exp.Literal) and key.is_string else None
        else:
            return node.name.lower() if isinstance(node, exp.Column) else None


def _grouping_keys(select: exp.Select) -> Iterator[exp.Expr]:
    """The grouping expressions, also those within ROLLUP, CUBE and GROUPING SETS.

    Not fields of structs: Spark looks for the watermark in keys that are columns.
    """
    group, selected = select.args.get("group"), select.expressions
    if group is None:
        return
    kinds = ("expressions", "cube", "rollup", "grouping_sets")
    pending = [each for kind in kinds for each in group.args.get(kind) or ()]
    if group.args.get("all"):
        pending += selected
    while pending:
        key = pending.pop()
        if isinstance(key, (*_GROUPING_SETS, exp.Tuple)):
            pending += key.expressions
        elif isinstance(key, exp.Paren | exp.Alias):
            pending.append(key.this)
        elif isinstance(key, exp.Literal):  # GROUP BY 1 is the first column
            number = int(key.name) if not key.is_string and key.name.isdigit() else 0
            stars = [each for each in selected if each.is_star]
            yield from stars or selected[number - 1 : number]
        elif not isinstance(key, exp.Dot | exp.Bracket):
            yield key
