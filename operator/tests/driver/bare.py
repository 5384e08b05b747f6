"""Queries without a loop around them: the driver's own steps, many of them in one Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.driver import executors, query, session
from penstock.driver.checkpoint import Repair
from penstock.driver.checkpointdir import CheckpointFolder
from penstock.driver.jvm import Jvm
from penstock.driver.place import Local
from penstock.driver.throwable import read_chain
from penstock.stream.resource import ContinuousStream
from penstock.stream.sizing import Size, size
from tests.driver.running import wait_for


@contextmanager
def bare_session(jvm: Jvm, any_of: ContinuousStream, folder: Path) -> Iterator[SparkSession]:
    """Spark, as the driver starts it for a stream of two partitions."""
    wanted = size(2, any_of.spec)
    assert isinstance(wanted, Size)
    spark = session.start(jvm.gateway, session.spark_conf(any_of, Local(folder), wanted))
    try:
        yield spark
    finally:
        spark.stop()


class Bare:
    """A query over a checkpoint that was mended as before each start (Engine.check_query)."""

    def __init__(self, spark: SparkSession, flow: ContinuousStream, folder: Path) -> None:
        self.folder = CheckpointFolder(folder)
        self.repair: Repair = self.folder.repair(flow.spec)
        place = Local(folder)
        frame = query.plan(spark, flow.spec, place)
        query.check(frame, flow.spec)
        self.query: StreamingQuery = query.start(
            frame, flow.spec, place, "numbers", self.folder.location
        )

    def wait(self, what: str, holds: Callable[[], bool]) -> None:
        """Until it holds, or the query fails."""

        def so_far() -> bool:
            failure = self.query._jsq.exception()
            assert failure.isEmpty(), read_chain(failure.get())
            return holds()

        wait_for(what, so_far, 30)


@contextmanager
def bare(spark: SparkSession, flow: ContinuousStream, folder: Path) -> Iterator[Bare]:
    """A query for the length of the block."""
    it = Bare(spark, flow, folder)
    try:
        yield it
    finally:
        with executors.quiet_about_killed_tasks(spark.sparkContext):
            it.query.stop()
