"""The operations that combine two relations: joins, UNION, EXCEPT and INTERSECT."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql import operations as op
from penstock.sql.columns import Columns, united
from penstock.sql.operations import Operation
from penstock.sql.scope import Relation


def classify_join(
    select: exp.Select | None, join: exp.Join, left: Relation, right: Relation
) -> Operation:
    """The operation of a join of which at least one side is a stream."""
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


def classify_set_operation(node: exp.SetOperation, left: Relation, right: Relation) -> Operation:
    """The operation of a UNION, EXCEPT or INTERSECT of which at least one side is a stream."""
    if isinstance(node, exp.Intersect):
        return op.INTERSECT
    if isinstance(node, exp.Except):
        return op.EXCEPT if right.is_stream else op.STATIC_EXCEPT
    if left.is_stream != right.is_stream:
        return op.STATIC_UNION
    return op.DISTINCT_UNION if node.args.get("distinct") else op.UNION


def set_operation_columns(left: Relation, right: Relation) -> Columns | None:
    """The columns of a set operation: the names of the left side, and what both sides agree on."""
    if left.columns is None or right.columns is None or len(left.columns) != len(right.columns):
        return None
    pairs = zip(left.columns, right.columns, strict=True)
    return tuple(united(one, other) for one, other in pairs)


def _is_on_true(join: exp.Join) -> bool:
    condition = join.args.get("on")
    return isinstance(condition, exp.Boolean) and bool(condition.this)


def _is_top_without_where(select: exp.Select | None) -> bool:
    return select is not None and select.parent is None and select.args.get("where") is None
