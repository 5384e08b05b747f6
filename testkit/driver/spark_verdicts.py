"""Spark's own verdicts on all queries of `testkit.streams.queries`, as JSON.

Runs as a process of its own. Spark checks each query as it does before a start. Some queries are
also started: those that Spark refuses only with the first batch, and a sample of the others.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from penstock.api.v1alpha1 import SqlFunction, StreamSpec
from penstock.driver.jvm import Jvm
from penstock.driver.spark import session
from penstock.driver.spark.transforms import create_function
from penstock.sql.judge import judge_sql
from testkit.driver.class_archive import java_options
from testkit.kafka.broker import running_broker
from testkit.kafka.jars import connector_jars
from testkit.kafka.topic_admin import create_topics
from testkit.streams import nested_queries
from testkit.streams.compositions import compose
from testkit.streams.kafka_rows import ASKED
from testkit.streams.queries import CLAUSED, EXECUTIONS, QUERIES, WATERMARKED, WITH_WATERMARK, Query
from testkit.streams.streams import query_stream

START_SECONDS = 120.0
# The executions of queries that are started only if the table says something else.
CHECKED, CHECKED_CLAUSED = "CAUMR", "AUM"
# Each query with whether the source has a watermark, and the executions to ask about.
ROWS: tuple[tuple[Query, bool, str], ...] = (
    *((query, False, "".join(EXECUTIONS)) for query in QUERIES),
    *((query, True, WITH_WATERMARK) for query in WATERMARKED),
    *((query, False, CHECKED_CLAUSED) for query in CLAUSED),
    *((query, False, CHECKED) for query in nested_queries.NESTED),
    *((query, True, WITH_WATERMARK) for query in nested_queries.NESTED_WATERMARKED),
)
# Of these, the first rows, one in so many that Spark's check accepts is started.
STARTED, SAMPLE = len(QUERIES) + len(WATERMARKED), 15
# Of each seed.
COMPOSITIONS = 60

_CONF = {
    "spark.app.name": "verdicts",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.master": "local[16]",
    "spark.sql.adaptive.enabled": "false",
    # As in real-time mode, whose shuffle refuses the sort, and whose state needs these.
    "spark.sql.execution.sortBeforeRepartition": "false",
    "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.providerClass": session.ROCKSDB,
    "spark.sql.shuffle.partitions": "1",
    "spark.task.maxFailures": "1",
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True)
class Kafka:
    """The broker of the queries, and the folder of their checkpoints."""

    bootstrap: str
    checkpoints: Path

    @property
    def client(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap}


def main(target: Path, seeds: list[int]) -> None:
    """Writes the verdicts of Spark as JSON.

    {"refusals": {query: {letter: text or null}}, "groups": {function: group},
    "kafka": [[query, topic, text or null], ...]}. The refusals include those of the compositions of
    each seed. Of these a query is started if Penstock refuses it and Spark's check does not: Spark
    may refuse it with the first batch.
    """
    with tempfile.TemporaryDirectory() as folder, _spark() as (spark, bootstrap):
        kafka = Kafka(bootstrap, Path(folder))
        checker = _Checker(spark, kafka)
        refusals: dict[str, dict[str, str | None]] = {}
        jobs: list[tuple[str, str, Any]] = []
        for number, (query, watermark, letters) in enumerate(ROWS):
            frame, checked = checker.check(query, watermark)
            refusals[key_of(query, watermark)] = checked
            if frame is None:
                continue
            is_sampled = number < STARTED and number % SAMPLE == 0
            for letter in letters:
                contradicts_table = letter not in query.accepted_by
                if checked[letter] is None and (contradicts_table or is_sampled):
                    jobs.append((key_of(query, watermark), letter, frame))
        for query, watermark, letters in compositions(seeds):
            frame, checked = checker.check(query, watermark, letters)
            refusals[key_of(query, watermark)] = checked
            jobs += [
                (key_of(query, watermark), letter, frame)
                for letter in letters
                if checked[letter] is None and refused_here(query, letter, watermark)
            ]

        def start(job: tuple[str, str, Any]) -> None:
            key, letter, frame = job
            refusals[key][letter] = _start(frame, letter, kafka, f"{hash(key)}-{letter}")

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(start, jobs))
        target.write_text(
            json.dumps(
                {
                    "refusals": refusals,
                    "groups": _function_groups(spark),
                    "kafka": [
                        [sql, topic, _refused_by_kafka(checker, sql, topic)] for sql, topic in ASKED
                    ],
                }
            )
        )


def compositions(seeds: list[int]) -> list[tuple[Query, bool, str]]:
    """Random queries, like ROWS."""
    made = [Query(sql, "") for seed in seeds for sql in compose(seed, COMPOSITIONS)]
    half = len(made) // 2
    return [
        *((query, False, CHECKED) for query in made[:half]),
        *((query, True, WITH_WATERMARK) for query in made[half:]),
    ]


def refused_here(query: Query, letter: str, watermark: bool) -> list[str]:
    spec = StreamSpec.model_validate(query_stream(query.sql, letter, watermark))
    return [each.message for each in judge_sql(spec) if each.severity == "error"]


def key_of(query: Query, watermark: bool) -> str:
    functions = "".join(
        f"; {function.name} is {function.expression}" for function in query.functions
    )
    return f"{'watermark: ' if watermark else ''}{query.sql}{functions}"


@contextmanager
def _spark() -> Iterator[tuple[Any, str]]:
    class_path = f"{connector_jars()}/*"
    jvm = Jvm.launch(1024, class_path, "127.0.0.1", java_options(class_path))
    with running_broker() as broker:
        create_topics(broker.bootstrap, {"in": 1, "out": 1})
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(10):
            producer.produce("in", str(number).encode(), b"a,b")
        assert producer.flush(30) == 0
        spark = session.start(jvm.gateway, _CONF)
        spark.sparkContext.setLogLevel("OFF")
        try:
            yield spark, broker.bootstrap
        finally:
            spark.stop()
            jvm.end()


class _Checker:
    """Asks Spark's check of streaming queries, as it runs before a start."""

    def __init__(self, spark: Any, kafka: Kafka) -> None:
        self._spark = spark
        source = (
            spark.readStream.format("kafka")
            .options(**kafka.client, subscribe="in", startingOffsets="earliest")
            .load()
        )
        self._sources = {False: source, True: source.withWatermark("timestamp", "5 seconds")}
        self._watermark: bool | None = None
        sql = spark._jvm.org.apache.spark.sql
        checker = sql.catalyst.analysis.UnsupportedOperationChecker
        self._for_continuous = checker.checkForContinuous
        self._for_batches = checker.checkForStreaming
        modes = sql.streaming.OutputMode
        self._modes = {
            "append": modes.Append(), "update": modes.Update(), "complete": modes.Complete()
        }  # fmt: skip

    def check(
        self, query: Query, watermark: bool, letters: str = "".join(EXECUTIONS)
    ) -> tuple[Any, dict[str, str | None]]:
        """The DataFrame, None if Spark cannot analyze the query, and the check's refusals."""
        if self._watermark is not watermark:
            self._sources[watermark].createOrReplaceTempView("source")
            self._watermark = watermark
        made: list[Any] = []
        refusal = _refusal(lambda: made.append(_plan(self._spark, query)))
        for function in query.functions:
            self._spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {function.name}")
        if refusal is not None:
            return None, dict.fromkeys(letters, refusal)
        (frame,) = made
        plan = frame._jdf.queryExecution().analyzed()

        def check(letter: str) -> None:
            method = self._for_continuous if letter == "C" else self._for_batches
            method(plan, self._modes[EXECUTIONS[letter].output_mode])

        return frame, {letter: _refusal(lambda: check(letter)) for letter in letters}  # noqa: B023


