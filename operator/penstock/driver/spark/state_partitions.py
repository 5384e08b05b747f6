"""Gives the state of a query another number of partitions, as Spark does it since 4.2.

Spark reads all state of the newest batch, writes it by its keys into the new partitions, and
commits that as a batch without records (OfflineStateRepartitionRunner). If it is interrupted, the
next repair of the checkpoint undoes what it has done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.checkpoint.batch_ids import wants_each_batch
from penstock.driver.checkpoint.folder import CheckpointContents
from penstock.driver.failures import DriverError
from penstock.driver.spark.session import ROCKSDB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def new_partition_count(
    spec: StreamSpec, contents: CheckpointContents | None, has_undivided_state: Callable[[], bool]
) -> int | None:
    """The number of partitions that the state gets before the query starts; None: what it has.

    `has_undivided_state` lists files, so it is asked only of a change.
    Raises DriverError if Spark cannot do it.
    """
    partitions = spec.checkpoint.state_partitions
    if contents is None or not contents.state or partitions in (None, contents.partitions):
        return None
    why = ""
    if contents.state_store != ROCKSDB:
        why = f"Spark can divide that of RocksDB, and this one is kept by {contents.state_store}"
    elif wants_each_batch(spec.sink):
        why = "Spark commits that as a batch, which its file sink does not get and would miss"
    elif contents.partitions == 1:
        why = "an operator may need all of it in one partition, as a count without GROUP BY does"
    elif has_undivided_state():
        # Spark looks for the others, and fails (measured).
        why = "an operator keeps all of it in one partition, as a count without GROUP BY does"
    if why:
        raise DriverError.permanent(
            "UnsupportedOperation",
            f"checkpoint.statePartitions cannot change the {contents.partitions} partitions of "
            f"this state: {why}. Remove the field; or begin another checkpoint.generation.",
        )
    return partitions if contents.awaited is None else None


def needs_batch_first(spec: StreamSpec, contents: CheckpointContents | None) -> bool:
    """Whether a planned batch must run before a change, since the sink may have its results."""
    partitions = spec.checkpoint.state_partitions
    if contents is None or contents.awaited is None:
        return False
    return partitions not in (None, contents.partitions)


def repartition(session: SparkSession, location: str, number: int) -> None:
    """Only while no query runs, and all that was planned is committed."""
    # Makes the coordinator that the stores report to, which only a query makes by itself: a session
    # without one fails with RpcEndpointNotFoundException (measured).
    session._jsparkSession.streams()
    session._streamingCheckpointManager.repartition(location, number)
