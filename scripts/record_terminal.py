"""Records real commands as animated SVGs: `python -m scripts.record_terminal run demo`.

Each runs in a terminal (pyte), in an empty folder, with the jars of the tests' cache; rich draws
what the terminal shows. No SVG names a host or a path of this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import io
import itertools
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

from testkit.kafka.jars import connector_jars, kafka_jars
from testkit.paths import CHECKOUT

_COLUMNS, _ROWS = 98, 22
# As rich lays a terminal out.
_WIDTH, _HEIGHT = _COLUMNS * 12.2, _ROWS * 24.4
# The colors that rich calls otherwise than pyte.
_COLORS = {"brown": "yellow", "brightblack": "bright_black"}
_STARTING_SECONDS = 180.0
_STARTING_FRAMES = 4
_LAST_FRAME_SECONDS = 5

_Frame = list[Text]


@dataclass(frozen=True)
class Recording:
    """One command, and what is kept of its run."""

    file: str
    command: str
    """As a user types it."""
    words: tuple[str, ...]
    """Python's arguments that start it."""
    label: str
    runs: str
    """An expression: the screen has it when the stream runs."""
    frames: int
    """The most that are kept of the time when it runs."""
    seconds: float
    """After them, Ctrl-C."""

    @property
    def path(self) -> Path:
        return CHECKOUT / "docs" / "images" / self.file


