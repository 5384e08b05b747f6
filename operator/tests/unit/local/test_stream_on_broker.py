"""A stream on another broker: its address, the topics that it needs there, what it is fed."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.command_line import CommandError
from penstock.local.kafka.stream_on_broker import (
    check_feed,
    partitions_to_feed,
    redirect,
    topic_to_feed,
    topics_to_create,
    without_consumer_group,
)
from testkit.streams.streams import AVAILABLE_NOW, CONSOLE, kafka_sink, kafka_source, stream

SECURE: dict[str, Any] = {
    "tls": {"caSecret": {"name": "ca", "key": "ca.crt"}},
    "sasl": {
        "mechanism": "PLAIN",
        "username": "me",
        "passwordSecret": {"name": "login", "key": "password"},
    },
    "secretOptions": {"kafka.ssl.truststore.certificates": {"name": "x", "key": "y"}},
    "options": {"kafka.ssl.protocol": "TLSv1.3", "kafka.fetch.max.bytes": "5"},
}
HERE = "127.0.0.1:1"


def test_source_and_sink_use_the_local_broker_without_security() -> None:
    redirected = redirect(
        stream(kafka_source("far:9093", **SECURE), kafka_sink("other:9092")), HERE
    )
    source, sink = redirected.stream.spec.source.kafka, redirected.stream.spec.sink.kafka
    assert source is not None
    assert sink is not None
    assert source.bootstrap_servers == sink.bootstrap_servers == HERE
    assert (source.tls, source.sasl, source.secret_options) == (None, None, {})
    assert source.options == {"kafka.fetch.max.bytes": "5"}
    assert redirected.dropped == (
        "spec.source.kafka.tls",
        "spec.source.kafka.sasl",
        "spec.source.kafka.secretOptions",
        "spec.source.kafka.options.kafka.ssl.protocol",
    )
    assert redirected.stream.metadata == stream().metadata


def test_a_run_on_a_laptop_leaves_the_group_to_the_stream_in_the_cluster() -> None:
    grouped = stream(kafka_source(consumerGroup="fraud-flags"))
    assert without_consumer_group(grouped) == stream(kafka_source())
    without_kafka = stream()
    assert without_consumer_group(without_kafka) is without_kafka


def test_removed_settings_of_a_shared_connection_are_named_once() -> None:
    shared = {**SECURE, "options": {"kafka.ssl.protocol": "TLSv1.3"}}
    own = {"options": {"Kafka.SSL.cipher.suites": "X", "kafka.fetch.max.bytes": "5"}}
    secure = stream(
        {"kafka": {"topics": ["in"], **own}},
        {"kafka": {"topic": "out"}},
        kafka={"bootstrapServers": "far:9093", **shared},
    )
    redirected = redirect(secure, HERE)
    spec = redirected.stream.spec
    assert spec.kafka is None
    assert spec.source.kafka is not None
    assert spec.sink.kafka is not None
    for client in (spec.source.kafka, spec.sink.kafka):
        assert client.bootstrap_servers == HERE
        assert (client.tls, client.sasl, client.secret_options) == (None, None, {})
    assert spec.source.kafka.options == {"kafka.fetch.max.bytes": "5"}
    assert redirected.dropped == (
        "spec.kafka.tls",
        "spec.kafka.sasl",
        "spec.kafka.secretOptions",
        "spec.kafka.options.kafka.ssl.protocol",
        "spec.source.kafka.options.Kafka.SSL.cipher.suites",
    )


def test_bootstrap_servers_keeps_the_security_settings() -> None:
    secure = stream(kafka_source("far:9093", **SECURE), CONSOLE)
    redirected = redirect(secure, HERE, keep_security=True)
    assert redirected.dropped == ()
    before, after = secure.spec.source.kafka, redirected.stream.spec.source.kafka
    assert before is not None
    assert after == before.model_copy(update={"bootstrap_servers": HERE})


def test_a_stream_without_kafka_is_unchanged() -> None:
    redirected = redirect(stream(), HERE)
    assert redirected.stream == stream()


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ({}, {"in": 4, "out": 4}),
        ({"topics": ["a", "b"]}, {"a": 4, "b": 4, "out": 4}),
        ({"deadLetters": {"topic": "bad"}}, {"in": 4, "out": 4, "bad": 4}),
        ({"topics": None, "assign": {"in": [0, 6]}}, {"in": 7, "out": 4}),
        ({"startingOffsetsByPartition": {"in": {"0": 1, "1": -2}}}, {"in": 2, "out": 4}),
    ],
    ids=["plain", "two", "dead letters", "assigned", "offsets"],
)
def test_topics_that_a_stream_needs(source: dict[str, Any], wanted: dict[str, int]) -> None:
    """With as many partitions as the spec names, if it names them."""
    spec = stream(kafka_source(**source), kafka_sink()).spec
    assert topics_to_create(spec, 4) == wanted
    assert topics_to_create(spec, 4, ("more",)) == {**wanted, "more": 4}


def test_a_topic_pattern_needs_a_matching_extra_topic() -> None:
    spec = stream(kafka_source(topics=None, topicPattern="in-.*"), kafka_sink()).spec
    with pytest.raises(CommandError, match="--topic"):
        topics_to_create(spec, 2, ("other",))
    assert topics_to_create(spec, 2, ("in-1",)) == {"in-1": 2, "out": 2}
    assert topic_to_feed(spec, ("other", "in-1")) == "in-1"


@pytest.mark.parametrize("pattern", [r"\p{Lower}+", r"(?<name>i)n", "[a-z&&[^x]]+"])
def test_a_pattern_that_only_java_can_read(pattern: str) -> None:
    """Java says whether the topic matches when the stream starts."""
    spec = stream(kafka_source(topics=None, topicPattern=pattern), kafka_sink()).spec
    with pytest.raises(CommandError, match="--topic"):
        topics_to_create(spec, 4)
    assert topics_to_create(spec, 4, ("in",)) == {"in": 4, "out": 4}
    assert topic_to_feed(spec, ("in",)) == "in"


def test_the_topic_to_feed() -> None:
    assert topic_to_feed(stream(kafka_source(topics=["a", "b"])).spec) == "a"
    assert topic_to_feed(stream().spec) is None


@pytest.mark.parametrize(
    ("source", "partitions"),
    [
        ({}, ()),
        ({"topics": None, "assign": {"in": [6, 0], "other": [1]}}, (0, 6)),
        ({"topics": None, "topicPattern": "i."}, ()),
    ],
    ids=["all", "assigned", "pattern"],
)
def test_the_partitions_to_feed(source: dict[str, Any], partitions: tuple[int, ...]) -> None:
    assert partitions_to_feed(stream(kafka_source(**source)).spec, "in") == partitions


@pytest.mark.parametrize(
    ("source", "once", "words"),
    [
        ({"startingOffsets": "earliest"}, True, None),
        ({"startingOffsetsByPartition": {"in": {"0": -2, "1": 0}}}, True, None),
        ({"options": {"startingTimestamp": "1"}}, True, None),
        ({"startingOffsets": "earliest"}, False, "add --once"),
        ({"startingOffsets": "latest"}, True, "startingOffsets: earliest"),
        ({}, True, "startingOffsets: earliest"),
        ({"startingOffsetsByPartition": {"in": {"0": -2, "1": -1}}}, True, "earliest"),
    ],
)
def test_an_available_now_stream_must_be_able_to_read_the_whole_feed(
    source: dict[str, Any], once: bool, words: str | None
) -> None:
    """Streams with other triggers run on, and read what is sent later."""
    given = kafka_source(**{"startingOffsets": None, **source})
    check_feed(stream(given, kafka_sink()).spec, once)
    spec = stream(given, kafka_sink(), trigger=AVAILABLE_NOW).spec
    if words is None:
        check_feed(spec, once)
        return
    with pytest.raises(CommandError, match=words) as raised:
        check_feed(spec, once)
    assert raised.value.code == 2
