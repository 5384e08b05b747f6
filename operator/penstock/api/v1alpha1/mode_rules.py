"""What each mode supports of a spec: rules of the model and of the CRD (CEL).

Sources: Structured Streaming Programming Guide ("Continuous Processing", "Asynchronous Progress
Tracking", "Real-time Mode"), and tests with Spark 4.2 (operator/tests/integration).
"""

from __future__ import annotations

from penstock.api.predicates import ValidationRule, is_one_of, is_set

# Data sources of files: the continuous engine can neither read nor write them.
_FILE_FORMATS = ("parquet", "json", "csv", "orc", "text", "avro", "xml", "delta", "iceberg")

_NOT_CONTINUOUS = ~is_set("trigger.continuous")
_NOT_REAL_TIME = ~is_set("trigger.realTime")
_AT_LEAST_ONCE = ~is_set("sink.kafka.delivery") | is_one_of("sink.kafka.delivery", "AtLeastOnce")
_NOT_ASYNC = ~is_set("trigger.microBatch.asyncProgress")
_WHOLE_BATCHES = is_set("trigger.availableNow") | is_set("trigger.microBatch") & _NOT_ASYNC
_NO_WATERMARK = ~is_set("transform.watermark")
_DEFAULT_OUTPUT = ~is_set("outputMode")

MODE_RULES: tuple[ValidationRule, ...] = (
    ValidationRule(
        _NOT_CONTINUOUS
        | ~is_set("sink.custom")
        | ~is_one_of("sink.custom.format", *_FILE_FORMATS, any_case=True),
        "trigger.continuous cannot write files: use trigger.microBatch for sink.custom",
    ),
    ValidationRule(
        _NOT_CONTINUOUS
        | ~is_set("source.custom")
        | ~is_one_of("source.custom.format", *_FILE_FORMATS, any_case=True),
        "trigger.continuous cannot read files: use trigger.microBatch for source.custom",
    ),
    ValidationRule(
        _NOT_CONTINUOUS | ~is_set("source.rate.rampUpTime"),
        "trigger.continuous takes only rowsPerSecond and numPartitions of source.rate: remove "
        "rampUpTime, or use trigger.microBatch",
    ),
    ValidationRule(
        _NOT_CONTINUOUS | _NO_WATERMARK,
        "trigger.continuous does not support EventTimeWatermark: remove transform.watermark, or "
        "use trigger.microBatch",
    ),
    ValidationRule(
        _NOT_CONTINUOUS | _DEFAULT_OUTPUT | is_one_of("outputMode", "append", "update"),
        "trigger.continuous does not support outputMode complete, which needs an aggregate: use "
        "outputMode append",
    ),
    ValidationRule(
        ~is_set("sink.kafka.transactionInterval")
        | is_set("trigger.continuous")
        | is_set("trigger.realTime"),
        "sink.kafka.transactionInterval is for trigger.continuous and trigger.realTime, because "
        "each micro-batch is one transaction: remove it",
    ),
    ValidationRule(
        _AT_LEAST_ONCE | is_set("source.kafka"),
        "sink.kafka.delivery ExactlyOnce needs source.kafka: a transaction holds the offsets of "
        "the source",
    ),
    ValidationRule(
        _NOT_REAL_TIME | is_set("source.kafka"),
        "trigger.realTime reads Kafka only: use source.kafka, or trigger.continuous",
    ),
    ValidationRule(
        _NOT_REAL_TIME | is_set("sink.kafka") | is_set("sink.console") | is_set("sink.memory"),
        "trigger.realTime writes to Kafka, console or memory only: change sink, or use "
        "trigger.microBatch",
    ),
    ValidationRule(
        _NOT_REAL_TIME | _DEFAULT_OUTPUT | is_one_of("outputMode", "update"),
        "trigger.realTime supports outputMode update only: set update, or remove outputMode",
    ),
    *(
        ValidationRule(
            ~is_set(sink) | _WHOLE_BATCHES,
            f"{sink} writes whole batches, each with its number: use trigger.microBatch, without "
            "asyncProgress, or trigger.availableNow",
        )
        for sink in ("sink.jdbc", "sink.python")
    ),
    ValidationRule(
        ~is_set("sink.jdbc") | _DEFAULT_OUTPUT | is_one_of("outputMode", "append", "update"),
        "sink.jdbc does not take outputMode complete: use update, with write Upsert",
    ),
    ValidationRule(
        _NOT_ASYNC | is_set("sink.kafka") | is_set("sink.noop") | is_set("sink.memory"),
        "trigger.microBatch.asyncProgress needs sink.kafka: remove asyncProgress, or write to "
        "Kafka",
    ),
    ValidationRule(
        _NOT_ASYNC | _NO_WATERMARK,
        "trigger.microBatch.asyncProgress needs a stateless query: remove asyncProgress or "
        "transform.watermark",
    ),
    ValidationRule(
        _DEFAULT_OUTPUT
        | is_one_of("outputMode", "append", "update")
        | is_set("transform.sql")
        | is_set("transform.python")
        | is_set("transform.java"),
        "outputMode complete needs an aggregate, and without a transform there is none: use "
        "outputMode append",
    ),
)
