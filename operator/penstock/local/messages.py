"""Messages to the user of a command, outside the log and the live view."""

from __future__ import annotations

import sys


def print_message(message: str) -> None:
    """Prints one line on stderr; stdout is for records."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201
