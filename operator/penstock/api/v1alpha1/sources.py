"""Where records come from."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, model_validator

from penstock.api.kafka_options import SOURCE_OPTIONS
from penstock.api.predicates import (
    Predicate,
    ValidationRule,
    is_set,
    matches,
    not_among,
    not_together,
    takes_exactly_one,
)
from penstock.api.v1alpha1.base import (
    NO_OPTION_TWICE,
    WITHOUT_NULLS,
    Duration,
    Options,
    SecretOptions,
    SpecObject,
    checked_by,
    text_like,
)
from penstock.api.v1alpha1.kafka_connection import (
    OWN_BROKERS_FOR_OWN_CREDENTIALS,
    KafkaClient,
    Topic,
    client_rules,
    options_field,
)


def _check_offset(offset: int) -> None:
    if offset >= 2**63:
        raise ValueError("an offset is less than 2^63")


# Its bound is not in the schema: the API server compares with a float, which 2^63 - 1 is not.
Offset = Annotated[int, Field(ge=-2), checked_by(_check_offset)]
_TOPIC: TypeAdapter[str] = TypeAdapter(Topic)


def _check_topics(topics: dict[str, Any]) -> None:
    """Not in the schema, which has no pattern for keys."""
    for topic in topics:
        _TOPIC.validate_python(topic)


def _check_partitions(offsets: dict[str, dict[str, int]]) -> None:
    """Not in CEL: a map of maps exceeds the API server's cost budget."""
    _check_topics(offsets)
    for topic, partitions in offsets.items():
        for partition in partitions:
            if not re.fullmatch("[0-9]{1,9}", partition):
                raise ValueError(f"{topic}: {partition!r} is not a partition's number")


_BY_PARTITION = dict[str, Annotated[dict[str, Offset], WITHOUT_NULLS]]
_CHECKS = (checked_by(_check_partitions), WITHOUT_NULLS)
OffsetsByPartition = Annotated[_BY_PARTITION, Field(max_length=256), *_CHECKS]
SomeOffsetsByPartition = Annotated[_BY_PARTITION, Field(min_length=1, max_length=256), *_CHECKS]
ConsumerGroupName = Annotated[
    str, text_like(r"^[!-~]{1,255}$", "takes at most 255 characters of ASCII, without spaces")
]


class DeadLetters(SpecObject):
    """Where a record goes that the query cannot process, in place of a stop of the stream."""

    topic: Topic = Field(
        description="An existing topic of the source's brokers, which the source does not read. It "
        "gets the record as it is, with headers that say where it came from and why it is there.",
        examples=["payments-dead-letters"],
    )
    max_per_minute: int = Field(
        5,
        ge=1,
        le=1000,
        description="Records of the stream within a minute, or one after the other while no other "
        "record is committed. If there is one more, the stream stops as without dead letters, "
        "until an edit: its transform may be broken. Default: 5.",
    )


# The topic would be read again, and fail again.
_OTHER_TOPIC = ValidationRule(
    Predicate(
        "!has(self.deadLetters) || (!has(self.topics) || !(self.deadLetters.topic in self.topics)) "
        "&& (!has(self.assign) || !(self.deadLetters.topic in self.assign))",
        lambda source: (
            source.dead_letters is None
            or source.dead_letters.topic not in {*(source.topics or ()), *(source.assign or ())}
        ),
    ),
    "deadLetters.topic is a topic that the source reads: name another one",
)


