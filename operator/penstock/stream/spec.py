"""What people write: the spec of a ContinuousStream.

Defaults live here and not in the CRD's schema, so that what is applied is what is stored and a
GitOps tool sees no drift; each default stands in its field's description.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from penstock.stream.quantities import DURATION_PATTERN, MEMORY_PATTERN, milliseconds
from penstock.stream.rules import NO_OWNED_CONF, OWNED_CONFS, Rule, exactly_one_of, immutable

Duration = Annotated[str, StringConstraints(pattern=DURATION_PATTERN, max_length=24)]
Memory = Annotated[str, StringConstraints(pattern=MEMORY_PATTERN, max_length=16)]
# Kubernetes' CPU quantity: whole cores or thousandths.
Cpu = Annotated[str, StringConstraints(pattern=r"^([0-9]{1,4}m|[0-9]{1,3}(\.[0-9]{1,3})?)$")]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
Topic = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
Option = Annotated[str, StringConstraints(max_length=4096)]
Options = Annotated[dict[str, Option], Field(max_length=128)]


class Part(BaseModel):
    """One object of the spec: immutable, no unknown fields, its rules checked on construction."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _rules_hold(self) -> Part:
        for rule in self.rules:
            if rule.holds is not None and not rule.holds(self):
                raise ValueError(rule.message)
        return self


class KafkaSource(Part):
    """Reads Kafka topics: one long task for each partition."""

    bootstrap_servers: str = Field(
        min_length=1,
        max_length=4096,
        description="Brokers to begin with, host:port separated by commas.",
        examples=["kafka.kafka:9092"],
    )
    topics: list[Topic] = Field(
        min_length=1, max_length=256, description="Topics to read.", examples=[["payments"]]
    )
    starting_offsets: Literal["earliest", "latest"] = Field(
        "latest",
        description=(
            "Where the first start begins: earliest or latest. Later starts go on from the "
            "checkpoint, and new partitions always begin at the earliest. Default: latest."
        ),
    )
    options: Options = Field(
        {},
        description=(
            "Further options of Spark's Kafka source, by Spark's own names; those of the consumer "
            "take the prefix kafka. as in Spark."
        ),
        examples=[{"failOnDataLoss": "false", "kafka.fetch.max.wait.ms": "10"}],
    )


class RateSource(Part):
    """Makes numbered rows (timestamp, value) at a steady rate: for trying things out."""

    rows_per_second: int = Field(
        1, ge=1, le=1_000_000, description="Rows a second, over all partitions. Default: 1."
    )
    num_partitions: int = Field(
        1, ge=1, le=1024, description="Partitions, each a task of its own. Default: 1."
    )


class Source(Part):
    """Where the records come from."""

    rules = (exactly_one_of("spec.source", kafka="kafka", rate="rate"),)
    kafka: KafkaSource | None = Field(None, description="Read Kafka topics.")
    rate: RateSource | None = Field(None, description="Make numbered rows at a steady rate.")


class FunctionParameter(Part):
    """A parameter of a SQL function."""

    name: Identifier = Field(description="The parameter's name.", examples=["paymentId"])
    type: str = Field(
        min_length=1, max_length=1024, description="Its Spark SQL type.", examples=["BIGINT"]
    )


class SqlFunction(Part):
    """A Spark SQL function. Spark inlines it, so it runs at native speed in every mode."""

    name: Identifier = Field(
        description="The name the SQL calls it by.", examples=["isPaymentFlagged"]
    )
    parameters: list[FunctionParameter] = Field(
        [], max_length=64, description="Its parameters in order. Default: none."
    )
    returns: str = Field(
        min_length=1,
        max_length=1024,
        description="The Spark SQL type of its result.",
        examples=["BOOLEAN"],
    )
    expression: str = Field(
        min_length=1,
        max_length=16384,
        description="A Spark SQL expression over its parameters.",
        examples=["paymentId % 100 = 7"],
    )


