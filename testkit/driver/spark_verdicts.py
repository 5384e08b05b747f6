"""Spark's own verdict on every query of the table, as JSON: run as a process of its own.

Spark's check before a start says most of it; what it cannot say, because the refusal comes with the
first batch, and a sample of what it says, is really started.
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
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.driver.jvm import Jvm
from penstock.driver.spark import session
from testkit.kafka.broker import local_broker
from testkit.kafka.jars import connector_jars
from testkit.streams.queries import QUERIES, WATERMARKED, Query

ENGINES = "CAUMSR"
OUTPUT = {
    "C": "append",
    "A": "append",
    "U": "update",
    "M": "complete",
    "S": "append",
    "R": "update",
}
PATIENCE = 120.0
# One in so many of those that Spark's check accepts is really started.
SAMPLE = 15

_CONF = {
    "spark.app.name": "verdicts",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.master": "local[16]",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.task.maxFailures": "1",
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True)
class Kafka:
    """Where the queries read and write."""

    bootstrap: str
    checkpoints: Path

    @property
    def client(self) -> dict[str, str]:
        """The option that every client needs."""
        return {"kafka.bootstrap.servers": self.bootstrap}


def main(target: Path) -> None:
    """Writes {"takes": {query: {engine: refusal or null}}, "started": [...], "groups": {...}}."""
    with tempfile.TemporaryDirectory() as folder, _spark() as (spark, bootstrap):
        kafka = Kafka(bootstrap, Path(folder))
        verdicts: dict[str, dict[str, str | None]] = {}
        jobs: list[tuple[str, str, Any]] = []
        rows = [(query, False) for query in QUERIES] + [(query, True) for query in WATERMARKED]
        for number, (query, marked) in enumerate(rows):
            frame, verdict = _checked(spark, kafka, query, marked)
            verdicts[_key(query, marked)] = verdict
            if frame is None:
                continue
            for engine in ENGINES:
                taken = verdict[engine] is None
                doubted = engine not in query.takes
                if taken and (doubted or number % SAMPLE == 0) and not (marked and engine in "CS"):
                    jobs.append((_key(query, marked), engine, frame))

        def start(job: tuple[str, str, Any]) -> None:
            key, engine, frame = job
            verdicts[key][engine] = _started(frame, engine, kafka, f"{hash(key)}-{engine}")

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(start, jobs))
        target.write_text(
            json.dumps(
                {
                    "takes": verdicts,
                    "started": [[key, engine] for key, engine, _ in jobs],
                    "groups": _function_groups(spark),
                }
            )
        )


def _key(query: Query, marked: bool) -> str:
    return f"{'watermark: ' if marked else ''}{query.sql}"


@contextmanager
def _spark() -> Iterator[tuple[Any, str]]:
    jvm = Jvm.launch(1024, f"{connector_jars()}/*", "127.0.0.1", ["-XX:TieredStopAtLevel=1"])
    with local_broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for made in admin.create_topics([NewTopic("in", 1, 1), NewTopic("out", 1, 1)]).values():
            made.result(30)
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


def _checked(
    spark: Any, kafka: Kafka, query: Query, marked: bool
) -> tuple[Any, dict[str, str | None]]:
    """The frame and the verdict of Spark's check; None where Spark cannot analyse the query."""
    source = (
        spark.readStream.format("kafka")
        .options(**kafka.client, subscribe="in", startingOffsets="earliest")
        .load()
    )
    if marked:
        source = source.withWatermark("timestamp", "5 seconds")
    source.createOrReplaceTempView("source")
    refusal = _refusal(lambda: spark.sql(query.sql))
    if refusal is not None:
        return None, dict.fromkeys(ENGINES, refusal)
    frame = spark.sql(query.sql)
    sql = spark._jvm.org.apache.spark.sql
    checker = sql.catalyst.analysis.UnsupportedOperationChecker
    modes = sql.streaming.OutputMode
    plan = frame._jdf.queryExecution().analyzed()
    output = {"append": modes.Append(), "update": modes.Update(), "complete": modes.Complete()}

    def check(engine: str) -> None:
        method = checker.checkForContinuous if engine == "C" else checker.checkForStreaming
        method(plan, output[OUTPUT[engine]])

    return frame, {engine: _refusal(lambda: check(engine)) for engine in ENGINES}  # noqa: B023


def _refusal(attempt: Callable[[], object]) -> str | None:
    from pyspark.errors import PySparkException

    try:
        attempt()
    except PySparkException as error:
        return " ".join(str(error).split())[:300]
    return None


def _started(frame: Any, engine: str, kafka: Kafka, name: str) -> str | None:
    """What Spark says when the query is really run for a batch or an epoch."""
    environment = kafka.checkpoints / name
    if engine == "R":  # its only sinks are Kafka, console and memory
        frame = frame.selectExpr("to_json(struct(*)) AS value")
        writer = frame.writeStream.format("kafka").options(**kafka.client, topic="out")
    else:
        writer = frame.writeStream.format("noop")
    writer = writer.outputMode(OUTPUT[engine]).option("checkpointLocation", str(environment))
    if engine == "C":
        writer = writer.trigger(continuous="500 milliseconds")
    elif engine == "R":
        writer = writer.trigger(realTime="5 seconds")
    elif engine == "S":
        writer = writer.option("asyncProgressTrackingEnabled", "true")
    running: list[Any] = []
    refusal = _refusal(lambda: running.append(writer.start()))
    if refusal is not None:
        return refusal
    (query,) = running
    deadline = time.monotonic() + PATIENCE
    while query.isActive and not (environment / "commits" / "0").exists():
        if time.monotonic() > deadline:
            return "neither ran nor failed"
        time.sleep(0.1)
    failure = query.exception()
    query.stop()
    return None if failure is None else " ".join(str(failure).split())[:300]


def _function_groups(spark: Any) -> dict[str, str]:
    """Spark's own functions, each with the group that its documentation puts it in."""
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    identifier = spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    names = [row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    found = {}
    for name in names:
        info = registry.lookupFunction(identifier(name))
        if info.isDefined():
            found[name] = info.get().getGroup()
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
