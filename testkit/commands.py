"""Runs commands with a time limit, and explains a failure with their output."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from testkit.errors import ClusterError

_TAIL = 40


def print_progress(message: str) -> None:
    """Prints what is being done to stderr, since stdout is for results."""
    print(f"[cluster] {message}", file=sys.stderr, flush=True)


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | Path | None = None,
    timeout: float = 120,
    hint: str = "",
) -> str:
    """Runs a command and returns its stdout. A failure raises ClusterError with the last output.

    `env` is added to the environment of this process. `stdin` is a text, or the path of a file.
    """
    words = [str(word) for word in command]
    try:
        with _opened(stdin) as source:
            done = subprocess.run(
                words,
                cwd=cwd,
                env={**os.environ, **env} if env else None,
                input=stdin if isinstance(stdin, str) else None,
                stdin=source,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
    except FileNotFoundError as error:
        raise ClusterError(f"{words[0]} is not installed. {hint}".strip()) from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(
            f"no answer within {timeout:.0f} s from: {' '.join(words)}. {hint}".strip()
        ) from error
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_TAIL:])
        raise ClusterError(
            f"exit code {done.returncode} from: {' '.join(words)}\n{tail}\n{hint}".rstrip()
        )
    return done.stdout


@contextlib.contextmanager
def _opened(stdin: str | Path | None) -> Iterator[IO[bytes] | int | None]:
    if isinstance(stdin, Path):
        with stdin.open("rb") as file:
            yield file
    else:
        yield subprocess.DEVNULL if stdin is None else None
