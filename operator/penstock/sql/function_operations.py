"""The functions of Spark that need more than one row, or return more than one."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from penstock.sql import supported_operations as op
from penstock.sql.supported_operations import Operation
from penstock.sql.time_windows import has_interval, is_sliding

# The first class that matches a node of the parsed query determines its operation.
_BY_NODE: tuple[tuple[type[exp.Expr], Operation], ...] = (
    (exp.Window, op.WINDOW),
    (exp.AggFunc, op.AGGREGATE),
    (exp.Explode, op.GENERATE),  # and its subclasses: outer and positional explode
    (exp.Inline, op.GENERATE),
    (exp.Stack, op.GENERATE),
    (exp.QueryTransform, op.SCRIPT),
    (exp.CurrentTimestamp, op.CURRENT_TIME),
    (exp.CurrentDate, op.CURRENT_TIME),
    (exp.CurrentTime, op.CURRENT_TIME),
    (exp.Localtimestamp, op.CURRENT_TIME),
)
_QUANTIFIED = (exp.Like, exp.ILike, exp.RegexpLike)

# Functions for which the parser has no class.
_BY_NAME: dict[str, Operation] = {
    **dict.fromkeys(
        (
            "any_value", "bit_and", "bit_or", "bit_xor", "bitmap_and_agg",
            "bitmap_construct_agg", "bitmap_or_agg", "bool_and", "bool_or", "collect_list",
            "collect_union", "count_if", "count_min_sketch", "every", "histogram_numeric",
            "hll_sketch_agg", "hll_union_agg", "kll_merge_agg_bigint", "kll_merge_agg_double",
            "kll_merge_agg_float", "kll_sketch_agg_bigint", "kll_sketch_agg_double",
            "kll_sketch_agg_float", "kurtosis", "listagg", "mean", "percentile",
            "percentile_approx",
            "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope",
            "regr_sxx", "regr_sxy", "regr_syy", "schema_of_variant_agg", "skewness", "some",
            "std", "string_agg", "theta_intersection_agg", "theta_sketch_agg", "theta_union_agg",
            "try_avg", "try_sum", "tuple_intersection_agg_double",
            "tuple_intersection_agg_integer", "tuple_sketch_agg_double",
            "tuple_sketch_agg_integer", "tuple_union_agg_double", "tuple_union_agg_integer",
        ),
        op.AGGREGATE,
    ),
    **dict.fromkeys(("now", "curdate", "unix_timestamp"), op.CURRENT_TIME),
    **dict.fromkeys(
        ("inline_outer", "json_tuple", "posexplode_outer", "explode_outer", "stack"), op.GENERATE
    ),
    "monotonically_increasing_id": op.ROW_NUMBER,
}  # fmt: skip


def operation_of(node: exp.Expr, own_functions: Collection[str]) -> Operation | None:
    """The operation of a node in an expression; None if it computes a value from one row.

    A function that the stream declares hides Spark's function of the same name.
    """
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        if name in own_functions or (name in ("now", "unix_timestamp") and node.expressions):
            return None
        if has_interval(node):
            return op.INTERVAL_IN_WINDOW
        return op.SLIDING_WINDOW if is_sliding(node) else _BY_NAME.get(name)
    if isinstance(node, exp.Func) and is_own(node, own_functions):
        return None
    if isinstance(node.parent, exp.Window) and node.arg_key == "this":
        return None  # the Window node is reported instead
    if isinstance(node, exp.AggFunc) and _has_over(node):
        return None
    if isinstance(node, exp.Any):  # any(x), not LIKE ANY (...), which is not a function
        is_quantifier = isinstance(node.parent, _QUANTIFIED) or isinstance(node.this, exp.Query)
        return None if is_quantifier or "any" in own_functions else op.AGGREGATE
    if isinstance(node, exp.Window) and node.arg_key == "windows":
        return None  # a named window; its use is reported
    return next((operation for kind, operation in _BY_NODE if isinstance(node, kind)), None)


def is_own(node: exp.Func, own_functions: Collection[str]) -> bool:
    """Whether it is a function that the stream declares."""
    names = [node.name] if isinstance(node, exp.Anonymous) else node.sql_names()
    return any(name.lower() in own_functions for name in names)


def _has_over(node: exp.Expr) -> bool:
    """Whether an aggregate function has an OVER clause, also after FILTER or IGNORE NULLS."""
    parent = node.parent
    while isinstance(parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        parent = parent.parent
    return isinstance(parent, exp.Window)


def called_functions(root: exp.Expr) -> frozenset[str]:
    """The names of all functions that a query calls, in lower case."""
    names: set[str] = set()
    for node in root.find_all(exp.Func):
        names |= {node.name.lower()} if isinstance(node, exp.Anonymous) else set(node.sql_names())
    return frozenset(name.lower() for name in names)
