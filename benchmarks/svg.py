"""Pictures as SVG: equal figures give equal files (with the same matplotlib)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure


@contextmanager
def style() -> Iterator[None]:
    """How all pictures look, during the block."""
    with mpl.rc_context(
        {
            "font.family": "sans-serif",
            "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
            "font.size": 10,
            "svg.fonttype": "none",  # text stays text: readable in a diff, and by a screen reader
            "svg.hashsalt": "penstock",  # or every file gets other ids
        }
    ):
        yield


def save(figure: Figure, file: Path) -> None:
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    # matplotlib ends some lines with spaces.
    lines = [line.rstrip() for line in file.read_text().splitlines()]
    file.write_text("\n".join(lines) + "\n")
