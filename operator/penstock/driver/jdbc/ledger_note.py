"""What a checkpoint knows of a stream's row in the ledger of a database."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LedgerNote:
    """Which driver may have taken the row over last."""

    token: str | None = None
    """The one that the row had before the newest start; None: it was not there."""
    pending: str | None = None
    """The one that this start gives it, or has given it."""
    batch: int = -1
    """A batch that the table had."""
