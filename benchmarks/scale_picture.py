"""Draws how the figures of benchmarks.scale grow with the number of streams."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.svg import save, style

_PANELS = {
    "cores of the operator": "cores",
    "MiB at most": "memory at most, MiB",
    "reads a stream and minute": "reads, for each stream and minute",
    "edit of one, most s": "an edit of one stream, at most, s",
    "edit of all, s until the last": "an edit of all, until the last, s",
    "s from a start until each was reconciled": "from a start until all were looked at, s",
}
_COLOURS = ("#6e7781", "#1f6feb")


def draw(runs: Iterable[dict[str, Any]], file: Path) -> None:
    """A panel for each figure, a line for each label, in the order of the runs: one or two."""
    by_label: dict[str, list[dict[str, float]]] = {}
    for run in runs:
        by_label.setdefault(run["label"], []).append(run["figures"])
    for found in by_label.values():
        found.sort(key=lambda figures: figures["streams"])
    colours = _COLOURS[-len(by_label) :]
    with style():
        figure = Figure(figsize=(9.6, 5.4), facecolor="white")
        panels = figure.subplots(2, 3).flat
        for axes, (name, title) in zip(panels, _PANELS.items(), strict=True):
            for (label, found), colour in zip(by_label.items(), colours, strict=True):
                _line(axes, [(each["streams"], each[name]) for each in found if name in each],
                      label, colour)  # fmt: skip
            axes.set_title(title, fontsize=9.5, loc="left")
            streams = sorted({int(run["streams"]) for found in by_label.values() for run in found})
            axes.set_xticks(streams, [f"{number:,}" for number in streams])
            axes.set_xlim(0, streams[-1] * 1.2)
            axes.set_ylim(bottom=0)
            axes.margins(y=0.25)
            axes.spines[["top", "right"]].set_visible(False)
        if len(by_label) > 1:
            handles, labels = figure.axes[1].get_legend_handles_labels()
            figure.legend(handles, labels, loc="upper right", fontsize=9, frameon=False, ncols=2)
        figure.text(0.5, 0.01, "running streams, each with a driver and four executors",
                    ha="center", fontsize=9)  # fmt: skip
        figure.subplots_adjust(
            left=0.06, right=0.98, top=0.87, bottom=0.11, hspace=0.4, wspace=0.25
        )
        save(figure, file)


def _line(axes: Axes, points: list[tuple[float, float]], label: str, colour: str) -> None:
    axes.plot(*zip(*points, strict=True), "o-", color=colour, label=label, markersize=5)
    is_first = colour == _COLOURS[0]  # its numbers are above, the others' to the right
    for streams, value in points:
        axes.annotate(
            f"{value:.2f}" if value < 1 else f"{value:.0f}" if value >= 10 else f"{value:.1f}",
            (streams, value),
            xytext=(0, 7) if is_first else (7, -5),
            textcoords="offset points",
            ha="center" if is_first else "left",
            fontsize=8,
            color=colour,
        )
