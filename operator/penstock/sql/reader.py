"""Finds the operations of a query on the stream, in the syntax tree of sqlglot's Spark dialect.

A table is a stream if it is the view `source` or derived from it. Operations on any other table are
not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.sql import operations as op
from penstock.sql.operations import Operation
from penstock.sql.spark_functions import is_time_window, operation_of

SOURCE_VIEW = "source"


@dataclass(frozen=True)
class Relation:
    """The rows of a FROM item or of a query."""

    is_stream: bool
    aggregated: bool = False
    is_source: bool = False


@dataclass
class QueryReader:
    """Collects the operations of one query, each with its node in the syntax tree."""

    watermark_column: str | None
    own_functions: frozenset[str]
    operations: list[tuple[Operation, exp.Expr]] = field(default_factory=list)
    has_aggregate: bool = False

    def read(self, root: exp.Expr) -> None:
        """Reads a whole statement."""
        result = self._query(root, {})
        if not result.is_stream:
            self._add(op.NO_STREAM, root)
        elif not self.has_aggregate:
            self._add(op.COMPLETE_WITHOUT_AGGREGATE, root)

    def read_expression(self, root: exp.Expr) -> None:
        """Reads the body of a SQL function."""
        self._expressions(root, {})

    def _add(self, operation: Operation, node: exp.Expr) -> None:
        self.operations.append((operation, node))

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
            return Relation(is_stream=False)
        if result.is_stream:
            self._final_clauses(node)
            if node.args.get("with_") is not None:
                self._add(op.WITH, node.args["with_"])
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
        if result.is_stream:
            for lateral in node.args.get("laterals") or ():
                self._add(op.GENERATE, lateral)
        grouped = self._expressions(node, known, is_stream=result.is_stream)
        if not result.is_stream:
            return result
        self._hints(node)
        aggregated = self._aggregate(node, result, grouped)
        return Relation(True, aggregated or result.aggregated)

    def _relation(self, node: exp.Expr, known: Mapping[str, Relation]) -> Relation:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            result = _table(node, known)
        elif isinstance(node, exp.Subquery):
            result = self._query(node, known)
        else:
            result = Relation(is_stream=False)
        for join in node.args.get("joins") or ():
            result = self._join(None, join, result, known)
        if result.is_stream:
            self._table_clauses(node)
        return result

    def _table_clauses(self, node: exp.Expr) -> None:
        sample = node.args.get("sample")
        if sample is not None:
            self._add(op.LIMIT if sample.args.get("size") is not None else op.SAMPLE, sample)
        for pivot in node.args.get("pivots") or ():
            if pivot.args.get("unpivot"):
                self._add(op.UNPIVOT, pivot)
            else:
                self.has_aggregate = True
                self._add(op.PIVOT, pivot)
        for lateral in node.args.get("laterals") or ():
            self._add(op.GENERATE, lateral)

    def _join(
        self,
        select: exp.Select | None,
        join: exp.Join,
        left: Relation,
        known: Mapping[str, Relation],
    ) -> Relation:
        if isinstance(join.this, exp.Lateral):
            if left.is_stream:
                inner = join.this.this
                self._add(op.LATERAL if isinstance(inner, exp.Query) else op.GENERATE, join)
            return left
        right = self._relation(join.this, known)
        if left.is_stream or right.is_stream:
            self._add(_join_operation(select, join, left, right), join)
        kept = left if join.kind in ("SEMI", "ANTI") else right
        return Relation(left.is_stream or right.is_stream, left.aggregated or kept.aggregated)

    def _set_operation(self, node: exp.SetOperation, known: Mapping[str, Relation]) -> Relation:
        left, right = self._query(node.left, known), self._query(node.right, known)
        is_stream = left.is_stream or right.is_stream
        if is_stream:
            operation = _set_operation(node, left, right)
            self.has_aggregate = self.has_aggregate or operation is op.DISTINCT_UNION
            self._add(operation, node)
        return Relation(is_stream, left.aggregated or right.aggregated)

    def _expressions(
        self, node: exp.Expr, known: Mapping[str, Relation], is_stream: bool = True
    ) -> exp.Expr | None:
        """Reads the expressions of one SELECT; returns its first aggregate function."""
        aggregate: exp.Expr | None = None
        for each in _own_expressions(node):
            if isinstance(each, exp.Query):
                self._subquery(each, known)
                continue
            operation = operation_of(each, self.own_functions)
            if operation is None or not is_stream:
                continue
            if operation is op.AGGREGATE:
                if any(isinstance(arg, exp.Distinct) for arg in each.args.values()):
                    operation = op.DISTINCT_AGGREGATE
                    self._add(operation, each)
                aggregate = aggregate or each
            else:
                self._add(operation, each)
        return aggregate

    def _subquery(self, node: exp.Query, known: Mapping[str, Relation]) -> None:
        reader = QueryReader(self.watermark_column, self.own_functions)
        if reader._query(node, known).is_stream:
            self._add(op.STREAM_IN_SUBQUERY, node)

    def _aggregate(self, node: exp.Select, below: Relation, function: exp.Expr | None) -> bool:
        group, distinct = node.args.get("group"), node.args.get("distinct")
        if group is None and function is None and distinct is None:
            return False
        self.has_aggregate = True
        at = group if function is None else function
        if at is not None:
            if below.aggregated:
                self._add(op.CHAINED_AGGREGATE, at)
            elif _has_session_window(group):
                self._add(op.SESSION_AGGREGATE, at)
            else:
                keys = [] if group is None else _keys(group, node)
                self._add(
                    op.AGGREGATE
                    if self._has_event_time(node, keys, below)
                    else op.AGGREGATE_WITHOUT_EVENT_TIME,
                    at,
                )
        if distinct is not None:
            event_time = below.aggregated or self._has_event_time(node, node.expressions, below)
            self._add(op.DISTINCT if event_time else op.DISTINCT_WITHOUT_EVENT_TIME, distinct)
        return True

    def _has_event_time(
        self, node: exp.Select, keys: list[exp.Expr] | None, below: Relation
    ) -> bool:
        """Whether a key may carry the watermark; False only if certainly none does."""
        if not keys or not below.is_source:
            return keys is None or bool(keys)
        aliases = {each.alias.lower() for each in node.expressions if each.alias}
        # Without a watermark the answer only decides which remedy is named.
        column = self.watermark_column or "timestamp"
        return any(_may_carry(key, column, aliases) for key in keys)

    def _hints(self, node: exp.Select) -> None:
        hint: exp.Expr | None = node.args.get("hint")
        if hint is None:
            return
        for each in hint.expressions:
            name = each.name if isinstance(each, exp.Anonymous) else each.key
            if name.upper() in _REPARTITION_HINTS:
                self._add(op.REPARTITION, hint)

    def _final_clauses(self, node: exp.Expr) -> None:
        for argument, operation in _FINAL_CLAUSES:
            clause = node.args.get(argument)
            if clause is not None and not _is_limit_all(clause):
                self._add(operation, clause)


# The clauses at the end of a query.
_FINAL_CLAUSES = (
    ("distribute", op.REPARTITION),
    ("cluster", op.SORT),
    ("sort", op.SORT),
    ("order", op.SORT),
    ("limit", op.LIMIT),
    ("offset", op.OFFSET),
)
_REPARTITION_HINTS = ("REPARTITION", "COALESCE", "REPARTITION_BY_RANGE", "REBALANCE")


def _is_limit_all(clause: exp.Expr) -> bool:
    return isinstance(clause, exp.Limit) and clause.expression.name.upper() == "ALL"


def _table(node: exp.Table, known: Mapping[str, Relation]) -> Relation:
    name = node.name.lower()
    if node.db:
        return Relation(is_stream=False)
    if name in known:
        return known[name]
    return Relation(name == SOURCE_VIEW, is_source=name == SOURCE_VIEW)


def _join_operation(
    select: exp.Select | None, join: exp.Join, left: Relation, right: Relation
) -> Operation:
    side, kind = join.side, join.kind
    if left.is_stream and right.is_stream:
        if kind == "ANTI":
            return op.ANTI_JOIN
        if side or kind == "SEMI":
            return op.OUTER_JOIN
        # The condition may be in a WHERE, also in that of an enclosing query.
        no_condition = (
            join.args.get("on") is None and not join.args.get("using") and not join.method
        )
        certain = _is_top_without_where(select) and (no_condition or _is_on_true(join))
        return op.CROSS_JOIN if certain else op.JOIN
    keeps_table = (
        side == "FULL"
        or (side == "RIGHT" and left.is_stream)
        or ((side == "LEFT" or kind in ("SEMI", "ANTI")) and right.is_stream)
    )
    if keeps_table:
        return op.TABLE_PRESERVING_JOIN
    return (
        op.STATIC_CROSS_JOIN
        if kind == "CROSS" and _is_top_without_where(select)
        else op.STATIC_JOIN
    )


def _is_on_true(join: exp.Join) -> bool:
    condition = join.args.get("on")
    return isinstance(condition, exp.Boolean) and bool(condition.this)


def _is_top_without_where(select: exp.Select | None) -> bool:
    return select is not None and select.parent is None and select.args.get("where") is None


def _set_operation(node: exp.SetOperation, left: Relation, right: Relation) -> Operation:
    if isinstance(node, exp.Intersect):
        return op.INTERSECT
    if isinstance(node, exp.Except):
        return op.EXCEPT if right.is_stream else op.STATIC_EXCEPT
    if left.is_stream != right.is_stream:
        return op.STATIC_UNION
    return op.DISTINCT_UNION if node.args.get("distinct") else op.UNION


def _own_expressions(node: exp.Expr) -> Iterator[exp.Expr]:
    """The expressions of one SELECT, without its FROM clause; of a subquery only the root."""
    skipped = ("from_", "joins", "laterals", "with_", "hint")
    pending = [
        each
        for name, value in node.args.items()
        if name not in skipped
        for each in (value if isinstance(value, list) else [value])
        if isinstance(each, exp.Expr)
    ]
    while pending:
        each = pending.pop(0)
        yield each
        if not isinstance(each, exp.Query):
            pending = [*each.iter_expressions(), *pending]


def _keys(group: exp.Group, select: exp.Select) -> list[exp.Expr] | None:
    """The grouping expressions; None for CUBE, ROLLUP and GROUPING SETS."""
    if any(group.args.get(kind) for kind in ("cube", "rollup", "grouping_sets")):
        return None
    return list(select.expressions if group.args.get("all") else group.expressions)


def _has_session_window(group: exp.Group | None) -> bool:
    return group is not None and any(
        isinstance(each, exp.Anonymous) and each.name.lower() == "session_window"
        for each in group.walk()
    )


def _may_carry(key: exp.Expr, column: str, aliases: set[str]) -> bool:
    for each in key.walk():
        if isinstance(each, exp.Star | exp.Literal) or is_time_window(each):
            return True
        if isinstance(each, exp.Column) and each.name.lower() in {column.lower(), *aliases}:
            return True
    return False
