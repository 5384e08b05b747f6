"""Draws the runs of benchmarks.recovery as stacked bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks.svg import save, style

# Of the stages, in the order in which they happen.
_COLOURS = (
    "#57606a", "#9a6700", "#bf8700", "#e0b050",
    "#0969da", "#54aeff", "#1a7f37", "#aceebb",
)  # fmt: skip


def draw(runs: list[dict[str, Any]], stages: Sequence[str], file: Path) -> None:
    """A bar for each fault of each run: the round of the median total, by stage in this order."""
    rows = [(_title(run), _middle(run["rounds"])) for run in runs]
    with style():
        figure = Figure(figsize=(9.6, 0.42 * len(rows) + 1.5), facecolor="white")
        axes = figure.subplots()
        for row, (_, middle) in enumerate(rows):
            left = 0.0
            for stage, colour in zip(stages, _COLOURS, strict=True):
                seconds = middle.get(stage, 0.0)
                axes.barh(row, seconds, left=left, height=0.6, color=colour)
                left += seconds
            axes.text(left + 0.1, row, f"{left:.1f} s", va="center", fontsize=9)
        axes.set_yticks(range(len(rows)), [title for title, _ in rows])
        axes.invert_yaxis()
        axes.set_xlabel("seconds from the fault until records are in time again")
        axes.spines[["top", "right"]].set_visible(False)
        handles = [Patch(color=colour) for colour in _COLOURS]
        figure.legend(
            handles, stages, loc="upper left", ncols=len(_COLOURS), fontsize=8, frameon=False,
            handlelength=1, columnspacing=1,
        )  # fmt: skip
        figure.subplots_adjust(left=0.3, right=0.97, top=1 - 0.45 / figure.get_figheight(),
                               bottom=0.55 / figure.get_figheight())  # fmt: skip
        save(figure, file)


def _title(run: dict[str, Any]) -> str:
    return " ".join(filter(None, [f"{run['where']}: {run['fault']}", run["label"]]))


def _middle(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The round whose total is the median (the lower one of two)."""
    return sorted(rounds, key=lambda stages: sum(stages.values()))[(len(rounds) - 1) // 2]
