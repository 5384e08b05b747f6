"""Options of Spark's Kafka source and sink that a stream cannot set, and what to do instead.

Sources: KafkaSourceProvider of Spark 4.2 (validateGeneralOptions, validateStreamOptions,
kafkaParamsForProducer), which refuses the last two groups, and the Structured Streaming + Kafka
Integration Guide. Spark ignores the case of its options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from penstock.api.conditions import Rule, every, is_set, not_among, some

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
    "checkpointLocation": "use spec.checkpoint",
    **CONSUMER_OPTIONS,
}
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
SECRET_CLIENT_OPTIONS = Rule(
    ~is_set("secretOptions")
    | every("secretOptions", OF_CLIENTS) & ~some("secretOptions", _OWNED_PATTERN),
    _SECRETS_TAKE,
    words=lambda it: (
        f"{_SECRETS_TAKE}: remove "
        + ", ".join(
            name
            for name in it.secret_options
            if not name.startswith(CLIENT_PREFIX) or re.search(_OWNED_PATTERN, name)
        )
    ),
)


def allowed_options(owned: Mapping[str, str]) -> Rule:
    """No option that Penstock or Spark refuses; `owned` are those of the source or the sink."""
    return not_among(
        "options",
        {**COMMON_OPTIONS, **owned},
        "options holds a key that cannot be set there: docs/reference.md lists them",
        any_case=True,
    )


# Numbers of Spark's source, with the smallest with which it can read and its type's largest.
_INT, _LONG = 2**31 - 1, 2**63 - 1
_NUMBERS = {
    "minpartitions": (1, _INT),
    "maxrecordsperpartition": (1, _LONG),
    "maxoffsetspertrigger": (0, _LONG),
    "minoffsetspertrigger": (0, _LONG),
    "fetchoffset.numretries": (0, _INT),
    "fetchoffset.retryintervalms": (0, _LONG),
    "kafkaconsumer.polltimeoutms": (0, _LONG),
    "startingtimestamp": (0, _LONG),
}
_WORDS = {"startingoffsetsbytimestampstrategy": ("error", "latest")}
# JavaUtils.timeStringAs of Spark, which trims the text.
_SPARK_TIME = re.compile(r"\s*-?[0-9]+(us|ms|s|m|min|h|d)?\s*", re.IGNORECASE)
_INTEGER = re.compile(r"[-+]?\d{1,19}")
_TIMESTAMPS: TypeAdapter[dict[str, dict[str, int]]] = TypeAdapter(
    dict[str, dict[Annotated[str, Field(pattern="^[0-9]{1,9}$")], Annotated[int, Field(le=_LONG)]]]
)


def _are_timestamps(value: str) -> bool:
    try:
        _TIMESTAMPS.validate_json(value, strict=True)
    except ValidationError:
        return False
    return True


def check_source_values(options: Mapping[str, str]) -> Mapping[str, str]:
    """Raises ValueError for a value that Spark's source cannot read."""
    for name, value in options.items():
        key = name.lower()
        if key in _NUMBERS:
            least, most = _NUMBERS[key]
            text = value.strip() if key == "startingtimestamp" else value
            if not _INTEGER.fullmatch(text) or not least <= int(text) <= most:
                raise ValueError(f"{name} takes an integer of {least} or more")
        elif key in _WORDS and value.lower() not in _WORDS[key]:
            raise ValueError(f"{name} takes one of: {', '.join(_WORDS[key])}")
        elif key == "maxtriggerdelay" and not _SPARK_TIME.fullmatch(value):
            raise ValueError(f"{name} takes a number and a unit without a space, such as 15m")
        elif key == "startingoffsetsbytimestamp" and not _are_timestamps(value):
            example = '{"payments": {"0": 1767225600000}}'
            raise ValueError(f"{name} takes milliseconds in JSON, such as {example}")
    return options
