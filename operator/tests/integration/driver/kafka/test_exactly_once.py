"""sink.kafka.delivery ExactlyOnce with a real broker: what it refuses, and what follows a loss."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.jvm import Jvm
from penstock.driver.spark.sources import PENSTOCK_KAFKA
from testkit.driver.checkpoints import folder_at, undo_commit
from testkit.driver.in_process_driver import impatient, running
from testkit.kafka.broker import Broker, OtherCluster, running_broker
from testkit.kafka.topics import Topics
from testkit.streams.streams import CONTINUOUS, REAL_TIME, kafka_sink, kafka_to_kafka, stream
from testkit.wait import wait_for

PREFIX = "transactionalIdPrefix"


BATCHES: dict[str, Any] = {"trigger": {"microBatch": {"interval": "100ms"}}}
_TWICE = "SELECT key, value FROM source UNION ALL SELECT key, value FROM source"


def refuse(flow: ContinuousStream, problem: str, jvm: Jvm, folder: Path) -> None:
    """A driver refuses the stream, for this problem."""
    with running(flow, jvm, folder) as driver:
        failure = driver.wait_failure("ExactlyOnceImpossible").last_failure
    assert failure is not None
    assert failure.permanent
    assert problem in failure.message


@pytest.mark.proves("guarantees.md#exactly-once")
@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT /*+ REPARTITION(3) */ key, value FROM source", "has a Repartition"),
        (_TWICE, "reads the source 2 times"),
    ],
)
def test_a_batch_that_leaves_no_record_with_its_task_is_refused(
    sql: str, problem: str, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """By its plan, before it starts."""
    source, sink = topics.make(), topics.make()
    topics.send(source, range(10))
    flow = exactly_once(
        topics, source, sink, transform={"sql": sql}, outputMode="update", **BATCHES
    )
    refuse(flow, problem, jvm, tmp_path)
    assert not topics.received(sink)


# Four rows in four partitions, which Spark takes for too large to broadcast.
_TABLE = """(SELECT CAST(id / 1000000 AS INT) AS n FROM range(0, 4000000, 1, 4)
WHERE id % 1000000 = 0)"""
_NUMBER = "CAST(CAST(value AS STRING) AS INT)"


@pytest.mark.proves("guarantees.md#exactly-once")
@pytest.mark.parametrize(
    ("hint", "join", "problem"),
    [
        ("", f"CROSS JOIN {_TABLE} t", "more tasks write than"),
        (
            "/*+ SHUFFLE_HASH(t) */",
            f"JOIN {_TABLE} t ON {_NUMBER} % 4 = t.n",
            "a task has to write what",
        ),
    ],
)
def test_a_join_whose_tasks_share_a_partition_is_refused(
    hint: str, join: str, problem: str, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark chooses the join's plan. Of two tasks with one transactional id one would skip all."""
    source, sink = topics.make(1), topics.make(1)
    topics.send(source, range(10))
    sql = f"SELECT {hint} key, CAST({_NUMBER} * 10 + t.n AS STRING) AS value FROM source {join}"
    flow = exactly_once(topics, source, sink, transform={"sql": sql}, **BATCHES)
    with running(flow, jvm, tmp_path) as driver:
        failure = driver.wait_failure("ExactlyOnceImpossible").last_failure
    assert failure is not None
    assert problem in failure.message
    assert not topics.received(sink)


