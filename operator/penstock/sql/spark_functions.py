"""The functions of Spark that need more than one row, or return more than one."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql import operations as op
from penstock.sql.operations import Operation

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
    (exp.Localtimestamp, op.CURRENT_TIME),
)

# Functions for which the parser has no class.
_BY_NAME: dict[str, Operation] = {
    **dict.fromkeys(
        (
            "any_value", "bit_and", "bit_or", "bit_xor", "bitmap_and_agg",
            "bitmap_construct_agg", "bitmap_or_agg", "bool_and", "bool_or", "collect_list",
            "count_if", "count_min_sketch", "every", "histogram_numeric", "hll_sketch_agg",
            "hll_union_agg", "kll_merge_agg_bigint", "kll_merge_agg_double", "kll_merge_agg_float",
            "kll_sketch_agg_bigint", "kll_sketch_agg_double", "kll_sketch_agg_float", "kurtosis",
            "listagg", "mean", "percentile", "percentile_approx",
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

_TIME_WINDOWS = ("window", "session_window", "window_time")


def operation_of(node: exp.Expr, own_functions: frozenset[str]) -> Operation | None:
    """The operation of a node in an expression; None if it computes a value from one row.

    A function that the stream declares hides Spark's function of the same name.
    """
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        if name in own_functions or (name in ("now", "unix_timestamp") and node.expressions):
            return None
        return op.SLIDING_WINDOW if _is_sliding(node) else _BY_NAME.get(name)
    if isinstance(node, exp.Func) and own_functions & {each.lower() for each in node.sql_names()}:
        return None
    if isinstance(node.parent, exp.Window) and node.arg_key == "this":
        return None  # the Window node is reported instead
    if isinstance(node, exp.AggFunc) and _has_over(node):
        return None
    if isinstance(node, exp.Any):  # any(x), not the ANY of a comparison
        return op.AGGREGATE if isinstance(node.parent, exp.Select | exp.Alias) else None
    if isinstance(node, exp.Window) and node.arg_key == "windows":
        return None  # a named window; its use is reported
    return next((operation for kind, operation in _BY_NODE if isinstance(node, kind)), None)


def _is_sliding(node: exp.Anonymous) -> bool:
    """Whether a time window certainly overlaps the next, because its slide differs from its length.

    Durations in different units, such as 1 minute and 60 seconds, are not compared.
    """
    lengths = [each.name.lower().split() for each in node.expressions[1:3]]
    return (
        node.name.lower() == "window"
        and len(lengths) == 2
        and all(len(each) == 2 for each in lengths)
        and lengths[0][1] == lengths[1][1]
        and lengths[0][0] != lengths[1][0]
    )


def _has_over(node: exp.Expr) -> bool:
    """Whether an aggregate function has an OVER clause, also after FILTER or IGNORE NULLS."""
    parent = node.parent
    while isinstance(parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        parent = parent.parent
    return isinstance(parent, exp.Window)


def is_time_window(node: exp.Expr) -> bool:
    """Whether a node is a time window, which carries the watermark."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in _TIME_WINDOWS


def called_functions(root: exp.Expr) -> frozenset[str]:
    """The names of all functions that a query calls, in lower case."""
    names: set[str] = set()
    for node in root.find_all(exp.Func):
        names |= {node.name.lower()} if isinstance(node, exp.Anonymous) else set(node.sql_names())
    return frozenset(name.lower() for name in names)
