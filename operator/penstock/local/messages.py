"""What a command says to the person who gave it, beside log and view."""

from __future__ import annotations

import sys


def tell(message: str) -> None:
    """A line on stderr: stdout is for records."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201
