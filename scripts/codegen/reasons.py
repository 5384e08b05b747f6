"""Generates docs/reasons.md from the table of remedies."""

from __future__ import annotations

from penstock.contract.reasons import BY_STATE
from penstock.contract.remedy_table import ROWS

_HEAD = """\
<!-- Generated from operator/penstock/contract/remedy_table.py; run `make generate` to update. -->
# Reasons

The reason of a condition, of `lastFailure` and of Events. The message says what happened and what
to do. If the driver reports the reason, "Stalled" holds for a spec that has not committed yet; one
that has is Restarting for the same reason ([failures.md](failures.md)). What the operator refuses
(InvalidSpec, CheckpointMissing, ForeignObject, ApplyRefused) makes the condition Stalled True at
once. What Kubernetes refuses (Unschedulable, ImagePullBackOff, FailedCreate, DriverNodeUnreachable)
makes it True after ten minutes; the stream goes on by itself when the cause is gone.

`penstock doctor NAME` looks for the cause behind a reason, and prints the action of this table with
the next command to run.

| reason | meaning | what you do |
|---|---|---|
"""
_BY_STATE = """
Every other reason is an error condition of Spark (such as `UnresolvedColumn`), the class of an
exception, or a word of Kubernetes:

| state | meaning | what you do |
|---|---|---|
"""


def reasons() -> str:
    rows = "".join(f"| {_in_code(row.reasons)} | {row.meaning} | {row.action} |\n" for row in ROWS)
    by_state = "".join(
        f"| {state} | {row.meaning} | {row.action} |\n"
        for state, row in BY_STATE.items()
        if not row.reasons
    )
    return f"{_HEAD}{rows}{_BY_STATE}{by_state}"


def _in_code(reasons: str) -> str:
    return ", ".join(f"`{reason}`" for reason in reasons.split())
