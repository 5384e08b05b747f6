"""Calls whose result may be another one when a batch runs again. Pure.

The driver asks Spark's plan the same (driver/spark/replays.py), and knows all functions. This finds
what is often written, before anything is started.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from penstock.api.v1alpha1.transforms import SOURCE_VIEW

_BY_CHANCE = (exp.Rand, exp.Randn, exp.Shuffle, exp.Uuid)
_BY_CHANCE_NAMES = frozenset({"monotonically_increasing_id", "spark_partition_id"})
_BY_ORDER = (
    exp.AnyValue, exp.ArrayAgg, exp.ArrayUniqueAgg, exp.First, exp.FirstValue, exp.GroupConcat,
    exp.Last, exp.LastValue, exp.Mode,
)  # fmt: skip
_TIME_NAMES = frozenset({"now"})


@dataclass(frozen=True)
class DifferingCall:
    """A call, and why its result may differ."""

    node: exp.Expr
    why: str


def find_differing_call(root: exp.Expr, own_functions: Collection[str]) -> DifferingCall | None:
    """The first one of a query; None if none is known.

    What goes by the order of records differs over a stream only: of a query with a table, which the
    call may be over, Spark's plan tells. `own_functions` are names that the spec declares, and that
    hide Spark's.
    """
    stream_alone = _reads_stream_alone(root)
    for node in root.find_all(exp.Func):
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        names = {name} if name else {each.lower() for each in node.sql_names()}
        if names & set(own_functions):
            continue
        if isinstance(node, _BY_CHANCE) or name in _BY_CHANCE_NAMES:
            return DifferingCall(node, "gives another result each time")
        if name in _TIME_NAMES:
            return DifferingCall(
                node, "is the time of an attempt (current_timestamp() is that of the batch)"
            )
        if isinstance(node, _BY_ORDER) and stream_alone:
            return DifferingCall(
                node, "goes by the order of the records (max_by and min_by go by a column)"
            )
    return None


def _reads_stream_alone(root: exp.Expr) -> bool:
    ctes = {cte.alias.lower() for cte in root.find_all(exp.CTE)}
    tables = {table.name.lower() for table in root.find_all(exp.Table)}
    return not tables - ctes - {SOURCE_VIEW}
