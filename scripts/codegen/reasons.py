"""Generates docs/reasons.md from the table of remedies."""

from __future__ import annotations

from penstock.contract.reason_table import ROWS
from penstock.contract.remedies import BY_STATE

_HEAD = """\
<!-- Generated from operator/penstock/contract/reason_table.py; run `make generate` to update. -->
# Reasons

A reason is the short name of what is going on: in a condition, in `lastFailure`, in an Event.
`penstock doctor NAME` looks for the cause behind a reason, and prints the action of this page with
the next command to run.

When is a stream `Stalled`?

- **A reason of the driver** (a missing topic, a rejected password) stalls a stream that has never
  committed. A stream that has committed is `Restarting` for the same reason, and retries for
  ever ([failures](failures.md#stalled-or-restarting)).
- **A refusal of the operator** (InvalidSpec, CheckpointMissing, ForeignObject, ApplyRefused) sets
  the condition Stalled at once.
- **A refusal of Kubernetes** (Unschedulable, ImagePullBackOff, FailedCreate, DriverNodeUnreachable)
  sets it after ten minutes. The stream continues by itself when the cause is gone.

## By name
"""
_BY_STATE = """
## Any other reason

Every other reason is an error condition of Spark (such as `UnresolvedColumn`), the class of an
exception, or a word of Kubernetes. The state then says what to do.
"""


def reasons() -> str:
    entries = [_entry(_in_code(row.reasons), row.meaning, row.action) for row in ROWS]
    by_state = [
        _entry(state, row.meaning, row.action) for state, row in BY_STATE.items() if not row.reasons
    ]
    return "\n".join([_HEAD, *entries]) + _BY_STATE + "\n" + "\n".join(by_state)


def _entry(heading: str, meaning: str, action: str) -> str:
    return f"### {heading}\n\n{meaning}\n\n**Do:** {action}\n"


def _in_code(reasons: str) -> str:
    return ", ".join(f"`{reason}`" for reason in reasons.split())
