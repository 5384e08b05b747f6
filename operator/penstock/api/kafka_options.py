"""Options of Spark's Kafka source and sink: all that there are, and those that cannot be set.

Sources: KafkaSourceProvider of Spark 4.2 (validateGeneralOptions, validateStreamOptions,
kafkaParamsForProducer), which refuses the last two groups, and the Structured Streaming + Kafka
Integration Guide. Spark ignores the case of its options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.api.predicates import ValidationRule, every, is_set, not_among, some

# The prefix of Kafka's own options among Spark's.
CLIENT_PREFIX = "kafka."
OF_CLIENTS = r"^kafka\."
JAAS_OPTION = "kafka.sasl.jaas.config"

# Options that have a field, and options whose values would be credentials in plain text.
COMMON_OPTIONS = {
    "kafka.bootstrap.servers": "use bootstrapServers",
    "kafka.security.protocol": "use tls and sasl",
    "kafka.sasl.mechanism": "use sasl.mechanism",
    JAAS_OPTION: "use sasl",
    "kafka.ssl.truststore.password": "use tls.caSecret, or secretOptions",
    "kafka.ssl.keystore.password": "use tls.clientSecret, or secretOptions",
    "kafka.ssl.keystore.key": "use tls.clientSecret, or secretOptions",
    "kafka.ssl.key.password": "use tls.clientSecret, or secretOptions",
}
# The checkpoint holds the offsets, so Spark commits none to Kafka and starts where it says.
CONSUMER_OPTIONS = {
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.enable.auto.commit": "offsets are in the checkpoint",
    "kafka.interceptor.classes": "Spark refuses it",
    "kafka.key.deserializer": "keys are bytes; use CAST",
    "kafka.value.deserializer": "values are bytes; use CAST",
}
PRODUCER_OPTIONS = {
    "kafka.key.serializer": "keys are written as they are; use CAST",
    "kafka.value.serializer": "values are written as they are; use CAST",
}
SOURCE_OPTIONS = {
    "subscribe": "use topics",
    "subscribePattern": "use topicPattern",
    "assign": "use assign",
    "startingOffsets": "use startingOffsets or startingOffsetsByPartition",
    **dict.fromkeys(
        ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"), "a stream has no end"
    ),
    "failOnDataLoss": "use failOnDataLoss",
    "includeHeaders": "use includeHeaders",
    "leaveOut": "use deadLetters",
    "checkpointLocation": "use spec.checkpoint",
    **CONSUMER_OPTIONS,
}
# All that Spark's connector reads, apart from Kafka's own (KafkaSourceProvider of Spark 4.2).
KNOWN_SOURCE_OPTIONS = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "startingTimestamp", "failOnDataLoss", "minPartitions",
    "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "includeHeaders", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)  # fmt: skip
KNOWN_SINK_OPTIONS = ("topic", "includeHeaders")
# Limits of a batch. Spark refuses them in real-time mode when it plans the first batch
# (KafkaMicroBatchStream.planInputPartitions), and does not read them in continuous mode.
BATCH_LIMITS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions")
_ASYNC_PROGRESS = "use spec.trigger.microBatch.asyncProgress"
# Options of Spark's writer that have a field, for every sink.
WRITER_OPTIONS = {
    "checkpointLocation": "use spec.checkpoint",
    "asyncProgressTrackingEnabled": _ASYNC_PROGRESS,
    "asyncProgressTrackingCheckpointIntervalMs": _ASYNC_PROGRESS,
}
SINK_OPTIONS = {
    "topic": "use topic",
    "includeHeaders": "it has no effect: the row's column headers is always written",
    **WRITER_OPTIONS,
    **PRODUCER_OPTIONS,
}

# Of those above, the options of clients whose fields take credentials from Secrets, or none.
_OWNED_PATTERN = (
    r"^kafka\.(bootstrap\.servers|security\.protocol|sasl\.(mechanism|jaas\.config)|auto\.offset\.reset|"
    r"enable\.auto\.commit|interceptor\.classes|(key|value)\.(de)?serializer)$"
)
_SECRETS_TAKE = "secretOptions takes options with the prefix kafka. that have no field of their own"
SECRET_CLIENT_OPTIONS = ValidationRule(
    ~is_set("secretOptions")
    | every("secretOptions", OF_CLIENTS) & ~some("secretOptions", _OWNED_PATTERN, any_case=True),
    _SECRETS_TAKE,
    words=lambda it: (
        f"{_SECRETS_TAKE}: remove "
        + ", ".join(
            name
            for name in it.secret_options
            if not name.startswith(CLIENT_PREFIX) or re.search(_OWNED_PATTERN, name.lower())
        )
    ),
)
# With them a commit may prove nothing; which values do no harm only options can show.
_GUARANTEE_PATTERN = r"^kafka\.(acks|transactional\.id)$"
GUARANTEES_IN_SIGHT = ValidationRule(
    ~is_set("secretOptions") | ~some("secretOptions", _GUARANTEE_PATTERN, any_case=True),
    "secretOptions cannot hold kafka.acks and kafka.transactional.id, which decide whether a "
    "commit means that its records are in Kafka: remove them",
)


def allowed_options(owned: Mapping[str, str]) -> ValidationRule:
    """No option that Penstock or Spark refuses; `owned` are those of the source or the sink."""
    return not_among(
        "options",
        {**COMMON_OPTIONS, **owned},
        "options holds a key that cannot be set there: docs/reference.md lists them",
        any_case=True,
    )