@pytest.mark.proves("guarantees.md#exactly-once")
@pytest.mark.parametrize("trigger", [BATCHES["trigger"], REAL_TIME], ids=["batches", "real-time"])
def test_a_join_with_a_small_table(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink = topics.make(), topics.make()
    topics.send(source, range(10))
    sql = f"""SELECT key, CAST({_NUMBER} * 10 + t.n AS STRING) AS value
    FROM source JOIN (VALUES (0, 0), (0, 1), (0, 2)) AS t(zero, n) ON length(value) * 0 = t.zero"""
    flow = exactly_once(topics, source, sink, transform={"sql": sql}, trigger=trigger)
    numbers = [number * 10 + n for number in range(10) for n in range(3)]
    with running(flow, jvm, tmp_path):
        received = topics.wait_received(sink, numbers)
    assert set(received.values()) == {1}


@pytest.mark.proves("guarantees.md#exactly-once")
def test_real_time_mode_is_still_refused_what_it_does_not_run(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark's own check is turned off, because it knows no other sink than Spark's."""
    source, sink = topics.make(1), topics.make(1)
    topics.send(source, range(10))
    sql = "SELECT key, value FROM source CROSS JOIN (VALUES (0), (1)) AS t(n)"
    flow = exactly_once(topics, source, sink, transform={"sql": sql}, trigger=REAL_TIME)
    with running(flow, jvm, tmp_path) as driver:
        failure = driver.wait_failure("UnsupportedOperation").last_failure
    assert failure is not None
    assert failure.permanent
    assert "BroadcastNestedLoopJoinExec" in failure.message
    assert not topics.received(sink)


@pytest.mark.proves("guarantees.md#exactly-once")
def test_a_batch_that_takes_longer_than_its_transaction_may_be_made_smaller(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """A planned batch is planned anew: else it would run again for ever, as it was."""
    source, sink = topics.make(1), topics.make(1)
    topics.send(source, range(40))
    sql = """SELECT key, CASE WHEN
    java_method('java.lang.Thread', 'sleep', CAST(500 + length(value) * 0 AS BIGINT)) = 'x'
    THEN NULL ELSE value END AS value FROM source"""

    def flow(**of_source: Any) -> ContinuousStream:
        spec = kafka_to_kafka(
            topics.bootstrap, source, sink, of_source=of_source, transform={"sql": sql}, **BATCHES
        )
        brief = {"kafka.transaction.timeout.ms": "1000"}
        spec["sink"] = kafka_sink(
            topics.bootstrap, topic=sink, delivery="ExactlyOnce", options=brief
        )
        return stream(**spec)

    with running(flow(), jvm, tmp_path, impatient(flow())) as driver:
        driver.wait_failure("ProducerFenced")
    with running(flow(options={"maxOffsetsPerTrigger": "1"}), jvm, tmp_path):
        topics.wait_received(sink, range(10))
    assert max(topics.received(sink).values()) == 1


def exactly_once(
    topics: Topics, source: str, sink: str, to: str = "", **more: Any
) -> ContinuousStream:
    """A stream that copies one topic to another, by default in one cluster."""
    spec = kafka_to_kafka(topics.bootstrap, source, sink, **{"trigger": CONTINUOUS, **more})
    spec["sink"] = kafka_sink(to or topics.bootstrap, topic=sink, delivery="ExactlyOnce")
    return stream(**spec)


@pytest.mark.proves("guarantees.md#exactly-once")
def test_another_cluster_and_a_log_of_transactions_that_takes_none(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Both before there is a session; the log is waited for."""
    with running_broker(OtherCluster) as broker:
        others = Topics(broker.bootstrap)
        source, sink = others.make(), others.make()
        apart = exactly_once(topics, topics.make(), sink, to=broker.bootstrap)
        with running(apart, jvm, tmp_path / "apart") as driver:
            report = driver.wait_failure("ExactlyOnceImpossible")
            assert report.last_failure is not None
            assert "one cluster" in report.last_failure.message
        flow = exactly_once(others, source, sink)
        others.send(source, range(10))
        with running(flow, jvm, tmp_path / "log") as driver:
            others.wait_received(sink, range(10))
        others.configure("__transaction_state", "min.insync.replicas", "2")
        with running(flow, jvm, tmp_path / "log", impatient(flow)) as driver:
            report = driver.wait_failure("ExactlyOnceImpossible")
            assert report.last_failure is not None
            assert "min.insync.replicas=1" in report.last_failure.message
            others.configure("__transaction_state", "min.insync.replicas", "1")
            others.send(source, range(10, 20))
            others.wait_received(sink, range(20))
            driver.wait_ready()
        assert max(others.received(sink).values()) == 1


class ImpatientBroker(Broker):
    """Whose administrator lets no transaction be open for longer than a minute."""

    def _settings(self) -> str:
        return f"{super()._settings()}transaction.max.timeout.ms=60000\n"


@pytest.mark.proves("guarantees.md#exactly-once")
def test_the_brokers_say_how_long_a_transaction_may_be(jvm: Jvm, tmp_path: Path) -> None:
    """Their maximum is the default, and more is refused before anything is written."""
    with running_broker(ImpatientBroker) as broker:
        topics = Topics(broker.bootstrap)
        source, sink = topics.make(), topics.make()
        topics.send(source, range(10))
        flow = exactly_once(topics, source, sink, **BATCHES)
        spec = flow.model_dump(by_alias=True, exclude_unset=True)["spec"]
        spec["sink"]["kafka"]["options"] = {"kafka.transaction.timeout.ms": "60001"}
        with running(stream(**spec), jvm, tmp_path) as driver:
            failure = driver.wait_failure("ExactlyOnceImpossible").last_failure
            assert failure is not None
            assert failure.permanent
            assert "the brokers allow 60000" in failure.message
        assert not topics.received(sink)
        with running(flow, jvm, tmp_path) as driver:
            topics.wait_received(sink, range(10))
            driver.wait_ready()
            assert driver.last.last_failure is None


@pytest.mark.proves("guarantees.md#exactly-once")
@pytest.mark.parametrize("partitions", [16, pytest.param(100, marks=pytest.mark.full)])
@pytest.mark.parametrize("trigger", [CONTINUOUS, REAL_TIME], ids=["continuous", "real-time"])
def test_many_partitions_of_one_broker(
    trigger: dict[str, Any], partitions: int, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """With more than 13 it never started: Kafka's client paused after each id that it fenced."""
    source, sink = topics.make(partitions), topics.make(1)
    topics.send(source, range(10 * partitions))
    flow = exactly_once(topics, source, sink, trigger=trigger)
    with running(flow, jvm, tmp_path) as driver:
        topics.wait_received(sink, range(10 * partitions))
        driver.wait_ready()
        assert driver.last.last_failure is None
    with running(flow, jvm, tmp_path) as driver:
        topics.send(source, range(10 * partitions, 11 * partitions))
        received = topics.wait_received(sink, range(11 * partitions))
        assert driver.last.last_failure is None
    assert max(received.values()) == 1


@pytest.mark.proves("failures.md#an-edit-adds-or-removes-a-topic-or-a-partition")
def test_a_topic_that_is_named_again_is_read_from_its_first_record(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """As at least once, also if transactions have written of it before."""
    source, other, sink = topics.make(1), topics.make(1), topics.make(1)
    topics.send(source, range(10))
    topics.send(other, range(10, 20))

    def flow(*named: str) -> ContinuousStream:
        of_source = {"topics": list(named), "startingOffsets": "earliest"}
        return exactly_once(topics, source, sink, of_source=of_source)

    with running(flow(source, other), jvm, tmp_path) as driver:
        topics.wait_received(sink, range(20))
        driver.wait_committed(20)
    topics.send(source, range(20, 30))
    with running(flow(source), jvm, tmp_path) as driver:
        topics.wait_received(sink, range(30))
        driver.wait_committed(20)
    with running(flow(source, other), jvm, tmp_path):
        topics.send(other, range(30, 40))
        wait_for(
            "the topic again",
            lambda: all(topics.received(sink)[number] == 2 for number in range(10, 20)),
        )
        received = topics.wait_received(sink, range(40))
    assert all(received[number] == 1 for number in (*range(10), *range(20, 40)))


@pytest.mark.proves("guarantees.md#exactly-once")
def test_a_topic_that_was_created_again_is_read_from_its_first_record(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """The offsets of earlier transactions are not those of the new topic."""
    source, sink = topics.make(), topics.make()
    flow = exactly_once(topics, source, sink, of_source={"failOnDataLoss": False})
    folder = folder_at(tmp_path)
    topics.send(source, range(100))
    with running(flow, jvm, tmp_path) as driver:
        topics.wait_received(sink, range(100))
        driver.wait_committed(100)
        driver.wait("no lag", lambda report: report.lag == 0)
    before = folder.transaction_names("payments", "numbers")
    topics.delete(source)
    topics.make(2, source)
    topics.send(source, range(100, 120))
    with running(flow, jvm, tmp_path) as driver:
        topics.wait_received(sink, range(120))
    after = folder.transaction_names("payments", "numbers")
    assert (after.id_prefix, after.group) == (before.id_prefix, f"{after.id_prefix}/2")
    assert max(topics.received(sink).values()) == 1


@pytest.mark.proves("guarantees.md#exactly-once")
def test_a_plain_application_is_refused_where_it_cannot_hold(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """A batch, a source whose offsets are not Kafka's, a task that writes what others have read,
    two tasks for one partition, and two clusters."""
    source, sink = topics.make(1), topics.make(1)
    topics.send(source, range(10))
    to = {"topic": sink, "kafka.bootstrap.servers": topics.bootstrap, PREFIX: "p"}
    of = {"subscribe": source, "kafka.bootstrap.servers": topics.bootstrap}
    batch = spark.read.format(PENSTOCK_KAFKA).options(**of).load()
    with pytest.raises(Exception, match="a batch cannot do that"):
        batch.write.format(PENSTOCK_KAFKA).options(**to).mode("append").save()
    records = spark.readStream.format(PENSTOCK_KAFKA).options(**of)
    frame = records.option("startingOffsets", "earliest").load()
    divided = records.options(startingOffsets="earliest", maxRecordsPerPartition=3).load()
    rate = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    once: dict[str, Any] = {"availableNow": True}
    for name, it, trigger, refusal in (
        ("rate", rate, {"continuous": "300 milliseconds"}, "has to write what it has read"),
        ("rate-batch", rate, {"processingTime": "0 seconds"}, "has to write what it has read"),
        ("shuffled", frame.repartition(3), once, "has to write what it has read itself, and"),
        ("twice", frame.union(frame), once, "has to read one stream, once"),
        ("divided", divided, once, "several tasks would read one partition"),
    ):
        writer = it.select("value").writeStream.format(PENSTOCK_KAFKA).options(**to)
        writer = writer.trigger(**trigger).option("checkpointLocation", str(tmp_path / name))
        with pytest.raises(Exception, match=refusal):
            writer.start().awaitTermination(120)
    with running_broker(OtherCluster) as broker:
        elsewhere = Topics(broker.bootstrap).make(1, sink)
        there = {**to, "kafka.bootstrap.servers": broker.bootstrap}
        writer = frame.writeStream.format(PENSTOCK_KAFKA).options(**there)
        writer = writer.trigger(continuous="300 milliseconds")
        started = writer.option("checkpointLocation", str(tmp_path / elsewhere)).start()
        with pytest.raises(Exception, match="another Kafka cluster"):
            started.awaitTermination(120)
    assert not topics.received(sink)


_STATE: dict[str, Any] = {"outputMode": "update", **BATCHES}
_BY_VALUE = "SELECT CAST(value AS STRING) AS key, {} AS value FROM source GROUP BY value"
_OWN = """
from pyspark.sql.functions import udf


def transform(source):
    same = udf(lambda value: value, "binary")
    return source.select(same("value").alias("value")).distinct()
"""
_OWN_CODE: dict[str, Any] = {"python": {"function": "own:transform", "inline": _OWN}}


@pytest.mark.proves("guarantees.md#exactly-once-with-state")
@pytest.mark.parametrize(
    ("transform", "trigger", "problem"),
    [
        (_BY_VALUE.format("CAST(rand() AS STRING)"), {}, "rand"),
        (_BY_VALUE.format("uuid()"), {}, "uuid()"),
        (_BY_VALUE.format("CAST(first(offset) AS STRING)"), {}, "first(source.offset)"),
        (_BY_VALUE.format("array_join(collect_list(topic), ' ')"), {}, "collect_list"),
        (_BY_VALUE.format("CAST(now() AS STRING)"), {}, "current_timestamp()"),
        ("SELECT /*+ REPARTITION(3) */ DISTINCT value FROM source", {}, "Repartition above it"),
        (
            "SELECT DISTINCT value FROM (SELECT /*+ REPARTITION(3) */ value FROM source)",
            {},
            "a repartition",
        ),
        (
            "SELECT value FROM source UNION ALL SELECT DISTINCT value FROM source",
            {},
            "Union above it",
        ),
        (_BY_VALUE.format("'a'") + " ORDER BY key", {"outputMode": "complete"}, "Sort above it"),
        (_OWN_CODE, {}, "transform.deterministic"),
        (_BY_VALUE.format("'a'"), {"trigger": REAL_TIME}, "only trigger.microBatch"),
    ],
)
def test_a_query_with_state_whose_batches_may_differ_is_refused(
    transform: str | dict[str, Any],
    trigger: dict[str, Any],
    problem: str,
    topics: Topics,
    jvm: Jvm,
    tmp_path: Path,
) -> None:
    source, sink = topics.make(), topics.make()
    topics.send(source, range(10))
    text = {"sql": transform} if isinstance(transform, str) else transform
    flow = exactly_once(topics, source, sink, transform=text, **{**_STATE, **trigger})
    refuse(flow, problem, jvm, tmp_path)
    assert not topics.received(sink)


_CLOCK = """
import time
from pyspark.sql.functions import udf


def transform(source):
    now = udf(lambda value: str(time.time_ns()), "string")
    return source.groupBy("value").count().select("value", now("value").alias("key"))
"""
_DIFFERS: dict[str, Any] = {
    "python": {"function": "own:transform", "inline": _CLOCK}, "deterministic": True,
}  # fmt: skip
_DISTINCT = "WITH once AS (SELECT DISTINCT value FROM source) SELECT value FROM once"
_JOINED = """SELECT CAST(a.value AS STRING) AS value FROM source a JOIN source b
ON a.value = b.value"""


@pytest.mark.proves("guarantees.md#exactly-once-with-state")
@pytest.mark.parametrize(
    ("transform", "more", "says"),
    [
        pytest.param({"sql": _DISTINCT}, {}, False, id="distinct"),
        pytest.param({"sql": _JOINED}, {"outputMode": "append"}, False, id="join of streams"),
        pytest.param({**_OWN_CODE, "deterministic": True}, {}, False, id="own function"),
        pytest.param(_DIFFERS, {}, True, id="own function that differs"),
    ],
)
def test_a_batch_with_state_that_runs_again_is_not_written_again(
    transform: dict[str, Any],
    more: dict[str, Any],
    says: bool,
    topics: Topics,
    jvm: Jvm,
    tmp_path: Path,
) -> None:
    """Nor where it makes other rows, which is said."""
    source, sink = topics.make(), topics.make()
    flow = exactly_once(topics, source, sink, transform=transform, **{**_STATE, **more})
    topics.send(source, range(30))
    with running(flow, jvm, tmp_path / "checkpoint") as driver:
        topics.wait_received(sink, range(30))
        driver.wait_committed(30)
    undo_commit(tmp_path / "checkpoint")
    with running(flow, jvm, tmp_path / "checkpoint") as driver:
        driver.wait_committed(30)
        topics.send(source, range(30, 60))
        received = topics.wait_received(sink, range(60))
        driver.wait_committed(60)
        if says:
            driver.wait_failure("ReplayDiffers")
        else:
            assert driver.last.last_failure is None
    assert set(received.values()) == {1}


@pytest.mark.proves("guarantees.md#exactly-once-with-state")
def test_an_older_copy_of_a_checkpoint_with_state_is_refused(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """It would plan numbers of batches anew, and the sink has those."""
    source, sink = topics.make(), topics.make()
    flow = exactly_once(
        topics, source, sink, transform={"sql": "SELECT DISTINCT value FROM source"}, **_STATE
    )
    topics.send(source, range(10))
    with running(flow, jvm, tmp_path / "checkpoint") as driver:
        driver.wait_committed(10)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    topics.send(source, range(10, 20))
    with running(flow, jvm, tmp_path / "checkpoint") as driver:
        driver.wait_committed(20)
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "copy").rename(tmp_path / "checkpoint")
    with running(flow, jvm, tmp_path / "checkpoint") as driver:
        failure = driver.wait_failure("ExactlyOnceImpossible").last_failure
    assert failure is not None
    assert "an older copy" in failure.message
    assert topics.received(sink) == dict.fromkeys(range(20), 1)
