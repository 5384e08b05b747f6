"""What the judges of a spec's texts find."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.sql.refusals import Refusal


@dataclass(frozen=True)
class TextVerdict:
    """What was found in a spec's texts."""

    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[Refusal, ...] = ()
    """What runs, but probably not as intended, and what only the driver can judge."""
