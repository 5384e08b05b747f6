"""What a text of SQL does to the stream, read with a real parser (sqlglot's Spark dialect).

Only what is sure: a table that is not the view `source`, nor made of it, is no stream, and what
happens to such a table is not ours to judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.sql import operations as op
from penstock.sql.operations import Operation
from penstock.sql.spark_functions import operation_of, time_window

SOURCE_VIEW = "source"


@dataclass(frozen=True)
class Relation:
    """What a FROM item or a query yields."""

    streams: bool
    aggregated: bool = False
    is_source: bool = False


@dataclass
class Reading:
    """Reads one query; what it finds are operations and the nodes they stand at."""

    watermark_column: str | None
    own_functions: frozenset[str]
    found: list[tuple[Operation, exp.Expr]] = field(default_factory=list)
    aggregates: bool = False

    def read(self, root: exp.Expr) -> None:
        """Reads the whole statement."""
        result = self._query(root, {})
        if not result.streams:
            self._say(op.NO_STREAM, root)
        elif not self.aggregates:
            self._say(op.NOT_GROUPED, root)

    def read_expression(self, root: exp.Expr) -> None:
        """Reads the body of a SQL function."""
        self._expressions(root, {})

    def _say(self, operation: Operation, node: exp.Expr) -> None:
        self.found.append((operation, node))

    def _query(self, node: exp.Expr, known: Mapping[str, Relation]) -> Relation:
        known = {**known, **self._with(node, known)}
        if isinstance(node, exp.Select):
            result = self._select(node, known)
        elif isinstance(node, exp.SetOperation):
            result = self._set_operation(node, known)
        elif isinstance(node, exp.Subquery):
            result = self._query(node.this, known)
        elif isinstance(node, exp.Table):
            return self._relation(node, known)
        else:
            return Relation(streams=False)
        if result.streams:
            self._ends(node)
            if node.args.get("with_") is not None:
                self._say(op.WITH, node.args["with_"])
        return result

    def _with(self, node: exp.Expr, known: Mapping[str, Relation]) -> dict[str, Relation]:
        clause = node.args.get("with_")
        own: dict[str, Relation] = {}
        for cte in clause.expressions if clause is not None else ():
            own[cte.alias.lower()] = self._query(cte.this, {**known, **own})
        return own

    def _select(self, node: exp.Select, known: Mapping[str, Relation]) -> Relation:
        clause = node.args.get("from_")
        result = self._relation(clause.this, known) if clause is not None else Relation(False)
        for join in node.args.get("joins") or ():
            result = self._join(node, join, result, known)
        if result.streams:
            for lateral in node.args.get("laterals") or ():
                self._say(op.GENERATE, lateral)
        grouped = self._expressions(node, known, streams=result.streams)
        if not result.streams:
            return result
        self._hints(node)
        aggregated = self._aggregate(node, result, grouped)
        return Relation(True, aggregated or result.aggregated)

    def _relation(self, node: exp.Expr, known: Mapping[str, Relation]) -> Relation:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            result = _named(node, known)
        elif isinstance(node, exp.Subquery):
            result = self._query(node, known)
        else:
            result = Relation(streams=False)
        for join in node.args.get("joins") or ():
            result = self._join(None, join, result, known)
        if result.streams:
            self._around(node)
        return result

    def _around(self, node: exp.Expr) -> None:
        sample = node.args.get("sample")
        if sample is not None:
            self._say(op.LIMIT if sample.args.get("size") is not None else op.SAMPLE, sample)
        for pivot in node.args.get("pivots") or ():
            if pivot.args.get("unpivot"):
                self._say(op.UNPIVOT, pivot)
            else:
                self.aggregates = True
                self._say(op.PIVOT, pivot)
        for lateral in node.args.get("laterals") or ():
            self._say(op.GENERATE, lateral)

    def _join(
        self,
        select: exp.Select | None,
        join: exp.Join,
        left: Relation,
        known: Mapping[str, Relation],
    ) -> Relation:
        if isinstance(join.this, exp.Lateral):
            if left.streams:
                inner = join.this.this
                self._say(op.LATERAL if isinstance(inner, exp.Query) else op.GENERATE, join)
            return left
        right = self._relation(join.this, known)
        if left.streams or right.streams:
            self._say(_join_operation(select, join, left, right), join)
        kept = left if join.kind in ("SEMI", "ANTI") else right
        return Relation(left.streams or right.streams, left.aggregated or kept.aggregated)

    def _set_operation(self, node: exp.SetOperation, known: Mapping[str, Relation]) -> Relation:
        left, right = self._query(node.left, known), self._query(node.right, known)
        streams = left.streams or right.streams
        if streams:
            operation = _set_operation(node, left, right)
            self.aggregates = self.aggregates or operation is op.DISTINCT_UNION
            self._say(operation, node)
        return Relation(streams, left.aggregated or right.aggregated)

    def _expressions(
        self, node: exp.Expr, known: Mapping[str, Relation], streams: bool = True
    ) -> exp.Expr | None:
        """Judges each expression; the first aggregate function found, if there is one."""
        aggregate: exp.Expr | None = None
        for each in _own_expressions(node):
            if isinstance(each, exp.Query):
                self._subquery(each, known)
                continue
            operation = operation_of(each, self.own_functions)
            if operation is None or not streams:
                continue
            if operation is op.AGGREGATE:
                if any(isinstance(arg, exp.Distinct) for arg in each.args.values()):
                    operation = op.DISTINCT_AGGREGATE
                    self._say(operation, each)
                aggregate = aggregate or each
            else:
                self._say(operation, each)
        return aggregate

    def _subquery(self, node: exp.Query, known: Mapping[str, Relation]) -> None:
        inner = Reading(self.watermark_column, self.own_functions)
        if inner._query(node, known).streams:
            self._say(op.STREAM_IN_SUBQUERY, node)

    def _aggregate(self, node: exp.Select, below: Relation, function: exp.Expr | None) -> bool:
        group, distinct = node.args.get("group"), node.args.get("distinct")
        if group is None and function is None and distinct is None:
            return False
        self.aggregates = True
        at = group if function is None else function
        if at is not None:
            if below.aggregated:
                self._say(op.CHAINED, at)
            elif _by_session(group):
                self._say(op.SESSION, at)
            else:
                keys = [] if group is None else _keys(group, node)
                self._say(op.AGGREGATE if self._timed(node, keys, below) else op.TIMELESS, at)
        if distinct is not None:
            timed = below.aggregated or self._timed(node, node.expressions, below)
            self._say(op.DISTINCT if timed else op.TIMELESS_DISTINCT, distinct)
        return True

    def _timed(self, node: exp.Select, keys: list[exp.Expr] | None, below: Relation) -> bool:
        """Whether a key may carry the watermark: false only where that is sure."""
        if not keys or not below.is_source:
            return keys is None or bool(keys)
        named = {each.alias.lower() for each in node.expressions if each.alias}
        # Without a watermark the answer only serves to say what would help.
        column = self.watermark_column or "timestamp"
        return any(_may_be(key, column, named) for key in keys)

    def _hints(self, node: exp.Select) -> None:
        hint: exp.Expr | None = node.args.get("hint")
        if hint is None:
            return
        for each in hint.expressions:
            name = each.name if isinstance(each, exp.Anonymous) else each.key
            if name.upper() in _REDISTRIBUTING:
                self._say(op.REPARTITION, hint)

    def _ends(self, node: exp.Expr) -> None:
        for argument, operation in _ENDS:
            clause = node.args.get(argument)
            if clause is not None and not _limits_nothing(clause):
                self._say(operation, clause)


# The clauses that end a query.
_ENDS = (
    ("distribute", op.REPARTITION),
    ("cluster", op.SORT),
    ("sort", op.SORT),
    ("order", op.SORT),
    ("limit", op.LIMIT),
    ("offset", op.OFFSET),
)
_REDISTRIBUTING = ("REPARTITION", "COALESCE", "REPARTITION_BY_RANGE", "REBALANCE")


def _limits_nothing(clause: exp.Expr) -> bool:
    return isinstance(clause, exp.Limit) and clause.expression.name.upper() == "ALL"


def _named(node: exp.Table, known: Mapping[str, Relation]) -> Relation:
    name = node.name.lower()
    if node.db:
        return Relation(streams=False)
    if name in known:
        return known[name]
    return Relation(name == SOURCE_VIEW, is_source=name == SOURCE_VIEW)


def _join_operation(
    select: exp.Select | None, join: exp.Join, left: Relation, right: Relation
) -> Operation:
    side, kind = join.side, join.kind
    if left.streams and right.streams:
        if kind == "ANTI":
            return op.ANTI_JOIN
        if side or kind == "SEMI":
            return op.OUTER_JOIN
        # A condition may still come from a WHERE, also from one of a query around this one.
        at_top = select is not None and select.parent is None and select.args.get("where") is None
        bare = join.args.get("on") is None and not join.args.get("using") and not join.method
        return op.CROSS_JOIN if at_top and (bare or _true(join)) else op.JOIN
    keeps_table = (
        side == "FULL"
        or (side == "RIGHT" and left.streams)
        or ((side == "LEFT" or kind in ("SEMI", "ANTI")) and right.streams)
    )
    if keeps_table:
        return op.WRONG_OUTER_JOIN
    return op.STATIC_CROSS_JOIN if kind == "CROSS" and _alone(select) else op.STATIC_JOIN


def _true(join: exp.Join) -> bool:
    condition = join.args.get("on")
    return isinstance(condition, exp.Boolean) and bool(condition.this)


def _alone(select: exp.Select | None) -> bool:
    return select is not None and select.parent is None and select.args.get("where") is None


def _set_operation(node: exp.SetOperation, left: Relation, right: Relation) -> Operation:
    if isinstance(node, exp.Intersect):
        return op.INTERSECT
    if isinstance(node, exp.Except):
        return op.EXCEPT if right.streams else op.STATIC_EXCEPT
    if left.streams != right.streams:
        return op.STATIC_UNION
    return op.DISTINCT_UNION if node.args.get("distinct") else op.UNION


def _own_expressions(node: exp.Expr) -> Iterator[exp.Expr]:
    """The expressions of one SELECT: not those of its FROM, and of a subquery only its root."""
    skipped = ("from_", "joins", "laterals", "with_", "hint")
    waiting = [
        each
        for name, value in node.args.items()
        if name not in skipped
        for each in (value if isinstance(value, list) else [value])
        if isinstance(each, exp.Expr)
    ]
    while waiting:
        each = waiting.pop(0)
        yield each
        if not isinstance(each, exp.Query):
            waiting = [*each.iter_expressions(), *waiting]


def _keys(group: exp.Group, select: exp.Select) -> list[exp.Expr] | None:
    """The expressions grouped by; None where they are not plainly listed."""
    if any(group.args.get(kind) for kind in ("cube", "rollup", "grouping_sets")):
        return None
    return list(select.expressions if group.args.get("all") else group.expressions)


def _by_session(group: exp.Group | None) -> bool:
    return group is not None and any(
        isinstance(each, exp.Anonymous) and each.name.lower() == "session_window"
        for each in group.walk()
    )


def _may_be(key: exp.Expr, column: str, named: set[str]) -> bool:
    for each in key.walk():
        if isinstance(each, exp.Star | exp.Literal) or time_window(each):
            return True
        if isinstance(each, exp.Column) and each.name.lower() in {column.lower(), *named}:
            return True
    return False
