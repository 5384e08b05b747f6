"""What each class of exception means: the table that classify.py looks up.

The classes and Spark's error conditions decide, never the text of a message. What is outside and
may come back (name servers, certificates, rights, brokers, registries) is transient or recoverable.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.contract.reasons import REMEDIES
from penstock.driver.failures import (
    API_SERVER_UNREACHABLE,
    BROKER_UNREACHABLE,
    KAFKA_AUTHORIZATION,
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
    thrown_by: str = ""
    """If set, the rule holds only for exceptions that this class has thrown."""
    in_task: bool | None = None
    """If set, the rule holds only for exceptions thrown in a task, or only for all others."""


# Conditions that a query gets on the state of another query.
_CHANGED_STATE = (
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
)

# The first rule that matches the innermost exception decides. Subclasses come before superclasses:
# in Kafka an unknown topic is a RetriableException, because it waits for its metadata.
SPECIFIC: tuple[Rule, ...] = (
    *(
        Rule(name, "UnsupportedOperation", permanent=True, shows_message=True)
        for name in (
            "_LEGACY_ERROR_TEMP_3102",
            "_LEGACY_ERROR_TEMP_2256",
            "STREAMING_OUTPUT_MODE",
            "STREAMING_REAL_TIME_MODE",
            "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
        )
    ),
    Rule(
        "KAFKA_DATA_LOSS",
        "DataLoss",
        permanent=True,
        shows_message=True,
        advice=REMEDIES["DataLoss"].action,
    ),
    # SparkRuntimeExceptions that no record causes; the rule for all others is below.
    Rule(
        "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
        "CheckpointDamaged",
        permanent=True,
        shows_message=True,
        advice=REMEDIES["CheckpointDamaged"].action,
    ),
    *(
        Rule(
            name,
            "StateOfAnotherQuery",
            permanent=True,
            shows_message=True,
            advice=REMEDIES["StateOfAnotherQuery"].action,
        )
        for name in _CHANGED_STATE
    ),
    # The next start finds out whether records are lost, and how many (data_loss.py).
    Rule(
        "org.apache.kafka.clients.consumer.OffsetOutOfRangeException",
        "OffsetOutOfRange",
        shows_message=True,
    ),
    Rule("org.apache.spark.sql.AnalysisException", permanent=True, shows_message=True),
    Rule(
        f"{_KAFKA}.errors.UnknownTopicOrPartitionException",
        TOPIC_MISSING,
        permanent=True,
        recoverable=True,
        shows_message=True,
        advice=REMEDIES[TOPIC_MISSING].action,
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
    Rule(
        f"{_KAFKA}.errors.RecordTooLargeException",
        "RecordTooLarge",
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
    Rule(
        "java.lang.OutOfMemoryError",
        "OutOfMemory",
        shows_message=True,
        advice=REMEDIES["OutOfMemory"].action,
    ),
)

# Looked up if no specific rule matches any of the causes.
GENERAL: tuple[Rule, ...] = (
    # A service that a function calls, such as a schema registry, is away or answers with an error.
    # It may be wrapped in an exception that otherwise means a bad record.
    Rule("java.net.UnknownHostException", "HostUnknown", shows_message=True),
    Rule("java.net.SocketException", "ConnectionFailed", shows_message=True),
    Rule("java.net.SocketTimeoutException", "ConnectionFailed", shows_message=True),
    Rule("java.net.http.HttpTimeoutException", "ConnectionFailed", shows_message=True),
    Rule("javax.net.ssl.SSLException", "TlsFailed", shows_message=True),
    Rule(
        "io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException",
        "SchemaRegistryFailed",
    ),
    Rule(f"{_KAFKA}.errors.SerializationException", "Serialization", is_record_error=True),
    Rule(f"{_KAFKA}.KafkaException", "KafkaClientFailed", shows_message=True),
    Rule("org.apache.spark.api.python.PythonException", "PythonFailed", is_record_error=True),
    Rule("org.apache.spark.SparkArithmeticException", is_record_error=True),
    Rule("org.apache.spark.SparkDateTimeException", is_record_error=True),
    Rule("org.apache.spark.SparkNumberFormatException", is_record_error=True),
    Rule("org.apache.spark.SparkArrayIndexOutOfBoundsException", is_record_error=True),
    Rule("org.apache.spark.SparkRuntimeException", is_record_error=True),
    Rule("FAILED_EXECUTE_UDF", is_record_error=True),
    Rule("MALFORMED_RECORD_IN_PARSING", is_record_error=True),
    Rule("org.apache.spark.SparkUnsupportedOperationException", permanent=True),
    Rule("org.apache.spark.TaskKilledException", TASK_FAILED),
    # The session is being stopped, or files cannot be read: no record causes it.
    Rule("java.lang.IllegalStateException", in_task=True),
    Rule("java.io.UncheckedIOException", in_task=True),
    # Code of the user, or a function of Spark, that refuses a value.
    Rule("java.lang.RuntimeException", is_record_error=True, in_task=True),
    Rule("java.lang.IllegalArgumentException", "OptionInvalid", permanent=True, in_task=False),
    # Spark's own client of the API server: for executors, while the session starts.
    Rule("io.fabric8.kubernetes.client.KubernetesClientException", API_SERVER_UNREACHABLE),
    Rule("org.apache.spark.SparkException", TASK_FAILED),
)
