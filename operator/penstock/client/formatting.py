"""Tables, ages and numbers as text, in the way kubectl writes them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

NONE = "-"


def age(since: datetime | None, now: datetime) -> str:
    """How long ago, as kubectl writes it; a dash if that is not known."""
    return NONE if since is None else span(now - since)


def span(duration: timedelta) -> str:
    """A duration as kubectl writes it: 45s, 3m20s, 12m, 3h5m, 2d4h."""
    seconds = max(0, int(duration.total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{_rest(seconds % 60, 's')}"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{_rest(minutes % 60, 'm')}"
    if days < 2:
        return f"{hours}h"
    return f"{days}d{_rest(hours % 24, 'h')}" if days < 8 else f"{days}d"


def _rest(number: int, unit: str) -> str:
    return f"{number}{unit}" if number else ""


def clock(time: datetime) -> str:
    """A time in UTC, to the second."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def number(value: float | None) -> str:
    """A number with separators; a dash for none."""
    return NONE if value is None else f"{value:,.0f}"


def size(octets: float) -> str:
    """A size in the units of Kubernetes: 512Mi, 1.5Gi."""
    for unit in ("", "Ki", "Mi", "Gi"):
        if octets < 1024:
            return f"{octets:.0f}{unit}" if octets == int(octets) else f"{octets:.1f}{unit}"
        octets /= 1024
    return f"{octets:.1f}Ti"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of aligned columns; the last column is not padded."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def printable(value: str) -> str:
    """The text on one line, without characters that would move a terminal's cursor."""
    return "".join(
        char if char.isprintable() else " " if char in "\n\r\t" else f"\\x{ord(char):02x}"
        for char in value
    )
