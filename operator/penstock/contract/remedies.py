"""What each reason means, and what a person does about it: one table for all who say so.

The driver adds some of these actions to its messages, `penstock status` and `penstock doctor` print
them, and docs/reasons.md is generated from them.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.api.v1alpha1.status import StreamState
from penstock.contract.reason_table import EDIT, LOGS, POD, ROWS, Remedy

REMEDIES: Mapping[str, Remedy] = {reason: row for row in ROWS for reason in row.reasons.split()}

# For Spark's error conditions, classes of exceptions, and words of Kubernetes that are in no row.
BY_STATE: Mapping[StreamState, Remedy] = {
    StreamState.PENDING: Remedy(
        "", "Kubernetes cannot run the driver yet.", "Do what the message quotes.", POD
    ),
    StreamState.STARTING: Remedy(
        "",
        "The query is on its way.",
        "Wait for two minutes. If it lasts longer, see the log.",
        LOGS,
    ),
    StreamState.WAITING_FOR_CORES: REMEDIES["WaitingForCores"],
    StreamState.RUNNING: REMEDIES["Running"],
    StreamState.COMPLETED: REMEDIES["Completed"],
    StreamState.SUSPENDING: REMEDIES["Suspending"],
    StreamState.SUSPENDED: REMEDIES["Suspended"],
    StreamState.RESTARTING: Remedy(
        "",
        "The query failed, and the driver retries. If your transform cannot process a record, "
        "every attempt fails over the same record.",
        "See the log for the cause. If a record is the cause, penstock replay shows what happens "
        "to it: correct the transform (try_cast), filter the record, or set deadLetters.",
        LOGS,
    ),
    StreamState.STALLED: Remedy(
        "",
        "Spark, Kafka, Kubernetes or your code refuses what the spec says, and a retry alone does "
        "not help.",
        "Correct what the message names. If you corrected something outside the spec, restart the "
        "stream (restartedAt).",
        EDIT,
    ),
}


def remedy_for(reason: str, state: str | None) -> Remedy:
    """What to do about a reason; where no row has it, what to do in this state.

    A later version of the operator may report states that this one does not know.
    """
    in_state = {str(stream_state): remedy for stream_state, remedy in BY_STATE.items()}
    fallback = BY_STATE[StreamState.STARTING]
    return REMEDIES.get(reason) or in_state.get(state or "", fallback)
