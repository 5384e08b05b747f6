"""The data source in connector/, in Spark and with a real broker, beside Spark's own."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from penstock.driver.exceptions.chain import read_chain
from penstock.driver.exceptions.classify import classify
from penstock.driver.spark import executors
from penstock.driver.spark.sources import KAFKA, PENSTOCK_KAFKA
from testkit.kafka.jars import CONNECTOR_JAR, connector_jars
from testkit.kafka.topics import Topics
from testkit.wait import wait_for

pytestmark = pytest.mark.proves("decisions/own-data-source.md")

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def reading(
    spark: SparkSession,
    topics: Topics,
    topic: str,
    **options: str,
) -> DataFrame:
    """A stream of the data source, as a plain application of Spark reads it."""
    given = {"subscribe": topic, "startingOffsets": "earliest", **options}
    reader = spark.readStream.format(PENSTOCK_KAFKA).options(**given)
    return reader.option("kafka.bootstrap.servers", topics.bootstrap).load()


def select(spark: SparkSession, frame: DataFrame, columns: str) -> DataFrame:
    frame.createOrReplaceTempView("records")
    return spark.sql(f"SELECT {columns} FROM records")


@contextmanager
def continuous(
    spark: SparkSession, frame: DataFrame, folder: Path, format: str, **options: str
) -> Iterator[Any]:
    """A continuous query; its first failure is in `exception()`."""
    writer = (
        frame.writeStream.format(format).options(**options).trigger(continuous="300 milliseconds")
    )
    it = writer.queryName("read").option("checkpointLocation", str(folder)).start()
    try:
        yield it
    finally:
        with executors.without_stop_warnings(spark.sparkContext):
            it.stop()
            executors.wait_until_idle(spark.sparkContext)


def failure_of(it: Any) -> Any:
    wait_for("the failure", lambda: not it.isActive)
    return classify(read_chain(it._jsq.exception().get()))


def sent(topics: Topics, sink: str, count: int) -> list[Message]:
    """The first records of a topic with one partition."""
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": "sent"})
    consumer.assign([TopicPartition(sink, 0, 0)])
    found: list[Message] = []

    def all_are_there() -> bool:
        found.extend(consumer.consume(10, 1))
        return len(found) >= count

    wait_for("the records", all_are_there)
    consumer.close()
    return found


def test_every_column_is_what_sparks_own_source_reads(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """Null keys, tombstones, headers with null, old and future timestamps, the broker's time."""
    by_broker = topics.make(1, config={"message.timestamp.type": "LogAppendTime"})
    topic = topics.make(1)
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    for number, when in enumerate((0, 1, 2, 1_700_000_000_123, 4_000_000_000_000)):
        headers = [("a", b"1"), ("a", None), ("é", b"")] if number % 2 else None
        key = None if number == 3 else b"k"
        value = None if number == 1 else f"v{number}".encode()
        producer.produce(topic, value, key, headers=headers, timestamp=when)
    producer.produce(by_broker, b"x", b"")
    assert producer.flush(30) == 0
    for name in (topic, by_broker):  # one at a time: a core of two has to be left for a look
        options = {"subscribe": name, "includeHeaders": "true"}
        frame = reading(spark, topics, name, **options)
        batch = spark.read.format(KAFKA).options(**options)
        expected = batch.option("kafka.bootstrap.servers", topics.bootstrap).load()
        assert frame.schema == expected.schema
        assert tuple(frame.columns) == COLUMNS
        rows = [str(row) for row in expected.collect()]
        with continuous(spark, frame, tmp_path / name, "memory"):
            wait_for("all rows", functools.partial(has_read, spark, rows))
    short = reading(spark, topics, topic)
    assert short.columns == list(COLUMNS[:7])


def has_read(spark: SparkSession, rows: list[str]) -> bool:
    return [str(row) for row in spark.table("read").collect()] == rows


