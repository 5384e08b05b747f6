"""The reasons of exceptions, with the chains of causes that Spark 4.2 and Kafka 3.9 throw."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError, Py4JNetworkError

from penstock.driver.exceptions.chain import REGISTRY_CLIENT, ExceptionInfo
from penstock.driver.exceptions.classify import classify, classify_exception
from penstock.driver.record_position import Position

IN_HAND = Position("in", 3, 1234)
EXCEPTION = ("java.lang.Exception", "java.lang.Throwable", "java.lang.Object")
IO = ("java.io.IOException", *EXCEPTION)
ERROR = ("java.lang.Error", "java.lang.Throwable", "java.lang.Object")
RUNTIME = ("java.lang.RuntimeException", *EXCEPTION)
KAFKA = ("org.apache.kafka.common.KafkaException", *RUNTIME)
API = ("org.apache.kafka.common.errors.ApiException", *KAFKA)
RETRIABLE = ("org.apache.kafka.common.errors.RetriableException", *API)
ANALYSIS = ("org.apache.spark.sql.AnalysisException", *EXCEPTION)
SPARK = ("org.apache.spark.SparkException", *EXCEPTION)

WRAPPER = ExceptionInfo(
    ("org.apache.spark.sql.streaming.StreamingQueryException", *EXCEPTION),
    "[STREAM_FAILED] Query terminated", "STREAM_FAILED", "XXKST",
)  # fmt: skip
EXECUTION = ExceptionInfo(("java.util.concurrent.ExecutionException", *EXCEPTION), "wrapped")
ABORTED = ExceptionInfo(
    SPARK,
    "Job aborted due to stage failure: Lost task: card 4111\nDriver stacktrace:",
    in_task=True,
)
CONFIG = ("org.apache.kafka.common.config.ConfigException", *KAFKA)
SERIALIZATION = ExceptionInfo(
    ("org.apache.kafka.common.errors.SerializationException", *KAFKA), "Error: card 4111"
)


def kafka_error(name: str, parents: tuple[str, ...]) -> ExceptionInfo:
    return ExceptionInfo((f"org.apache.kafka.common.errors.{name}", *parents), "Kafka's message")


@pytest.mark.parametrize(
    ("chain", "reason", "permanent", "recoverable"),
    [
        (
            [ExceptionInfo(ANALYSIS, "no Aggregate", "_LEGACY_ERROR_TEMP_3102")],
            "UnsupportedOperation", True, False,
        ),
        (
            [ExceptionInfo(("org.apache.spark.sql.catalyst.parser.ParseException", *ANALYSIS),
                           "bad", "PARSE_SYNTAX_ERROR")],
            "ParseSyntaxError", True, False,
        ),
        (
            [ExceptionInfo(("x.ExtendedAnalysisException", *ANALYSIS), "no column",
                  "UNRESOLVED_COLUMN.WITH_SUGGESTION")],
            "UnresolvedColumn", True, False,
        ),
        (
            [EXECUTION, kafka_error("UnknownTopicOrPartitionException",
                ("org.apache.kafka.common.errors.InvalidMetadataException",
                 "org.apache.kafka.common.errors.RefreshRetriableException", *RETRIABLE))],
            "TopicMissing", True, True,
        ),
        (
            [EXECUTION, kafka_error("TopicAuthorizationException",
                ("org.apache.kafka.common.errors.AuthorizationException", *API))],
            "KafkaAuthorization", True, True,
        ),
        (
            [WRAPPER, kafka_error("SaslAuthenticationException",
                ("org.apache.kafka.common.errors.AuthenticationException", *API))],
            "KafkaAuthentication", True, True,
        ),
        (
            [WRAPPER, ABORTED, kafka_error("TimeoutException", RETRIABLE)],
            "BrokerUnreachable", False, False,
        ),
        ([WRAPPER, ABORTED, kafka_error("DisconnectException", RETRIABLE)],
         "BrokerUnreachable", False, False),
        # Also a query that does not stop in time: no broker has to do with it.
        ([ExceptionInfo(("java.util.concurrent.TimeoutException", *EXCEPTION), "")],
         "Timeout", False, False),
        # A name server that is away, in any client.
        ([WRAPPER, ABORTED, ExceptionInfo(KAFKA, "Failed to construct kafka consumer"),
          ExceptionInfo(CONFIG, "No resolvable bootstrap urls given in bootstrap.servers",
                        thrown_by="org.apache.kafka.clients.ClientUtils")],
         "BrokerUnreachable", False, False),
        ([ExceptionInfo(CONFIG, "Invalid value all of them for configuration acks",
                        thrown_by="org.apache.kafka.common.config.ConfigDef")],
         "KafkaOptionInvalid", True, False),
        # A Secret's file that cannot be read at the moment.
        ([ExceptionInfo(CONFIG, "Could not read file", thrown_by=
                        "org.apache.kafka.common.config.provider.DirectoryConfigProvider")],
         "KafkaOptionInvalid", True, True),
        ([kafka_error("InvalidConfigurationException", API)], "KafkaOptionInvalid", True, True),
        # Certificates rotate.
        ([WRAPPER, ABORTED, kafka_error("SslAuthenticationException",
            ("org.apache.kafka.common.errors.AuthenticationException", *API)),
          ExceptionInfo(("javax.net.ssl.SSLHandshakeException", "javax.net.ssl.SSLException",
                         "java.io.IOException", *EXCEPTION), "expired")],
         "KafkaAuthentication", True, True),
        *(
            ([WRAPPER, ABORTED, kafka_error(f"{of}AuthorizationException",
                ("org.apache.kafka.common.errors.AuthorizationException", *API))],
             "KafkaAuthorization", True, True)
            for of in ("Group", "TransactionalId", "Cluster")
        ),
        ([kafka_error("RecordTooLargeException", API)], "RecordTooLarge", True, True),
        # The clock of an executor, not a record's.
        ([WRAPPER, ABORTED, kafka_error("InvalidTimestampException", API)],
         "ClocksDiffer", False, False),
        ([WRAPPER, ABORTED, ExceptionInfo(
            ("org.apache.kafka.common.InvalidRecordException", *API),
            "Timestamp 1795653804208 of message with offset 0 is out of range. The timestamp "
            "should be within [1795653804300, 1795657404300]")],
         "ClocksDiffer", False, False),
        ([kafka_error("UnsupportedVersionException", API)], "KafkaClientFailed", False, False),
        ([kafka_error("ProducerFencedException", API)], "ProducerFenced", False, False),
        ([kafka_error("InvalidProducerEpochException", API)], "ProducerFenced", False, False),
        ([ExceptionInfo(("org.apache.spark.SparkClassNotFoundException",
                         "java.lang.ClassNotFoundException", *EXCEPTION), "x.Y")],
         "ClassNotFound", True, True),
        # A registry that is away, or fails, says nothing about the record.
        ([WRAPPER, ABORTED, SERIALIZATION, ExceptionInfo(
            ("java.net.ConnectException", "java.net.SocketException", *EXCEPTION), "refused")],
         "ConnectionFailed", False, False),
        ([WRAPPER, ABORTED, SERIALIZATION, ExceptionInfo(
            (REGISTRY_CLIENT, *IO), "", http_status=503)],
         "SchemaRegistryFailed", False, False),
        ([WRAPPER, ABORTED, SERIALIZATION, ExceptionInfo(
            (REGISTRY_CLIENT, *IO), "", http_status=401)],
         "SchemaRegistryFailed", False, False),
        ([WRAPPER, ABORTED, ExceptionInfo(
            SPARK, "Python worker exited unexpectedly (crashed)", in_task=True, thrown_by=
            "org.apache.spark.api.python.BasePythonRunner$ReaderIterator$$anonfun$1"),
          ExceptionInfo(("java.io.EOFException", *IO), "", thrown_by="java.io.DataInputStream")],
         "PythonWorkerDied", False, False),
        ([WRAPPER, ABORTED, ExceptionInfo(("org.apache.spark.TaskKilledException", *RUNTIME), "")],
         "TaskFailed", False, False),
        # At planning it is an option, in a task maybe a record.
        ([ExceptionInfo(("java.lang.IllegalArgumentException", *RUNTIME), "rowsPerSecond: -1")],
         "OptionInvalid", True, False),
        ([WRAPPER, ABORTED], "TaskFailed", False, False),
        # An executor was deleted to which a shuffle of real-time mode was connected.
        (
            [WRAPPER, ABORTED, ExceptionInfo(
                ("io.netty.channel.unix.Errors$NativeIoException", *IO), "reset", in_task=True)],
            "TaskFailed", False, False,
        ),
        (
            [WRAPPER, ABORTED, ExceptionInfo(("x.KafkaIllegalStateException", *RUNTIME), "lost",
                                    "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE", "22000")],
            "DataLoss", True, False,
        ),
        (
            [WRAPPER, ExceptionInfo(("org.apache.spark.SparkRuntimeException", *RUNTIME),
                                    "other state",
                                    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
                                    "42K03")],
            "StateOfAnotherQuery", True, False,
        ),
        # A stateless query becomes stateful.
        ([WRAPPER, ExceptionInfo(("org.apache.spark.SparkRuntimeException", *RUNTIME), "no state",
                                 "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY", "42K03")],
         "CheckpointHoldsNoState", True, False),
        # A file of the state is gone, seen in a task; a volume may come back.
        ([WRAPPER, ABORTED, ExceptionInfo(
            SPARK, "1.delta does not exist",
            "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS", "58030")],
         "CheckpointDamaged", True, True),
        # Spark itself, or a disk: no record causes it.
        ([WRAPPER, ABORTED, ExceptionInfo(("org.apache.spark.SparkRuntimeException", *RUNTIME), "",
                                          "CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT", "58030")],
         "CannotWriteStateStore", False, False),
        # The next start finds out whether records are lost.
        (
            [WRAPPER, ABORTED, ExceptionInfo(
                ("org.apache.kafka.clients.consumer.OffsetOutOfRangeException",
                 "org.apache.kafka.clients.consumer.InvalidOffsetException", *KAFKA), "in-0: 7")],
            "OffsetOutOfRange", False, False,
        ),
        ([WRAPPER, ExceptionInfo(("java.io.FileNotFoundException", *EXCEPTION), "/x")],
         "FileNotFound", False, False),
        ([ExceptionInfo(("java.lang.OutOfMemoryError", "java.lang.Error"), "Java heap space")],
         "OutOfMemory", False, False),
        ([], "Unknown", False, False),
    ],
)  # fmt: skip
def test_reasons(
    chain: list[ExceptionInfo], reason: str, permanent: bool, recoverable: bool
) -> None:
    failure = classify(chain)
    assert (failure.reason, failure.permanent, failure.recoverable) == (
        reason,
        permanent,
        recoverable,
    )


@pytest.mark.parametrize(
    ("sql_state", "reason", "permanent", "recoverable"),
    [
        ("28P01", "DatabaseAuthentication", True, True),
        ("42501", "DatabaseAuthorization", True, True),
        ("3D000", "TableMissing", True, True),
        ("42P01", "TableMissing", True, True),
        ("42703", "SinkColumns", True, True),
        ("22001", "RowNotWritable", False, True),
        ("23505", "RowNotWritable", False, True),
        ("P0001", "RowNotWritable", False, True),
        ("08006", "DatabaseNotAvailable", False, False),
        ("53300", "DatabaseNotAvailable", False, False),
        ("55P03", "DatabaseNotAvailable", False, False),
        ("57P03", "DatabaseNotAvailable", False, False),
    ],
)
def test_errors_of_a_database(
    sql_state: str, reason: str, permanent: bool, recoverable: bool
) -> None:
    """Their messages are made without values (DatabaseExceptionTest.java), so they are shown."""
    database = ("dev.penstock.spark.jdbc.DatabaseException", *RUNTIME)
    thrown = ExceptionInfo(database, "SQLSTATE of it", sql_state=sql_state, in_task=True)
    failure = classify([WRAPPER, ABORTED, thrown])
    found = (failure.reason, failure.permanent, failure.recoverable)
    assert found == (reason, permanent, recoverable)
    assert failure.maybe_poison == (reason == "RowNotWritable")
    assert failure.message.startswith("SQLSTATE of it")


def test_the_operation_is_named() -> None:
    message = "Continuous processing does not support Aggregate operations.;\nAggregate [...]"
    failure = classify([ExceptionInfo(ANALYSIS, message, "_LEGACY_ERROR_TEMP_3102")])
    assert "Aggregate" in failure.message
    assert "\n" not in failure.message


TRACEBACK = """[PYTHON_EXCEPTION] Thrown by the worker: Traceback (most recent call last):
  File "/opt/spark/worker.py", line 1, in main
    process()
  File "/code/flags.py", line 12, in score
    return int(text)
