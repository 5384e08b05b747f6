"""What each class of exception means: the table that classify.py looks up.

The classes and Spark's error conditions decide, never the text of a message. What is outside and
may come back (name servers, certificates, rights, brokers, registries) is transient or recoverable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.contract.remedies import REMEDIES
from penstock.driver.exceptions import spark_error_conditions
from penstock.driver.exceptions.chain import REGISTRY_CLIENT
from penstock.driver.exceptions.spark_error_conditions import Verdict
from penstock.driver.failures import (
    API_SERVER_UNREACHABLE,
    BROKER_UNREACHABLE,
    CHECKPOINT_DAMAGED,
    CHECKPOINT_HOLDS_NO_STATE,
    CLASS_NOT_USABLE,
    CONSUMER_GROUP_HAS_MEMBERS,
    DATABASE_AUTHENTICATION,
    DATABASE_AUTHORIZATION,
    DATABASE_IS_OLDER,
    DATABASE_NOT_AVAILABLE,
    EXACTLY_ONCE_IMPOSSIBLE,
    KAFKA_AUTHORIZATION,
    OFFSET_OUT_OF_RANGE,
    PYTHON_WORKER_DIED,
    RECORD_NOT_WRITABLE,
    RECORD_TOO_LARGE,
    ROW_NOT_WRITABLE,
    SINK_COLUMNS,
    TABLE_MISSING,
    TABLE_TAKEN_OVER,
    TASK_FAILED,
    TOPIC_MISSING,
)

_KAFKA = "org.apache.kafka.common"


@dataclass(frozen=True)
class Rule:
    """What one class of exceptions, or one error condition, means."""

    name: str
    """A class of the exception, or a prefix of its condition."""
    reason: str | None = None
    """None: derived from the condition, or from the name of the class."""
    permanent: bool = False
    recoverable: bool = False
    advice: str = ""
    is_record_error: bool = False
    """One record may cause it, so the failure is a possible poison record."""
    shows_message: bool = False
    """Its messages never quote a record, so they can be shown wherever it was thrown."""
    thrown_by: str | tuple[str, ...] = ""
    """If set, the rule holds only for exceptions that this class, or one of these packages, has
    thrown: the beginnings of their names."""
    http_status: int | None = None
    """If set, the rule holds only for the exception of a client that got this status."""
    in_task: bool | None = None
    """If set, the rule holds only for exceptions thrown in a task, or only for all others."""
    sql_states: tuple[str, ...] = ()
    """If set, the rule holds only for a database's error with one of them: their beginnings."""


# What runs around the user's code in a task. No record causes what it throws by itself.
_AROUND_USER_CODE = (
    "org.apache.spark.",
    "org.apache.hadoop.",
    "org.apache.kafka.",
    "org.apache.commons.pool2.",  # Spark's consumers of Kafka
    "org.rocksdb.",
    "io.netty.",
)
_JDK = ("java.", "javax.", "jdk.", "sun.", "com.sun.")
# Clients of services that user code calls.
_CLIENTS = ("org.apache.http.", "org.apache.hc.", "okhttp3.", "software.amazon.", "com.amazonaws.")

# Spark's writer has no column for it (KafkaWriter, 4.2): the producer takes its own clock.
CLOCKS_DIFFER = Rule(
    f"{_KAFKA}.errors.InvalidTimestampException",
    "ClocksDiffer",
    advice=REMEDIES["ClocksDiffer"].action,
)

