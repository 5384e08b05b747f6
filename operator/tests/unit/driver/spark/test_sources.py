"""The options of Spark's sources, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.api.modes import Mode
from penstock.contract.sizing import default_parallelism, stated_partitions
from penstock.driver.checkpoint.start_position import depends_on_start_time
from penstock.driver.failures import DriverError
from penstock.driver.kafka.offsets import first_offsets, selected_partitions
from penstock.driver.spark.sources import PENSTOCK_KAFKA, source_options
from testkit.streams.streams import RATE, kafka_source, stream

SOCKET: dict[str, Any] = {"socket": {"host": "lines", "port": 9999}}
CUSTOM: dict[str, Any] = {"custom": {"format": "netcat", "options": {"a": "b"}, "numPartitions": 3}}


def options(
    source: dict[str, Any], mode: Mode = Mode.CONTINUOUS, starting: str | None = None
) -> dict[str, str]:
    return source_options(stream(source, trigger=TRIGGER).spec.source, Path(), mode, starting)[1]


TRIGGER: dict[str, Any] = {"microBatch": {}}


@pytest.mark.parametrize("mode", Mode)
def test_each_mode_reads_with_penstocks_data_source(mode: Mode) -> None:
    """Which sets none of the clients' options: the user's are all."""
    named, read = source_options(stream(kafka_source()).spec.source, Path(), mode)
    assert named == PENSTOCK_KAFKA
    assert [name for name in read if name.startswith("kafka.")] == ["kafka.bootstrap.servers"]
    own = kafka_source(options={"kafka.max.poll.records": "50"})
    assert options(own, mode)["kafka.max.poll.records"] == "50"


@pytest.mark.parametrize(
    ("what", "option", "value"),
    [
        ({"topics": ["a", "b"]}, "subscribe", "a,b"),
        ({"topicPattern": "pay-.*"}, "subscribePattern", "pay-.*"),
        ({"assign": {"b": [1], "a": [0, 2]}}, "assign", '{"a": [0, 2], "b": [1]}'),
    ],
)
def test_the_subscription(what: dict[str, Any], option: str, value: str) -> None:
    given = options({"kafka": {"bootstrapServers": "kafka:9092", **what}})
    assert given[option] == value
    assert len({"subscribe", "subscribePattern", "assign"} & set(given)) == 1


@pytest.mark.parametrize(
    ("field", "option", "value"),
    [
        ({"startingOffsets": "earliest"}, "startingOffsets", "earliest"),
        ({}, "startingOffsets", "latest"),
        (
            {"startingOffsetsByPartition": {"in": {"0": 5, "1": -2}}},
            "startingOffsets",
            '{"in": {"0": 5, "1": -2}}',
        ),
        ({}, "failOnDataLoss", "true"),
        ({"failOnDataLoss": False}, "failOnDataLoss", "false"),
        ({"includeHeaders": True}, "includeHeaders", "true"),
        ({"options": {"maxOffsetsPerTrigger": "9"}}, "maxOffsetsPerTrigger", "9"),
    ],
)
def test_kafka_fields(field: dict[str, Any], option: str, value: str) -> None:
    assert options(kafka_source(**field))[option] == value


def test_a_streams_first_offsets_win_over_the_spec() -> None:
    made = options(kafka_source(startingOffsets="latest"), starting='{"in": {"0": 5}}')
    assert made["startingOffsets"] == '{"in": {"0": 5}}'


@pytest.mark.parametrize(
    ("source", "made"),
    [
        (RATE, ("rate", {"rowsPerSecond": "10", "numPartitions": "2"})),
        (
            {"rate": {"rampUpTime": "1m"}},
            ("rate", {"rowsPerSecond": "1", "numPartitions": "1", "rampUpTime": "60000ms"}),
        ),
        (SOCKET, ("socket", {"host": "lines", "port": "9999", "includeTimestamp": "false"})),
        (CUSTOM, ("netcat", {"a": "b"})),
    ],
)
def test_other_sources(source: dict[str, Any], made: tuple[str, dict[str, str]]) -> None:
    spec = stream(source, trigger=TRIGGER).spec
    assert source_options(spec.source, Path(), Mode.MICRO_BATCH) == made


@pytest.mark.parametrize(
    ("source", "conf", "partitions"),
    [
        (RATE, {}, 2),
        (CUSTOM, {}, 3),
        (SOCKET, {}, 1),
        # As many as the session's default parallelism, which Penstock therefore sets.
        (SOCKET, {"spark.default.parallelism": "4"}, 4),
        (SOCKET, {"spark.default.parallelism": "many"}, 1),
    ],
)
def test_partitions_of_a_source_that_states_them(
    source: dict[str, Any], conf: dict[str, str], partitions: int
) -> None:
    spec = stream(source).spec
    assert stated_partitions(spec.source, conf) == partitions
    assert default_parallelism(spec.source, conf) == (partitions if source is SOCKET else None)


@pytest.mark.parametrize(
    ("more", "depends"),
    [
        ({}, True),
        ({"startingOffsets": "earliest"}, False),
        ({"startingOffsetsByPartition": {"in": {"0": -1}}}, True),
        ({"options": {"startingTimestamp": "1"}}, False),
        ({"options": {"startingtimestamp": "1"}}, False),
    ],
)
def test_a_start_that_depends_on_the_time_is_known(more: dict[str, Any], depends: bool) -> None:
    assert depends_on_start_time(stream(kafka_source(**more)).spec) is depends
    assert not depends_on_start_time(stream(RATE).spec)


@pytest.mark.parametrize(
    ("start", "depends"), [({"offsets": "latest"}, True), ({"offsets": "earliest"}, False)]
)
def test_a_generation_starts_where_it_says(start: dict[str, str], depends: bool) -> None:
    begun: dict[str, Any] = {"checkpoint": {"startFrom": start}}
    for more in ({}, {"startingOffsets": "earliest"}):
        assert depends_on_start_time(stream(kafka_source(**more), **begun).spec) is depends


def test_first_offsets() -> None:
    newest = {"in": {0: 50, 1: 70}}
    assert first_offsets({}, newest) == newest
    # -1 is the latest offset now; -2 is the earliest offset at any time.
    assert first_offsets({"in": {"0": -1, "1": -2}}, newest) == {"in": {0: 50, 1: -2}}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"in": {"0": 1}}, "does not name in 1"),
        ({"in": {"0": 1, "1": 1, "2": 1}}, "names in 2"),
        ({"in": {"0": 1, "1": 1}, "other": {"0": 1}}, "names other 0"),
    ],
)
def test_offsets_must_name_every_partition_and_no_other(asked: dict[str, Any], words: str) -> None:
    """Spark would fail with an assertion."""
    with pytest.raises(DriverError) as raised:
        first_offsets(asked, {"in": {0: 50, 1: 70}})
    assert words in raised.value.failure.message
    assert raised.value.failure.permanent


def test_assigned_partitions() -> None:
    assert selected_partitions({"in": 3}, None) == {"in": [0, 1, 2]}
    assert selected_partitions({"in": 3}, {"in": [2, 0]}) == {"in": [0, 2]}
    with pytest.raises(DriverError) as raised:
        selected_partitions({"in": 3}, {"in": [3]})
    assert raised.value.failure.reason == "PartitionMissing"
    assert raised.value.failure.recoverable


def test_assign_is_json_in_spark() -> None:
    given = options({"kafka": {"bootstrapServers": "kafka:9092", "assign": {"in": [0]}}})
    assert json.loads(given["assign"]) == {"in": [0]}


def test_a_query_reads_the_partitions_that_it_is_given() -> None:
    """The continuous engine would plan itself again when it saw more, and could lose records."""
    source, there = stream(kafka_source()).spec.source, {"in": [0, 1]}
    for mode in Mode:
        given = source_options(source, Path(), mode, None, there)[1]
        assert json.loads(given["assign"]) == there
        assert "subscribe" not in given
        assert source_options(source, Path(), mode)[1]["subscribe"] == "in"
