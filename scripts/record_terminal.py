"""Records a real `penstock run` as an animated SVG: `python -m scripts.record_terminal`.

Runs the command in a pseudo-terminal, in an empty folder, with the jars of the tests' cache, and
stops it with Ctrl-C. The SVG names no font to download, no host and no path of this machine.
"""

from __future__ import annotations

import argparse
import fcntl
import html
import io
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "docs" / "images" / "penstock-run.svg"
COMMAND = (
    "penstock run --with-kafka --feed examples/data/payments.jsonl --show examples/fraud-flags.yaml"
)

COLUMNS, ROWS = 98, 22
# What is recorded of a run, and how fast it is played.
_RUNNING_SECONDS = 25.0
_STARTING_TIMEOUT_SECONDS = 180.0
_STOPPING_TIMEOUT_SECONDS = 60.0
_MAX_STARTING_FRAMES = 4
_MAX_RUNNING_FRAMES = 10
_FRAME_SECONDS = 1.0
_LAST_FRAME_SECONDS = 5.0
_MAX_BYTES = 100_000

_CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\r|\n")
# By their number in the terminal's palette: a class and its color.
_COLORS = {1: ("red", "#e06c75"), 2: ("green", "#98c379"), 3: ("yellow", "#e5c07b")}
_CHARACTER_WIDTH, _LINE_HEIGHT, _MARGIN, _BAR = 8.4, 19, 16, 34


class Screen:
    """The little of a terminal that the live view uses: new lines, cursor up, erase, colors."""

    def __init__(self) -> None:
        self._lines = [f"\x1b[32m$\x1b[0m {COMMAND}", ""]
        self._row = 1
        self._unread = ""

    def feed(self, text: str) -> None:
        """Takes a piece of the output; it may end within a control sequence."""
        text = self._unread + text
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
        if text:
            self._lines += [""] * (self._row + 1 - len(self._lines))
            self._lines[self._row] += text

    def _obey(self, control: re.Match[str]) -> None:
        if control[0] == "\n":
            self._row += 1
        elif control[2] == "A":
            self._row = max(0, self._row - int(control[1] or "1"))
        elif control[2] == "K":
            del self._lines[self._row :]
        elif control[2] == "m":
            self._write(control[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes docs/images/penstock-run.svg, or the file that --output names."""
    parser = argparse.ArgumentParser(prog="scripts.record_terminal", description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        frames = _distinct(record(Path(folder)))
        picture = svg(_thinned(frames))
        _check(picture, folder)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(picture)
    return 0


def record(folder: Path) -> Iterator[tuple[str, ...]]:
    """The terminal's screen about once a second, from the command's start to its end."""
    screen = Screen()
    yield screen.lines
    process, terminal = _start(folder)
    start = time.monotonic()
    running_since: float | None = None
    try:
        while process.poll() is None:
            _read_for(terminal, screen, 1.0)
            yield screen.lines
            now = time.monotonic()
            if running_since is None and _has_caught_up(screen.lines):
                running_since = now
            if running_since is None and now - start > _STARTING_TIMEOUT_SECONDS:
                raise SystemExit(
                    "the stream does not run or lags behind:\n" + "\n".join(screen.lines)
                )
            if running_since is not None and now - running_since > _RUNNING_SECONDS:
                process.send_signal(signal.SIGINT)
                _read_until_exit(process, terminal, screen)
        _read_for(terminal, screen, 0.5)
        yield screen.lines
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def _start(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    from testkit.kafka.jars import connector_jars, kafka_jars

    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS + 20, COLUMNS, 0, 0))
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "PENSTOCK_CONNECTOR_JARS": str(connector_jars()),
        "PENSTOCK_KAFKA_JARS": str(kafka_jars()),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", *COMMAND.split()[1:]],
        cwd=folder,
        env=environment,
        stdin=inside,
        stdout=inside,
        stderr=inside,
    )
    os.close(inside)
    return process, terminal


def _read_until_exit(process: subprocess.Popen[bytes], terminal: int, screen: Screen) -> None:
    """A terminal that nobody reads would block the command."""
    end = time.monotonic() + _STOPPING_TIMEOUT_SECONDS
    while process.poll() is None and time.monotonic() < end:
        _read_for(terminal, screen, 0.5)
    process.wait(1.0)


def _read_for(terminal: int, screen: Screen, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        ready, _, _ = select.select([terminal], [], [], left)
        try:
            if ready:
                screen.feed(os.read(terminal, 65536).decode(errors="replace"))
        except OSError:  # the other end is closed
            time.sleep(left)


def _distinct(frames: Iterator[tuple[str, ...]]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for frame in frames:
        if not found or frame != found[-1]:
            found.append(frame)
    return found


def _thinned(frames: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Some of the start, more of the run, and the last frame."""
    running = next(
        (number for number, frame in enumerate(frames) if _is_running(frame)), len(frames) - 1
    )
    return [
        *_evenly(frames[:running], _MAX_STARTING_FRAMES),
        *_evenly(frames[running:-1], _MAX_RUNNING_FRAMES),
        frames[-1],
    ]


def _evenly(frames: list[tuple[str, ...]], most: int) -> list[tuple[str, ...]]:
    """At most so many of them, with the first and the last."""
    if len(frames) <= most:
        return frames
    step = (len(frames) - 1) / (most - 1)
    return [frames[round(number * step)] for number in range(most)]


def _has_caught_up(frame: tuple[str, ...]) -> bool:
    """Before that the figures are those of the start."""
    return _is_running(frame) and any(re.search(r"lag\b.*\b0 records", line) for line in frame)


def _is_running(frame: tuple[str, ...]) -> bool:
    return any("Running" in line for line in frame)


@dataclass(frozen=True)
class _Size:
    width: float = COLUMNS * _CHARACTER_WIDTH + 2 * _MARGIN
    height: float = ROWS * _LINE_HEIGHT + 2 * _MARGIN + _BAR


def svg(frames: Sequence[tuple[str, ...]]) -> str:
    """The frames one after another, for ever; where nothing moves, the last but one alone."""
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
        f'<circle cx="{_MARGIN + 6 + 20 * each}" cy="18" r="6" fill="{color}"/>'
        for each, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size.width:.0f} {size.height:.0f}" '
        'role="img" aria-label="A terminal that runs a stream with penstock run">\n'
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


def _check(picture: str, folder: str) -> None:
    """Nothing of this machine, and nothing to download."""
    for private in (folder, str(ROOT), str(Path.home()), socket.gethostname()):
        if private in picture:
            raise SystemExit(f"the recording shows {private}")
    outside = set(re.findall(r"https?://[^\"'\s<]+", picture)) - {"http://www.w3.org/2000/svg"}
    if outside:
        raise SystemExit(f"the recording names {outside}")
    if len(picture.encode()) > _MAX_BYTES:
        raise SystemExit(f"the recording has {len(picture.encode())} bytes")


if __name__ == "__main__":
    sys.exit(main())