ValueError: invalid literal: 'card 4111'
File "4111", line 4111, in card
"""


@pytest.mark.parametrize(
    ("exception", "reason", "shown"),
    [
        # An ANSI cast error.
        (ExceptionInfo(("org.apache.spark.SparkNumberFormatException", *RUNTIME),
                       "The value 'card 4111' of the type STRING", "CAST_INVALID_INPUT",
                       "22018"),
         "CastInvalidInput", "CAST_INVALID_INPUT"),
        # A user's Java function.
        (ExceptionInfo(("java.lang.NumberFormatException", "java.lang.IllegalArgumentException",
                        *RUNTIME), 'For input string: "card 4111"'),
         "NumberFormat", "java.lang.NumberFormatException"),
        (ExceptionInfo(("java.time.format.DateTimeParseException", "java.time.DateTimeException",
                        *RUNTIME), "Text 'card 4111' could not be parsed"),
         "DateTimeParse", "java.time.format.DateTimeParseException"),
        (ExceptionInfo(("com.acme.Odd", *EXCEPTION), "card 4111", "FAILED_EXECUTE_UDF", "39000"),
         "FailedExecuteUdf", "FAILED_EXECUTE_UDF"),
        (ExceptionInfo(("org.apache.spark.api.python.PythonException", *RUNTIME), TRACEBACK),
         "PythonFailed", "ValueError in flags.py, line 12, score."),
        (SERIALIZATION, "Serialization", "SerializationException"),
        # A schema that the registry does not know.
        (ExceptionInfo((REGISTRY_CLIENT, *IO), "card 4111 not found; error code: 40403",
                       http_status=404),
         "SchemaUnknown", "Filter the record"),
        # Whatever else user code throws, checked or not.
        (ExceptionInfo(("java.lang.IllegalStateException", *RUNTIME), "card 4111",
                       thrown_by="java.util.regex.Matcher"),
         "IllegalState", "java.lang.IllegalStateException"),
        (ExceptionInfo(("java.io.UncheckedIOException", *RUNTIME), "card 4111",
                       thrown_by="com.acme.Parser"),
         "UncheckedIO", "java.io.UncheckedIOException"),
        (ExceptionInfo(("com.fasterxml.jackson.core.JsonParseException", *IO), "card 4111",
                       thrown_by="com.fasterxml.jackson.core.JsonParser"),
         "JsonParse", "JsonParseException"),
        (ExceptionInfo(("java.util.zip.ZipException", *IO), "card 4111",
                       thrown_by="java.util.zip.GZIPInputStream"),
         "Zip", "ZipException"),
        (ExceptionInfo(("com.acme.Checked", *EXCEPTION), "card 4111", thrown_by="com.acme.Parser"),
         "Checked", "com.acme.Checked"),
        (ExceptionInfo(("java.lang.AssertionError", *ERROR), "card 4111",
                       thrown_by="com.acme.Parser"),
         "Assertion", "java.lang.AssertionError"),
        (ExceptionInfo(("java.lang.StackOverflowError", "java.lang.VirtualMachineError", *ERROR),
                       "", thrown_by="java.util.regex.Pattern$Loop"),
         "StackOverflow", "-Xss in spec.driver.javaOptions, or with executors in"),
        # A condition that at planning is about the query.
        (ExceptionInfo(("org.apache.spark.SparkIllegalArgumentException",
                        "java.lang.IllegalArgumentException", *RUNTIME),
                       "The input card 4111 does not match", "INVALID_FORMAT.MISMATCH_INPUT",
                       "42601"),
         "InvalidFormat", "INVALID_FORMAT.MISMATCH_INPUT"),
        (ExceptionInfo(ANALYSIS, "card 4111", "PARSE_SYNTAX_ERROR", "42601"),
         "ParseSyntaxError", "PARSE_SYNTAX_ERROR"),
        # Records that Kafka's producer refuses.
        (ExceptionInfo(("x.KafkaIllegalStateException", *RUNTIME), "a null topic",
                       "KAFKA_NULL_TOPIC_IN_DATA"),
         "KafkaNullTopicInData", "spec.sink.kafka.topic"),
        (ExceptionInfo(("x.KafkaIllegalStateException", *RUNTIME), "timestamp value 4111",
                       "KAFKA_MALFORMED_RECORD_TIMESTAMP", "22008"),
         "KafkaMalformedRecordTimestamp", "milliseconds"),
        *(
            (ExceptionInfo((f"org.apache.kafka.common.{name}", *API), "card 4111"),
             "RecordNotWritable", "columns topic, partition and key")
            for name in ("errors.InvalidTopicException", "InvalidRecordException")
        ),
        (ExceptionInfo(("org.apache.kafka.common.errors.TimeoutException", *RETRIABLE),
                       "Partition 3 of topic out with partition count 2 is not present in metadata "
                       "after 60000 ms."),
         "RecordNotWritable", "column partition is 3, but the topic out has 2 partitions"),
    ],
)  # fmt: skip
def test_the_contents_of_a_record_are_never_shown(
    exception: ExceptionInfo, reason: str, shown: str
) -> None:
    failure = classify([WRAPPER, ABORTED, exception])
    assert failure.reason == reason
    assert shown in failure.message
    assert "4111" not in failure.message
    assert failure.maybe_poison
    assert failure.recoverable
    assert not failure.permanent


@pytest.mark.parametrize(
    ("frame", "code", "raised", "shown"),
    [
        ("flags.py", "import numpy as np", "ModuleNotFoundError: No module named 'numpy'",
         "ModuleNotFoundError in flags.py, line 12, score. No module named 'numpy'"),
        ("flags.py", "from numpy import x", "ImportError: cannot import name 'x'",
         "cannot import name 'x'"),
        # The text of the module is not at hand on the executor.
        ("inline", "", "ModuleNotFoundError: No module named '4111'",
         "ModuleNotFoundError in inline, line 12, score."),
        # A record may have named it.
        ("flags.py", "import_module(text)", "ModuleNotFoundError: No module named '4111'", None),
        ("flags.py", "pickle.loads(text)", "ModuleNotFoundError: No module named '4111'", None),
        ("flags.py", "import numpy as np", "ValueError: 4111", None),
    ],
)  # fmt: skip
def test_a_module_that_the_image_lacks(
    frame: str, code: str, raised: str, shown: str | None
) -> None:
    text = (
        "[PYTHON_EXCEPTION] Thrown by the worker: Traceback (most recent call last):\n"
        f'  File "/code/{frame}", line 12, in score\n' + (f"    {code}\n" if code else "") + raised
    )
    thrown = ExceptionInfo(
        ("org.apache.spark.api.python.PythonException", *RUNTIME),
        text, "PYTHON_EXCEPTION", "38000", in_task=True,
    )  # fmt: skip
    failure = classify([WRAPPER, ABORTED, thrown])
    assert "4111" not in failure.message
    if shown is None:
        assert (failure.reason, failure.maybe_poison) == ("PythonFailed", True)
        return
    assert shown in failure.message
    assert "the image" in failure.message
    assert (failure.reason, failure.permanent, failure.recoverable) == ("ModuleMissing", True, True)
    assert not failure.maybe_poison


def test_what_python_raises_before_any_record_is_the_codes_fault() -> None:
    """As pyspark's worker says it, which first calls a processor's init()."""
    text = (
        "[PYTHON_EXCEPTION] Thrown by the worker: Traceback (most recent call last):\n"
        '  File "/x/pyspark/stateful_processor_util.py", line 81, in transformWithStateUDF\n'
        "    self._stateful_processor.init(handle)\n"
        '  File "/code/counting.py", line 10, in init\n'
        '    handle.getValueState("count", "n INT", 1000)\n'
        "    ^^^^^^^^^^^^^^^^^^^^\n"
        "StateError: Cannot use TTL in timeMode=NONE\n"
    )
    classes = ("org.apache.spark.api.python.PythonException", *RUNTIME)
    failure = classify([WRAPPER, ExceptionInfo(classes, text, "PYTHON_EXCEPTION", in_task=True)])
    assert (failure.reason, failure.permanent) == ("PythonFailed", True)
    assert "counting.py, line 10, init. Cannot use TTL in timeMode=NONE" in failure.message
    later = text.replace(".init(handle)", ".handleInputRows(key, rows, timers)")
    failure = classify([WRAPPER, ExceptionInfo(classes, later, "PYTHON_EXCEPTION", in_task=True)])
    assert failure.maybe_poison
    assert "TTL" not in failure.message


@pytest.mark.parametrize(
    ("method", "error", "shown", "permanent"),
    [
        ("connect", "requests.exceptions.HTTPError: 401 Client Error", "401 Client Error", False),
        ("read", "ValueError: cannot parse 4111 1111", None, False),
        ("__init__", "TypeError: int() argument must be a string", "int() argument", True),
        ("schema", "NotImplementedError: no schema", "no schema", True),
    ],
)
def test_a_python_data_source_may_have_a_server_that_is_away(
    method: str, error: str, shown: str | None, permanent: bool
) -> None:
    """Spark says that it is an error of analysis, and shows what was raised first, first."""
    text = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data source initialize source: "
        "Traceback (most recent call last):\n"
        '  File "/x/pyspark/sql/datasource.py", line 259, in streamReader\n'
        "    raise PySparkNotImplementedError(\n"
        "pyspark.errors.exceptions.base.PySparkNotImplementedError: [NOT_IMPLEMENTED] it\n"
        "\nDuring handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        f'  File "/code/sensors.py", line 10, in {method}\n'
        "    ask()\n"
        f"{error}\n"
        "\nDuring handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/x/pyspark/sql/streaming/python_streaming_source_runner.py", line 295, in main\n'
        "UnboundLocalError: cannot access local variable 'reader'\n"
    )
    classes = ("org.apache.spark.sql.AnalysisException", "java.lang.Exception")
    failure = classify([ExceptionInfo(classes, text, "PYTHON_DATA_SOURCE_ERROR", "38000")])
    assert (failure.reason, failure.permanent) == ("PythonDataSourceError", permanent)
    assert f"sensors.py, line 10, {method}." in failure.message
    assert "4111" not in failure.message
    assert shown is None or shown in failure.message


def test_how_a_processor_uses_state_is_shown() -> None:
    """Spark finds it in a task, but no record has to do with it."""
    condition = "STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL"
    wrong = ExceptionInfo(RUNTIME, "Cannot use TTL for state=count", condition, "42802")
    failure = classify([WRAPPER, ABORTED, wrong])
    assert (failure.permanent, failure.maybe_poison) == (True, False)
    assert "Cannot use TTL for state=count" in failure.message


def test_a_topic_that_a_record_names_and_that_does_not_exist() -> None:
    """Without Kafka's answer that it does not exist, the brokers are away."""
    timeout = ExceptionInfo(
        ("org.apache.kafka.common.errors.TimeoutException", *RETRIABLE),
        "Topic letters not present in metadata after 60000 ms.",
    )
    unknown = kafka_error("UnknownTopicOrPartitionException", RETRIABLE)
    failure = classify([WRAPPER, ABORTED, timeout, unknown])
    assert failure.reason == "RecordNotWritable"
    assert failure.maybe_poison
    assert "The topic letters, which a record's column topic names" in failure.message
    assert classify([WRAPPER, ABORTED, timeout]).reason == "BrokerUnreachable"
    # Nothing but a name of a topic is quoted.
    odd = replace(timeout, message="Topic card 4111 not present in metadata after 60000 ms.")
    assert "4111" not in classify([WRAPPER, ABORTED, odd, unknown]).message
    assert "4111" not in classify([WRAPPER, ABORTED, odd]).message