class KafkaSource(KafkaClient):
    """Reads Kafka topics. In continuous mode each partition has one long-running task."""

    rules = (
        takes_exactly_one("spec.source.kafka", "topics", "topicPattern", "assign"),
        ValidationRule(
            not_together("startingOffsets", "startingOffsetsByPartition"),
            "startingOffsets and startingOffsetsByPartition exclude each other: keep one",
        ),
        ValidationRule(
            ~is_set("consumerGroup") | ~matches("consumerGroup", "^penstock/"),
            "consumerGroup cannot begin with penstock/, which is reserved: name another group",
        ),
        _OTHER_TOPIC,
        OWN_BROKERS_FOR_OWN_CREDENTIALS,
        *client_rules(SOURCE_OPTIONS),
    )

    @model_validator(mode="after")
    def _starts_at_what_it_reads(self) -> KafkaSource:
        """Spark refuses to start unless the offsets name exactly the partitions that it reads."""
        offsets = self.starting_offsets_by_partition
        read = self.assign if self.assign is not None else self.topics
        if not offsets or read is None:
            return self
        for topic in {**offsets, **dict.fromkeys(read)}:
            if topic not in offsets:
                raise ValueError(
                    f"startingOffsetsByPartition names no partition of {topic}, which is read: it "
                    "must name every partition, -2 for the earliest or -1 for the latest offset"
                )
            if topic not in read:
                raise ValueError(
                    f"startingOffsetsByPartition names {topic}, which is not read: remove it, or "
                    "read the topic"
                )
        for topic, partitions in (self.assign or {}).items():
            if {int(each) for each in offsets[topic]} != set(partitions):
                raise ValueError(
                    f"startingOffsetsByPartition and assign name different partitions of {topic}: "
                    "name the same in both"
                )
        return self

    topics: Annotated[list[Topic], Field(min_length=1, max_length=256)] | None = Field(
        None, description="The topics to read.", examples=[["payments"]]
    )
    topic_pattern: Annotated[str, Field(min_length=1, max_length=1024)] | None = Field(
        None,
        description="A Java regular expression. The stream reads every topic whose whole name "
        "matches it, also topics that are created later.",
        examples=["payments-.*"],
    )
    assign: (
        Annotated[
            dict[
                str,
                Annotated[
                    list[Annotated[int, Field(ge=0, le=2**31 - 1)]],
                    Field(min_length=1, max_length=4096),
                ],
            ],
            Field(min_length=1, max_length=256),
            checked_by(_check_topics),
            WITHOUT_NULLS,
        ]
        | None
    ) = Field(
        None,
        description="The partitions to read, by topic.",
        examples=[{"payments": [0, 1]}],
    )
    starting_offsets: Literal["earliest", "latest"] | None = Field(
        None,
        description=(
            "Where the first start begins to read: earliest or latest. Later starts continue from "
            "the checkpoint. Partitions that are added later are always read from the earliest "
            "record, and so is a topic that is created while the stream waits for it. Default: "
            "latest."
        ),
    )
    starting_offsets_by_partition: OffsetsByPartition = Field(
        {},
        description=(
            "Where the first start begins to read, by topic and partition: an offset, -2 for "
            "the earliest or -1 for the latest. Every partition must be named."
        ),
        examples=[{"payments": {"0": 23, "1": -2}}],
    )
    fail_on_data_loss: bool = Field(
        True,
        description=(
            "Whether the stream stops and reports it when Kafka no longer has records that the "
            "stream has not read. Default: true."
        ),
    )
    consumer_group: ConsumerGroupName | None = Field(
        None,
        description=(
            "A consumer group in which Kafka's own tools see the stream's lag: its committed "
            "offsets are also committed there, at most every five seconds. It must have no "
            "members and belong to no other stream. Nothing is read from it: the stream continues "
            "from the checkpoint. Needs Read on the group. Default: none."
        ),
        examples=["fraud-flags"],
    )
    dead_letters: DeadLetters | None = Field(
        None,
        description="Where a record goes that the query cannot process. Default: the stream stops.",
    )
    include_headers: bool = Field(
        False, description="Whether rows have the column `headers`. Default: false."
    )
    options: Options = options_field("Spark's Kafka source", {"kafka.fetch.max.wait.ms": "10"})  # type: ignore[assignment]


class RateSource(SpecObject):
    """Generates numbered rows (timestamp, value) at a steady rate. It is meant for trials."""

    rows_per_second: int = Field(
        1, ge=1, le=1_000_000, description="Rows per second, over all partitions. Default: 1."
    )
    num_partitions: int = Field(
        1, ge=1, le=1024, description="Partitions. Each is a task of its own. Default: 1."
    )
    ramp_up_time: Duration | None = Field(
        None,
        description="The time to reach the rate. Not in continuous mode. Default: 0s.",
    )


class SocketSource(SpecObject):
    """Reads lines of text from a TCP socket. It cannot replay them, so it is meant for trials."""

    host: str = Field(min_length=1, max_length=253, description="The server's host name.")
    port: int = Field(ge=1, le=65535, description="The server's port.")
    include_timestamp: bool = Field(
        False, description="Whether rows have the column `timestamp`. Default: false."
    )


class CustomSource(SpecObject):
    """Any data source on the class path, or one written in Python."""

    rules = (
        not_among("options", {"checkpointLocation": "use spec.checkpoint"}, any_case=True),
        not_among("secretOptions", {"checkpointLocation": "use spec.checkpoint"}, any_case=True),
        NO_OPTION_TWICE,
    )
    format: str = Field(
        min_length=1,
        max_length=253,
        description="The source's short name or class; module:Class for one written in Python.",
        examples=["com.example.NetcatProvider"],
    )
    options: Options = Field({}, description="The source's options.")
    secret_options: SecretOptions = Field(
        {},
        description="Options whose values are in Secrets. The source gets the values, and Spark "
        "the paths of their files: no value is in a plan, page, log or status. Formats of files "
        "take none: use secretSparkConf.",
        examples=[{"password": {"name": "shop-mqtt", "key": "password"}}],
    )
    schema_: str | None = Field(
        None,
        alias="schema",
        min_length=1,
        max_length=65536,
        description="The schema as DDL, for sources that need one.",
        examples=["line STRING"],
    )
    num_partitions: int = Field(
        1,
        ge=1,
        le=1024,
        description="How many partitions the source has. Each needs a core, and Spark reports "
        "their number only once the query runs. Default: 1.",
    )


_NO_DEAD_LETTERS = ~is_set("source.kafka.deadLetters")
# Rules of the whole spec.
DEAD_LETTER_RULES = (
    ValidationRule(
        _NO_DEAD_LETTERS
        | ~is_set("sink.kafka.topic")
        | Predicate(
            "self.sink.kafka.topic != self.source.kafka.deadLetters.topic",
            lambda spec: spec.sink.kafka.topic != spec.source.kafka.dead_letters.topic,
        ),
        "source.kafka.deadLetters.topic is the sink's topic: name another one",
    ),
)


class Source(SpecObject):
    """Where the records come from."""

    rules = (takes_exactly_one("spec.source", "kafka", "rate", "socket", "custom"),)
    kafka: KafkaSource | None = Field(None, description="Read Kafka topics.")
    rate: RateSource | None = Field(None, description="Generate numbered rows at a steady rate.")
    socket: SocketSource | None = Field(None, description="Read lines from a TCP socket.")
    custom: CustomSource | None = Field(None, description="Any other data source.")
