"""What becomes of an edit that does not run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.api.v1alpha1.base import Duration, SpecObject


class RolloutPolicy(SpecObject):
    """How long an edit has to become Ready, and what happens if it does not."""

    deadline: Duration = Field(
        "10m",
        description="How long an edited stream has to become Ready. The time in which its query "
        "works on a first batch does not count. Default: 10m.",
        examples=["3m"],
    )
    rollback: Literal["Auto", "Never"] = Field(
        "Auto",
        description="Auto: a stream that fails for good before it is Ready, or is not Ready at the "
        "deadline, goes back to the last spec with which it was, on the same checkpoint. The edit "
        "is not tried again until there is another one. Never: it stays as it is. Default: Auto.",
    )
