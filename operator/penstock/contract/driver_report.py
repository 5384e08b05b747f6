"""What a driver reports about its query, as an annotation on its own pod."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import AwareDatetime, Field

from penstock.api.v1alpha1.status import (
    MAX_COMMITTED_OFFSETS,
    CommittedOffset,
    EditVerdict,
    LastFailure,
    LastRepair,
    Message,
    Reason,
    Report,
)

# A change of these numbers alone is reported, and written into the status, at most this often.
# Prometheus has them sooner. (Fields of DriverReport and of StreamStatus.)
NUMBERS = ("epoch", "last_commit_time", "lag", "committed_offsets", "committed_offsets_omitted")
NUMBERS_INTERVAL_SECONDS = 30
# Statuses with new numbers, of all streams: for each one the API server validates a whole stream,
# which takes it ten milliseconds. So a thousand streams have theirs every thirty seconds.
_NUMBERS_PER_SECOND = 1000 / 30

# The reason in the termination message of a driver that cannot report, for want of a valid token.
API_SERVER_UNAUTHORIZED = "ApiServerUnauthorized"


def numbers_interval(configured: timedelta, streams: int) -> timedelta:
    """How often one status gets new numbers, of so many streams that are Ready.

    >>> [numbers_interval(timedelta(seconds=30), count).total_seconds() for count in (1, 3000)]
    [30.0, 90.0]
    """
    return max(configured, timedelta(seconds=streams / _NUMBERS_PER_SECOND))


class QueryState(StrEnum):
    """What the driver is doing with its query."""

    STARTING = "Starting"
    WAITING_FOR_CORES = "WaitingForCores"
    RUNNING = "Running"  # and is known to work, although it may have committed nothing yet
    RESTARTING = "Restarting"
    FAILED = "Failed"
    STOPPING = "Stopping"
    COMPLETED = "Completed"  # trigger.availableNow has read all records


class ReportedWarning(Report):
    """What a running query does without."""

    reason: Reason
    message: Message


class DriverReport(Report):
    """What a driver reports about its query, as an annotation on its own pod."""

    spec_hash: str = Field(description="naming.spec_hash of the document that the driver follows.")
    state: QueryState
    message: Message = ""
    partitions: int | None = None
    executors: int | None = Field(None, description="Executors that Spark was asked for.")
    registered_executors: int | None = None
    cores: int | None = Field(None, description="Cores that the query needs.")
    registered_cores: int | None = None
    state_partitions: int | None = Field(None, description="Partitions of the query's state.")
    checkpoint_generation: int | None = Field(
        None, description="The generation of its checkpoint; None before it is known."
    )
    epoch: int | None = Field(None, description="The last committed epoch.")
    last_commit_time: AwareDatetime | None = Field(
        None, description="When the last epoch was committed."
    )
    committed: bool = Field(
        False, description="Whether the query has committed an epoch since its last start."
    )
    proved: bool = Field(
        False,
        description="Whether the spec has committed records, or epochs for restart.stableAfter.",
    )
    query_runs: bool = Field(
        False,
        description="Whether a query runs: while Starting, one that has not shown yet that it "
        "works; while Restarting, one that is left running, because it may continue.",
    )
    repartitions_state: bool = Field(
        False,
        description="Whether the state is being divided into other partitions, which takes as "
        "long as its size takes; not after two attempts that have not ended.",
    )
    lag: int | None = Field(None, description="Records that the query has not handled.")
    committed_offsets: list[CommittedOffset] | None = Field(
        None,
        max_length=MAX_COMMITTED_OFFSETS,
        description="The first partitions by topic and number; None for a source without offsets.",
    )
    committed_offsets_omitted: int | None = Field(
        None, description="How many partitions `committed_offsets` leaves out."
    )
    query_restarts: int = Field(0, description="Restarts of the query in this driver process.")
    process_restarts: int = Field(
        0, description="Restarts of the driver's process by itself, in this container."
    )
    warning: ReportedWarning | None = Field(
        None, description="What the running query does without, as long as it does."
    )
    last_failure: LastFailure | None = None
    next_retry_time: AwareDatetime | None = None
    last_repair: LastRepair | None = None
    edit: EditVerdict | None = Field(
        None,
        description="About the newest edit that the driver has judged, also one that changes "
        "nothing for it; None before its first look.",
    )