_DATABASE = "dev.penstock.spark.jdbc.DatabaseException"
# The class of an error is in the first two letters of its SQLSTATE (PostgreSQL's documentation,
# appendix A).
_OF_DATABASE = (
    # Somebody else has made a table of this name; the next run has another name.
    Rule(_DATABASE, DATABASE_NOT_AVAILABLE, shows_message=True, sql_states=("42P07",)),
    *(
        Rule(
            _DATABASE,
            reason,
            permanent=True,
            recoverable=True,
            shows_message=True,
            advice=REMEDIES[reason].action,
            sql_states=states,
        )
        for reason, states in (
            (DATABASE_AUTHENTICATION, ("28",)),
            (DATABASE_AUTHORIZATION, ("42501",)),
            # Undefined tables, databases and schemas.
            (TABLE_MISSING, ("42P01", "3D", "3F")),
            # Names and types that are not, or no longer, those of the table.
            (SINK_COLUMNS, ("42",)),
        )
    ),
    # Data that a type or an index does not take, constraints, and what a trigger raises.
    Rule(
        _DATABASE,
        ROW_NOT_WRITABLE,
        is_record_error=True,
        shows_message=True,
        advice=REMEDIES[ROW_NOT_WRITABLE].action,
        sql_states=("21", "22", "23", "44", "54", "P0"),
    ),
    Rule(
        _DATABASE,
        DATABASE_NOT_AVAILABLE,
        shows_message=True,
        advice=REMEDIES[DATABASE_NOT_AVAILABLE].action,
    ),
    Rule("dev.penstock.spark.jdbc.FencedException", TABLE_TAKEN_OVER, shows_message=True),
    Rule(
        "dev.penstock.spark.jdbc.OlderDatabaseException",
        DATABASE_IS_OLDER,
        permanent=True,
        recoverable=True,
        shows_message=True,
        advice=REMEDIES[DATABASE_IS_OLDER].action,
    ),
)

