"""Which SQL the continuous engine takes, judged from the text before any driver is started.

Spark's continuous engine runs map-like operations only: projections and filters (Structured
Streaming Programming Guide, "Supported Queries"; UnsupportedOperationChecker in Spark's source
refuses the others with `_LEGACY_ERROR_TEMP_3102`). Text that this parser cannot read is left to
Spark's own analyser in the driver: a wrong refusal would be worse than a late one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.stream.spec import StreamSpec


@dataclass(frozen=True)
class Refusal:
    """Why a query cannot run in its mode."""

    reason: str
    message: str


@dataclass(frozen=True)
class Operation:
    """A relational operation that the continuous engine lacks, by Spark's name for it."""

    name: str
    what: str


_AGGREGATE = Operation("Aggregate", "an aggregate")
_CURRENT_TIME = Operation("CurrentTime", "the current time or date")
_GENERATE = Operation("Generate", "a function that makes several rows of one")
_SORT = Operation("Sort", "an ordering")
_SUBQUERY = Operation("Join", "a subquery")
_REPARTITION = Operation("Repartition", "a redistribution of rows")

# The first class that matches a node of the parsed query names its operation.
_BY_NODE: tuple[tuple[type[exp.Expr], Operation], ...] = (
    (exp.Window, Operation("Window", "a window function")),
    (exp.AggFunc, _AGGREGATE),
    (exp.Group, _AGGREGATE),
    (exp.Having, _AGGREGATE),
    (exp.Pivot, _AGGREGATE),
    (exp.Distinct, Operation("Deduplicate", "DISTINCT")),
    (exp.Join, Operation("Join", "a join")),
    (exp.SetOperation, Operation("Union", "a set operation")),
    (exp.CTE, Operation("WithCTE", "a common table expression (WITH)")),
    (exp.Limit, Operation("Limit", "LIMIT")),
    (exp.Offset, Operation("Limit", "OFFSET")),
    (exp.Cluster, _REPARTITION),  # these two before Order, which they are kinds of
    (exp.Distribute, _REPARTITION),
    (exp.Order, _SORT),
    (exp.Hint, Operation("UnresolvedHint", "a hint")),
    (exp.TableSample, Operation("Sample", "TABLESAMPLE")),
    (exp.Lateral, _GENERATE),
    (exp.Explode, _GENERATE),  # and its subclasses: outer and positional explode
    (exp.Inline, _GENERATE),
    (exp.Stack, _GENERATE),
    (exp.CurrentTimestamp, _CURRENT_TIME),
    (exp.CurrentDate, _CURRENT_TIME),
    (exp.CurrentTime, _CURRENT_TIME),
    (exp.Localtimestamp, _CURRENT_TIME),
    (exp.Exists, _SUBQUERY),
)

# Functions that the parser knows only by name.
_BY_NAME = {
    **dict.fromkeys(
        (
            "window", "session_window", "window_time", "any_value", "bit_and", "bit_or",
            "bit_xor", "collect_list", "count_if", "count_min_sketch", "every", "some",
            "histogram_numeric", "kurtosis", "percentile", "percentile_approx", "skewness",
            "try_avg", "try_sum", "hll_sketch_agg", "hll_union_agg", "bitmap_construct_agg",
            "bitmap_or_agg", "bitmap_and_agg", "regr_count", "listagg", "string_agg",
        ),
        _AGGREGATE,
    ),
    **dict.fromkeys(("now", "curdate", "current_time", "unix_timestamp"), _CURRENT_TIME),
    **dict.fromkeys(
        ("inline_outer", "json_tuple", "posexplode_outer", "explode_outer", "variant_explode"),
        _GENERATE,
    ),
    "monotonically_increasing_id": Operation(
        "MonotonicallyIncreasingID", "a number that depends on the partition"
    ),
}  # fmt: skip


def refusals(spec: StreamSpec) -> list[Refusal]:
    """Everything in the stream's SQL that its mode cannot run; empty if nothing is known to be."""
    texts = [("spec.transform.sql", spec.transform.sql)] if spec.transform.sql else []
    texts += [
        (f"spec.transform.functions[{i}].expression", f"SELECT {function.expression}")
        for i, function in enumerate(spec.transform.functions)
    ]
    own = frozenset(function.name.lower() for function in spec.transform.functions)
    return [refusal for path, text in texts for refusal in _of_text(path, text, own)]


def _of_text(path: str, text: str, own_functions: frozenset[str]) -> list[Refusal]:
    try:
        statements = [each for each in sqlglot.parse(text, read="spark") if each is not None]
    except SqlglotError:
        return []
    if len(statements) != 1:
        return [Refusal("NotOneSelect", f"{path} takes one SELECT, not {len(statements)}")]
    if not isinstance(statements[0], exp.Query):
        return [
            Refusal(
                "NotOneSelect",
                f"{path} takes one SELECT over the view source, not {statements[0].key.upper()}",
            )
        ]
    found: dict[str, Refusal] = {}
    for node, operation in _unsupported(statements[0], own_functions):
        found.setdefault(operation.name, _refusal(path, node, operation))
    return list(found.values())


def _unsupported(
    query: exp.Expr, own_functions: frozenset[str]
) -> Iterator[tuple[exp.Expr, Operation]]:
    for node in query.walk():
        operation = _operation(node, own_functions)
        if operation is not None:
            yield node, operation


def _operation(node: exp.Expr, own_functions: frozenset[str]) -> Operation | None:
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        return None if name in own_functions else _BY_NAME.get(name)
    if isinstance(node, exp.AggFunc) and isinstance(node.parent, exp.Window):
        return None  # the window function itself is reported
    if isinstance(node, exp.Order) and isinstance(node.parent, exp.Window):
        return None
    if isinstance(node, exp.Subquery):
        return None if isinstance(node.parent, exp.From) else _SUBQUERY
    return next((operation for kind, operation in _BY_NODE if isinstance(node, kind)), None)


def _refusal(path: str, node: exp.Expr, operation: Operation) -> Refusal:
    return Refusal(
        reason="UnsupportedOperation",
        message=(
            f"{path}{_place(node)}: the continuous engine does not support {operation.name} "
            f"({operation.what}: {_excerpt(node)}); it runs projections and filters only. "
            f"Take it out of the query"
        ),
    )


def _place(node: exp.Expr) -> str:
    for each in node.walk(bfs=False):
        if "line" in each.meta:
            return f" near line {each.meta['line']}"
    return ""


def _excerpt(node: exp.Expr) -> str:
    text = " ".join(node.sql(dialect="spark").split())
    return text if len(text) <= 60 else f"{text[:57]}..."
