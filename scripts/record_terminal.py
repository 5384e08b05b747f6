"""Records real commands as animated SVGs: `python -m scripts.record_terminal run demo`.

Each runs in a pseudo-terminal, in an empty folder, with the jars of the tests' cache. The run
is stopped with Ctrl-C; the demo ends by itself. No SVG names a host or a path of this machine.
"""

from __future__ import annotations

import argparse
import fcntl
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

from scripts.terminal_screen import COLUMNS, ROWS, Screen, svg

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"

# What is recorded of a run, and how fast it is played.
_RUNNING_SECONDS = 25.0
_STARTING_TIMEOUT_SECONDS = 180.0
_STOPPING_TIMEOUT_SECONDS = 60.0
_MAX_STARTING_FRAMES = 4
_MAX_BYTES = 100_000


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
    ends_by_itself: bool = False

    @property
    def path(self) -> Path:
        return IMAGES / self.file


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
    ),
    "demo": Recording(
        "make-demo.svg",
        "make demo",
        ("-m", "demo.laptop", "--watch-seconds", "6"),
        "A terminal in which make demo kills a driver and counts what arrived",
        "Running after",
        frames=16,
        ends_by_itself=True,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the recordings that are named, by default all."""
    parser = argparse.ArgumentParser(prog="scripts.record_terminal", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECORDINGS))
    for name in parser.parse_args(arguments).names or RECORDINGS:
        recording = RECORDINGS[name]
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "examples").symlink_to(ROOT / "examples")
            frames = _distinct(record(recording, Path(folder)))
            picture = svg(_thinned(frames, recording), recording.label)
            _check(picture, folder)
        recording.path.write_text(picture)
    return 0


def record(recording: Recording, folder: Path) -> Iterator[tuple[str, ...]]:
    """The terminal's screen about once a second, from the command's start to its end."""
    # Without them, files have the paths that a user types.
    screen = Screen(recording.command, [f"{ROOT}/", f"{folder}/"])
    yield screen.lines
    process, terminal = _start(recording, folder)
    start = time.monotonic()
    running_since: float | None = None
    try:
        while process.poll() is None:
            _read_for(terminal, screen, 1.0)
            yield screen.lines
            now = time.monotonic()
            if running_since is None and _runs(recording, screen.lines):
                running_since = now
            if running_since is None and now - start > _STARTING_TIMEOUT_SECONDS:
                raise SystemExit("the stream does not run:\n" + "\n".join(screen.lines))
            if recording.ends_by_itself or running_since is None:
                continue
            if now - running_since > _RUNNING_SECONDS:
                process.send_signal(signal.SIGINT)
                _read_until_exit(process, terminal, screen)
        _read_for(terminal, screen, 0.5)
        yield screen.lines
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def _start(recording: Recording, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    from testkit.kafka.jars import connector_jars, kafka_jars

    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS + 20, COLUMNS, 0, 0))
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder),
        "PENSTOCK_CONNECTOR_JARS": str(connector_jars()),
        "PENSTOCK_KAFKA_JARS": str(kafka_jars()),
    }
    process = subprocess.Popen(
        [sys.executable, *recording.words],
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
    distinct: list[tuple[str, ...]] = []
    for frame in frames:
        if not distinct or frame != distinct[-1]:
            distinct.append(frame)
    return distinct


def _thinned(frames: list[tuple[str, ...]], recording: Recording) -> list[tuple[str, ...]]:
    """Some of the start, more of the run, and the last frame."""
    running = next(
        (number for number, frame in enumerate(frames) if _runs(recording, frame)), len(frames) - 1
    )
    return [
        *_evenly(frames[:running], _MAX_STARTING_FRAMES),
        *_evenly(frames[running:-1], recording.frames),
        frames[-1],
    ]


def _evenly(frames: list[tuple[str, ...]], most: int) -> list[tuple[str, ...]]:
    """At most so many of them, with the first and the last."""
    if len(frames) <= most:
        return frames
    step = (len(frames) - 1) / (most - 1)
    return [frames[round(number * step)] for number in range(most)]


def _runs(recording: Recording, frame: tuple[str, ...]) -> bool:
    return re.search(recording.runs, "\n".join(frame)) is not None


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
