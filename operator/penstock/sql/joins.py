"""The operations that combine two relations: joins, UNION, EXCEPT and INTERSECT."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from penstock.sql import supported_operations as op
from penstock.sql.columns import Column, Columns, united
from penstock.sql.expressions import carries_event_time, may_carry_event_time
from penstock.sql.supported_operations import Operation
from penstock.sql.visible_columns import Relation, Scope

# StreamingJoinHelper.getStateValueWatermark
_COMPARISONS = (exp.Between, exp.GT, exp.GTE, exp.LT, exp.LTE)


def classify_join(
    select: exp.Select | None, join: exp.Join, left: Relation, right: Relation, scope: Scope | None
) -> Operation:
    """The operation of a join of which at least one side is a stream.

    The scope has the relations that the join's condition can name; it is None if they are unknown.
    """
    side, kind = join.side, join.kind
    if left.is_stream and right.is_stream:
        if kind == "ANTI":
            return op.ANTI_JOIN
        if side or kind == "SEMI":
            if scope is None or _may_compare_event_time(join, scope):
                return op.SEMI_JOIN if kind == "SEMI" else op.OUTER_JOIN
            if kind == "SEMI":
                return op.SEMI_JOIN_WITHOUT_EVENT_TIME
            return op.OUTER_JOIN_WITHOUT_EVENT_TIME
        # The equality may be in a WHERE, also in that of an enclosing query.
        certain = _is_top_without_where(select) and not _may_have_equality(join)
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


def classify_set_operation(node: exp.SetOperation, left: Relation, right: Relation) -> Operation:
    """The operation of a UNION, EXCEPT or INTERSECT of which at least one side is a stream."""
    if isinstance(node, exp.Intersect):
        return op.INTERSECT
    event_time = may_carry_event_time(set_operation_columns(left, right))
    if isinstance(node, exp.Except):
        if right.is_stream:
            return op.EXCEPT
        return op.STATIC_EXCEPT if event_time else op.STATIC_EXCEPT_WITHOUT_EVENT_TIME
    if left.is_stream != right.is_stream:
        return op.STATIC_UNION
    if not node.args.get("distinct"):
        return op.UNION
    return op.DISTINCT_UNION if event_time else op.DISTINCT_UNION_WITHOUT_EVENT_TIME


def set_operation_columns(left: Relation, right: Relation) -> Columns | None:
    """The columns of a set operation: the names of the left side, and what both sides agree on."""
    if left.columns is None or right.columns is None or len(left.columns) != len(right.columns):
        return None
    pairs = zip(left.columns, right.columns, strict=True)
    return tuple(_united(one, other) for one, other in pairs)


def _united(one: Column, other: Column) -> Column:
    """A column of a set operation. Spark keeps the watermark of the left side (Union.output)."""
    column = united(one, other)
    return replace(column, event_time=one.event_time) if column.type is not None else column


def _may_compare_event_time(join: exp.Join, scope: Scope) -> bool:
    """False only if certainly no part of the condition tells which rows are too late to match.

    As in Spark 4.2: an equality with a column that carries the watermark, or a comparison that
    contains one (UnsupportedOperationChecker.checkForStreamStreamJoinWatermark).
    """
    using = [each.name for each in join.args.get("using") or ()]
    if join.method:  # NATURAL
        (*_, (_, right)) = scope.relations
        using += [each.name or "" for each in right.columns or ()]
        if right.columns is None:
            return True
    if any(_may_carry(exp.column(name), scope) for name in using):
        return True
    sides = _nullable_sides(join, scope)
    return any(_is_over_event_time(each, scope, sides) for each in _conjuncts(join.args.get("on")))


def _nullable_sides(join: exp.Join, scope: Scope) -> list[Scope]:
    """The sides whose watermark ends the wait for a match: those whose rows may be missing."""
    left, right = Scope(scope.relations[:-1]), Scope(scope.relations[-1:])
    return {"FULL": [left, right], "RIGHT": [left]}.get(join.side, [right])


def _conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    pending = [] if condition is None else [condition]
    while pending:
        each = pending.pop()
        if isinstance(each, exp.And):
            pending += [each.right, each.left]
        elif isinstance(each, exp.Paren):
            pending.append(each.this)
        else:
            yield each


def _is_over_event_time(condition: exp.Expr, scope: Scope, nullable: list[Scope]) -> bool:
    if isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return any(_may_carry(side, scope) for side in (condition.left, condition.right))
    if not isinstance(condition, _COMPARISONS):
        return False
    found = [side.find(each) for each in condition.find_all(exp.Column) for side in nullable]
    return any(each is not None and each.event_time is not False for each in found)


def _may_carry(node: exp.Expr, scope: Scope) -> bool:
    return carries_event_time(node, scope) is not False


def _may_have_equality(join: exp.Join) -> bool:
    if join.args.get("using") or join.method:  # NATURAL
        return True
    condition = join.args.get("on")
    return condition is not None and condition.find(exp.EQ, exp.NullSafeEQ, exp.In) is not None


def _is_top_without_where(select: exp.Select | None) -> bool:
    return select is not None and select.parent is None and select.args.get("where") is None
