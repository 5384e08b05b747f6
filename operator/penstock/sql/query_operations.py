"""Finds the operations of a query on the stream.

A table is a stream if it is the view `source` or derived from it. Operations on any other table are
not reported. Each list and tree is walked without recursion, except that of nested queries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.api.v1alpha1.transforms import SOURCE_VIEW
from penstock.sql import supported_operations as op
from penstock.sql.event_time import EventTime
from penstock.sql.function_operations import operation_of
from penstock.sql.joins import classify_join, classify_set_operation
from penstock.sql.supported_operations import Operation
from penstock.sql.time_windows import is_session_window


@dataclass(frozen=True)
class Relation:
    """The rows of a FROM item or of a query."""

    is_stream: bool
    aggregated: bool = False
    """Whether an aggregate or DISTINCT made them, or rows that they are made of."""
    grouped: bool = False
    """Whether it was an aggregate, so that outputMode complete can sort them."""


@dataclass
class QueryReader:
    """Collects the operations of one query, each with its node in the syntax tree."""

    own_functions: Collection[str]
    """The functions that the stream declares, in lower case."""
    event_time: EventTime
    times: Collection[str] = ()
    """The functions that SQL calls without parentheses, and of which no column has the name."""
    operations: list[tuple[Operation, exp.Expr]] = field(default_factory=list)
    unreadable: list[exp.Expr] = field(default_factory=list)
    """What only Spark can resolve: names that an expression computes."""
    has_aggregate: bool = False

    def read(self, root: exp.Expr) -> Relation:
        """Reads a whole statement, and returns its rows."""
        result = self._read_query(root, {})
        if not result.is_stream:
            if not self.unreadable:
                self._add(op.NO_STREAM, root)
        elif not self.has_aggregate:
            self._add(op.COMPLETE_WITHOUT_AGGREGATE, root)
        return result

    def read_body(self, root: exp.Select) -> None:
        """Reads the body of a SQL function, written as a SELECT without FROM."""
        function = self._read_expressions(root, {}, is_stream=True)
        if function is not None:
            self._add(op.AGGREGATE_IN_FUNCTION, function)
        self.operations = [
            (op.GENERATE_IN_FUNCTION if operation is op.GENERATE else operation, node)
            for operation, node in self.operations
        ]

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
        self._read_final_clauses(node, result)
        if result.is_stream and node.args.get("with_") is not None:
            self._add(op.WITH, node.args["with_"])
        return result

    def _read_with(self, node: exp.Expr, ctes: Mapping[str, Relation]) -> dict[str, Relation]:
        clause = node.args.get("with_")
        own: dict[str, Relation] = {}
        for cte in clause.expressions if clause is not None else ():
            own[cte.alias.lower()] = self._read_query(cte.this, {**ctes, **own})
        return own

    def _read_select(self, node: exp.Select, ctes: Mapping[str, Relation]) -> Relation:
        result, names = Relation(is_stream=False), set[str]()
        clause = node.args.get("from_")
        if clause is not None:
            result = self._read_relation(clause.this, ctes)
            names.add(relation_name(clause.this))
        for join in node.args.get("joins") or ():
            result = self._read_join(node, join, result, ctes)
            names.add(relation_name(join.this))
        if result.is_stream:
            for lateral in node.args.get("laterals") or ():
                self._add(op.GENERATE, lateral)
            self._read_hints(node, names)
        function = self._read_expressions(node, ctes, result.is_stream)
        return self._read_aggregate(node, result, function) if result.is_stream else result

    def _read_relation(self, node: exp.Expr, ctes: Mapping[str, Relation]) -> Relation:
        if isinstance(node, exp.Table):
            result = self._named_table(node, ctes)
        elif isinstance(node, exp.Subquery):
            result = self._read_query(node, ctes)
        else:
            result = Relation(is_stream=False)
        for join in node.args.get("joins") or ():
            result = self._read_join(None, join, result, ctes)
        if result.is_stream:
            is_grouped = self._read_table_clauses(node, result)
            result = replace(
                result,
                aggregated=result.aggregated or is_grouped,
                grouped=result.grouped or is_grouped,
            )
        return result

    def _named_table(self, node: exp.Table, ctes: Mapping[str, Relation]) -> Relation:
        name = node.name.lower()
        if not isinstance(node.this, exp.Identifier):
            name = constant_identifier(node.this) or ""
            is_identifier = node.this is not None and node.this.name.lower() == "identifier"
            if is_identifier and not name:
                self.unreadable.append(node)
        if node.db or not name:
            return Relation(is_stream=False)
        if name in ctes:
            # Spark's check does not look behind the name (measured with 4.2).
            return replace(ctes[name], aggregated=False, grouped=False)
        return Relation(name == SOURCE_VIEW)

    def _read_table_clauses(self, node: exp.Expr, rows: Relation) -> bool:
        """Reads the clauses of a FROM item on a stream; returns whether one is an aggregate."""
        is_grouped = False
        sample = node.args.get("sample")
        if sample is not None:
            self._add(op.LIMIT if sample.args.get("size") is not None else op.SAMPLE, sample)
        for pivot in node.args.get("pivots") or ():
            if pivot.args.get("unpivot"):
                self._add(op.UNPIVOT, pivot)
            else:
                self.has_aggregate = is_grouped = True
                # Of other aggregates the types are not known here.
                counts = all(
                    isinstance(expression.unalias(), exp.Count) for expression in pivot.expressions
                )
                self._add(op.PIVOT_OF_COUNTS if counts else op.PIVOT, pivot)
                if rows.aggregated:
                    self._add(op.STATE_AFTER_AGGREGATE, pivot)
        for lateral in node.args.get("laterals") or ():
            self._add(op.GENERATE, lateral)
        return is_grouped

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
            sides = (left.is_stream, right.is_stream)
            self._add(classify_join(select, join, sides, self.event_time), join)
        if left.is_stream and right.is_stream and (left.aggregated or right.aggregated):
            self._add(op.STATE_AFTER_AGGREGATE, join)
        return _combined(left, right)

    def _read_set_operation(self, node: exp.SetOperation, ctes: Mapping[str, Relation]) -> Relation:
        left, right = self._read_query(node.left, ctes), self._read_query(node.right, ctes)
        if left.is_stream or right.is_stream:
            operation = classify_set_operation(
                node, (left.is_stream, right.is_stream), self.event_time
            )
            self._add(operation, node)
            if operation in (op.DISTINCT_UNION, op.DISTINCT_UNION_WITHOUT_EVENT_TIME):
                self.has_aggregate = True
                if left.aggregated or right.aggregated:
                    self._add(op.STATE_AFTER_AGGREGATE, node)
                left = replace(left, aggregated=True)
        return _combined(left, right)

    def _read_expressions(
        self, node: exp.Expr, ctes: Mapping[str, Relation], is_stream: bool
    ) -> exp.Expr | None:
        """Reads the expressions of one SELECT; returns its first aggregate function."""
        aggregate: exp.Expr | None = None
        for expression in own_expressions(node):
            if isinstance(expression, exp.Query):
                self._read_subquery(expression, ctes)
                continue
            if isinstance(expression, exp.Anonymous) and expression.name.lower() == "identifier":
                self.unreadable.append(expression)
            operation = operation_of(expression, self.own_functions)
            if (
                isinstance(expression, exp.Column)
                and not expression.table
                and expression.name.lower() in self.times
            ):
                operation = op.CURRENT_TIME
            # Spark looks for a row number in the whole plan, also where it reads a table.
            if operation is None or not (is_stream or operation is op.ROW_NUMBER):
                continue
            if operation is op.AGGREGATE:
                if any(isinstance(arg, exp.Distinct) for arg in expression.args.values()):
                    operation = op.DISTINCT_AGGREGATE
                    self._add(operation, expression)
                aggregate = aggregate or expression
            else:
                self._add(operation, expression)
        return aggregate

    def _read_subquery(self, node: exp.Query, ctes: Mapping[str, Relation]) -> None:
        reader = QueryReader(self.own_functions, self.event_time, self.times)
        if reader._read_query(node, ctes).is_stream:
            self._add(op.STREAM_IN_SUBQUERY, node)
        self.unreadable += reader.unreadable

    def _read_aggregate(
        self, node: exp.Select, rows: Relation, function: exp.Expr | None
    ) -> Relation:
        """Reads what a SELECT on a stream aggregates, and returns the rows that it makes."""
        group, distinct = node.args.get("group"), node.args.get("distinct")
        place = group if function is None else function
        if place is not None:
            if group is not None and any(is_session_window(each) for each in group.walk()):
                self._add(op.SESSION_AGGREGATE, place)
            event_time = self.event_time.may_group(node)
            operation = op.AGGREGATE if event_time else op.AGGREGATE_WITHOUT_EVENT_TIME
            rows = self._aggregated(operation, place, rows, grouped=True)
        if distinct is not None:
            event_time = self.event_time.may_be_made(node)
            operation = op.DISTINCT if event_time else op.DISTINCT_WITHOUT_EVENT_TIME
            rows = self._aggregated(operation, distinct, rows)
        return rows

    def _aggregated(
        self, operation: Operation, node: exp.Expr, rows: Relation, grouped: bool = False
    ) -> Relation:
        self.has_aggregate = True
        self._add(operation, node)
        if rows.aggregated:
            self._add(op.STATE_AFTER_AGGREGATE, node)
        return replace(rows, aggregated=True, grouped=rows.grouped or grouped)

    def _read_hints(self, node: exp.Select, relations: Collection[str]) -> None:
        hint: exp.Expr | None = node.args.get("hint")
        if hint is None:
            return
        for expression in hint.expressions:
            is_named = isinstance(expression, exp.Anonymous | exp.JoinHint | exp.Var)
            name = (expression.name if is_named else expression.key).upper()
            if name in _REPARTITION_HINTS:
                self._add(op.COALESCE if name == "COALESCE" else op.REPARTITION, hint)
            elif name in _JOIN_HINTS:
                named = {one.name.lower() for one in expression.expressions}
                # Spark ignores a hint for another relation.
                if not named or not named.isdisjoint(relations):
                    self._add(op.JOIN_HINT, hint)

    def _read_final_clauses(self, node: exp.Expr, rows: Relation) -> None:
        for argument, operation in _FINAL_CLAUSES:
            clause = node.args.get(argument)
            if clause is None or _is_limit_all(clause):
                continue
            if operation is op.SORT and not rows.grouped:
                operation = op.SORT_WITHOUT_AGGREGATE
            # Spark refuses an OFFSET wherever it is in the plan, also on a table.
            if rows.is_stream or operation is op.OFFSET:
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
# JoinStrategyHint of Spark's catalyst.
_JOIN_HINTS = (
    "BROADCAST", "BROADCASTJOIN", "MAPJOIN", "SHUFFLE_MERGE", "MERGE", "MERGEJOIN", "SHUFFLE_HASH",
    "SHUFFLE_REPLICATE_NL",
)  # fmt: skip


def own_expressions(node: exp.Expr) -> Iterator[exp.Expr]:
    """The expressions of one SELECT, without its FROM clause; of a subquery only the root."""
    skipped = ("from_", "joins", "laterals", "with_", "hint")
    pending = deque(
        each
        for name, value in node.args.items()
        if name not in skipped
        for each in (value if isinstance(value, list) else [value])
        if isinstance(each, exp.Expr)
    )
    while pending:
        each = pending.popleft()
        yield each
        if not isinstance(each, exp.Query):
            pending.extendleft(reversed(list(each.iter_expressions())))


def relation_name(node: exp.Expr) -> str:
    """The name by which other expressions call a FROM item; empty if it has none."""
    if node.alias:
        return str(node.alias).lower()
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
        return relation_name(node.this)
    if not isinstance(node, exp.Table):
        return ""
    return (constant_identifier(node.this) or node.name).lower()


def constant_identifier(node: exp.Expr | None) -> str | None:
    """The name in IDENTIFIER('name')."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() != "identifier":
        return None
    (argument, *others) = node.expressions or [None]
    if others or not isinstance(argument, exp.Literal) or not argument.is_string:
        return None
    return argument.name.strip().strip("`").lower()


def _combined(left: Relation, right: Relation) -> Relation:
    """The rows of a join or a set operation."""
    return Relation(
        left.is_stream or right.is_stream,
        left.aggregated or right.aggregated,
        left.grouped or right.grouped,
    )


def _is_limit_all(clause: exp.Expr) -> bool:
    return isinstance(clause, exp.Limit) and clause.expression.name.upper() == "ALL"
