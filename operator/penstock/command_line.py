"""What the commands share: how they end, and how their options are declared."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from cyclopts import Parameter

WRONG_USAGE = 2


class CommandError(Exception):
    """The message says what is wrong and what to do; `code` is the exit code: 1, or 2 for usage."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def option(meaning: str, metavar: str | None = None, /, *short: str, **more: Any) -> Parameter:
    """An option with its help; it may have a `short` name beside its own."""
    return Parameter(help=meaning, metavar=metavar, alias=short or None, **more)


def _check_file(_: Any, given: Any) -> None:
    """Only - itself, the standard input, begins with a hyphen: cyclopts takes it for an option."""
    for path in given if isinstance(given, list) else [given]:
        if str(path).startswith("-") and str(path) != "-":
            raise ValueError(f"There is no option {path}; write a file of this name as ./{path}.")


def files(meaning: str, metavar: str) -> Parameter:
    return option(meaning, metavar, allow_leading_hyphen=True, validator=_check_file)


Paths = Annotated[list[str], files("a file, a folder, a pattern, or - for stdin", "PATH")]
Format = Annotated[Literal["text", "json", "sarif", "github"], option("output format")]
