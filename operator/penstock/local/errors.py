"""What a command tells its user."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from penstock.command_line import CommandError


@contextlib.contextmanager
def refusing(what: Path | str, remedy: str) -> Iterator[None]:
    """Turns an error of the operating system into a CommandError that names the file, or `what`."""
    try:
        yield
    except OSError as error:
        raise CommandError(
            f"{error.filename or what}: {error.strerror or error}: {remedy}", code=2
        ) from error


def print_message(message: str) -> None:
    """Prints one line on stderr, outside the log and the live view; stdout is for records."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201
