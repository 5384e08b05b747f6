"""A failure: what the status says about it, and whether a retry can help."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from penstock.api.v1alpha1.status import LastFailure
from penstock.driver import secret_values
from penstock.driver.record_position import Position

# Reasons that more than one module knows.
# Spark reports only that a task has failed.
TASK_FAILED = "TaskFailed"
TOPIC_MISSING = "TopicMissing"
API_SERVER_UNREACHABLE = "ApiServerUnreachable"
BROKER_UNREACHABLE = "BrokerUnreachable"
KAFKA_AUTHORIZATION = "KafkaAuthorization"
EXACTLY_ONCE_IMPOSSIBLE = "ExactlyOnceImpossible"
REPLAY_DIFFERS = "ReplayDiffers"
DATABASE_NOT_AVAILABLE = "DatabaseNotAvailable"
DATABASE_IS_OLDER = "DatabaseIsOlder"
DATABASE_AUTHENTICATION = "DatabaseAuthentication"
DATABASE_AUTHORIZATION = "DatabaseAuthorization"
TABLE_MISSING = "TableMissing"
TABLE_TAKEN_OVER = "TableTakenOver"
ROW_NOT_WRITABLE = "RowNotWritable"
SINK_COLUMNS = "SinkColumns"
OFFSET_OUT_OF_RANGE = "OffsetOutOfRange"
RECORD_NOT_WRITABLE = "RecordNotWritable"
IMAGE_NOT_USABLE = "ImageNotUsable"
CLASS_NOT_USABLE = "ClassNotUsable"
MODULE_MISSING = "ModuleMissing"
PYTHON_FAILED = "PythonFailed"
PYTHON_WORKER_DIED = "PythonWorkerDied"
CONSUMER_GROUP_HAS_MEMBERS = "ConsumerGroupHasMembers"
RECORD_TOO_LARGE = "RecordTooLarge"
DEAD_LETTER = "DeadLetter"
DEAD_LETTER_NOT_WRITTEN = "DeadLetterNotWritten"
MALFORMED_RECORD = "MalformedRecordInParsing"
GENERATION_EXISTS = "GenerationExists"
CHECKPOINT_HOLDS_NO_STATE = "CheckpointHoldsNoState"
CHECKPOINT_DAMAGED = "CheckpointDamaged"
CHECKPOINT_FULL = "CheckpointFull"
CHECKPOINT_NOT_ACCESSIBLE = "CheckpointNotAccessible"
BUCKET_NOT_FOUND = "BucketNotFound"
OBJECT_STORE_DENIED = "ObjectStoreDenied"
OBJECT_STORE_NOT_ACCESSIBLE = "ObjectStoreNotAccessible"
OBJECT_STORE_UNSAFE = "ObjectStoreUnsafe"
CHECKPOINT_TAKEN_OVER = "CheckpointTakenOver"
# Of what the checkpoint is stored on. Whether such a cause has gone is soon tried, and without
# executors.
STORAGE_FAILURES = frozenset(
    {
        CHECKPOINT_FULL,
        CHECKPOINT_NOT_ACCESSIBLE,
        BUCKET_NOT_FOUND,
        OBJECT_STORE_DENIED,
        OBJECT_STORE_NOT_ACCESSIBLE,
    }
)
# Found by the driver itself: a query that it has stopped still runs.
QUERY_NOT_STOPPED = "QueryNotStopped"


@dataclass(frozen=True)
class Failure:
    """A classified failure, or what a running stream does without; without the time."""

    reason: str
    message: str
    permanent: bool = False
    recoverable: bool = False
    """Permanent, but its cause may go away without a new spec, so it is rechecked now and then."""
    asked_for: bool = False
    """The spec asks the stream to stop for it: failOnDataLoss, restart.maxAttempts."""
    maybe_poison: bool = False
    """Transient, but not for ever: the transform cannot process a record, and every restart reads
    that record again."""
    record: Position | None = None
    """That record, where it is known."""

    def __post_init__(self) -> None:
        """Without the values of Secrets, which the exceptions of data sources may repeat."""
        object.__setattr__(self, "message", secret_values.redact(self.message))

    def to_status(self, time: datetime) -> LastFailure:
        """The failure as the status reports it."""
        return LastFailure(
            reason=self.reason,
            message=self.message,
            permanent=self.permanent,
            time=time,
            record=None if self.record is None else str(self.record),
        )


class DriverError(Exception):
    """A failure that Penstock itself found and classified."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.reason}: {failure.message}")
        self.failure = failure

    @classmethod
    def permanent(cls, reason: str, message: str) -> DriverError:
        """One that no retry can help, and that does not go away by itself."""
        return cls(Failure(reason, message, permanent=True))


def refuse_older_copy(newest: int | None, planned: int | None) -> None:
    """Raises if the sink has a batch that the checkpoint has not planned: it is an older copy, and
    would plan that number with other records, which would be taken for written.
    """
    if newest is None or newest <= (-1 if planned is None else planned):
        return
    known = "no batch" if planned is None else f"the batches up to {planned}"
    raise DriverError(
        Failure(
            EXACTLY_ONCE_IMPOSSIBLE,
            f"The sink has results of batch {newest} of this stream, and the checkpoint knows "
            f"{known}: it is an older copy. Restore the newest one, or begin another "
            "checkpoint.generation at the offsets that you choose (docs/how-to/rewind.md).",
            permanent=True,
            recoverable=True,
        )
    )
