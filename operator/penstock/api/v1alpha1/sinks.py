"""Where records go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from penstock.api.kafka_options import SINK_OPTIONS, WRITER_OPTIONS
from penstock.api.predicates import (
    ValidationRule,
    is_one_of,
    is_set,
    not_among,
    takes_exactly_one,
)
from penstock.api.v1alpha1.base import (
    NO_OPTION_TWICE,
    Duration,
    FunctionName,
    Options,
    PythonFunction,
    SecretOptions,
    SpecObject,
)
from penstock.api.v1alpha1.jdbc_sink import JdbcSink
from penstock.api.v1alpha1.kafka_connection import (
    OWN_BROKERS_FOR_OWN_CREDENTIALS,
    KafkaClient,
    Topic,
    client_rules,
    options_field,
)

_INTERVAL_OF_TRANSACTIONS = ValidationRule(
    ~is_set("transactionInterval") | is_set("delivery") & is_one_of("delivery", "ExactlyOnce"),
    "transactionInterval is for transactions: set delivery to ExactlyOnce, or remove it",
)


class KafkaSink(KafkaClient):
    """Writes the row's column `value` to Kafka, and `key`, `headers` and `partition` if present."""

    rules = (
        OWN_BROKERS_FOR_OWN_CREDENTIALS,
        *client_rules(SINK_OPTIONS),
        _INTERVAL_OF_TRANSACTIONS,
    )
    topic: Topic | None = Field(
        None, description="The topic to write to. Default: the row's column `topic`."
    )
    delivery: Literal["AtLeastOnce", "ExactlyOnce"] = Field(
        "AtLeastOnce",
        description="How often a record is written if something fails. AtLeastOnce: at least once. "
        "ExactlyOnce: in transactions, together with the source's offsets, so that a consumer with "
        "isolation.level read_committed sees each result once. It needs source.kafka on the same "
        "cluster, and with state trigger.microBatch or availableNow. Default: AtLeastOnce.",
    )
    transaction_interval: Duration | None = Field(
        None,
        description="With ExactlyOnce and trigger.continuous or realTime, how long a transaction "
        "is open before it is committed, and so how long a read_committed consumer waits at most. "
        "Default: 100ms. Each micro-batch is one transaction.",
        examples=["100ms"],
    )
    options: Options = options_field("Spark's Kafka sink", {"kafka.compression.type": "lz4"})  # type: ignore[assignment]


class ConsoleSink(SpecObject):
    """Prints rows to the driver's log. In continuous mode, once per checkpoint interval."""

    num_rows: int = Field(20, ge=1, le=100_000, description="Rows to print at once. Default: 20.")
    truncate: bool = Field(
        True, description="Whether long cells are cut to 20 characters. Default: true."
    )


class NoopSink(SpecObject):
    """Discards records. It is meant for measuring source and transform."""


class MemorySink(SpecObject):
    """Keeps rows in a table of the driver's memory, for tests; the operator refuses it.

    The table has the query's name (spec.queryName), with _ for characters that SQL does not take.
    """


class CustomSink(SpecObject):
    """Any data source on the class path that Spark can write to."""

    rules = (
        not_among("options", WRITER_OPTIONS, any_case=True),
        not_among("secretOptions", WRITER_OPTIONS, any_case=True),
        NO_OPTION_TWICE,
    )
    format: str = Field(
        min_length=1,
        max_length=253,
        description="The sink's short name or class; module:Class for one written in Python.",
    )
    options: Options = Field({}, description="The sink's options.", examples=[{"path": "/data"}])
    secret_options: SecretOptions = Field(
        {},
        description="Options whose values are in Secrets. The sink gets the values, and Spark "
        "the paths of their files: no value is in a plan, page, log or status. Formats of files "
        "take none: use secretSparkConf.",
        examples=[{"password": {"name": "shop-mqtt", "key": "password"}}],
    )
    partition_by: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=128)]],
        Field(max_length=16),
    ] = Field(
        [],
        description="Columns by whose values a sink of files, or Delta, divides its rows into "
        "folders, such as day=2026-11-28. Default: none.",
        examples=[["day"]],
    )


class PythonSink(PythonFunction):
    """A Python function that writes each batch, as Spark's foreachBatch calls one.

    It gets the DataFrame of the batch's rows, and the batch: its number, which has the attributes
    stream, namespace, generation and options.
    """

    rules = (*PythonFunction.rules, NO_OPTION_TWICE)
    function: FunctionName = Field(
        description="module:function. The module is in the image, unless inline or configMap gives "
        "its text. The function takes the rows and the batch.",
        examples=["search:write"],
    )
    options: Options = Field(
        {},
        description="What the function finds in `batch.options`.",
        examples=[{"url": "https://search.shop"}],
    )
    secret_options: SecretOptions = Field(
        {},
        description="Options whose values are in Secrets, read anew for each batch. No value is in "
        "a plan, page, log or status.",
        examples=[{"password": {"name": "shop-search", "key": "password"}}],
    )


class Sink(SpecObject):
    """Where the records go."""

    rules = (
        takes_exactly_one(
            "spec.sink", "kafka", "jdbc", "console", "noop", "memory", "custom", "python"
        ),
    )
    kafka: KafkaSink | None = Field(None, description="Write to Kafka.")
    jdbc: JdbcSink | None = Field(None, description="Write to a table of PostgreSQL.")
    console: ConsoleSink | None = Field(None, description="Print to the driver's log.")
    noop: NoopSink | None = Field(None, description="Discard the records.")
    memory: MemorySink | None = Field(
        None, description="Keep the records in memory, in local runs."
    )
    custom: CustomSink | None = Field(None, description="Any other data source.")
    python: PythonSink | None = Field(None, description="Give each batch to a Python function.")

    @property
    def exactly_once(self) -> bool:
        """Whether it is Kafka, written in transactions."""
        return self.kafka is not None and self.kafka.delivery == "ExactlyOnce"

    @property
    def of_others(self) -> CustomSink | PythonSink | None:
        """The sink, if code of others writes the rows, as it likes."""
        return self.custom or self.python
