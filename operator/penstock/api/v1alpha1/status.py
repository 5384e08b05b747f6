"""What the driver reports about its query, and what the operator reports about the stream."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

# metav1.Condition's own pattern for a reason.
Reason = Annotated[str, StringConstraints(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
Message = Annotated[str, StringConstraints(max_length=32768)]

MAX_COMMITTED_OFFSETS = 64


def _map_list(*keys: str) -> dict[str, Any]:
    """A list whose entries Kubernetes merges and compares by these keys."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


class Report(BaseModel):
    """A value that is reported. Readers drop unknown fields, which a newer writer may add."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


class LastFailure(Report):
    """Why the query or the driver last failed: the root cause, not the exception around it."""

    reason: Reason = Field(description="The kind of failure, in CamelCase.")
    message: Message = Field(description="What happened and what to do about it.")
    permanent: bool = Field(
        description="Whether a retry is pointless until the spec or the cause changes."
    )
    time: AwareDatetime = Field(description="When it happened.")
    record: str | None = Field(
        None,
        description="The record of the source that it failed over, as topic/partition@offset. "
        "Absent where it is not known.",
    )
    revision: str | None = Field(
        None, description="The spec that failed: see `effective.revision` for the one that runs."
    )


class Cause(StrEnum):
    """Why a checkpoint needed a repair, the least severe cause first."""

    CRASH = "Crash"
    """What any crash leaves; nothing is wrong."""
    SWITCH = "Switch"
    """Another trigger was used, or plain Spark, which write differently."""


class LastRepair(Report):
    """What the driver repaired in the checkpoint before a start."""

    reason: Reason = Field(
        description="The most severe kind of repair; docs/checkpoints.md lists them."
    )
    cause: Cause = Field(
        description=(
            "Crash: what any crash leaves. Switch: another trigger was used, or plain Spark."
        )
    )
    message: Message = Field(description="What was repaired, and from where the stream continues.")
    time: AwareDatetime = Field(description="When it was repaired.")


class StreamState(StrEnum):
    """The states that this version of the operator reports."""

    PENDING = "Pending"
    STARTING = "Starting"
    WAITING_FOR_CORES = "WaitingForCores"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    STALLED = "Stalled"
    COMPLETED = "Completed"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"


class Condition(Report):
    """One condition, as metav1.Condition and kstatus define it."""

    type: Annotated[str, StringConstraints(max_length=316)] = Field(
        description="Ready, Reconciling, Stalled or Warning. Later versions may add types. "
        "kstatus reads the first three."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    observed_generation: int = Field(description="The generation of the spec that it is about.")
    last_transition_time: AwareDatetime = Field(description="When `status` last changed.")
    reason: Reason = Field(description="Why, in CamelCase, for programs.")
    message: Message = Field(description="What it means and what to do about it.")


class Cores(Report):
    """Task slots of the executors, or of the driver if it runs the tasks itself: threads then. The
    query starts when all desired ones are registered.
    """

    registered: int = Field(description="Cores that are there.")
    desired: int = Field(
        description="Cores that the query starts with: at least one for each partition."
    )


class CommittedOffset(Report):
    """How far the query has committed one partition of a Kafka topic."""

    topic: str = Field(description="The topic.")
    partition: int = Field(description="The partition's number.")
    offset: int = Field(description="The offset of the next record to read.")


class Restarts(Report):
    """Restarts so far, by the level of the recovery ladder that caught the failure."""

    total: int = Field(0, description="Restarts at all levels.")
    query: int = Field(0, description="Restarts of the query inside its Spark session.")
    process: int = Field(0, description="Restarts of the driver's process, or of its container.")
    pod: int = Field(
        0, description="Replacements of the driver's pod, except for a change of the spec."
    )


class EffectiveDriver(Report):
    """The driver's resources."""

    cpu: str | None = Field(None, description="CPU request.")
    memory: str | None = Field(None, description="Memory limit of the container.")
    heap: str | None = Field(None, description="The part of it that is JVM heap.")


class EffectiveExecutor(Report):
    """The resources of one executor."""

    cores: int | None = Field(None, description="Task slots.")
    cpu: str | None = Field(None, description="CPU request.")
    memory: str | None = Field(None, description="Memory limit of the container.")
    heap: str | None = Field(None, description="The part of it that is JVM heap.")


class Effective(Report):
    """The settings that run, with all defaults filled in."""

    image: str | None = Field(None, description="The image of driver and executors.")
    revision: str | None = Field(
        None, description="The hash of the spec that runs, without its live fields."
    )
    output_mode: str | None = Field(None, description="Which rows are written.")
    checkpoint_generation: int | None = Field(None, description="The generation of the checkpoint.")
    checkpoint_location: str | None = Field(
        None,
        description="Where in an object store its generations are. Absent if they are on a volume.",
    )
    driver: EffectiveDriver | None = Field(None, description="The driver's resources.")
    executor: EffectiveExecutor | None = Field(
        None,
        description="The resources of one executor. Absent if the tasks run in the driver's pod.",
    )


