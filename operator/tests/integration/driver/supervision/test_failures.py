"""What real exceptions of Spark, of a user's Python and of Kafka's clients are taken for."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.environment import LocalEnvironment
from penstock.driver.exceptions.chain import read_chain
from penstock.driver.exceptions.classify import classify, classify_exception
from penstock.driver.failures import Failure
from penstock.driver.spark import query
from testkit.kafka.topics import Topics
from testkit.streams.streams import CONTINUOUS, EACH_MODE, kafka_source, stream
from testkit.wait import wait_for

UNKNOWN = "no-such-broker.example:9092"
_STRINGS = "org.apache.kafka.common.serialization.String"


def _client(spark: SparkSession, **more: str) -> Any:
    jvm: Any = spark._jvm
    options = jvm.java.util.HashMap()
    for name, value in {"bootstrap.servers": UNKNOWN, **more}.items():
        options.put(name, value)
    return jvm.org.apache.kafka.clients, options


def admin(spark: SparkSession, **more: str) -> None:
    clients, options = _client(spark, **more)
    clients.admin.AdminClient.create(options)


def consumer(spark: SparkSession, **more: str) -> None:
    strings = {f"{of}.deserializer": f"{_STRINGS}Deserializer" for of in ("key", "value")}
    clients, options = _client(spark, **strings, **more)
    clients.consumer.KafkaConsumer(options)


def producer(spark: SparkSession, **more: str) -> None:
    strings = {f"{of}.serializer": f"{_STRINGS}Serializer" for of in ("key", "value")}
    clients, options = _client(spark, **strings, **more)
    clients.producer.KafkaProducer(options)


def source_of_spark(spark: SparkSession, **more: str) -> None:
    kafka = {f"kafka.{name}": value for name, value in more.items()}
    reader = spark.read.format("kafka").options(**kafka, subscribe="in")
    reader.option("kafka.bootstrap.servers", UNKNOWN).load().count()


def sink_of_spark(spark: SparkSession, **more: str) -> None:
    kafka = {f"kafka.{name}": value for name, value in more.items()}
    writer = spark.range(1).selectExpr("CAST(id AS STRING) AS value").write.format("kafka")
    writer.options(**kafka, topic="out").option("kafka.bootstrap.servers", UNKNOWN).save()


Client = Callable[..., None]
EACH_CLIENT = pytest.mark.parametrize(
    "client", [admin, consumer, producer, source_of_spark, sink_of_spark]
)


@pytest.mark.proves("failures.md#no-brokers-name-resolves")
@EACH_CLIENT
def test_a_name_that_does_not_resolve_is_an_outage(spark: SparkSession, client: Client) -> None:
    """Kafka's clients call it a wrong configuration."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of Py4J or of pyspark
        client(spark)
    failure = classify_exception(raised.value)
    assert failure.reason == "BrokerUnreachable"
    assert not failure.permanent
    assert "name server" in failure.message


@EACH_CLIENT
def test_a_wrong_option_is_permanent(spark: SparkSession, client: Client) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of Py4J or of pyspark
        client(spark, **{"retry.backoff.ms": "soon"})
    failure = classify_exception(raised.value)
    assert failure.reason == "KafkaOptionInvalid"
    assert failure.permanent
    assert "retry.backoff.ms" in failure.message


SECRET = "card 4111"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.mark.proves(31)
@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("CAST(value AS INT)", "CastInvalidInput"),
        ("reflect('java.lang.Integer', 'parseInt', value)", "NumberFormat"),
        ("raise_error(value)", "UserRaisedException"),
        # Spark throws it on the driver as it was thrown in the task: without a cause, and with the
        # frames of the caller after those of the task.
        ("to_number(value, '$999.99')", "InvalidFormat"),
        ("refuse(value)", "PythonFailed"),
    ],
)
def test_an_exception_over_a_record_does_not_show_it(
    spark: SparkSession, sql: str, reason: str
) -> None:
    def refuse(text: str) -> int:
        raise ValueError(text)

    spark.udf.register("refuse", refuse, "int")
    rows = spark.createDataFrame([(SECRET,)], "value STRING")
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of Py4J or of pyspark
        rows.selectExpr(f"{sql} AS n").write.format("noop").mode("overwrite").save()
    assert SECRET in str(raised.value)
    failure = classify_exception(raised.value)
    assert failure.reason == reason
    assert failure.maybe_poison
    assert "4111" not in failure.message
    if reason == "PythonFailed":
        assert "ValueError in test_failures.py, line " in failure.message


