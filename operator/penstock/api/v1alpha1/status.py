"""What is reported: by the driver about its query, and by the operator about the stream."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

# metav1.Condition's own pattern for a reason.
Reason = Annotated[str, StringConstraints(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
Message = Annotated[str, StringConstraints(max_length=32768)]


class Report(BaseModel):
    """A value that is reported; unknown fields of a newer writer are dropped when it is read."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


class LastFailure(Report):
    """Why the query, or the driver, last failed: the root cause, not its wrapper."""

    reason: Reason = Field(description="A CamelCase word for the kind of failure.")
    message: Message = Field(description="What happened and what to do about it.")
    permanent: bool = Field(
        description="Whether trying again is pointless until the spec or the cause changes."
    )
    time: datetime = Field(description="When it happened.")


class LastRepair(Report):
    """What was put right in the checkpoint before the last start that found something."""

    reason: Reason = Field(description="The gravest kind of mending (docs/checkpoints.md).")
    cause: Cause = Field(
        description=(
            "Crash: what any crash leaves. Switch: what another trigger wrote in its own way. "
            "Damage: records of progress were broken or lost, so look at the volume."
        )
    )
    message: Message = Field(description="What was mended, and where the stream goes on from.")
    time: datetime = Field(description="When it was done.")


class StreamState(StrEnum):
    """The stream in one word, for people."""

    PENDING = "Pending"
    STARTING = "Starting"
    WAITING_FOR_CORES = "WaitingForCores"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    STALLED = "Stalled"
    COMPLETED = "Completed"


class Condition(Report):
    """metav1.Condition, in the sense of kstatus, which ignores the type Warning."""

    type: Literal["Ready", "Reconciling", "Stalled", "Warning"] = Field(
        description="Which condition."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    observed_generation: int = Field(description="The generation it was judged for.")
    last_transition_time: datetime = Field(description="When status last changed.")
    reason: Reason = Field(description="A CamelCase word for machines.")
    message: Message = Field(description="What it means and what to do about it.")


class Restarts(Report):
    """Restarts so far, by the level of the ladder that caught the failure."""

    total: int = Field(0, description="All of them.")
    query: int = Field(0, description="Of the query, inside its Spark session.")
    process: int = Field(0, description="Of the driver's container.")
    pod: int = Field(0, description="Of the driver's pod, other than for a change of the spec.")


class DriverSeen(Report):
    """The operator's bookmark in the driver's counters: what is already in `restarts`."""

    pod_uid: str = Field(description="UID of the driver pod last seen.")
    spec_hash: str = Field(description="naming.ANNOTATION_SPEC_HASH of that pod.")
    container_restarts: int = Field(0, description="Its container restarts already counted.")
    query_restarts: int = Field(0, description="Its query restarts already counted.")


class StreamStatus(Report):
    """What the operator says of a stream. Numbers that move fast are in Prometheus only."""

    observed_generation: int | None = Field(
        None, description="The generation of the spec that this status speaks of."
    )
    state: StreamState | None = Field(None, description="The stream in one word, for people.")
    conditions: list[Condition] = Field(
        [],
        description="Ready, Reconciling, Stalled, and Warning where something is amiss.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    partitions: int | None = Field(None, description="Partitions of the source.")
    executors: int | None = Field(None, description="Executors registered with the driver.")
    cores: str | None = Field(None, description="Cores registered of cores wanted, such as 4/4.")
    epoch: int | None = Field(None, description="The last committed epoch the driver reported.")
    lag: int | None = Field(
        None, description="Records between committed and newest offsets, at a slow beat."
    )
    restarts: Restarts | None = Field(None, description="Restarts so far, by level.")
    last_failure: LastFailure | None = Field(None, description="The last failure and its cause.")
    next_retry: datetime | None = Field(
        None, description="When a failed query is tried again, if it is waiting."
    )
    last_repair: LastRepair | None = Field(
        None, description="What was last put right in the checkpoint, and why."
    )
    driver: DriverSeen | None = Field(None, description="Bookkeeping of the operator.")


class Cause(StrEnum):
    """Why a checkpoint was not as the next start needs it, in rising gravity."""

    CRASH = "Crash"
    """What any crash leaves: nothing is amiss."""
    SWITCH = "Switch"
    """What another of Spark's engines writes in its own way: the trigger was changed."""
    DAMAGE = "Damage"
    """Records of progress were broken or lost. Spark does not do that: look at the volume."""