def _plan(spark: Any, query: Query) -> Any:
    for function in query.functions:
        spark.sql(create_function(SqlFunction.model_validate(function.as_fields())))
    frame = spark.sql(query.sql)
    frame._jdf.queryExecution().analyzed()
    return frame


def _refused_by_kafka(checker: _Checker, sql: str, topic: str | None) -> str | None:
    """Why Spark's Kafka writer does not take the query's columns; `topic` is the sink's option."""
    frame, _ = checker.check(Query(sql, ""), False, "U")
    output = frame._jdf.queryExecution().analyzed().output()
    jvm = frame.sparkSession._jvm
    writer = jvm.org.apache.spark.sql.kafka010.KafkaWriter
    return _refusal(lambda: writer.validateQuery(output, jvm.scala.Option.apply(topic)))


def _refusal(attempt: Callable[[], object]) -> str | None:
    from pyspark.errors import PySparkException

    try:
        attempt()
    except PySparkException as error:
        return " ".join(str(error).split())[:300]
    return None


def _start(frame: Any, letter: str, kafka: Kafka, name: str) -> str | None:
    """Runs the query for a batch or an epoch; Spark's refusal, or None."""
    checkpoint = kafka.checkpoints / name
    if letter == "R":  # the only sinks of real-time mode are Kafka, console and memory
        frame = frame.selectExpr("to_json(struct(*)) AS value")
        writer = frame.writeStream.format("kafka").options(**kafka.client, topic="out")
    else:
        writer = frame.writeStream.format("noop")
    writer = writer.outputMode(EXECUTIONS[letter].output_mode).option(
        "checkpointLocation", str(checkpoint)
    )
    if letter == "C":
        writer = writer.trigger(continuous="500 milliseconds")
    elif letter == "R":
        writer = writer.trigger(realTime="5 seconds")
    elif letter == "S":
        writer = writer.option("asyncProgressTrackingEnabled", "true")
    running: list[Any] = []
    refusal = _refusal(lambda: running.append(writer.start()))
    if refusal is not None:
        return refusal
    (query,) = running
    deadline = time.monotonic() + START_SECONDS
    while query.isActive and not (checkpoint / "commits" / "0").exists():
        if time.monotonic() > deadline:
            return "it neither ran nor failed"
        time.sleep(0.1)
    failure = query.exception()
    query.stop()
    return None if failure is None else " ".join(str(failure).split())[:300]


def _function_groups(spark: Any) -> dict[str, str]:
    """Spark's built-in functions of rows, each with its group in Spark's documentation."""
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    identifier = spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    found = {}
    for (name,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect():
        info = registry.lookupFunction(identifier(name))
        if info.isDefined():
            found[name] = info.get().getGroup()
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(seed) for seed in sys.argv[2:]])