def test_a_topic_that_may_not_be_written_is_named() -> None:
    refused = ExceptionInfo(
        ("org.apache.kafka.common.errors.AuthorizationException", *API),
        "Not authorized to access topics: [letters]",
    )
    assert "[letters]" in classify([WRAPPER, ABORTED, refused]).message


def test_a_record_that_is_too_large_comes_with_the_option() -> None:
    failure = classify([WRAPPER, ABORTED, kafka_error("RecordTooLargeException", API)])
    assert "kafka.max.request.size in spec.sink.kafka.options" in failure.message


def test_at_planning_a_condition_is_about_the_query() -> None:
    """The same condition as of a record above: the message may be shown."""
    illegal = ("org.apache.spark.SparkIllegalArgumentException", *RUNTIME)
    failure = classify(
        [ExceptionInfo(illegal, "bad format $9", "INVALID_FORMAT.MISMATCH", "42601")]
    )
    assert failure.permanent
    assert "bad format $9" in failure.message


@pytest.mark.parametrize(
    "chain",
    [
        [WRAPPER, ABORTED],
        # What runs around the user's code: Spark that is being stopped, files, shuffles, services.
        *(
            [WRAPPER, ABORTED, ExceptionInfo((name, *parents), "card 4111", thrown_by=thrown_by)]
            for name, parents, thrown_by in (
                ("java.lang.IllegalStateException", RUNTIME, "org.apache.spark.SparkContext"),
                (
                    "java.lang.IllegalStateException",
                    RUNTIME,
                    "org.apache.commons.pool2.impl.BaseGenericObjectPool",
                ),
                ("java.io.UncheckedIOException", RUNTIME, "java.io.BufferedReader$1"),
                ("java.io.FileNotFoundException", IO, "java.io.FileInputStream"),
                ("java.io.IOException", IO[1:], "sun.nio.ch.SocketDispatcher"),
                ("org.apache.http.NoHttpResponseException", IO, "org.apache.http.impl.X"),
                ("org.rocksdb.RocksDBException", EXCEPTION, "org.rocksdb.RocksDB"),
                ("org.apache.spark.shuffle.FetchFailedException", EXCEPTION, "org.apache.spark.X"),
                ("org.postgresql.PSQLException", ("java.sql.SQLException", *EXCEPTION), "org.x"),
                ("java.lang.InternalError", ("java.lang.VirtualMachineError", *ERROR), "x.Y"),
            )
        ),
        # A function may take the host from a record.
        [WRAPPER, ABORTED, ExceptionInfo(("java.net.UnknownHostException", *EXCEPTION), "4111.de")],
        [
            WRAPPER,
            ABORTED,
            ExceptionInfo(
                ("org.apache.kafka.common.errors.AuthorizationException", *API),
                "Not authorized to access topics: [card 4111]",
            ),
        ],
    ],
)
def test_no_message_of_a_task_is_shown_unless_its_class_is_known(
    chain: list[ExceptionInfo],
) -> None:
    failure = classify(chain)
    assert "4111" not in failure.message
    assert not failure.maybe_poison


