"""The operations that combine two relations: joins, UNION, EXCEPT and INTERSECT."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql import supported_operations as op
from penstock.sql.event_time import EventTime
from penstock.sql.supported_operations import Operation


def classify_join(
    select: exp.Select | None, join: exp.Join, streams: tuple[bool, bool], event_time: EventTime
) -> Operation:
    """The operation of a join; `streams` says which sides are streams: at least one is."""
    side, kind = join.side, join.kind
    left, right = streams
    if left and right:
        if kind == "ANTI":
            return op.ANTI_JOIN
        if side or kind == "SEMI":
            if event_time.may_be_compared(join):
                return op.SEMI_JOIN if kind == "SEMI" else op.OUTER_JOIN
            if kind == "SEMI":
                return op.SEMI_JOIN_WITHOUT_EVENT_TIME
            return op.OUTER_JOIN_WITHOUT_EVENT_TIME
        # The equality may be in a WHERE, also in that of an enclosing query.
        certain = _is_top_without_where(select) and not _may_have_equality(join)
        return op.CROSS_JOIN if certain else op.JOIN
    keeps_table = (
        side == "FULL"
        or (side == "RIGHT" and left)
        or ((side == "LEFT" or kind in ("SEMI", "ANTI")) and right)
    )
    if keeps_table:
        return op.TABLE_PRESERVING_JOIN
    is_cross_join = kind == "CROSS" and _is_top_without_where(select)
    return op.STATIC_CROSS_JOIN if is_cross_join else op.STATIC_JOIN


def classify_set_operation(
    node: exp.SetOperation, streams: tuple[bool, bool], event_time: EventTime
) -> Operation:
    """The operation of a UNION, EXCEPT or INTERSECT; `streams` as for a join."""
    left, right = streams
    if isinstance(node, exp.Intersect):
        return op.INTERSECT
    if isinstance(node, exp.Except):
        if right:
            return op.EXCEPT
        is_timed = event_time.may_be_made(node)
        return op.STATIC_EXCEPT if is_timed else op.STATIC_EXCEPT_WITHOUT_EVENT_TIME
    if left != right:
        return op.STATIC_UNION
    if not node.args.get("distinct"):
        return op.UNION
    is_timed = event_time.may_be_made(node)
    return op.DISTINCT_UNION if is_timed else op.DISTINCT_UNION_WITHOUT_EVENT_TIME


def _may_have_equality(join: exp.Join) -> bool:
    if join.args.get("using") or join.method:  # NATURAL
        return True
    condition = join.args.get("on")
    return condition is not None and condition.find(exp.EQ, exp.NullSafeEQ, exp.In) is not None


def _is_top_without_where(select: exp.Select | None) -> bool:
    return select is not None and select.parent is None and select.args.get("where") is None
