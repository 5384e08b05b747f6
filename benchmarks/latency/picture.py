"""Draws a result."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.latency.page import QUERIES, milliseconds, rows, widest_spread
from benchmarks.latency.result import Result, Row
from benchmarks.svg import save, style

_OURS, _OTHERS = "#1f6feb", "#6e7781"


def draw(result: Result, file: Path) -> None:
    """A panel for each query and rate; in it a row for each variant, the fastest first."""
    rates = sorted(result.rates)
    by_query = [by_median(rows(result, query), rates[0]) for query in QUERIES]
    tails = [
        figures.end_to_end_ms["p99"]
        for row in result.variants
        for figures in row.all_rounds.values()
    ]
    slowest = max(1000.0, *tails)
    with style():
        figure = Figure(figsize=(9.6, 0.42 * len(result.variants) + 2.6), facecolor="white")
        grid = figure.subplots(
            len(QUERIES), len(rates), sharey="row", sharex="col", squeeze=False,
            height_ratios=[len(rows) + 0.4 for rows in by_query],
        )  # fmt: skip
        for panels, title, of_query in zip(grid, QUERIES.values(), by_query, strict=True):
            for axes, rate in zip(panels, rates, strict=True):
                _panel(axes, of_query, rate, slowest)
                axes.set_title(f"{title}, {rate:,} records a second", fontsize=10, loc="left")
            panels[0].set_yticks(range(len(of_query)), [row.title for row in of_query])
            for label, row in zip(panels[0].get_yticklabels(), of_query, strict=True):
                label.set_color(_OURS if row.penstock else "#24292f")
        figure.suptitle(
            "From the producer's clock to the consumer's, Kafka to Kafka",
            x=0.012, ha="left", fontsize=12, fontweight="bold",
        )  # fmt: skip
        factor = f"{widest_spread(result).factor:.1f}"
        figure.text(
            0.012, 0.015,
            "Dot: median; thick line: to the 90th percentile; thin line: to the 99th. "
            f"{result.date}, {result.machine.cores} cores for broker, load and variant.\n"
            f"{len(result.variants[0].rounds)} rounds, each after {result.warm_up_seconds} s of "
            f"warm-up; the medians of the rounds of a row differ by a factor of up to {factor}.",
            fontsize=8.5, color="#57606a",
        )  # fmt: skip
        figure.subplots_adjust(
            left=0.305, right=0.975, top=0.89, bottom=0.12, wspace=0.06, hspace=0.28
        )
        save(figure, file)


def by_median(rows: list[Row], rate: int) -> list[Row]:
    """The fastest at this rate first."""
    return sorted(rows, key=lambda row: row.all_rounds[str(rate)].end_to_end_ms["p50"])


def _panel(axes: Axes, rows: list[Row], rate: int, slowest: float) -> None:
    for place, row in enumerate(rows):
        figures = row.all_rounds[str(rate)].end_to_end_ms
        color = _OURS if row.penstock else _OTHERS
        axes.plot([figures["p50"], figures["p99"]], [place] * 2, color=color, linewidth=1.2)
        axes.plot([figures["p50"], figures["p90"]], [place] * 2, color=color, linewidth=4)
        axes.plot(figures["p50"], place, "o", color=color, markersize=8)
        axes.annotate(
            milliseconds(figures["p50"]), (figures["p50"], place),
            xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8.5, color=color,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(0.8, slowest * 1.3)
    axes.set_xticks([1, 10, 100, 1000], ["1 ms", "10 ms", "100 ms", "1 s"])
    axes.tick_params(axis="x", which="minor", bottom=False)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.4, -0.75)
    axes.grid(axis="x", color="#d0d7de", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