WRITTEN: list[tuple[str, dict[str, str], list[tuple[bytes | None, bytes | None]]]] = [
    # Columns, options of the sink, and the records.
    ("'5' AS key, value", {}, [(b"5", b"0")]),
    ("CAST(NULL AS STRING) AS key, 'é' AS value", {}, [(None, "é".encode())]),
    ("value, 'no-such-topic' AS topic", {}, [(None, b"0")]),  # the option wins
    ("CAST(NULL AS BINARY) AS value", {}, [(None, None)]),
    ("value, CAST(NULL AS INT) AS partition, 'x' AS ignored", {}, [(None, b"0")]),
]


@pytest.mark.parametrize(("sql", "options", "records"), WRITTEN)
def test_what_is_written(
    sql: str,
    options: dict[str, str],
    records: list[tuple[bytes | None, bytes | None]],
    spark: SparkSession,
    topics: Topics,
    tmp_path: Path,
) -> None:
    source, sink = topics.make(1), topics.make(1)
    topics.send(source, range(1))
    frame = select(spark, reading(spark, topics, source), sql)
    to = {"topic": sink, "kafka.bootstrap.servers": topics.bootstrap, **options}
    with continuous(spark, frame, tmp_path, PENSTOCK_KAFKA, **to):
        assert [(it.key(), it.value()) for it in sent(topics, sink, len(records))] == records