# The first rule that matches the innermost exception decides. Subclasses come before superclasses:
# in Kafka an unknown topic is a RetriableException, because it waits for its metadata.
SPECIFIC: tuple[Rule, ...] = (
    *_OF_DATABASE,
    *(
        Rule(name, "UnsupportedOperation", permanent=True, shows_message=True)
        for name in (
            "_LEGACY_ERROR_TEMP_3102",
            "_LEGACY_ERROR_TEMP_2256",
            "STREAMING_REAL_TIME_MODE",
            "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
        )
    ),
    Rule(
        "STREAMING_OUTPUT_MODE",
        "UnsupportedOperation",
        permanent=True,
        shows_message=True,
        advice="An aggregate in outputMode append groups by window(<event time>, ...), or by the "
        "column of the watermark itself, named in the rows that have it: no function of it, and no "
        "column of a DataFrame from before withWatermark, carries the watermark.",
    ),
    *(
        Rule(
            f"{kind.upper()}_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE",
            permanent=True,
            shows_message=True,
            in_task=False,
            # In place of Spark's own, which is about the command line.
            advice=f"Name the package org.apache.spark:spark-{kind}_2.13:4.2.0 in "
            "spec.dependencies.packages, or an image that has it.",
        )
        for kind in ("avro", "protobuf")
    ),
    # The next start finds out whether records are lost, and how many (data_loss.py).
    Rule(
        "org.apache.kafka.clients.consumer.OffsetOutOfRangeException",
        OFFSET_OUT_OF_RANGE,
        shows_message=True,
    ),
    # "No offset matched": a partition has no record at the time of the start, or after it.
    Rule(
        "java.lang.IllegalArgumentException",
        "OptionInvalid",
        permanent=True,
        recoverable=True,
        shows_message=True,
        thrown_by="org.apache.spark.sql.kafka010.KafkaOffsetReaderAdmin",
        in_task=False,
        advice="Set startingOffsetsByTimestampStrategy to latest in spec.source.kafka.options to "
        "start at the end of such a partition, or give an earlier time.",
    ),
    # The task finds out how Spark has planned a join.
    Rule(
        "java.lang.IllegalArgumentException",
        EXACTLY_ONCE_IMPOSSIBLE,
        permanent=True,
        shows_message=True,
        thrown_by="dev.penstock.spark.TransactionOptions",
        advice=REMEDIES[EXACTLY_ONCE_IMPOSSIBLE].action,
    ),
    # In a task a record may cause it: a format or a schema that a column holds.
    Rule(
        "org.apache.spark.sql.AnalysisException", permanent=True, shows_message=True, in_task=False
    ),
    Rule(
        f"{_KAFKA}.errors.UnknownTopicOrPartitionException",
        TOPIC_MISSING,
        permanent=True,
        recoverable=True,
        shows_message=True,
        advice=REMEDIES[TOPIC_MISSING].action,
    ),
    CLOCKS_DIFFER,
    # The brokers' maximum was lowered since it was asked for, or may not be asked for.
    Rule(
        f"{_KAFKA}.errors.InvalidTxnTimeoutException",
        EXACTLY_ONCE_IMPOSSIBLE,
        permanent=True,
        recoverable=True,
        shows_message=True,
        advice="Set kafka.transaction.timeout.ms in spec.sink.kafka.options to at most the "
        "brokers' transaction.max.timeout.ms.",
    ),
    # What the columns topic and partition of a record ask for, or a key that compaction needs.
    *(
        Rule(
            f"{_KAFKA}.{name}",
            RECORD_NOT_WRITABLE,
            advice=REMEDIES[RECORD_NOT_WRITABLE].action,
            is_record_error=True,
            in_task=True,
        )
        for name in (
            "errors.InvalidTopicException",
            "InvalidRecordException",
        )
    ),
    Rule(
        f"{_KAFKA}.errors.InvalidTopicException", "TopicInvalid", permanent=True, shows_message=True
    ),
    # Also a refused TLS handshake: certificates rotate.
    Rule(
        f"{_KAFKA}.errors.AuthenticationException",
        "KafkaAuthentication",
        permanent=True,
        recoverable=True,
        shows_message=True,
        advice=REMEDIES["KafkaAuthentication"].action,
    ),
    # Topics, groups, transactional ids and the cluster.
    Rule(
        f"{_KAFKA}.errors.AuthorizationException",
        KAFKA_AUTHORIZATION,
        permanent=True,
        recoverable=True,
        shows_message=True,
        advice=REMEDIES[KAFKA_AUTHORIZATION].action,
    ),
    *(
        Rule(
            f"{_KAFKA}.errors.{name}",
            "ProducerFenced",
            shows_message=True,
            advice=REMEDIES["ProducerFenced"].action,
        )
        for name in ("ProducerFencedException", "InvalidProducerEpochException")
    ),
    *(
        Rule(
            f"{_KAFKA}.errors.{name}",
            RECORD_TOO_LARGE,
            permanent=True,
            recoverable=True,
            shows_message=True,
            advice=REMEDIES[RECORD_TOO_LARGE].action,
        )
        for name in ("RecordTooLargeException", "RecordBatchTooLargeException")
    ),
    # Kafka's answer to offsets of a group that come from none of its members.
    Rule(
        f"{_KAFKA}.errors.UnknownMemberIdException",
        CONSUMER_GROUP_HAS_MEMBERS,
        permanent=True,
        recoverable=True,
        shows_message=True,
    ),
    # Every client resolves the brokers' names when it is created, and calls an unknown name a wrong
    # configuration (ClientUtils.parseAndValidateAddresses). A name server that is away comes back.
    Rule(
        f"{_KAFKA}.config.ConfigException",
        BROKER_UNREACHABLE,
        shows_message=True,
        advice="The name server does not know the hosts of bootstrapServers, or does not answer.",
        thrown_by="org.apache.kafka.clients.ClientUtils",
    ),
    # A Secret's file that cannot be read now, or holds no key or certificate.
    Rule(
        f"{_KAFKA}.config.ConfigException",
        "KafkaOptionInvalid",
        permanent=True,
        recoverable=True,
        shows_message=True,
        thrown_by="org.apache.kafka.common.config.provider.DirectoryConfigProvider",
    ),
    Rule(
        f"{_KAFKA}.errors.InvalidConfigurationException",
        "KafkaOptionInvalid",
        permanent=True,
        recoverable=True,
        shows_message=True,
    ),
    Rule(
        f"{_KAFKA}.config.ConfigException",
        "KafkaOptionInvalid",
        permanent=True,
        shows_message=True,
    ),
    Rule(f"{_KAFKA}.errors.RetriableException", BROKER_UNREACHABLE, shows_message=True),
    # A jar of spec.dependencies may be missing at its URL only for now.
    Rule(
        "org.apache.spark.SparkClassNotFoundException",
        "ClassNotFound",
        permanent=True,
        recoverable=True,
        shows_message=True,
    ),
    # Classes of the image and of spec.dependencies that do not fit each other. The JVM says which
    # class or method it misses.
    *(
        Rule(
            f"java.lang.{name}",
            CLASS_NOT_USABLE,
            permanent=True,
            recoverable=True,
            shows_message=shown,
            advice=REMEDIES[CLASS_NOT_USABLE].action,
            in_task=in_task,
        )
        for name, shown, in_task in (
            ("IncompatibleClassChangeError", True, None),  # also NoSuchMethodError and its like
            ("NoClassDefFoundError", True, None),
            ("UnsupportedClassVersionError", True, None),
            ("LinkageError", False, None),  # also a class's own initializer, whose cause it shows
            # User code may take its name from a record. At planning Spark says what it looked for.
            ("ClassNotFoundException", False, True),
        )
    ),
    Rule(
        "org.apache.spark.SparkException",
        PYTHON_WORKER_DIED,
        shows_message=True,
        thrown_by="org.apache.spark.api.python.BasePythonRunner$ReaderIterator",
        advice=REMEDIES[PYTHON_WORKER_DIED].action,
    ),
    Rule(
        "java.lang.OutOfMemoryError",
        "OutOfMemory",
        shows_message=True,
        advice=REMEDIES["OutOfMemory"].action,
    ),
)

