"""An edited query on the checkpoint of the one before: what Spark could not continue is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.environment import LocalEnvironment
from penstock.driver.exceptions.chain import read_chain
from penstock.driver.exceptions.classify import classify
from penstock.driver.failures import DriverError
from penstock.driver.jvm import Jvm
from penstock.driver.spark import query
from penstock.driver.spark.session import MIN_STATE_PARTITIONS
from testkit.driver.bare_query import bare
from testkit.driver.in_process_driver import running
from testkit.kafka.topics import Topics, number_flow
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
    with bare(spark, flow(sql=sql), folder) as query_runs:
        progress = query_runs.folder.progress
        query_runs.wait("two batches", lambda: (progress.committed_epoch() or 0) >= 1)
    return query_runs.folder


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


FAILING = "SELECT value, raise_error('boom') AS n, count(*) FROM source GROUP BY value"
COUNTS_BY_TEN = """
SELECT CAST(digit AS STRING) AS key, CAST(count(*) AS STRING) AS value
FROM (SELECT CAST(CAST(value AS STRING) AS INT) % 10 AS digit FROM source) GROUP BY digit
"""


@pytest.mark.parametrize("sql", [COUNTS_BY_TEN, STATELESS], ids=["other keys", "no state"])
def test_a_query_that_has_committed_nothing_binds_no_other(
    sql: str, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Its first batch has left state, which Spark would hold another query to, also later on."""
    source, sink = topics.make(), topics.make(1)

    def flow(sql: str) -> ContinuousStream:
        more: dict[str, Any] = {"transform": {"sql": sql}, "outputMode": "update"}
        return number_flow(topics, source, sink, MICRO_BATCH, **more)

    topics.send(source, range(20))
    with running(flow(FAILING), jvm, tmp_path / "c") as driver:
        driver.wait("failed", lambda report: report.last_failure is not None)
    assert list((tmp_path / "c/state").rglob("*.changelog")), "the case that is tested"
    for sends in (1, 2):
        with running(flow(sql), jvm, tmp_path / "c") as driver:
            driver.wait_committed(20 * sends)
            assert driver.last.last_failure is None
        topics.send(source, range(20))
    if sql == STATELESS:
        assert topics.received(sink) == Counter([*range(20), *range(20)])
    else:
        assert topics.last_values(sink) == dict.fromkeys(range(10), 4)


def test_a_second_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Its offsets would be taken for those of the source at the next start."""
    python = {"function": "unions:both", "inline": UNION_IN_PYTHON}
    with pytest.raises(DriverError) as raised:
        query.plan(spark, flow(python=python).spec, LocalEnvironment(tmp_path))
    assert raised.value.failure.reason == "UnsupportedOperation"
    assert raised.value.failure.permanent
    assert "reads a second stream besides spec.source: rate" in raised.value.failure.message