def test_topic_partition_and_headers_of_a_record(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    source, sink = topics.make(1), topics.make(3)
    topics.send(source, range(1))
    sql = f"value, '{sink}' AS topic, 2 AS partition, array(struct('h' AS key, X'07' AS value), "
    headers = sql + "struct('n' AS key, CAST(NULL AS BINARY) AS value)) AS headers"
    frame = select(spark, reading(spark, topics, source), headers)
    to = {"kafka.bootstrap.servers": topics.bootstrap}
    with continuous(spark, frame, tmp_path, PENSTOCK_KAFKA, **to):
        topics.wait_received(sink, range(1))
    assert list(topics.placed(sink)) == [(2, 0)]
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": "headers"})
    consumer.assign([TopicPartition(sink, 2, 0)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.headers() == [("h", b"\x07"), ("n", None)]


@pytest.mark.parametrize("options", [{}, {"transactionalIdPrefix": "p"}], ids=["", "once"])
@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("value, CAST(NULL AS STRING) AS topic", "KafkaNullTopicInData"),
        ("value, 'no-such-topic' AS topic", "RecordNotWritable"),
        ("CAST(raise_error(value) AS STRING) AS value, 'x' AS topic", "UserRaisedException"),
    ],
)
def test_a_record_that_cannot_be_written(
    sql: str,
    reason: str,
    options: dict[str, str],
    spark: SparkSession,
    topics: Topics,
    tmp_path: Path,
) -> None:
    source = topics.make(1)
    topics.send(source, range(4111, 4112))
    frame = select(spark, reading(spark, topics, source), sql)
    to = {"kafka.bootstrap.servers": topics.bootstrap, "kafka.max.block.ms": "3000", **options}
    with continuous(spark, frame, tmp_path, PENSTOCK_KAFKA, **to) as it:
        failure = failure_of(it)
    assert (failure.reason, failure.maybe_poison) == (reason, True)
    assert "4111" not in failure.message


def test_columns_and_options_are_refused_as_by_spark(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """Before anything runs."""
    source = topics.make(1)
    for wrong in ({"kafka.auto.offset.reset": "latest"}, {"endingOffsets": "latest"}):
        with pytest.raises(Exception, match=r"not supported|not valid"):
            reading(spark, topics, source, **wrong)
    for wrong_position in ("t/0", "t@1", "t/x@1", "t/0@1 t/0@2"):
        with pytest.raises(Exception, match="leaveOut takes topic/partition@offset"):
            reading(spark, topics, source, leaveOut=wrong_position)
    to = {"topic": source, "kafka.bootstrap.servers": topics.bootstrap}
    for wrong_type in ("1 AS value", "'é' COLLATE UTF8_LCASE AS value"):
        frame = select(spark, reading(spark, topics, source), wrong_type)
        with (
            pytest.raises(Exception, match="value attribute unsupported type"),
            continuous(spark, frame, tmp_path, PENSTOCK_KAFKA, **to),
        ):
            pass


@pytest.mark.parametrize("start", [5, 50], ids=["deleted", "beyond the end"])
@pytest.mark.parametrize("accepts", [False, True], ids=["refused", "accepted"])
def test_an_offset_outside_of_the_log(
    start: int,
    accepts: bool,
    spark: SparkSession,
    topics: Topics,
    jvm_log: Path,
    tmp_path: Path,
) -> None:
    """Retention overtook the reader: as Spark's reader does. Or the topic was created again, or
    cut: then Spark's would skip what comes until the log has the offset.
    """
    source, sink = topics.make(1), topics.make(1)
    topics.send(source, range(30))
    topics.delete_before(source, {0: 10})
    options = {
        "startingOffsets": json.dumps({source: {"0": start}}),
        "failOnDataLoss": str(not accepts).lower(),
    }
    said = jvm_log.read_text().count("is outside of its log")
    frame = reading(spark, topics, source, **options)
    to = {"topic": sink, "kafka.bootstrap.servers": topics.bootstrap}
    with continuous(spark, frame, tmp_path, PENSTOCK_KAFKA, **to) as it:
        if not accepts or start == 50:
            wait_for("the failure", lambda: not it.isActive)
            chain = read_chain(it._jsq.exception().get())
            conditions = [each.condition or "" for each in chain]
            assert ("KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE" in conditions) is not accepts
            # The next start counts the lost records, and decides where to go on.
            assert classify(chain).reason == "OffsetOutOfRange"
            return
        wait_for("a warning", lambda: jvm_log.read_text().count("is outside of its log") > said)
        topics.wait_received(sink, range(10, 30))
        topics.send(source, range(30, 60))
        topics.wait_received(sink, range(10, 60))
    assert min(topics.received(sink)) == 10
    assert jvm_log.read_text().count("is outside of its log") == said + 1


def test_every_session_reads_in_the_threads_of_its_tasks(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """A plain application configures nothing, whichever session it reads with."""
    source, sink = topics.make(2), topics.make(1)
    to = {"topic": sink, "kafka.bootstrap.servers": topics.bootstrap}
    for turn, session in enumerate((spark.newSession(), spark)):
        topics.send(source, range(10 * turn, 10 * turn + 10))
        frame = reading(session, topics, source).where("offset >= 0").select("value")
        with continuous(session, frame, tmp_path, PENSTOCK_KAFKA, **to) as it:
            topics.wait_received(sink, range(10 * turn + 10))
            plan = it._jsq.streamingQuery().lastExecution().executedPlan().toString()
    assert "Scan penstock-kafka" in plan
    threads = spark._jvm.Thread.getAllStackTraces().keySet()  # type: ignore[union-attr]
    assert not [each.getName() for each in threads if "continuous-reader" in each.getName()]


def test_the_rows_of_a_task_are_one_iterator_through_its_epochs(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """With Spark's reader each epoch begins anew, and repeats the random numbers of the first."""
    source, sink = topics.make(1), topics.make(1)
    frame = reading(spark, topics, source).selectExpr(
        "CAST(floor(rand(7) * 1000000000) AS STRING) AS value"
    )
    to = {"topic": sink, "kafka.bootstrap.servers": topics.bootstrap}
    commits = tmp_path / "commits"

    def pass_row_and_epochs(rows: int) -> None:
        topics.send(source, range(1))
        wait_for("the row", lambda: sum(topics.received(sink).values()) == rows)
        later = len(list(commits.iterdir())) + 3
        wait_for("other epochs", lambda: len(list(commits.iterdir())) >= later)

    with continuous(spark, frame, tmp_path, PENSTOCK_KAFKA, **to):
        pass_row_and_epochs(1)
        pass_row_and_epochs(2)
    assert len(topics.received(sink)) == 2


def test_other_modes_are_sparks(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """A plain application may name the data source in each mode, and in a batch."""
    source, sink = topics.make(2), topics.make(2)  # the column partition is written too
    topics.send(source, range(20))
    frame = reading(spark, topics, source, **{"maxOffsetsPerTrigger": "7"})
    to = {"topic": sink, "kafka.bootstrap.servers": topics.bootstrap}
    writer = frame.writeStream.format(PENSTOCK_KAFKA).options(**to).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination(120)
    batch = spark.read.format(PENSTOCK_KAFKA).options(**to, subscribe=source).load()
    batch.write.format(PENSTOCK_KAFKA).options(**to).mode("append").save()
    assert topics.received(sink) == dict.fromkeys(range(20), 2)


@pytest.mark.parametrize(
    "delivery", [{}, {"transactionalIdPrefix": "kept"}], ids=["at least once", "exactly once"]
)
def test_the_tasks_of_a_batch_leave_their_clients_to_the_next(
    delivery: dict[str, str], spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """A client that is made has a number of its own, for all of a JVM."""
    source, sink = topics.make(2), topics.make(1)
    to = {"topic": sink, "kafka.bootstrap.servers": topics.bootstrap, **delivery}
    frame = reading(spark, topics, source).select("key", "value")
    writer = frame.writeStream.format(PENSTOCK_KAFKA).options(**to)
    before = _clients_of_tasks(spark)
    started = writer.option("checkpointLocation", str(tmp_path)).start()
    clients = []
    try:
        for number in range(4):
            topics.send(source, range(10 * number, 10 * number + 10))
            topics.wait_received(sink, range(10 * number + 10))
            clients.append(_clients_of_tasks(spark) - before)
    finally:
        started.stop()
    assert len(clients[0]) == (4 if delivery else 2)
    assert clients == [clients[0]] * 4
    assert set(topics.received(sink).values()) == {1}


def _clients_of_tasks(spark: SparkSession) -> set[str]:
    """The names of those that are open in the JVM."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    new_array, named = gateway.new_array, jvm.java.lang.Class.forName
    types, arguments = new_array(jvm.java.lang.Class, 2), new_array(jvm.java.lang.Object, 2)
    types[0], types[1] = named("javax.management.ObjectName"), named("javax.management.QueryExp")
    arguments[0] = jvm.javax.management.ObjectName("kafka.*:type=app-info,id=*")
    # The class of the server is not public.
    query = named("javax.management.MBeanServer").getMethod("queryNames", types)
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    found = query.invoke(server, arguments).toArray()
    ids = {str(it.getKeyProperty("id")) for it in found}
    return {it for it in ids if "-executor-" in it or "kept" in it}


# Methods of Spark's classes by class: a new version of Spark is checked against these first. Its
# connector promises none of them, and the other ones are the interfaces of data sources.
LEANS_ON = {
    "SparkContext$": {"SPARK_JOB_GROUP_ID"},
    "api.plugin.PluginContext": {"ask", "conf", "executorID", "send"},
    "deploy.security.HadoopDelegationTokenManager": {"isServiceEnabled"},
    "executor.InputMetrics": {"incRecordsRead", "recordsRead"},
    "executor.OutputMetrics": {"recordsWritten"},
    "executor.ShuffleReadMetrics": {"recordsRead"},
    "executor.ShuffleWriteMetrics": {"recordsWritten"},
    "executor.TaskMetrics": {
        "inputMetrics", "outputMetrics", "shuffleReadMetrics", "shuffleWriteMetrics",
    },
    "internal.config.ConfigBuilder": {"key"},
    "internal.config.TypedConfigBuilder": {"parent"},
    "kafka010.KafkaConfigUpdater": {"<init>", "build", "setAuthenticationConfigIfNeeded"},
    "kafka010.KafkaTokenUtil": {"findMatchingTokenClusterConfig", "needTokenUpdate"},
    "rpc.RpcEndpointRef": {"ask", "askSync", "send"},
    "sql.catalyst.expressions.GenericInternalRow": {"<init>"},
    "sql.catalyst.expressions.SpecificInternalRow": {"<init>", "setInt", "setLong", "update"},
    "sql.catalyst.expressions.Expression": {"children", "deterministic", "sql"},
    "sql.catalyst.expressions.PlanExpression": {"plan"},
    "sql.catalyst.expressions.SpecializedGetters": {
        "getArray", "getBinary", "getBoolean", "getByte", "getDecimal", "getDouble", "getFloat",
        "getInt", "getLong", "getShort", "getUTF8String", "isNullAt",
    },
    "sql.catalyst.expressions.XXH64": {"hashUnsafeBytes"},
    "sql.catalyst.planning.PhysicalOperation": {"unapply"},
    "sql.catalyst.plans.logical.Aggregate": {"groupingExpressions"},
    "sql.catalyst.plans.logical.CTERelationDef": {"child", "id"},
    "sql.catalyst.plans.logical.CTERelationRef": {"cteId"},
    "sql.catalyst.plans.logical.LogicalPlan": {
        "children", "collectLeaves", "expressions", "isStreaming",
    },
    "sql.catalyst.plans.logical.UnaryNode": {"child"},
    "sql.catalyst.plans.logical.WithCTE": {"cteDefs", "plan"},
    "sql.catalyst.plans.physical.UnknownPartitioning": {"<init>"},
    "sql.catalyst.types.DataTypeUtils": {"toAttributes"},
    "sql.catalyst.util.ArrayData": {"isNullAt", "numElements"},
    "sql.catalyst.util.DateTimeUtils": {"fromJavaTimestamp"},
    "sql.catalyst.util.GenericArrayData": {"<init>"},
    "sql.catalyst.util.CaseInsensitiveMap": {"originalMap"},
    "sql.catalyst.util.CaseInsensitiveMap$": {"apply"},
    "sql.errors.QueryCompilationErrors": {"userSpecifiedSchemaUnsupportedError"},
    "sql.errors.QueryExecutionErrors": {
        "failedToGenerateEpochMarkerError", "microBatchUnsupportedByDataSourceError",
        "streamedOperatorUnsupportedByDataSourceError",
    },
    "sql.execution.datasources.DataSource$": {"lookupDataSource"},
    "sql.execution.datasources.v2.DataSourceV2Utils": {"extractSessionConfigs"},
    "sql.execution.datasources.v2.python.PythonDataSourceV2": {"setShortName"},
    "sql.sources.StreamSinkProvider": {"createSink"},
    "sql.sources.StreamSourceProvider": {"createSource", "sourceSchema"},
    "sql.execution.QueryExecution": {"executedPlan"},
    "sql.execution.RDDScanExec": {"<init>"},
    "sql.execution.SQLExecution": {"EXECUTION_ID_KEY", "getQueryExecution"},
    "sql.execution.SparkStrategy": {"<init>"},
    "sql.execution.datasources.v2.DataSourceV2Strategy$": {"withProjectAndFilter"},
    "sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation": {
        "output", "startOffset", "stream",
    },
    "sql.execution.datasources.v2.WriteToDataSourceV2": {"batchWrite", "query"},
    "sql.execution.streaming.checkpointing.CheckpointFileManager": {
        "createAtomic", "createCheckpointDirectory", "delete", "exists", "isLocal", "list",
        "mkdirs", "open",
    },
    "sql.execution.streaming.checkpointing.CheckpointFileManager$": {"create"},
    "sql.execution.streaming.checkpointing.CheckpointFileManager$CancellableFSDataOutputStream": {
        "<init>",
    },
    "sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager": {
        "<init>", "createAtomic", "mkdirs",
    },
    "sql.execution.streaming.continuous.CommitPartitionEpoch": {"<init>"},
    "sql.execution.streaming.continuous.ContinuousExecution": {
        "EPOCH_COORDINATOR_ID_KEY", "START_EPOCH_KEY",
    },
    "sql.execution.streaming.continuous.ContinuousTaskRetryException": {"<init>"},
    "sql.execution.streaming.continuous.EpochCoordinatorRef": {"get"},
    "sql.execution.streaming.continuous.EpochTracker": {
        "getCurrentEpoch", "incrementCurrentEpoch",
    },
    "sql.execution.streaming.continuous.ReportPartitionOffset": {"<init>"},
    "sql.execution.streaming.continuous.SetReaderPartitions": {"<init>"},
    "sql.execution.streaming.continuous.WriteToContinuousDataSource": {"query", "write"},
    "sql.execution.streaming.runtime.RealTimeModeAllowlist": {"checkAllowedPhysicalOperator"},
    "sql.execution.streaming.sources.MicroBatchWrite": {"writeSupport"},
    "sql.internal.SQLConf": {
        "STREAMING_CHECKPOINT_FILE_MANAGER_CLASS", "continuousStreamingExecutorPollIntervalMs",
        "get",
    },
    "sql.kafka010.KafkaBatchInputPartition": {
        "executorKafkaParams", "failOnDataLoss", "includeHeaders", "offsetRange", "pollTimeoutMs",
        "preferredLocations",
    },
    "sql.kafka010.KafkaContinuousInputPartition": {
        "failOnDataLoss", "includeHeaders", "kafkaParams", "pollTimeoutMs", "startOffset",
        "topicPartition",
    },
    "sql.kafka010.KafkaDataWriter": {"<init>", "commit", "write"},
    "sql.kafka010.KafkaExceptions": {"couldNotReadOffsetRange", "kafkaMalformedRecordTimestamp"},
    "sql.kafka010.KafkaMicroBatchStream": {
        "commit", "deserializeOffset", "getDefaultReadLimit", "initialOffset", "latestOffset",
        "mergeOffsets", "metrics", "planInputPartitions", "prepareForRealTimeMode",
        "prepareForTriggerAvailableNow", "reportLatestOffset", "stop", "toString",
    },
    "sql.kafka010.KafkaOffsetRange": {"fromOffset", "topicPartition", "untilOffset"},
    "sql.kafka010.KafkaRecordToRowConverter": {"kafkaSchema"},
    "sql.kafka010.KafkaRowWriter": {"<init>"},
    "sql.kafka010.KafkaSourceOffset": {"<init>", "partitionToOffsets"},
    "sql.kafka010.KafkaSourcePartitionOffset": {"<init>"},
    "sql.kafka010.KafkaSourceProvider": {"<init>", "kafkaParamsForDriver"},
    "sql.kafka010.KafkaSourceProvider$KafkaScan": {
        "<init>", "toContinuousStream", "toMicroBatchStream",
    },
    "sql.kafka010.KafkaSourceProvider$KafkaTable": {"<init>", "newWriteBuilder"},
    "sql.kafka010.KafkaStreamWriterFactory": {
        "<init>", "createWriter", "producerParams", "schema", "topic",
    },
    "sql.kafka010.KafkaStreamingWrite": {"<init>", "commit", "createStreamingWriterFactory"},
    "sql.kafka010.KafkaWrite": {"<init>", "producerParams", "schema", "toBatch", "topic"},
    "sql.kafka010.producer.InternalKafkaProducerPool$": {"acquire", "release"},
    "storage.BlockManager": {"blockManagerId"},
    "storage.BlockManagerId": {"executorId", "host"},
}  # fmt: skip
_OWN = "dev.penstock.spark."
_INTERFACES = ("sql.connector.", "sql.internal.connector.", "sql.types.")
_PUBLIC = {"SparkConf", "SparkContext", "SparkEnv", "TaskContext", "rdd.RDD",
           "sql.ExperimentalMethods", "sql.catalyst.InternalRow", "sql.classic.SparkSession",
           "sql.util.CaseInsensitiveStringMap", "unsafe.types.UTF8String"}  # fmt: skip
_CALL = re.compile(r"// (?:Interface)?Method ([\w/$]+)\.\"?([\w$<>]+)\"?:")


def test_the_methods_of_spark_that_it_leans_on(tmp_path: Path) -> None:
    """Compiled against this version of Spark, so each of them is there."""
    jar = connector_jars() / CONNECTOR_JAR
    with zipfile.ZipFile(jar) as file:
        names = [name for name in file.namelist() if name.endswith(".class")]
    classes = [name.removesuffix(".class").replace("/", ".") for name in names]
    assert all(name.startswith(_OWN) for name in classes)
    command = ["javap", "-p", "-c", "-cp", str(jar), *classes]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used: dict[str, set[str]] = {}
    for owner, method in _CALL.findall(code):
        name = owner.replace("/", ".").removeprefix("org.apache.spark.")
        of_spark = owner.startswith("org/apache/spark/")
        if of_spark and not name.startswith(_INTERFACES) and name not in _PUBLIC:
            used.setdefault(name, set()).add(method)
    assert used == LEANS_ON