def _failed(rows: DataFrame, sql: str) -> Failure:
    """Why a batch fails that computes this."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of Py4J or of pyspark
        rows.selectExpr(f"{sql} AS n").write.format("noop").mode("overwrite").save()
    return classify_exception(raised.value)


def test_a_stack_overflow_over_a_record_ends_its_task_only(spark: SparkSession) -> None:
    """Spark by itself ends the executor, which here is the driver's JVM."""
    rows = spark.createDataFrame([(SECRET,)], "value STRING")
    failure = _failed(rows, "repeat(value, 100000) RLIKE '^(c|a|r|d| |[0-9])*$'")
    assert (failure.reason, failure.maybe_poison) == ("StackOverflow", True)
    assert "-Xss" in failure.message
    assert rows.count() == 1


def _of_no_module(_: str) -> int:
    import no_such_module  # type: ignore[import-not-found]

    return int(no_such_module.zero)


def _dies(_: str) -> int:
    os._exit(3)


@pytest.mark.proves("failures.md#the-image-does-not-fit-the-transform")
@pytest.mark.parametrize("arrow", [False, True], ids=["pickled", "arrow"])
@pytest.mark.parametrize(
    ("function", "reason", "words"),
    [
        (_of_no_module, "ModuleMissing", "No module named 'no_such_module'"),
        (_dies, "PythonWorkerDied", "exited unexpectedly (crashed)"),
    ],
)
def test_what_is_wrong_with_the_image_is_no_records_fault(
    spark: SparkSession, function: Callable[[str], int], reason: str, words: str, arrow: bool
) -> None:
    spark.udf.register("broken", udf(function, "int", useArrow=arrow))
    failure = _failed(spark.createDataFrame([(SECRET,)], "value STRING"), "broken(value)")
    assert failure.reason == reason
    assert words in failure.message
    assert not failure.maybe_poison
    assert "4111" not in failure.message


def test_a_processor_that_uses_state_in_a_wrong_way(spark: SparkSession, tmp_path: Path) -> None:
    """Its init() runs in a task, but before any record."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)
    rows = spark.readStream.format("rate").load()
    counted = rows.groupBy("value").transformWithStateInPandas(
        Forgets(), "value LONG", "Append", "None"
    )
    running = counted.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    wait_for("the failure", lambda: not running.isActive)
    chain = read_chain(running._jsq.exception().get())
    failure = classify(chain)
    assert "TTL" in failure.message
    assert failure.permanent


class Forgets(StatefulProcessor):
    """Asks for a time to live that its time mode does not have."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n LONG", 1000)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield from rows

    def close(self) -> None:
        pass


def _failure_of(spark: SparkSession, folder: Path, **transform: object) -> Failure:
    """Why a continuous stream with this transform cannot be planned."""
    spec = stream(transform=transform).spec
    with pytest.raises(Exception) as raised:  # noqa: PT011 - any exception is classified
        query.check(query.plan(spark, spec, LocalEnvironment(folder)), spec)
    return classify_exception(raised.value)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT no_such_column FROM source", "UnresolvedColumn"),
        ("SELEKT 1", "ParseSyntaxError"),
        ("SELECT current_timestamp() AS t FROM source", "UnsupportedOperation"),
    ],
)
def test_sql_that_spark_refuses_is_permanent(
    spark: SparkSession, sql: str, reason: str, tmp_path: Path
) -> None:
    failure = _failure_of(spark, tmp_path, sql=sql)
    assert (failure.reason, failure.permanent) == (reason, True)


_OF_THE_FRAME_BEFORE = """
from pyspark.sql.functions import window
def f(source):
    late = source.withWatermark("timestamp", "1 minute")
    counts = late.groupBy(window(source.timestamp, "1 minute")).count()
    return counts.selectExpr("CAST(count AS STRING) AS value")
"""


@pytest.mark.parametrize(
    ("transform", "advice"),
    [
        (
            {"sql": "SELECT to_avro(key) AS value FROM source"},
            "org.apache.spark:spark-avro_2.13:4.2.0 in spec.dependencies.packages",
        ),
        (
            {"python": {"function": "flags:f", "inline": _OF_THE_FRAME_BEFORE}},
            "no column of a DataFrame from before withWatermark",
        ),
    ],
)
def test_the_advice_is_about_the_spec(
    spark: SparkSession, transform: dict[str, Any], advice: str, tmp_path: Path
) -> None:
    """Spark's own is about its command line, or says that there is no watermark."""
    spec = _copy_by(transform, {"microBatch": {}})
    with pytest.raises(Exception) as raised:  # noqa: PT011 - any exception is classified
        query.check(query.plan(spark, spec, LocalEnvironment(tmp_path)), spec)
    failure = classify_exception(raised.value)
    assert failure.permanent
    assert advice in failure.message