_RUN = "run --with-kafka --feed examples/data/payments.jsonl --show examples/fraud-flags.yaml"
RECORDINGS = {
    "run": Recording(
        "penstock-run.svg",
        f"penstock {_RUN}",
        ("-m", "penstock.cli", *_RUN.split()),
        "A terminal that runs a stream with penstock run",
        # Before it has caught up, the figures are those of the start.
        r"(?s)Running.*lag\b[^\n]*\b0 records",
        frames=10,
        seconds=25,
    ),
    "demo": Recording(
        "make-demo.svg",
        "make demo",
        ("-m", "demo.laptop", "--watch-seconds", "6"),
        "A terminal in which make demo kills a driver and counts what arrived",
        "Running after",
        frames=16,
        seconds=300,  # it ends by itself
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the recordings that are named, by default all."""
    parser = argparse.ArgumentParser(prog="scripts.record_terminal", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECORDINGS))
    for name in parser.parse_args(arguments).names or RECORDINGS:
        recording = RECORDINGS[name]
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "examples").symlink_to(CHECKOUT / "examples")
            picture = _film(_record(recording, Path(folder)), recording.label)
        for private in (folder, str(CHECKOUT), str(Path.home()), socket.gethostname()):
            if private in picture:
                raise SystemExit(f"the recording shows {private}")
        recording.path.write_text(picture)
    return 0


def _record(recording: Recording, folder: Path) -> list[_Frame]:
    """Some screens of the start, more of the run, and the last one."""
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "PYTHONPATH": str(CHECKOUT),
        "TMPDIR": str(folder),
        "PENSTOCK_CONNECTOR_JARS": str(connector_jars()),
        "PENSTOCK_KAFKA_JARS": str(kafka_jars()),
    }
    outside, inside = pty.openpty()
    termios.tcsetwinsize(inside, (_ROWS, _COLUMNS))
    os.write(inside, f"\x1b[32m$\x1b[0m {recording.command}\n".encode())
    process = subprocess.Popen(
        [sys.executable, *recording.words],
        cwd=folder,
        env=environment,
        stdin=inside,
        stdout=inside,
        stderr=inside,
    )
    os.close(inside)
    screen = pyte.Screen(_COLUMNS, _ROWS)
    # Without them, files have the paths that a user types.
    hidden = (f"{CHECKOUT}/", f"{folder}/")
    threading.Thread(target=_show, args=(outside, screen, hidden), daemon=True).start()
    try:
        starting = [*_watch(process, screen, _STARTING_SECONDS, until=recording.runs)]
        if not _shows(screen, recording.runs):
            raise SystemExit("the stream does not run:\n" + "\n".join(screen.display))
        running = [*_watch(process, screen, recording.seconds)]
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        process.kill()
    time.sleep(0.5)
    frames = [*_evenly(starting, _STARTING_FRAMES), *_evenly(running, recording.frames)]
    return [*frames, _frame(screen)]


def _show(source: int, screen: pyte.Screen, hidden: tuple[str, ...]) -> None:
    """On the screen what comes from there until the other end is closed, without these texts."""
    stream = pyte.ByteStream(screen)
    with contextlib.suppress(OSError):
        while written := os.read(source, 65536):
            for text in hidden:
                written = written.replace(text.encode(), b"")
            stream.feed(written.replace(b"\x1b[2m", b"\x1b[90m"))  # pyte knows no dim text


def _watch(
    process: subprocess.Popen[bytes], screen: pyte.Screen, seconds: float, until: str = "(?!)"
) -> Iterator[_Frame]:
    """The screen of each second, so long, or until it shows this, or the command ends."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end and not _shows(screen, until):
        time.sleep(1.0)
        yield _frame(screen)


def _shows(screen: pyte.Screen, expression: str) -> bool:
    return re.search(expression, "\n".join(screen.display)) is not None


def _frame(screen: pyte.Screen) -> _Frame:
    lines = []
    for row in range(_ROWS):
        line = Text()
        cells = [screen.buffer[row][column] for column in range(_COLUMNS)]
        for (color, bold), run in itertools.groupby(cells, lambda cell: (cell.fg, cell.bold)):
            style = Style(color=_COLORS.get(color, color), bold=bold)
            line.append("".join(cell.data for cell in run), style)
        line.rstrip()
        lines.append(line)
    return lines


def _evenly(frames: list[_Frame], most: int) -> list[_Frame]:
    """At most so many of the distinct ones, with the first and the last."""
    distinct = [frame for frame, _ in itertools.groupby(frames)]
    step = max(1.0, (len(distinct) - 1) / (most - 1))
    return [distinct[round(number * step)] for number in range(min(most, len(distinct)))]


def _film(frames: list[_Frame], label: str) -> str:
    """The frames below each other, and one at a time in the window. No font to download.

    Where nothing moves, it is the last but one: there the command still runs.
    """
    console = Console(width=_COLUMNS, record=True, file=io.StringIO())
    for line in itertools.chain(*frames):
        console.print(line, soft_wrap=True)
    styles, _, text = console.export_svg(
        code_format="{styles}\0{matrix}", unique_id="film"
    ).partition("\0")
    text = re.sub(r'<text[^>]*>\n</text>| clip-path="[^"]*"', "", text)
    text = text.replace("</text>", "</text>\n")
    steps = len(frames) - 1
    seconds = steps + _LAST_FRAME_SECONDS
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + 18:.0f} {_HEIGHT + 50:.0f}" \
role="img" aria-label="{html.escape(label)}">
<style>text{{font:20px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}}
{styles}
@keyframes film{{0%{{transform:none;animation-timing-function:steps({steps})}}\
{100 * steps / seconds:.2f}%,100%{{transform:translateY(-{steps * _HEIGHT:.1f}px)}}}}
#film{{transform:translateY(-{(steps - 1) * _HEIGHT:.1f}px);animation:film {seconds}s infinite}}
@media (prefers-reduced-motion:reduce){{#film{{animation:none}}}}</style>
<rect width="100%" height="100%" rx="8" fill="#292929"/>
<circle cx="26" cy="22" r="7" fill="#ff5f57"/><circle cx="48" cy="22" r="7" fill="#febc2e"/>\
<circle cx="70" cy="22" r="7" fill="#28c840"/>
<svg x="9" y="41" width="{_WIDTH:.0f}" height="{_HEIGHT:.1f}"><g id="film">
{text}</g></svg>
</svg>
"""


if __name__ == "__main__":
    sys.exit(main())