@pytest.mark.parametrize(
    ("name", "message", "shown"),
    [
        ("NoSuchMethodError", "'void com.acme.Old.add(int)'", True),
        ("NoClassDefFoundError", "com/acme/Missing", True),
        ("ExceptionInInitializerError", "card 4111", False),
    ],
)
def test_classes_that_do_not_fit_are_no_records_fault(name: str, message: str, shown: bool) -> None:
    """Also in a function of the user, of which Spark says FAILED_EXECUTE_UDF."""
    parents = ("java.lang.IncompatibleClassChangeError",) if name == "NoSuchMethodError" else ()
    linkage = ExceptionInfo(
        (f"java.lang.{name}", *parents, "java.lang.LinkageError", *ERROR), message
    )
    udf = ExceptionInfo(SPARK, "card 4111", "FAILED_EXECUTE_UDF", "39000")
    failure = classify([WRAPPER, ABORTED, udf, linkage])
    assert (failure.reason, failure.permanent, failure.recoverable) == (
        "ClassNotUsable",
        True,
        True,
    )
    assert not failure.maybe_poison
    assert (message in failure.message) is shown
    assert "4111" not in failure.message


def test_a_class_that_planning_does_not_find_is_what_spark_says() -> None:
    missing = ExceptionInfo(("java.lang.ClassNotFoundException", *EXCEPTION), "x.DefaultSource")
    of_spark = ExceptionInfo(
        ("org.apache.spark.SparkClassNotFoundException", *missing.classes),
        "Failed to find the data source: x",
        "DATA_SOURCE_NOT_FOUND",
        "42K02",
    )
    assert "the data source: x" in classify([of_spark, missing]).message
    assert classify([WRAPPER, ABORTED, missing]).reason == "ClassNotUsable"