@pytest.mark.parametrize(
    ("inline", "words"),
    [
        ("def f(source):\n    return 5\n", "streaming DataFrame"),
        ("def f(source):\n    raise KeyError('mine')\n", "KeyError: 'mine' (inline, line 2)"),
        ("import no_such_module\n", "no_such_module"),
        ("def f(source)\n", "SyntaxError"),
        ("x = 1\n", "has no f"),
    ],
)
def test_failing_python_is_reported_with_its_line(
    spark: SparkSession, inline: str, words: str, tmp_path: Path
) -> None:
    failure = _failure_of(spark, tmp_path, python={"function": "broken:f", "inline": inline})
    assert (failure.reason, failure.permanent) == ("PythonFailed", True)
    assert words in failure.message


@pytest.mark.parametrize(
    "ends",
    [
        "return query",
        "return source",
        "raise ValueError('later')",
        "query.stop(); return query",
        "query.awaitTermination()",
        "return source if source.sparkSession.streams.awaitAnyTermination() else None",
    ],
)
def test_a_query_that_the_function_starts_is_stopped(
    spark: SparkSession, ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python of the image is not read before the driver runs it."""
    start = "query = source.writeStream.foreachBatch(lambda rows, number: None).start()"
    (tmp_path / "store.py").write_text(f"def save(source):\n    {start}\n    {ends}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "store", raising=False)
    failure = _failure_of(spark, tmp_path, python={"function": "store:save"})
    assert (failure.reason, failure.permanent) == ("PythonFailed", True)
    assert "store:save starts a query, and Penstock starts it: return the rows" in failure.message
    assert "spec.sink" in failure.message
    assert spark.streams.active == []


@pytest.mark.parametrize(
    ("rows", "sink", "says"),
    [
        ("source", {"topic": "out"}, ["partition"]),
        ("source", {}, ["partition", "topic"]),
        ("source.where('offset > 5').select('topic', 'value')", {}, ["topic"]),
        ("source.selectExpr('value', 'partition + 0 AS partition')", {"topic": "out"}, []),
        ("source.selectExpr('value', 'topic AS partition')", {"topic": "out"}, []),
        ("source.drop('partition')", {"topic": "out"}, []),
    ],
)
def test_code_that_passes_on_where_a_record_was_is_warned_of(
    spark: SparkSession, rows: str, sink: dict[str, str], says: list[str], tmp_path: Path
) -> None:
    """As SQL is, of which the operator warns."""
    python = {"function": "flags:f", "inline": f"def f(source):\n    return {rows}\n"}
    to = {"kafka": {"bootstrapServers": UNKNOWN, **sink}}
    spec = stream(kafka_source(UNKNOWN), to, transform={"python": python}).spec
    frame = query.plan(spark, spec, LocalEnvironment(tmp_path))
    warning = query.column_warning(frame, spec)
    assert (
        [] if warning is None else re.findall(r"source's column (\w+),", warning.message)
    ) == says
    assert not says or (warning is not None and warning.reason == "SinkRouting")


_DROPPED = [
    ("source.selectExpr('KEY', 'value')", "the column KEY is not written"),
    ("source.select('key', 'value', 'timestamp')", "gets the time at which it is written"),
    ("source.selectExpr('value', '1 AS n')", "the column n is not written"),
    ("source.selectExpr('key', 'value')", ""),
]


@pytest.mark.parametrize(("rows", "says"), _DROPPED)
def test_columns_of_code_that_sparks_writer_drops_are_warned_of(
    spark: SparkSession, rows: str, says: str, tmp_path: Path
) -> None:
    """As those of SQL are, of which the operator warns."""
    spec = _copy_by({"python": python_that_returns(rows)}, CONTINUOUS)
    warning = query.column_warning(query.plan(spark, spec, LocalEnvironment(tmp_path)), spec)
    assert (warning is not None) == bool(says)
    assert warning is None or (warning.reason == "SinkColumns" and says in warning.message)


@pytest.mark.parametrize(
    ("transform", "refused"),
    [
        ({"sql": "SELECT *, upper(CAST(value AS STRING)) AS value FROM source"}, True),
        ({"python": "source.selectExpr('*', 'upper(CAST(value AS STRING)) AS value')"}, True),
        ({"python": "source.selectExpr('value', 'key', 'topic AS key')"}, True),
        ({"python": "source.withColumn('value', source.value.cast('string'))"}, False),
        # Twice the same: whichever Spark writes is right.
        ({"python": "source.select('key', 'value', 'value')"}, False),
        ({"sql": "SELECT * EXCEPT (value), upper(CAST(value AS STRING)) AS value FROM source"}, 0),
    ],
)
@pytest.mark.parametrize("trigger", EACH_MODE)
def test_two_columns_of_one_name_are_refused_before_the_start(
    spark: SparkSession,
    transform: dict[str, str],
    refused: bool,
    trigger: dict[str, Any],
    tmp_path: Path,
) -> None:
    """Spark writes the first of them, and says nothing: with `SELECT *, ... AS value` the old."""
    python = transform.get("python")
    fields = transform if python is None else {"python": python_that_returns(python)}
    spec = _copy_by(fields, trigger)
    frame = query.plan(spark, spec, LocalEnvironment(tmp_path))
    if not refused:
        query.check(frame, spec)
        return
    with pytest.raises(query.QueryNotPossible) as raised:
        query.check(frame, spec)
    failure = raised.value.failure
    assert (failure.reason, failure.permanent) == ("SinkColumns", True)
    assert re.search(r"two columns named (value|key), .* EXCEPT \(\1\)", failure.message)


def python_that_returns(rows: str) -> dict[str, str]:
    return {"function": "flags:f", "inline": f"def f(source):\n    return {rows}\n"}


def _copy_by(transform: dict[str, Any], trigger: dict[str, Any]) -> StreamSpec:
    to = {"kafka": {"bootstrapServers": UNKNOWN, "topic": "out"}}
    return stream(kafka_source(UNKNOWN), to, transform=transform, trigger=trigger).spec


@pytest.mark.proves(31)
def test_a_job_that_fails_at_planning_does_not_show_what_it_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    inline = f"""
def f(source):
    rows = source.sparkSession.createDataFrame([("{SECRET}",)], "text STRING")
    try:
        rows.selectExpr("CAST(text AS INT)").collect()
    except Exception as error:
        raise ValueError(str(error)) from error
"""
    failure = _failure_of(spark, tmp_path, python={"function": "lookup:f", "inline": inline})
    assert failure.reason == "CastInvalidInput"
    assert "4111" not in failure.message


@pytest.mark.proves(31)
def test_a_streams_exception_over_a_record_does_not_show_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As the driver reads it from a query, whose exception has no cause that is of the task."""
    rows = spark.readStream.format("rate").load()
    odd = rows.selectExpr(f"to_number(concat('{SECRET} ', value), '$999.99') AS n")
    running = odd.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    wait_for("the failure", lambda: not running.isActive)
    chain = read_chain(running._jsq.exception().get())
    assert SECRET in chain[-1].message
    failure = classify(chain)
    assert (failure.reason, failure.maybe_poison) == ("InvalidFormat", True)
    assert "4111" not in failure.message


@pytest.mark.proves("failures.md#a-record-cannot-be-written")
@pytest.mark.parametrize(
    ("sql", "reason", "words"),
    [
        ("CAST(NULL AS STRING) AS topic", "KafkaNullTopicInData", "spec.sink.kafka.topic"),
        ("'no-such-topic' AS topic", "RecordNotWritable", "The topic no-such-topic, which"),
        ("'card 4111' AS topic", "RecordNotWritable", "columns topic, partition and key"),
        ("topic, 3 AS partition", "RecordNotWritable", "partition is 3, but the topic"),
        ("topic, repeat(value, 2000000) AS value", "RecordTooLarge", "kafka.max.request.size"),
    ],
)
def test_a_record_that_can_never_be_written_is_no_outage(
    spark: SparkSession, topics: Topics, sql: str, reason: str, words: str
) -> None:
    topic = topics.make(2)
    rows = spark.createDataFrame([("v", topic)], "value STRING, topic STRING")
    rows.createOrReplaceTempView("refused")
    value = "" if "AS value" in sql else "value, "
    writer = spark.sql(f"SELECT {value}{sql} FROM refused").write.format("kafka")
    writer.option("kafka.bootstrap.servers", topics.bootstrap)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of Py4J or of pyspark
        writer.option("kafka.max.block.ms", "5000").save()
    failure = classify_exception(raised.value)
    assert failure.reason == reason
    assert words in failure.message
    assert failure.maybe_poison or reason == "RecordTooLarge"
    assert "card 4111" not in failure.message


@pytest.mark.parametrize("count", [1, 100], ids=["one", "many"])
def test_a_clock_that_differs_from_the_brokers(
    count: int, spark: SparkSession, topics: Topics
) -> None:
    """The producer stamps each record with its own clock; no column of it is at fault."""
    # The broker's limit is so low that it refuses what is a moment old.
    topic = topics.make(1, config={"message.timestamp.before.max.ms": "0"})
    rows = spark.createDataFrame([("v",)] * count, "value STRING").coalesce(1)
    writer = rows.write.format("kafka").option("kafka.bootstrap.servers", topics.bootstrap)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of Py4J or of pyspark
        writer.option("topic", topic).option("kafka.linger.ms", "500").save()
    failure = classify_exception(raised.value)
    assert failure.reason == "ClocksDiffer"
    assert not failure.maybe_poison
    assert not failure.permanent
    assert "clocks" in failure.message