# Looked up, from the root outward, if no specific rule matches any of the causes.
SERVICES: tuple[Rule, ...] = (
    # A service that a function calls, such as a schema registry, does not answer, or answers with
    # an error. It may be wrapped in an exception that otherwise means a bad record. The message has
    # the host, which a function may take from a record.
    Rule("java.net.UnknownHostException", "HostUnknown"),
    Rule("java.net.SocketException", "ConnectionFailed"),
    Rule("java.net.SocketTimeoutException", "ConnectionFailed"),
    Rule("java.net.http.HttpTimeoutException", "ConnectionFailed"),
    Rule("javax.net.ssl.SSLException", "TlsFailed"),
    # A registry that works and does not know the schema that a record names.
    Rule(
        REGISTRY_CLIENT,
        "SchemaUnknown",
        http_status=404,
        is_record_error=True,
        advice=REMEDIES["SchemaUnknown"].action,
    ),
    Rule(REGISTRY_CLIENT, "SchemaRegistryFailed"),
    Rule(f"{_KAFKA}.errors.SerializationException", "Serialization", is_record_error=True),
    Rule("org.apache.spark.api.python.PythonException", "PythonFailed", is_record_error=True),
    Rule(f"{_KAFKA}.KafkaException", "KafkaClientFailed", shows_message=True),
)

# After those, and after the verdicts on Spark's error conditions.
CLASSES: tuple[Rule, ...] = (
    # Conditions without a SQLSTATE (_LEGACY_ERROR_TEMP_...).
    Rule("org.apache.spark.SparkArithmeticException", is_record_error=True),
    Rule("org.apache.spark.SparkDateTimeException", is_record_error=True),
    Rule("org.apache.spark.SparkNumberFormatException", is_record_error=True),
    Rule("org.apache.spark.SparkArrayIndexOutOfBoundsException", is_record_error=True),
    Rule("org.apache.spark.SparkRuntimeException", is_record_error=True),
    Rule("org.apache.spark.SparkUnsupportedOperationException", permanent=True),
    Rule("org.apache.spark.TaskKilledException", TASK_FAILED),
    # The session is being stopped, or files cannot be read: no record causes it.
    Rule("java.lang.IllegalStateException", in_task=True, thrown_by=_AROUND_USER_CODE),
    Rule("java.io.UncheckedIOException", in_task=True, thrown_by=(*_AROUND_USER_CODE, *_JDK)),
    # Code of the user, or a function of Spark, that refuses a value.
    Rule("java.lang.RuntimeException", is_record_error=True, in_task=True),
    Rule("java.lang.IllegalArgumentException", "OptionInvalid", permanent=True, in_task=False),
    # Spark's own client of the API server: for executors, while the session starts.
    Rule("io.fabric8.kubernetes.client.KubernetesClientException", API_SERVER_UNREACHABLE),
)

