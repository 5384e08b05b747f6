"""When a failed query is restarted."""

from __future__ import annotations

from pydantic import Field

from penstock.api.v1alpha1.base import Duration, SpecObject


class Restart(SpecObject):
    """Limits of the restarts after a failure.

    The back-off between two restarts grows from one second to 20 seconds, with full jitter.
    """

    max_attempts: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Consecutive transient failures after which the stream is Stalled and its "
        "executors are released. Failures are consecutive if the query was healthy for less than "
        "`stableAfter` between them. Default: no limit, except for failures over a record.",
        examples=[10],
    )
    stable_after: Duration = Field(
        "1m",
        description="How long the query must run without a failure until the count of failures "
        "and the back-off are reset. Default: 1m.",
        examples=["5m"],
    )
