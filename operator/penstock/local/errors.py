"""The error of a command that cannot go on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


class CommandError(Exception):
    """The message says what is wrong and what to do; `code` is the exit code: 1, or 2 for usage."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


@contextlib.contextmanager
def refusing(what: Path | str, remedy: str) -> Iterator[None]:
    """Turns an error of the operating system into a CommandError that names the file, or `what`."""
    try:
        yield
    except OSError as error:
        raise CommandError(
            f"{error.filename or what}: {error.strerror or error}: {remedy}", code=2
        ) from error
