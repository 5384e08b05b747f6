"""Runs queries with the driver's own steps, but without its loop, in one Spark session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.api.modes import Mode
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.api.v1alpha1.triggers import RealTimeTrigger, Trigger
from penstock.contract.sizing import Size, size
from penstock.driver.checkpoint.file_formats import Files
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.environment import LocalEnvironment
from penstock.driver.exceptions.chain import read_chain
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.spark import executors, query, session
from testkit.driver.checkpoints import folder_at, names, read
from testkit.kafka.topics import Topics, total
from testkit.streams.streams import MICRO_BATCH, kafka_source, stream
from testkit.wait import wait_for


@contextmanager
def bare_session(jvm: Jvm, any_of: ContinuousStream, folder: Path) -> Iterator[SparkSession]:
    """A Spark session as the driver starts it for a stream with two partitions."""
    environment = LocalEnvironment(folder)
    here = environment.adapted(any_of)
    wanted = size(2, here.spec)
    assert isinstance(wanted, Size)
    spark = session.start(jvm.gateway, session.spark_conf(here, environment, wanted))
    spark.conf.set("spark.sql.streaming.realTimeMode.minBatchDuration", "100ms")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def sparks_files(spark: SparkSession) -> Iterator[None]:
    """Spark's default writes the files of checkpoints meanwhile, with their checksums."""
    ours = spark.conf.get(session.FILE_MANAGER)
    assert ours is not None
    spark.conf.unset(session.FILE_MANAGER)
    try:
        yield
    finally:
        spark.conf.set(session.FILE_MANAGER, ours)


class BareQuery:
    """A query on a checkpoint that is repaired first, as in QueryRuntime.check_query.

    `also` adds to the query what no spec can say, such as another source.
    """

    def __init__(
        self,
        spark: SparkSession,
        flow: ContinuousStream,
        folder: Path,
        also: Callable[[DataFrame], DataFrame] = lambda frame: frame,
    ) -> None:
        self.folder = folder_at(folder)
        self.repair: RepairPlan = self.folder.repair(flow.spec)
        environment = LocalEnvironment(folder)
        frame = also(query.plan(spark, flow.spec, environment))
        query.check(frame, flow.spec)
        self.query: StreamingQuery = query.start(
            frame, flow.spec, environment, "numbers", self.folder.files.location
        )

    def wait(self, what: str, holds: Callable[[], bool]) -> None:
        """Waits until `holds` is true; fails if the query fails."""

        def check() -> bool:
            failure = self.query._jsq.exception()
            assert failure.isEmpty(), read_chain(failure.get())
            return holds()

        wait_for(what, check)


@contextmanager
def bare(
    spark: SparkSession,
    flow: ContinuousStream,
    folder: Path,
    also: Callable[[DataFrame], DataFrame] = lambda frame: frame,
) -> Iterator[BareQuery]:
    it = BareQuery(spark, flow, folder, also)
    try:
        yield it
    finally:
        with executors.without_stop_warnings(spark.sparkContext):
            it.query.stop()
            executors.wait_until_idle(spark.sparkContext)


# Epochs so short that one case takes a second.
SHORT_EPOCHS: dict[str, Any] = {"continuous": {"checkpointInterval": "300ms"}}


def short_batches(flow: ContinuousStream) -> ContinuousStream:
    """A real-time stream with batches of half a second, where the shortest of a spec is 5 s.

    `bare_session` lets Spark accept them.
    """
    brief = RealTimeTrigger.model_construct(batch_duration="500ms")
    trigger = Trigger.model_construct(real_time=brief)
    return flow.model_copy(update={"spec": flow.spec.model_copy(update={"trigger": trigger})})


@dataclass(frozen=True)
class Run:
    """The files and records of a finished run."""

    source: str
    files: Files
    numbers: dict[tuple[int, int], int]
    """All numbers in the source, by partition and offset."""

    @classmethod
    def of_five(
        cls,
        spark: SparkSession,
        topics: Topics,
        flow: Callable[[str], ContinuousStream],
        path: Path,
        sink: str = "",
    ) -> Run:
        """Runs five times twenty numbers with a commit for each, and leaves twenty unread.

        Asynchronous tracking commits the last batch only when another one follows, so its topic
        `sink` shows what is done.
        """
        source = topics.make()
        folder, stream = folder_at(path), flow(source)
        is_async = stream.spec.trigger.mode is Mode.ASYNC
        with bare(spark, stream, path) as running:
            for sent in range(20, 120, 20):
                topics.send(source, range(sent - 20, sent))
                written = partial(_has_written if is_async else _has_committed, folder)
                running.wait("done", partial(written, topics, sink, sent))
        topics.send(source, range(100, 120))
        return cls(source, read(path), topics.placed(source))

    def beyond(self, offsets: Offsets | None) -> Counter[int]:
        """The numbers that a query reads from these offsets on; None: from the first."""
        of = (offsets or {}).get(self.source, {})
        return Counter(
            number for (partition, at), number in self.numbers.items() if at >= of.get(partition, 0)
        )

    @property
    def end(self) -> Offsets:
        ends: dict[int, int] = {}
        for partition, at in self.numbers:
            ends[partition] = max(ends.get(partition, 0), at + 1)
        return {self.source: ends}


def parquet_flow(
    topics: Topics, source: str | list[str], folder: Path, **spec: Any
) -> ContinuousStream:
    """A stream that copies all numbers of one or more topics to Parquet files."""
    sink = {"custom": {"format": "parquet", "options": {"path": str(folder)}}}
    sql = {"sql": "SELECT CAST(CAST(value AS STRING) AS INT) AS number FROM source"}
    sources = [source] if isinstance(source, str) else source
    read = kafka_source(topics.bootstrap, topics=sources, startingOffsets="earliest")
    return stream(read, sink, **{"trigger": MICRO_BATCH, "transform": sql, **spec})


def written(spark: SparkSession, folder: Path) -> Counter[int]:
    """The numbers in Parquet files, and how often each occurs."""
    read = spark.read.schema("number INT").parquet(str(folder))
    return Counter(row.number for row in read.collect())


def newest(files: Files) -> int:
    return max(int(path.removeprefix("commits/")) for path in names(files) if "commits/" in path)


def _has_committed(folder: CheckpointFolder, _: Topics, __: str, records: int) -> bool:
    return total(folder.progress.committed_offsets()) == records


def _has_written(_: CheckpointFolder, topics: Topics, sink: str, records: int) -> bool:
    return len(topics.received(sink)) == records