# After all those, for the checked exceptions and the errors of user code: what is around it, and
# then what else it throws in a task.
LAST: tuple[Rule, ...] = (
    # Bytes that are not what they should be.
    Rule(
        "java.io.IOException",
        is_record_error=True,
        in_task=True,
        thrown_by=("java.util.zip.", "java.nio.charset."),
    ),
    Rule("java.io.IOException", TASK_FAILED, in_task=True, thrown_by=(*_CLIENTS, *_JDK)),
    *(
        Rule(name, TASK_FAILED, in_task=True)
        for name in (
            # The other side of a shuffle has gone. Netty throws these without a stack.
            "io.netty.channel.unix.Errors$NativeIoException",
            "java.nio.channels.ClosedChannelException",
            "java.sql.SQLException",
            "java.lang.InterruptedException",
            "java.util.concurrent.TimeoutException",
            "java.util.concurrent.ExecutionException",
        )
    ),
    Rule("java.lang.Exception", TASK_FAILED, in_task=True, thrown_by=_AROUND_USER_CODE),
    Rule("org.apache.spark.SparkException", TASK_FAILED),
    Rule("java.lang.Exception", is_record_error=True, in_task=True),
    Rule(
        "java.lang.StackOverflowError",
        is_record_error=True,
        in_task=True,
        advice="A regular expression or a function calls itself too deeply for it: simplify it, or "
        "raise -Xss in spec.driver.javaOptions, or with executors in spec.executor.javaOptions.",
    ),
    Rule("java.lang.VirtualMachineError", in_task=True),
    Rule("java.lang.Error", is_record_error=True, in_task=True),
)


def of_condition(condition: str | None, sql_state: str | None, *, in_task: bool) -> Rule | None:
    """The rule for an error condition of Spark, by the verdict on it; None without a verdict."""
    if condition is None or condition in _WRAPPERS:
        return None
    verdict = spark_error_conditions.verdict(condition, sql_state)
    match verdict:
        case None:
            return None
        case Verdict.TRANSIENT:
            return Rule(condition)
        case Verdict.PROCESSOR:
            return Rule(condition, permanent=True, shows_message=True)
        case Verdict.SPEC if not in_task:
            return Rule(condition, permanent=True, shows_message=True)
        case Verdict.SPEC | Verdict.RECORD:
            return Rule(condition, advice=_ADVICE.get(condition, ""), is_record_error=True)
    reason = _REASONS[verdict]
    return Rule(
        condition,
        reason,
        permanent=True,
        # A volume that cannot be read may be readable again.
        recoverable=verdict is Verdict.DAMAGED_STATE,
        shows_message=condition not in spark_error_conditions.QUOTING,
        advice=REMEDIES[reason].action,
    )


_REASONS: Mapping[Verdict, str] = {
    Verdict.OTHER_STATE: "StateOfAnotherQuery",
    Verdict.NO_STATE: CHECKPOINT_HOLDS_NO_STATE,
    Verdict.DAMAGED: CHECKPOINT_DAMAGED,
    Verdict.DAMAGED_STATE: CHECKPOINT_DAMAGED,
    Verdict.DATA_LOSS: "DataLoss",
}
# They say only that something else has failed.
_WRAPPERS = frozenset({"STREAM_FAILED", "TASK_WRITE_FAILED"})
_ADVICE = {
    "KAFKA_NULL_TOPIC_IN_DATA": "Its column topic is null: set spec.sink.kafka.topic, or give each "
    "record a topic in the transform.",
    "KAFKA_MALFORMED_RECORD_TIMESTAMP": "The timestamp of a record in the source is out of range: "
    "its producer does not write milliseconds.",
}