class Transform(Part):
    """What happens to each record on its way."""

    sql: str | None = Field(
        None,
        min_length=1,
        max_length=65536,
        description=(
            "One SELECT over the view `source`. In continuous mode only map-like operations: "
            "projections and filters. Default: records pass unchanged."
        ),
        examples=["SELECT key, value FROM source WHERE value IS NOT NULL"],
    )
    functions: list[SqlFunction] = Field(
        [],
        max_length=64,
        description="Spark SQL functions that `sql` may call.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )


class KafkaSink(Part):
    """Writes to Kafka: the row's column `value`, and `key`, `headers`, `partition` if present."""

    bootstrap_servers: str = Field(
        min_length=1,
        max_length=4096,
        description="Brokers to begin with, host:port separated by commas.",
        examples=["kafka.kafka:9092"],
    )
    topic: Topic | None = Field(
        None, description="The topic written to. Default: the row's own column `topic`."
    )
    options: Options = Field(
        {},
        description=(
            "Further options of Spark's Kafka sink, by Spark's own names; those of the producer "
            "take the prefix kafka. as in Spark."
        ),
        examples=[{"kafka.compression.type": "lz4"}],
    )


class ConsoleSink(Part):
    """Prints rows to the driver's log, in continuous mode once each checkpoint interval."""

    num_rows: int = Field(20, ge=1, le=100_000, description="Rows to print each time. Default: 20.")
    truncate: bool = Field(
        True, description="Whether long cells are cut to 20 characters. Default: true."
    )


class Sink(Part):
    """Where the records go."""

    rules = (exactly_one_of("spec.sink", kafka="kafka", console="console"),)
    kafka: KafkaSink | None = Field(None, description="Write to a Kafka topic.")
    console: ConsoleSink | None = Field(None, description="Print to the driver's log.")


class ContinuousTrigger(Part):
    """Spark's continuous engine: records flow one by one, milliseconds from end to end."""

    checkpoint_interval: Duration = Field(
        description=(
            "How often an epoch is committed to the checkpoint; after a crash at most this much "
            "is replayed. A number and a unit: ms, s, m, h or Spark's words."
        ),
        examples=["1s", "10 seconds"],
    )

    @field_validator("checkpoint_interval")
    @classmethod
    def _positive(cls, interval: str) -> str:
        if milliseconds(interval) == 0:
            raise ValueError("checkpointInterval must be longer than 0")
        return interval


class Trigger(Part):
    """How the query runs."""

    rules = (exactly_one_of("spec.trigger", continuous="continuous"),)
    continuous: ContinuousTrigger | None = Field(
        None, description="Record by record, with an epoch committed each interval."
    )


class CheckpointVolume(Part):
    """A PersistentVolumeClaim that belongs to the stream, not to its pod."""

    rules = (
        Rule(
            cel="has(self.storageClassName) == has(oldSelf.storageClassName)",
            message="storageClassName cannot be added or removed once the volume exists: "
            "delete the stream and its PersistentVolumeClaim, and apply anew",
        ),
    )
    size: Memory = Field(
        "1Gi", description="Its size. The logs are small. Default: 1Gi.", examples=["1Gi"]
    )
    storage_class_name: str | None = Field(
        None,
        max_length=253,
        description="Its storage class. Default: the cluster's default class.",
        json_schema_extra={
            "x-kubernetes-validations": [
                immutable(
                    "storageClassName",
                    "delete the stream and its PersistentVolumeClaim, and apply anew",
                ).as_schema()
            ]
        },
    )
    reclaim_policy: Literal["Retain", "Delete"] = Field(
        "Retain",
        description=(
            "What happens to it when the stream is deleted. Retain: it stays, and a stream of the "
            "same name goes on from it. Delete: it goes too. Default: Retain."
        ),
    )


class Checkpoint(Part):
    """Where the stream's progress is kept."""

    volume: CheckpointVolume = Field(
        CheckpointVolume(),
        description="A volume of the stream's own. Default: one of 1Gi, retained.",
    )


class Driver(Part):
    """The driver's pod: it plans and coordinates, records do not pass through it."""

    cores: int = Field(1, ge=1, le=64, description="Cores Spark uses. Default: 1.")
    core_request: Cpu = Field(
        "500m",
        description="CPU asked of Kubernetes; less than `cores` is fine. Default: 500m.",
        examples=["500m"],
    )
    memory: Memory = Field("1Gi", description="The JVM's heap. Default: 1Gi.", examples=["1Gi"])
    memory_overhead: Memory = Field(
        "512Mi", description="Memory beside the heap: JVM, Python. Default: 512Mi."
    )


class Executor(Part):
    """The executors' pods. Their number follows the source's partitions."""

    rules = (
        Rule(
            cel="!has(self.minInstances) || !has(self.maxInstances) || "
            "self.minInstances <= self.maxInstances",
            message="minInstances cannot be above maxInstances",
            holds=lambda it: it.max_instances is None or it.min_instances <= it.max_instances,
        ),
    )
    cores: int = Field(
        1, ge=1, le=64, description="Task slots of one executor, a partition each. Default: 1."
    )
    core_request: Cpu | None = Field(
        None,
        description=(
            "CPU that one executor asks of Kubernetes. A continuous task sleeps while it waits "
            "for records, so less than `cores` is fine where records are few. Default: `cores`."
        ),
        examples=["500m"],
    )
    memory: Memory = Field("1Gi", description="The JVM's heap. Default: 1Gi.")
    memory_overhead: Memory | None = Field(
        None, description="Memory beside the heap. Default: a tenth of it, at least 384Mi."
    )
    min_instances: int = Field(
        1, ge=1, le=1000, description="Executors there are at least. Default: 1."
    )
    max_instances: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Executors there are at most. Default: as many as the partitions need.",
    )


class StreamSpec(Part):
    """A continuous Spark query: a source, a transform, a sink, and how it is kept running."""

    image: str | None = Field(
        None,
        min_length=1,
        max_length=1024,
        description="Image of driver and executors. Default: the one the operator was installed "
        "with.",
    )
    source: Source = Field(description="Where the records come from: exactly one source.")
    transform: Transform = Field(Transform(), description="What happens to each record.")
    sink: Sink = Field(description="Where the records go: exactly one sink.")
    trigger: Trigger = Field(description="How the query runs: exactly one trigger.")
    checkpoint: Checkpoint = Field(Checkpoint(), description="Where progress is kept.")
    driver: Driver = Field(Driver(), description="The driver's pod.")
    executor: Executor = Field(Executor(), description="The executors' pods.")
    spark_conf: Options = Field(
        {},
        description="Further Spark configuration. What Penstock sets itself is refused.",
        examples=[{"spark.sql.session.timeZone": "UTC"}],
        json_schema_extra={"x-kubernetes-validations": [NO_OWNED_CONF.as_schema()]},
    )

    @field_validator("spark_conf")
    @classmethod
    def _no_owned_conf(cls, conf: dict[str, str]) -> dict[str, str]:
        for name in conf:
            if name in OWNED_CONFS:
                raise ValueError(f"Penstock sets {name} itself; instead use {OWNED_CONFS[name]}")
        return conf
