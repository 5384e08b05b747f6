"""An edited query on the checkpoint of the one before: what Spark could not continue is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.environment import LocalEnvironment
from penstock.driver.exceptions.chain import read_chain
from penstock.driver.exceptions.classify import classify
from penstock.driver.failures import DriverError
from penstock.driver.spark import query, session
from penstock.driver.spark.session import MIN_STATE_PARTITIONS
from testkit.driver.bare_query import bare
from testkit.streams.streams import MICRO_BATCH, RATE, stream
from testkit.wait import wait_for

STATELESS = "SELECT value FROM source"
STATEFUL = "SELECT value % 3 AS k, count(*) AS n FROM source GROUP BY value % 3"
UNION = "SELECT value FROM source WHERE value > 3 UNION ALL SELECT value FROM source"
# One reference to the source, which is used twice.
TWICE = "WITH w AS (SELECT value FROM source) SELECT * FROM w UNION ALL SELECT * FROM w"
JOIN = "SELECT a.value FROM source a JOIN source b ON a.value = b.value"
# Reads a second stream, with a source of its own.
UNION_IN_PYTHON = """
def both(source):
    other = source.sparkSession.readStream.format("rate").option("rowsPerSecond", 7).load()
    return source.select("value").union(other.select("value"))
"""


def flow(**transform: Any) -> Any:
    """A stream of numbers to nowhere."""
    return stream(
        RATE,
        {"noop": {}},
        trigger=MICRO_BATCH,
        outputMode="update",
        transform=transform,
    )


def ran(spark: SparkSession, sql: str, folder: Path) -> CheckpointFolder:
    """The checkpoint of a query that has committed two batches."""
    with bare(spark, flow(sql=sql), folder) as running:
        progress = running.folder.progress
        running.wait("two batches", lambda: (progress.committed_epoch() or 0) >= 1)
    return running.folder


@pytest.mark.proves(14, "failures.md#an-edit-makes-a-query-that-spark-cannot-continue")
@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (STATELESS, STATEFUL, "CheckpointHoldsNoState"),
        (STATELESS, JOIN, "CheckpointOfOtherReads"),
        (STATELESS, UNION, "CheckpointOfOtherReads"),
        (UNION, STATELESS, "CheckpointOfOtherReads"),
        (STATELESS, f"{STATELESS} WHERE value > 1", None),
        (UNION, UNION, None),
        (TWICE, TWICE, None),
        (STATEFUL, STATEFUL, None),
        (STATEFUL, STATELESS, "CheckpointHoldsState"),
    ],
)
def test_what_a_checkpoint_can_continue(
    spark: SparkSession, tmp_path: Path, before: str, after: str, reason: str | None
) -> None:
    """Refused before it starts, exactly where Spark fails after it has started."""
    folder, edited = ran(spark, before, tmp_path), flow(sql=after)
    environment = LocalEnvironment(tmp_path)
    frame = query.plan(spark, edited.spec, environment)
    query.check(frame, edited.spec)
    contents = folder.contents()
    assert contents is not None
    assert contents.partitions == MIN_STATE_PARTITIONS
    if reason is None:
        query.check_continues(frame, contents)
    else:
        with pytest.raises(DriverError) as raised:
            query.check_continues(frame, contents)
        assert raised.value.failure.reason == reason
        assert raised.value.failure.permanent
        assert "startFrom.generation" in raised.value.failure.message
    running = query.start(frame, edited.spec, environment, "numbers", folder.files.location)
    epoch = folder.progress.committed_epoch() or 0
    wait_for(
        "a commit or a failure",
        lambda: not running.isActive or (folder.progress.committed_epoch() or 0) > epoch,
    )
    failed, exception = not running.isActive, running._jsq.exception()
    running.stop()
    assert failed is (reason is not None)
    if reason == "CheckpointHoldsNoState":  # should an operator be missing in the list
        failure = classify(read_chain(exception.get()))
        assert (failure.reason, failure.permanent) == (reason, True)


def test_edits_leave_no_listener_behind(spark: SparkSession, tmp_path: Path) -> None:
    """Each would hear every event of the application, for as long as it runs."""

    def listeners() -> int:
        jvm = spark._jvm
        assert jvm is not None
        package = "org.apache.spark.sql.execution.streaming.runtime"
        kind = jvm.java.lang.Class.forName(f"{package}.StreamingQueryListenerBus")
        bus = spark.sparkContext._jsc.sc().listenerBus()
        return int(bus.findListenersByClass(jvm.scala.reflect.ClassTag.apply(kind)).size())

    before, of_edit = listeners(), spark.newSession()
    for n in range(3):
        ran(of_edit, STATELESS, tmp_path / str(n))
        of_edit = session.child(of_edit)
    assert listeners() == before


@pytest.mark.proves("failures.md#an-edit-makes-a-query-that-spark-cannot-continue")
def test_a_second_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Its offsets would be taken for those of the source at the next start."""
    python = {"function": "unions:both", "inline": UNION_IN_PYTHON}
    with pytest.raises(DriverError) as raised:
        query.plan(spark, flow(python=python).spec, LocalEnvironment(tmp_path))
    assert raised.value.failure.reason == "UnsupportedOperation"
    assert raised.value.failure.permanent
    assert "reads a second stream besides spec.source: rate" in raised.value.failure.message