class Rollout(Report):
    """How far an edit is: `effective.revision` is what runs."""

    revision: str = Field(description="The hash of the newest valid spec, without its live fields.")
    default_image: str | None = Field(
        None, description="The operator's image, with which it runs; empty if the spec names one."
    )
    last_ready_image: str | None = Field(
        None, description="The image of the last revision with which the stream was Ready."
    )
    was_ready: bool = Field(
        False, description="Whether the stream was Ready when the revision became the newest."
    )
    start_time: AwareDatetime | None = Field(
        None,
        description="Since when it is tried: the spec's `rollout.deadline` counts from there. "
        "Absent after it was Ready, and while the stream is suspended or the spec not applied.",
    )
    last_ready_revision: str | None = Field(
        None, description="The last revision with which the stream was Ready."
    )
    pod_seconds: int | None = Field(
        None,
        description="How long it took the last time until the stream was Ready in another driver's "
        "pod, without a failure on the way.",
    )
    failure: LastFailure | None = Field(
        None,
        description="Why the revision was given up. Absent while it is tried, or runs.",
    )


class EditVerdict(Report):
    """What a running driver's Spark says about an edit of its stream."""

    generation: int = Field(description="The generation of the stream with the edit.")
    refusal: LastFailure | None = Field(
        None, description="Why Spark could not run it; absent if nothing is known against it."
    )


class Internal(Report):
    """The operator's bookkeeping: which of the driver's own counters `restarts` includes."""

    driver_pod_uid: str = Field(description="UID of the driver pod that was last observed.")
    pod_hash: str = Field(description="The hash of what that pod was created from.")
    container_restarts: int = Field(0, description="Its container restarts already counted.")
    process_restarts: int = Field(0, description="Its restarts of its own process already counted.")
    query_restarts: int = Field(0, description="Its query restarts already counted.")
    replaced_on_purpose: bool = Field(
        False, description="Whether an edit or a suspension ends it, which is no failure."
    )
    edit: EditVerdict | None = Field(
        None, description="The edit that Spark refuses: it stays refused when the driver restarts."
    )


class StreamStatus(Report):
    """What the operator reports about a stream. Prometheus has the numbers sooner."""

    observed_generation: int | None = Field(
        None, description="The generation of the spec that this status is about."
    )
    state: str | None = Field(
        None,
        description=(
            "In one word: Pending, Starting, WaitingForCores, Running, Restarting, Stalled, "
            "Completed, Suspending or Suspended. Later versions may add states; programs read the "
            "conditions."
        ),
    )
    conditions: list[Condition] = Field(
        [],
        description="Ready, Reconciling, Stalled and Warning. All four are always present.",
        json_schema_extra=_map_list("type"),
    )
    blocked_since: AwareDatetime | None = Field(
        None,
        description="Since when Kubernetes refuses a pod.",
    )
    mode: str | None = Field(
        None,
        description="How Spark runs the query: Continuous, MicroBatch, AsyncMicroBatch, RealTime "
        "or AvailableNow.",
    )
    partitions: int | None = Field(None, description="Partitions of the source.")
    executors: int | None = Field(
        None,
        description="Executors registered with the driver; 0 also if the tasks run in its own pod.",
    )
    cores: Cores | None = Field(None, description="The cores for the query's tasks.")
    state_partitions: int | None = Field(
        None,
        description="Partitions of the query's state, which no more cores can work on: "
        "those of its first start, or checkpoint.statePartitions. Absent without state.",
    )
    epoch: int | None = Field(
        None,
        description="The last epoch or batch with a commit in the checkpoint, by this query or an "
        "earlier one: Ready says so if this one has committed none. Updated every thirty seconds, "
        "or more rarely.",
    )
    last_commit_time: AwareDatetime | None = Field(
        None, description="When the last epoch was committed."
    )
    completion_time: AwareDatetime | None = Field(
        None,
        description="When `trigger.availableNow` had read everything.",
    )
    lag: int | None = Field(
        None,
        description="Records that the query has not handled. Updated every thirty seconds, or "
        "more rarely.",
    )
    committed_offsets: list[CommittedOffset] | None = Field(
        None,
        max_length=MAX_COMMITTED_OFFSETS,
        description="How far each partition of a Kafka source is committed: the first "
        f"{MAX_COMMITTED_OFFSETS} by topic and partition. Updated every thirty seconds, or "
        "more rarely.",
        json_schema_extra=_map_list("topic", "partition"),
    )
    committed_offsets_omitted: int | None = Field(
        None,
        description="How many partitions `committedOffsets` leaves out; absent if none. "
        "Prometheus has them all.",
    )
    restarts: Restarts | None = Field(None, description="Restarts so far, by level.")
    last_failure: LastFailure | None = Field(None, description="The last failure and its cause.")
    rollout: Rollout | None = Field(None, description="How far the newest edit is.")
    next_retry_time: AwareDatetime | None = Field(
        None, description="When the driver retries the failed query, if it waits for that."
    )
    last_repair: LastRepair | None = Field(
        None, description="The last repair of the checkpoint, and why it was needed."
    )
    effective: Effective | None = Field(
        None, description="The settings that run, with all defaults filled in."
    )
    internal: Internal | None = Field(
        None, description="The operator's bookkeeping. It may change in any version."
    )
