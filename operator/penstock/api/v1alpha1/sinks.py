"""Where records go."""

from __future__ import annotations

from pydantic import Field

from penstock.api.rules import exactly_one_of, not_among
from penstock.api.v1alpha1.base import Identifier, Options, SpecObject
from penstock.api.v1alpha1.kafka import KafkaClient, Topic, client_rules, options_field

# Options of Spark's writer that a field says.
_ASYNC = {
    "asyncProgressTrackingEnabled": "use spec.trigger.microBatch.asyncProgress",
    "asyncProgressTrackingCheckpointIntervalMs": "use spec.trigger.microBatch.asyncProgress",
}


class KafkaSink(KafkaClient):
    """Writes to Kafka: the row's column `value`, and `key`, `headers`, `partition` if present."""

    rules = client_rules(topic="use topic", includeHeaders="use includeHeaders", **_ASYNC)
    topic: Topic | None = Field(
        None, description="The topic written to. Default: the row's own column `topic`."
    )
    include_headers: bool = Field(
        False, description="Whether the row's column `headers` is written. Default: false."
    )
    options: Options = options_field("Spark's Kafka sink", {"kafka.compression.type": "lz4"})  # type: ignore[assignment]


class ConsoleSink(SpecObject):
    """Prints rows to the driver's log, in continuous mode once each checkpoint interval."""

    num_rows: int = Field(20, ge=1, le=100_000, description="Rows to print each time. Default: 20.")
    truncate: bool = Field(
        True, description="Whether long cells are cut to 20 characters. Default: true."
    )


class NoopSink(SpecObject):
    """Throws records away: for measuring what comes before it."""


class MemorySink(SpecObject):
    """Keeps rows in a table of the driver's memory: for `penstock run` and tests only."""

    query_name: Identifier = Field(description="The table's name.", examples=["results"])


class CustomSink(SpecObject):
    """Any data source on the class path that can be written to."""

    rules = (not_among("options", {"checkpointLocation": "use spec.checkpoint", **_ASYNC}),)
    format: str = Field(min_length=1, max_length=253, description="The sink's short name or class.")
    options: Options = Field({}, description="The sink's options.", examples=[{"path": "/data"}])


class Sink(SpecObject):
    """Where the records go."""

    rules = (
        exactly_one_of(
            "spec.sink",
            kafka="kafka",
            console="console",
            noop="noop",
            memory="memory",
            custom="custom",
        ),
    )
    kafka: KafkaSink | None = Field(None, description="Write to a Kafka topic.")
    console: ConsoleSink | None = Field(None, description="Print to the driver's log.")
    noop: NoopSink | None = Field(None, description="Throw the records away.")
    memory: MemorySink | None = Field(None, description="Keep them in memory, in local runs.")
    custom: CustomSink | None = Field(None, description="Any other data source.")
