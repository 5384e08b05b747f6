"""Rules across the spec about what each mode of Spark supports.

Sources: Structured Streaming Programming Guide ("Continuous Processing", "Asynchronous Progress
Tracking", "Real-time Mode"), and tests with Spark 4.2 (operator/tests/integration).
"""

from __future__ import annotations

from typing import Any

from penstock.api.modes import Mode
from penstock.api.rules import Rule

# Data sources that write files: the continuous engine has no streaming write for them.
FILE_FORMATS = ("parquet", "json", "csv", "orc", "text", "avro", "xml", "delta", "iceberg")


def _in_continuous(spec: Any) -> bool:
    return bool(spec.trigger.mode is Mode.CONTINUOUS)


def _in_real_time(spec: Any) -> bool:
    return bool(spec.trigger.mode is Mode.REAL_TIME)


def _is_async(spec: Any) -> bool:
    return bool(spec.trigger.mode is Mode.ASYNC)


MODE_RULES: tuple[Rule, ...] = (
    Rule(
        cel="!has(self.trigger.continuous) || !has(self.sink.custom) || "
        f"!(self.sink.custom.format.lowerAscii() in {list(FILE_FORMATS)!r})",
        message="trigger.continuous cannot write files: use trigger.microBatch for sink.custom",
        holds=lambda spec: (
            not _in_continuous(spec)
            or spec.sink.custom is None
            or spec.sink.custom.format.lower() not in FILE_FORMATS
        ),
    ),
    Rule(
        cel="!has(self.trigger.continuous) || !has(self.source.rate) || "
        "!has(self.source.rate.rampUpTime)",
        message="trigger.continuous takes only rowsPerSecond and numPartitions of source.rate: "
        "remove rampUpTime, or use trigger.microBatch",
        holds=lambda spec: (
            not _in_continuous(spec)
            or spec.source.rate is None
            or spec.source.rate.ramp_up_time is None
        ),
    ),
    Rule(
        cel="!has(self.trigger.continuous) || !has(self.transform) || "
        "!has(self.transform.watermark)",
        message="trigger.continuous does not support EventTimeWatermark: remove "
        "transform.watermark, or use trigger.microBatch",
        holds=lambda spec: not _in_continuous(spec) or spec.transform.watermark is None,
    ),
    Rule(
        cel="!has(self.trigger.continuous) || !has(self.outputMode) || "
        "self.outputMode in ['append', 'update']",
        message="trigger.continuous does not support outputMode complete, which needs an "
        "aggregate: use outputMode append",
        holds=lambda spec: not _in_continuous(spec) or spec.output_mode != "complete",
    ),
    Rule(
        cel="!has(self.trigger.realTime) || has(self.source.kafka)",
        message="trigger.realTime reads Kafka only: use source.kafka, or trigger.continuous",
        holds=lambda spec: not _in_real_time(spec) or spec.source.kafka is not None,
    ),
    Rule(
        cel="!has(self.trigger.realTime) || has(self.sink.kafka) || has(self.sink.console) || "
        "has(self.sink.memory)",
        message="trigger.realTime writes to Kafka, console or memory only: change sink, or use "
        "trigger.microBatch",
        holds=lambda spec: (
            not _in_real_time(spec)
            or (spec.sink.kafka or spec.sink.console or spec.sink.memory) is not None
        ),
    ),
    Rule(
        cel="!has(self.trigger.realTime) || !has(self.outputMode) || self.outputMode == 'update'",
        message="trigger.realTime supports outputMode update only: set update, or remove "
        "outputMode",
        holds=lambda spec: not _in_real_time(spec) or spec.output_mode in (None, "update"),
    ),
    Rule(
        cel="!has(self.trigger.microBatch) || !has(self.trigger.microBatch.asyncProgress) || "
        "has(self.sink.kafka) || has(self.sink.noop) || has(self.sink.memory)",
        message="trigger.microBatch.asyncProgress needs sink.kafka: remove asyncProgress, or "
        "write to Kafka",
        holds=lambda spec: (
            not _is_async(spec)
            or (spec.sink.kafka or spec.sink.noop or spec.sink.memory) is not None
        ),
    ),
    Rule(
        cel="!has(self.trigger.microBatch) || !has(self.trigger.microBatch.asyncProgress) || "
        "!has(self.transform) || !has(self.transform.watermark)",
        message="trigger.microBatch.asyncProgress needs a stateless query: remove asyncProgress "
        "or transform.watermark",
        holds=lambda spec: not _is_async(spec) or spec.transform.watermark is None,
    ),
)
