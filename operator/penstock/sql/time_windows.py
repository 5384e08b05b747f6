"""Time windows of Spark SQL: window, session_window, window_time."""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

_WINDOWS = ("window", "session_window", "window_time")
WINDOW_COLUMNS = frozenset(("window", "session_window"))
"""The names of the columns that a GROUP BY over a time window makes."""
# Spark's units of an interval (Literals: Interval Literal, and CalendarInterval strings).
_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s+([a-z]+)")


def is_time_window(node: exp.Expr) -> bool:
    """Whether a node is a time window, which carries the watermark of its first argument."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in _WINDOWS


def is_session_window(node: exp.Expr) -> bool:
    """Whether a node is a session window."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == "session_window"


def is_sliding(node: exp.Expr) -> bool:
    """Whether a time window certainly overlaps the next: its slide differs from its length.

    Spark 4.2 plans a window whose slide is its length as a projection, any other as an Expand.
    """
    if not isinstance(node, exp.Anonymous) or node.name.lower() != "window":
        return False
    if len(node.expressions) < 3:
        return False
    length, slide = (_microseconds(expression) for expression in node.expressions[1:3])
    return length is not None and slide is not None and length != slide


def has_interval(node: exp.Anonymous) -> bool:
    """Whether a window's length is an INTERVAL, which Spark 4.2 refuses: it takes text."""
    return node.name.lower() in ("window", "session_window") and any(
        isinstance(expression, exp.Interval) for expression in node.expressions[1:]
    )


def _microseconds(node: exp.Expr) -> Fraction | None:
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    rest = node.name.strip().lower().removeprefix("interval ")
    total, end = Fraction(0), 0
    while match := _PART.match(rest, end):
        unit = _MICROSECONDS.get(match[2].removesuffix("s"))
        if unit is None or ("." in match[1] and unit != _MICROSECONDS["second"]):
            return None  # only seconds may have a fraction
        total += Fraction(match[1]) * unit
        end = match.end()
    return total if end and not rest[end:].strip() else None
