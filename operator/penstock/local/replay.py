"""`penstock replay`: runs one record through a stream's own query, and shows what comes out.

It shows the record and messages that quote it: the person who asks has asked for that.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Token

from penstock.api.kafka_options import BATCH_LIMITS
from penstock.api.v1alpha1 import KafkaSource, Sink, StreamSpec
from penstock.api.v1alpha1.sinks import MemorySink
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.api.v1alpha1.triggers import MicroBatchTrigger, Trigger
from penstock.command_line import CommandError, files, option
from penstock.contract.sizing import Size, driver_memory
from penstock.driver.checkpoint.progress import ProgressReader
from penstock.driver.checkpoint.storage.volume import VolumeFiles
from penstock.driver.environment import LocalEnvironment
from penstock.driver.exceptions.chain import read_chain, read_python_chain
from penstock.driver.exceptions.classify import classify, classify_exception
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.records import KafkaRecords
from penstock.driver.record_position import Position
from penstock.driver.spark import query, session
from penstock.local.cases.case_topics import kafka_record
from penstock.local.cases.saved_case import case_of
from penstock.local.command import class_path_of, jvm_arguments, pyspark_folder, use_utc
from penstock.local.errors import print_message
from penstock.local.kafka.stream_on_broker import redirect
from penstock.local.manifest import load_stream, require_files
from penstock.local.options import BootstrapServers, ClassPath, ConfigMaps, RunOptions, Secrets
from penstock.local.tools.java import require_java
from penstock.validation.reading.files import STDIN

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_SECONDS = 120.0
_POLL_SECONDS = 0.1
# So the second batch, with the record after it, does not begin.
_ONCE = Trigger(microBatch=MicroBatchTrigger(interval="1 hour"))
_TABLE = "replay"


@dataclass(frozen=True)
class Result:
    """What the query made of the record."""

    rows: Sequence[Row] = ()
    failure: tuple[str, str] | None = None
    """What failed, and the message."""
    reason: str | None = None
    """Of a failure over the record; None: it has not failed, or could not even be planned."""
    written: Sequence[Row] = ()
    """The rows as `penstock test` compares them."""


def _position(_: Any, tokens: Sequence[Token]) -> Position:
    return Position.parse(tokens[0].value)


def replay(
    file: Annotated[Path, files("a manifest with one stream, or - for stdin", "FILE")],
    /,
    *,
    at: Annotated[
        Position,
        option(
            "the record; its topic need not be one that the stream reads",
            "TOPIC/PARTITION@OFFSET",
            converter=_position,
            n_tokens=1,
            accepts_keys=False,
        ),
    ],
    bootstrap_servers: BootstrapServers = None,
    class_path: ClassPath = "",
    config_maps: ConfigMaps = RunOptions.config_maps,
    secrets: Secrets = RunOptions.secrets,
    save: Annotated[
        Path | None, option("write the record into this file, as a case of penstock test", "FILE")
    ] = None,
) -> int:
    """Run one record through a stream's query on this machine, and show the rows that come out of
    it, or the failure. Nothing is written, and the stream's checkpoint is not touched.

    This command shows the record. The query runs as one micro-batch with this record alone: what it
    does with several, such as an aggregate, is not shown. Requires what penstock run requires.

    examples:
      # What a failure names: topic/partition@offset
      penstock replay stream.yaml --at payments/3@1234

      # With the stream as it is in the cluster, and other brokers
      kubectl get cstream fraud-flags -o yaml |
        penstock replay - --at payments/3@1234 --bootstrap-servers localhost:9092

      # Keep a record that failed as a test
      penstock replay stream.yaml --at payments/3@1234 --save tests/payments-1234.yaml

      # A record in the topic of dead letters
      penstock replay stream.yaml --at payments-dead-letters/0@7

    exit codes:
      0  the query has processed the record
      1  the query fails over it
      2  wrong usage, or there is no such record
    """
    use_utc()
    stream, _ = load_stream(file)
    if save is not None:
        _check_may_save(file, save)
    if bootstrap_servers:
        stream = redirect(stream, bootstrap_servers, keep_security=True).stream
    source = stream.spec.source.kafka
    if source is None:
        raise CommandError(f"{stream.metadata.name} reads no Kafka topic", code=2)
    pyspark = pyspark_folder()
    require_java()
    require_files(stream.spec, secrets, config_maps)
    with tempfile.TemporaryDirectory(prefix="penstock-replay-") as folder:
        environment = LocalEnvironment(
            Path(folder) / "checkpoint",
            class_path_of(class_path, stream.spec, pyspark),
            secrets=secrets.absolute(),
            python=config_maps.absolute(),
        )
        with _spark(stream, environment, Path(folder) / "log") as (jvm, spark):
            record = _read(jvm, source, environment, at)
            _show_record(record, at)
            result = _replay(spark, stream, environment, at)
            if result.failure:
                _print(*result.failure)
            else:
                _show_rows(result.rows)
            if save is not None and (result.reason or not result.failure):
                save.parent.mkdir(parents=True, exist_ok=True)
                save.write_text(_case(record, source, file, save, result), encoding="utf-8")
                print_message(f"a case was written to {save}")
            return int(bool(result.failure))


def _check_may_save(file: Path, save: Path) -> None:
    if str(file) == STDIN:
        raise CommandError("--save needs the manifest as a file, which the case names", code=2)
    if save.exists():
        raise CommandError(f"--save {save}: the file exists: choose another name", code=2)


def _case(record: Any, source: KafkaSource, file: Path, save: Path, result: Result) -> str:
    return case_of(
        kafka_record(record),
        int(record.timestamp()),
        file,
        save,
        rows=[row.asDict() for row in result.written],
        reason=result.reason,
        names_topic=len(source.topics or source.assign or ()) > 1,
    )


@contextmanager
def _spark(
    stream: ContinuousStream, environment: LocalEnvironment, log: Path
) -> Iterator[tuple[Jvm, SparkSession]]:
    heap = driver_memory(stream.spec).heap
    jvm = Jvm.launch(*jvm_arguments(stream.spec, environment, heap), log=log)
    try:
        conf = session.spark_conf(
            stream, environment, Size(partitions=1, executors=0, cores_per_executor=1, slots=1)
        )
        spark = session.start(jvm.gateway, conf)
        yield jvm, spark
        spark.stop()
    finally:
        jvm.end()


def _read(jvm: Jvm, source: KafkaSource, environment: LocalEnvironment, at: Position) -> Any:
    try:
        with closing(KafkaRecords(jvm.gateway, source, environment.secrets)) as reader:
            record = reader.at(at)
    except Exception as error:
        raise CommandError(f"{at}: {classify_exception(error).message}", code=2) from error
    if record is None:
        raise CommandError(
            f"{at}: there is no such record. It was never written, retention or compaction has "
            "removed it, or it is the marker of a transaction.",
            code=2,
        )
    return record


def _replay(
    spark: SparkSession, stream: ContinuousStream, environment: LocalEnvironment, at: Position
) -> Result:
    spec = _for_one_record(stream.spec)
    starting = json.dumps({at.topic: {str(at.partition): at.offset}})
    location = environment.checkpoint.as_uri()
    try:
        frame = query.plan(spark, spec, environment, starting, {at.topic: [at.partition]})
        shown = spec.model_copy(update={"sink": Sink(memory=MemorySink()), "query_name": _TABLE})
        running = query.start(frame, shown, environment, _TABLE, location)
    except Exception as error:  # of Spark, or of a Python transform, while the query is planned
        message = read_python_chain(error)[-1].message
        return Result(failure=("the query cannot be planned:", message))
    try:
        failure = _wait(running, ProgressReader(VolumeFiles(environment.checkpoint)))
    finally:
        running.stop()
    if failure is not None:
        chain = read_chain(failure)
        reason = classify(chain).reason
        what = f"the query fails over it: {reason}"
        return Result(failure=(what, chain[-1].message), reason=reason)
    rows = spark.table(_TABLE)
    # As local/cases compares what goes elsewhere than into a topic.
    written = (
        rows if spec.sink.kafka is not None else rows.selectExpr("to_json(struct(*)) AS value")
    )
    return Result(rows.collect(), written=written.collect())


def _for_one_record(spec: StreamSpec) -> StreamSpec:
    """The same query in a micro-batch of one record, which no other follows."""
    kafka = spec.source.kafka
    assert kafka is not None
    limits = {name.lower() for name in BATCH_LIMITS}
    options = {name: text for name, text in kafka.options.items() if name.lower() not in limits}
    of_one = kafka.model_copy(update={"options": {**options, "maxOffsetsPerTrigger": "1"}})
    source = spec.source.model_copy(update={"kafka": of_one})
    return spec.model_copy(update={"source": source, "trigger": _ONCE})


def _wait(running: StreamingQuery, progress: ProgressReader) -> Any | None:
    """Waits for the first batch; returns the exception that it ended with, if there is one."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        if not running.isActive:
            return running._jsq.exception().get()
        if progress.committed_epoch() is not None:
            return None
        time.sleep(_POLL_SECONDS)
    raise CommandError(f"the query has not processed the record within {_SECONDS:.0f} s")


def _show_record(record: Any, at: Position) -> None:
    when = datetime.fromtimestamp(int(record.timestamp()) / 1000, UTC)
    _print(f"record {at}, {when.isoformat(timespec='milliseconds')}")
    headers = [(str(header.key()), header.value()) for header in record.headers().toArray()]
    fields = [("key", record.key()), ("value", record.value())]
    for name, value in (*fields, *((f"header {key}", value) for key, value in headers)):
        _print(f"  {name}: {_text(value)}")


def _show_rows(rows: Sequence[Row]) -> None:
    if not rows:
        _print("no row comes out: the query filters the record out, or waits for more records")
    for number, row in enumerate(rows, start=1):
        _print(f"row {number}")
        for name, value in row.asDict().items():
            _print(f"  {name}: {_text(value)}")


def _text(value: Any) -> str:
    """A value as a person reads it; bytes that are no UTF-8 in hexadecimal."""
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"0x{value.hex()}"
    return "null" if value is None else str(value)


def _print(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
