"""How failures are met."""

from __future__ import annotations

from pydantic import Field

from penstock.api.v1alpha1.base import Duration, SpecObject


class Restart(SpecObject):
    """When a query that failed is tried again.

    Between attempts the wait grows from a second to a minute, with full jitter.
    """

    max_attempts: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Passing failures in a row after which the stream ends Stalled, holding no "
        "executors. In a row: with less than `stableAfter` of health between them. Default: none, "
        "it is tried for ever.",
        examples=[10],
    )
    stable_after: Duration = Field(
        "1m",
        description="After so long without a failure the count and the waits begin anew. "
        "Default: 1m.",
        examples=["5m"],
    )