def test_an_exception_that_cannot_be_read_is_classified_by_its_python_class() -> None:
    """The JVM may exit while its exception is read."""

    class Gone:
        _target_id = "o1"

        def getClass(self) -> object:
            raise Py4JNetworkError("Answer from Java side is empty")

    error = Py4JJavaError("An error occurred: card 4111", Gone())
    failure = classify_exception(error)
    assert failure.reason == "Py4JJava"
    assert "4111" not in failure.message
    assert not failure.permanent


def test_a_python_exception_is_transient() -> None:
    failure = classify_exception(ValueError("spec.source names no source"))
    assert failure.reason == "Value"
    assert not failure.permanent


NAMES = st.from_regex(r"[A-Za-z_$.0-9]{1,40}", fullmatch=True)


@given(
    st.lists(st.builds(ExceptionInfo, st.tuples(NAMES), st.text(), st.none() | NAMES), max_size=5)
)
def test_any_exception_can_be_reported(chain: list[ExceptionInfo]) -> None:
    failure = classify(chain).to_status(datetime.now(UTC))
    assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", failure.reason)
    assert len(failure.message) < 2000


@pytest.mark.parametrize(
    ("error", "reads_ahead", "record", "words"),
    [
        (ExceptionInfo(RUNTIME, "card 4111", in_task=True), False, IN_HAND, "is in/3@1234 (topic"),
        (ExceptionInfo(RUNTIME, "", in_task=True), True, None, ", or was read before it."),
        # Kafka's producer reports it with a later record.
        (
            ExceptionInfo(
                ("org.apache.kafka.common.errors.InvalidTopicException", *API), "", in_task=True
            ),
            False,
            None,
            ", or was read before it.",
        ),
        (ExceptionInfo(("java.net.SocketException", *EXCEPTION), ""), False, None, ""),
    ],
)
def test_the_record_in_hand(
    error: ExceptionInfo, reads_ahead: bool, record: Position | None, words: str
) -> None:
    """Only a failure over a record names it."""
    chain = [WRAPPER, ABORTED, replace(error, in_hand=IN_HAND)]
    failure = classify(chain, reads_ahead=reads_ahead)
    assert failure.record == record
    assert words in failure.message
    assert ("1234" in failure.message) is bool(words)
