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
    """Whether an aggregate made them."""
    is_source: bool = False
    """Whether they are the view `source` itself."""


@dataclass
class QueryReader:
    """Collects the operations of one query, each with its node in the syntax tree."""

    watermark_column: str | None
    own_functions: frozenset[str]
    operations: list[tuple[Operation, exp.Expr]] = field(default_factory=list)
    has_aggregate: bool = False

    def read(self, root: exp.Expr) -> None:
        """Reads a whole statement."""
        result = self._read_query(root, {})
        if not result.is_stream:
            self._add(op.NO_STREAM, root)
        elif not self.has_aggregate:
            self._add(op.COMPLETE_WITHOUT_AGGREGATE, root)

    def read_expression(self, root: exp.Expr) -> None:
        """Reads the body of a SQL function."""
        self._read_expressions(root, {})

    def _add(self, operation: Operation, node: exp.Expr) -> None:
        self.operations.append((operation, node))

    def _read_query(self, node: exp.Expr, ctes: Mapping[str, Relation]) -> Relation:
        ctes = {**ctes, **self._read_with(node, ctes)}
        if isinstance(node, exp.Select):
            result = self._read_select(node, ctes)
        elif isinstance(node, exp.SetOperation):
            result = self._read_set_operation(node, ctes)
        elif isinstance(node, exp.Subquery):
            result = self._read_query(node.this, ctes)
        elif isinstance(node, exp.Table):
            return self._read_relation(node, ctes)
        else:
            return Relation(is_stream=False)
        if result.is_stream:
            self._read_final_clauses(node)
            if node.args.get("with_") is not None:
                self._add(op.WITH, node.args["with_"])
        return result

    def _read_with(self, node: exp.Expr, ctes: Mapping[str, Relation]) -> dict[str, Relation]:
        clause = node.args.get("with_")
        own: dict[str, Relation] = {}
        for cte in clause.expressions if clause is not None else ():
            own[cte.alias.lower()] = self._read_query(cte.this, {**ctes, **own})
        return own

    def _read_select(self, node: exp.Select, ctes: Mapping[str, Relation]) -> Relation:
        clause = node.args.get("from_")
        result = self._read_relation(clause.this, ctes) if clause is not None else Relation(False)
        for join in node.args.get("joins") or ():
            result = self._read_join(node, join, result, ctes)
        if result.is_stream:
            for lateral in node.args.get("laterals") or ():
                self._add(op.GENERATE, lateral)
        function = self._read_expressions(node, ctes, is_stream=result.is_stream)
        if not result.is_stream:
            return result
        self._read_hints(node)
        aggregated = self._read_aggregate(node, result, function)
        return Relation(True, aggregated or result.aggregated)

    def _read_relation(self, node: exp.Expr, ctes: Mapping[str, Relation]) -> Relation:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            result = _named_table(node, ctes)
        elif isinstance(node, exp.Subquery):
            result = self._read_query(node, ctes)
        else:
            result = Relation(is_stream=False)
        for join in node.args.get("joins") or ():
            result = self._read_join(None, join, result, ctes)
        if result.is_stream:
            self._read_table_clauses(node)
        return result

    def _read_table_clauses(self, node: exp.Expr) -> None:
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

    def _read_join(
        self,
        select: exp.Select | None,
        join: exp.Join,
        left: Relation,
        ctes: Mapping[str, Relation],
    ) -> Relation:
        if isinstance(join.this, exp.Lateral):
            if left.is_stream:
                inner = join.this.this
                self._add(op.LATERAL if isinstance(inner, exp.Query) else op.GENERATE, join)
            return left
        right = self._read_relation(join.this, ctes)
        if left.is_stream or right.is_stream:
            self._add(_classify_join(select, join, left, right), join)
        kept = left if join.kind in ("SEMI", "ANTI") else right
        return Relation(left.is_stream or right.is_stream, left.aggregated or kept.aggregated)

    def _read_set_operation(self, node: exp.SetOperation, ctes: Mapping[str, Relation]) -> Relation:
        left, right = self._read_query(node.left, ctes), self._read_query(node.right, ctes)
        is_stream = left.is_stream or right.is_stream
        if is_stream:
            operation = _classify_set_operation(node, left, right)
            self.has_aggregate = self.has_aggregate or operation is op.DISTINCT_UNION
            self._add(operation, node)
        return Relation(is_stream, left.aggregated or right.aggregated)

    def _read_expressions(
        self, node: exp.Expr, ctes: Mapping[str, Relation], is_stream: bool = True
    ) -> exp.Expr | None:
        """Reads the expressions of one SELECT; returns its first aggregate function."""
        aggregate: exp.Expr | None = None
        for each in _own_expressions(node):
            if isinstance(each, exp.Query):
                self._read_subquery(each, ctes)
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

    def _read_subquery(self, node: exp.Query, ctes: Mapping[str, Relation]) -> None:
        reader = QueryReader(self.watermark_column, self.own_functions)
        if reader._read_query(node, ctes).is_stream:
            self._add(op.STREAM_IN_SUBQUERY, node)

    def _read_aggregate(self, node: exp.Select, child: Relation, function: exp.Expr | None) -> bool:
        group, distinct = node.args.get("group"), node.args.get("distinct")
        if group is None and function is None and distinct is None:
            return False
        self.has_aggregate = True
        place = group if function is None else function
        if place is not None:
            if child.aggregated:
                self._add(op.CHAINED_AGGREGATE, place)
            elif _has_session_window(group):
                self._add(op.SESSION_AGGREGATE, place)
            else:
                keys = [] if group is None else _grouping_keys(group, node)
                event_time = self._has_event_time(node, keys, child)
                self._add(op.AGGREGATE if event_time else op.AGGREGATE_WITHOUT_EVENT_TIME, place)
        if distinct is not None:
            event_time = child.aggregated or self._has_event_time(node, node.expressions, child)
            self._add(op.DISTINCT if event_time else op.DISTINCT_WITHOUT_EVENT_TIME, distinct)
        return True

    def _has_event_time(
        self, node: exp.Select, keys: list[exp.Expr] | None, child: Relation
    ) -> bool:
        """Whether a key may carry the watermark; False only if certainly none does."""
        if not keys or not child.is_source:
            return keys is None or bool(keys)
        aliases = {each.alias.lower() for each in node.expressions if each.alias}
        # Without a watermark the answer only decides which remedy is named.
        column = self.watermark_column or "timestamp"
        return any(_may_carry(key, column, aliases) for key in keys)

    def _read_hints(self, node: exp.Select) -> None:
        hint: exp.Expr | None = node.args.get("hint")
        if hint is None:
            return
        for each in hint.expressions:
            name = each.name if isinstance(each, exp.Anonymous) else each.key
            if name.upper() in _REPARTITION_HINTS:
                self._add(op.REPARTITION, hint)

    def _read_final_clauses(self, node: exp.Expr) -> None:
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


def _named_table(node: exp.Table, ctes: Mapping[str, Relation]) -> Relation:
    name = node.name.lower()
    if node.db:
        return Relation(is_stream=False)
    if name in ctes:
        return ctes[name]
    return Relation(name == SOURCE_VIEW, is_source=name == SOURCE_VIEW)


def _classify_join(
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
    is_cross_join = kind == "CROSS" and _is_top_without_where(select)
    return op.STATIC_CROSS_JOIN if is_cross_join else op.STATIC_JOIN


def _is_on_true(join: exp.Join) -> bool:
    condition = join.args.get("on")
    return isinstance(condition, exp.Boolean) and bool(condition.this)


def _is_top_without_where(select: exp.Select | None) -> bool:
    return select is not None and select.parent is None and select.args.get("where") is None


def _classify_set_operation(node: exp.SetOperation, left: Relation, right: Relation) -> Operation:
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


def _grouping_keys(group: exp.Group, select: exp.Select) -> list[exp.Expr] | None:
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
