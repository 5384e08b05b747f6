"""Finds the operations of a query on the stream, and the columns that it makes.

A table is a stream if it is the view `source` or derived from it. Operations on any other table are
not reported. Each list and tree is walked without recursion, except that of nested queries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.sql import supported_operations as op
from penstock.sql.columns import Columns
from penstock.sql.expressions import (
    may_carry_event_time,
    may_group_by_event_time,
    output_columns,
    takes_bytes_for_text,
    value_of,
)
from penstock.sql.joins import classify_join, classify_set_operation, set_operation_columns
from penstock.sql.spark_functions import operation_of
from penstock.sql.supported_operations import Operation
from penstock.sql.time_windows import WINDOW_COLUMNS, is_session_window, is_time_window
from penstock.sql.unknown_names import UnknownName, unknown_names
from penstock.sql.visible_columns import UNKNOWN, Relation, Scope

SOURCE_VIEW = "source"


@dataclass
class QueryReader:
    """Collects the operations of one query, each with its node in the syntax tree."""

    source: Columns | None
    """The columns of the view `source`; None if unknown."""
    function_types: dict[str, str | None]
    """The functions that the stream declares, in lower case, with the types of their results."""
    watermarked: frozenset[str] = frozenset()
    """The columns, in lower case, of which a WATERMARK clause says that they carry it. Where the
    clause stands is not known here, so any column of such a name may."""
    operations: list[tuple[Operation, exp.Expr]] = field(default_factory=list)
    unknown_columns: list[UnknownName] = field(default_factory=list)
    """Names of columns and fields that are certainly not there."""
    unknown_structs: list[UnknownName] = field(default_factory=list)
    """Names of fields of structs of which nothing shows the fields."""
    unreadable: list[exp.Expr] = field(default_factory=list)
    """What only Spark can resolve: names that an expression computes."""
    bytes_as_text: list[exp.Expr] = field(default_factory=list)
    """What takes text or makes a number of it, and is certainly given bytes."""
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

    def read_body(self, name: str, root: exp.Select, parameters: Columns) -> None:
        """Reads the body of a SQL function, written as a SELECT without FROM."""
        scope = Scope(((name.lower(), Relation(True, parameters)),), self.function_types)
        function = self._read_expressions(root, {}, scope, is_stream=True)
        self._read_names(_own_expressions(root), scope)
        if function is not None:
            self._add(op.AGGREGATE_IN_FUNCTION, function)
        self.operations = [
            (op.GENERATE_IN_FUNCTION if operation is op.GENERATE else operation, node)
            for operation, node in self.operations
        ]

    def _read_names(self, nodes: Iterable[exp.Expr], scope: Scope) -> None:
        for found in unknown_names(nodes, scope):
            names = self.unknown_structs if found.beside is None else self.unknown_columns
            names.append(found)

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
            made = self._read_query(cte.this, {**ctes, **own})
            own[cte.alias.lower()] = replace(made, columns=_renamed(made.columns, cte))
        return own

    def _read_select(self, node: exp.Select, ctes: Mapping[str, Relation]) -> Relation:
        clause = node.args.get("from_")
        result, named = Relation(False, ()), []
        if clause is not None:
            result = self._read_relation(clause.this, ctes)
            named.append((_name_of(clause.this), result))
        for join in node.args.get("joins") or ():
            result, right = self._read_join(node, join, result, ctes, named)
            named.append((_name_of(join.this), right))
        laterals = node.args.get("laterals") or ()
        for lateral in laterals:
            scope = Scope(tuple(named), self.function_types)
            named.append((lateral.alias.lower(), _generated(lateral, result.is_stream, scope)))
            if result.is_stream:
                self._add(op.GENERATE, lateral)
                self._read_names(_walk([lateral.this]), scope)
        scope = Scope(tuple(named), self.function_types, _aliases(node))
        function = self._read_expressions(node, ctes, scope, result.is_stream)
        if result.is_stream:
            self._read_hints(node, scope)
            self._read_names(_own_expressions(node, "where"), scope)
            self._read_names(_conditions(node), replace(scope, aliases={}))
        columns = output_columns(node, scope)
        if not result.is_stream:
            return Relation(False, columns)
        result = replace(result, columns=columns)
        return self._read_aggregate(node, result, function, scope)

    def _read_relation(self, node: exp.Expr, ctes: Mapping[str, Relation]) -> Relation:
        if isinstance(node, exp.Table):
            result = self._named_table(node, ctes)
        elif isinstance(node, exp.Subquery):
            result = self._read_query(node, ctes)
        else:
            result = Relation(is_stream=False)
        result = replace(result, columns=self._marked(_renamed(result.columns, node)))
        for join in node.args.get("joins") or ():
            result, _ = self._read_join(None, join, result, ctes, None)
            result = replace(result, columns=None)
        if any(node.args.get(each) for each in ("pivots", "laterals")):
            result = replace(result, columns=None)
        if result.is_stream:
            is_grouped = self._read_table_clauses(node, result)
            result = replace(
                result,
                aggregated=result.aggregated or is_grouped,
                grouped=result.grouped or is_grouped,
            )
        return result

    def _marked(self, columns: Columns | None) -> Columns | None:
        return columns and tuple(
            replace(each, event_time=None)
            if (each.name or "").lower() in self.watermarked and not each.event_time
            else each
            for each in columns
        )

    def _named_table(self, node: exp.Table, ctes: Mapping[str, Relation]) -> Relation:
        name = node.name.lower()
        if not isinstance(node.this, exp.Identifier):
            name = _constant_identifier(node.this) or ""
            is_identifier = node.this is not None and node.this.name.lower() == "identifier"
            if is_identifier and not name:
                self.unreadable.append(node)
        if node.db or not name:
            return Relation(is_stream=False)
        if name in ctes:
            # Spark's check does not look behind the name (measured with 4.2).
            return replace(ctes[name], aggregated=False, grouped=False)
        is_source = name == SOURCE_VIEW
        return Relation(is_source, self.source if is_source else None)

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
                counts = all(isinstance(each.unalias(), exp.Count) for each in pivot.expressions)
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
        named: list[tuple[str, Relation]] | None,
    ) -> tuple[Relation, Relation]:
        """The joined rows, and those of the right side as other expressions can name them.

        `named` are the relations to the left by name; None if their names are not known.
        """
        if isinstance(join.this, exp.Lateral):
            if left.is_stream:
                inner = join.this.this
                self._add(op.LATERAL if isinstance(inner, exp.Query) else op.GENERATE, join)
            return left, Relation(is_stream=False)
        right = self._read_relation(join.this, ctes)
        if left.is_stream or right.is_stream:
            scope = None if named is None else Scope((*named, (_name_of(join.this), right)))
            self._add(classify_join(select, join, left, right, scope), join)
        if left.is_stream and right.is_stream and (left.aggregated or right.aggregated):
            self._add(op.STATE_AFTER_AGGREGATE, join)
        return _combined(left, right, None), right

    def _read_set_operation(self, node: exp.SetOperation, ctes: Mapping[str, Relation]) -> Relation:
        left, right = self._read_query(node.left, ctes), self._read_query(node.right, ctes)
        is_stream = left.is_stream or right.is_stream
        if is_stream:
            operation = classify_set_operation(node, left, right)
            self._add(operation, node)
            if operation in (op.DISTINCT_UNION, op.DISTINCT_UNION_WITHOUT_EVENT_TIME):
                self.has_aggregate = True
                if left.aggregated or right.aggregated:
                    self._add(op.STATE_AFTER_AGGREGATE, node)
                left = replace(left, aggregated=True)
        return _combined(left, right, set_operation_columns(left, right))

    def _read_expressions(
        self, node: exp.Expr, ctes: Mapping[str, Relation], scope: Scope, is_stream: bool
    ) -> exp.Expr | None:
        """Reads the expressions of one SELECT; returns its first aggregate function."""
        aggregate: exp.Expr | None = None
        for each in _own_expressions(node):
            if isinstance(each, exp.Query):
                self._read_subquery(each, ctes)
                continue
            if isinstance(each, exp.Anonymous) and each.name.lower() == "identifier":
                self.unreadable.append(each)
            if is_stream and takes_bytes_for_text(each, scope):
                self.bytes_as_text.append(each)
            operation = operation_of(each, self.function_types)
            if isinstance(each, exp.Column) and _is_time_without_parentheses(each, scope):
                operation = op.CURRENT_TIME
            # Spark looks for a row number in the whole plan, also where it reads a table.
            if operation is None or not (is_stream or operation is op.ROW_NUMBER):
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
        reader = QueryReader(self.source, self.function_types, self.watermarked)
        if reader._read_query(node, ctes).is_stream:
            self._add(op.STREAM_IN_SUBQUERY, node)
        self.unreadable += reader.unreadable

    def _read_aggregate(
        self, node: exp.Select, rows: Relation, function: exp.Expr | None, scope: Scope
    ) -> Relation:
        """Reads what a SELECT on a stream aggregates, and returns the rows that it makes."""
        group, distinct = node.args.get("group"), node.args.get("distinct")
        place = group if function is None else function
        if place is not None:
            if group is not None and any(is_session_window(each) for each in group.walk()):
                self._add(op.SESSION_AGGREGATE, place)
            event_time = may_group_by_event_time(node, scope)
            operation = op.AGGREGATE if event_time else op.AGGREGATE_WITHOUT_EVENT_TIME
            rows = self._aggregated(operation, place, rows, grouped=True)
        if distinct is not None:
            event_time = may_carry_event_time(rows.columns)
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

    def _read_hints(self, node: exp.Select, scope: Scope) -> None:
        hint: exp.Expr | None = node.args.get("hint")
        if hint is None:
            return
        relations = {name for name, _ in scope.relations}
        for each in hint.expressions:
            is_named = isinstance(each, exp.Anonymous | exp.JoinHint | exp.Var)
            name = (each.name if is_named else each.key).upper()
            if name in _REPARTITION_HINTS:
                self._add(op.REPARTITION, hint)
            elif name in _JOIN_HINTS:
                named = {one.name.lower() for one in each.expressions}
                if not named or named & relations:  # Spark ignores a hint for another relation
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
_TIMES = ("current_date", "current_timestamp", "current_time")


def _own_expressions(node: exp.Expr, *without: str) -> Iterator[exp.Expr]:
    """The expressions of one SELECT, without its FROM clause; of a subquery only the root."""
    skipped = ("from_", "joins", "laterals", "with_", "hint", *without)
    return _walk(
        each
        for name, value in node.args.items()
        if name not in skipped
        for each in (value if isinstance(value, list) else [value])
        if isinstance(each, exp.Expr)
    )


def _conditions(node: exp.Select) -> Iterator[exp.Expr]:
    """The expressions of WHERE and of the joins, which see no alias of the SELECT."""
    clauses = [
        node.args.get("where"),
        *(each.args.get("on") for each in node.args.get("joins") or ()),
    ]
    return _walk(each for each in clauses if each is not None)


def _walk(nodes: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    pending = deque(nodes)
    while pending:
        each = pending.popleft()
        yield each
        if not isinstance(each, exp.Query):
            pending.extendleft(reversed(list(each.iter_expressions())))


def _aliases(node: exp.Select) -> dict[str, exp.Expr | None]:
    """The names that the SELECT gives; with a time window also that of its column."""
    names: dict[str, exp.Expr | None] = {}
    if any(is_time_window(each) for each in _own_expressions(node)):
        names |= dict.fromkeys(WINDOW_COLUMNS)
    return names | {each.alias.lower(): each for each in node.expressions if each.alias}


def _generated(lateral: exp.Lateral, is_stream: bool, scope: Scope) -> Relation:
    """The columns that a LATERAL VIEW adds, where it names them."""
    names = lateral.args["alias"].args.get("columns") if lateral.args.get("alias") else None
    if not names:
        return Relation(is_stream)
    if len(names) == 1 and isinstance(lateral.this, exp.Explode):
        return Relation(is_stream, (replace(value_of(lateral.this, scope), name=names[0].name),))
    return Relation(is_stream, tuple(replace(UNKNOWN, name=name.name) for name in names))


def _name_of(node: exp.Expr) -> str:
    """The name by which other expressions call a FROM item; empty if it has none."""
    if node.alias:
        return str(node.alias).lower()
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
        return _name_of(node.this)
    if not isinstance(node, exp.Table):
        return ""
    return (_constant_identifier(node.this) or node.name).lower()


def _combined(left: Relation, right: Relation, columns: Columns | None) -> Relation:
    """The rows of a join or a set operation."""
    return Relation(
        left.is_stream or right.is_stream,
        columns,
        left.aggregated or right.aggregated,
        left.grouped or right.grouped,
    )


def _constant_identifier(node: exp.Expr | None) -> str | None:
    """The name in IDENTIFIER('name')."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() != "identifier":
        return None
    (argument, *others) = node.expressions or [None]
    if others or not isinstance(argument, exp.Literal) or not argument.is_string:
        return None
    return argument.name.strip().strip("`").lower()


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


def _is_time_without_parentheses(node: exp.Column, scope: Scope) -> bool:
    """Whether a name is the function current_date and not a column of that name."""
    name = node.name.lower()
    if name not in _TIMES or len(node.parts) > 1 or name in scope.aliases:
        return False
    return scope.find(node) is None


def _is_limit_all(clause: exp.Expr) -> bool:
    return isinstance(clause, exp.Limit) and clause.expression.name.upper() == "ALL"
