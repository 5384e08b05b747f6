"""The error of a command that cannot go on."""

from __future__ import annotations


class CommandError(Exception):
    """The message says what is wrong and what to do; `code` is the exit code: 1, or 2 for usage."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code
