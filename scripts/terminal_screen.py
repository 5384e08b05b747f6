"""A terminal's screen: what a program's output leaves on it, and its frames as an animated SVG."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

COLUMNS, ROWS = 98, 22
_FRAME_SECONDS = 1.0
_LAST_FRAME_SECONDS = 5.0
# By their number in the terminal's palette: a class and its color.
_COLORS = {1: ("red", "#e06c75"), 2: ("green", "#98c379"), 3: ("yellow", "#e5c07b")}
_CHARACTER_WIDTH, _LINE_HEIGHT, _MARGIN, _BAR = 8.4, 19, 16, 34


_CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\r|\n")


class Screen:
    """The little of a terminal that is used here: long lines, cursor up, erase, colors."""

    def __init__(self, command: str, hidden: Sequence[str] = ()) -> None:
        """`hidden` are texts that it leaves out."""
        self._hidden = hidden
        self._lines = [f"\x1b[32m$\x1b[0m {command}", ""]
        self._row = 1
        self._unread = ""

    def feed(self, text: str) -> None:
        """Takes a piece of the output; it may end within a control sequence."""
        text = self._unread + text
        for path in self._hidden:
            text = text.replace(path, "")
        whole = re.sub(r"\x1b(\[[0-9;?]*)?\Z", "", text)
        self._unread = text[len(whole) :]
        at = 0
        for control in _CONTROL.finditer(whole):
            self._write(whole[at : control.start()])
            at = control.end()
            self._obey(control)
        self._write(whole[at:])

    @property
    def lines(self) -> tuple[str, ...]:
        """The last rows, as text with colors."""
        return tuple(self._lines[-ROWS:])

    def _write(self, text: str) -> None:
        while text:
            self._add_rows()
            room = COLUMNS - Text.from_ansi(self._lines[self._row]).cell_len
            self._lines[self._row] += text[:room]
            text = text[room:]
            self._row += 1 if text else 0

    def _obey(self, control: re.Match[str]) -> None:
        if control[0] == "\n":
            self._row += 1
        elif control[2] == "A":
            self._row = max(0, self._row - int(control[1] or "1"))
        elif control[2] == "K":
            del self._lines[self._row :]
        elif control[2] == "m":
            self._add_rows()
            self._lines[self._row] += control[0]

    def _add_rows(self) -> None:
        """Down to the cursor's row."""
        self._lines += [""] * (self._row + 1 - len(self._lines))


@dataclass(frozen=True)
class _Size:
    width: float = COLUMNS * _CHARACTER_WIDTH + 2 * _MARGIN
    height: float = ROWS * _LINE_HEIGHT + 2 * _MARGIN + _BAR


def svg(frames: Sequence[tuple[str, ...]], label: str) -> str:
    """The frames with this label, for ever; where nothing moves, the last but one alone.

    It names no font to download.
    """
    size = _Size()
    total = _FRAME_SECONDS * (len(frames) - 1) + _LAST_FRAME_SECONDS
    still = max(0, len(frames) - 2)
    rules, groups = [], []
    for number, frame in enumerate(frames):
        start = 100 * _FRAME_SECONDS * number / total
        end = 100 * _FRAME_SECONDS * (number + 1) / total if number < len(frames) - 1 else 100
        rules.append(
            f"@keyframes f{number}{{0%{{visibility:{'visible' if number == 0 else 'hidden'}}}"
            f"{start:.2f}%{{visibility:visible}}{end:.2f}%,100%{{visibility:hidden}}}}"
            f"#f{number}{{visibility:{'visible' if number == still else 'hidden'};"
            f"animation:f{number} {total:.1f}s step-end infinite}}"
        )
        groups.append(f'<g id="f{number}">\n{_text_elements(frame)}</g>')
    colors = "".join(f".{name}{{fill:{color}}}" for name, color in _COLORS.values())
    dots = "".join(
        f'<circle cx="{_MARGIN + 6 + 20 * place}" cy="18" r="6" fill="{color}"/>'
        for place, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size.width:.0f} {size.height:.0f}" '
        f'role="img" aria-label="{html.escape(label)}">\n'
        "<style>text{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        f"fill:#d4d7dd;white-space:pre}}.bold{{font-weight:bold}}.dim{{fill:#8b919c}}{colors}\n"
        + "\n".join(rules)
        + "\n@media (prefers-reduced-motion:reduce){g{animation:none!important}}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#1f2329"/>{dots}\n'
        + "\n".join(groups)
        + "\n</svg>\n"
    )


def _text_elements(frame: tuple[str, ...]) -> str:
    """One element for each run of characters of one style, at the column where it starts."""
    console = Console(width=COLUMNS, file=io.StringIO())
    elements = []
    for row, line in enumerate(frame):
        column = 0
        y = _BAR + _MARGIN + _LINE_HEIGHT * row + 10
        for segment in Text.from_ansi(line).render(console):
            text = segment.text.rstrip("\n")
            if text.strip():
                indent = len(text) - len(text.lstrip())
                elements.append(_text_element(text.strip(), column + indent, y, segment))
            column += len(text)
    return "".join(elements)


def _text_element(text: str, column: int, y: int, segment: Segment) -> str:
    text = text[: max(0, COLUMNS - column)]
    classes = " ".join(_classes(segment.style))
    return (
        f'<text x="{_MARGIN + column * _CHARACTER_WIDTH:.1f}" y="{y}" '
        f'textLength="{len(text) * _CHARACTER_WIDTH:.1f}"'
        + (f' class="{classes}"' if classes else "")
        + f">{html.escape(text, quote=False)}</text>\n"
    )


def _classes(style: Style | None) -> Iterator[str]:
    if style is not None:
        if style.bold:
            yield "bold"
        if style.dim:
            yield "dim"
        if style.color is not None and style.color.number in _COLORS:
            yield _COLORS[style.color.number][0]
