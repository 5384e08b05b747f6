"""A stream pointed at a broker of its own: addresses, doors left out, topics."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.local.errors import Refused
from penstock.local.kafka.redirect import first_source_topic, rewired, topics
from testkit.streams.streams import CONSOLE, kafka_sink, kafka_source, stream

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


def test_source_and_sink_use_the_broker_and_none_of_its_doors() -> None:
    moved = rewired(stream(kafka_source("far:9093", **SECURE), kafka_sink("other:9092")), HERE)
    source, sink = moved.stream.spec.source.kafka, moved.stream.spec.sink.kafka
    assert source is not None
    assert sink is not None
    assert source.bootstrap_servers == sink.bootstrap_servers == HERE
    assert (source.tls, source.sasl, source.secret_options) == (None, None, {})
    assert source.options == {"kafka.fetch.max.bytes": "5"}
    assert moved.dropped == (
        "spec.source.kafka.tls",
        "spec.source.kafka.sasl",
        "spec.source.kafka.secretOptions",
        "spec.source.kafka.options.kafka.ssl.protocol",
    )
    assert moved.stream.metadata == stream().metadata


def test_another_broker_of_the_users_keeps_its_doors() -> None:
    secure = stream(kafka_source("far:9093", **SECURE), CONSOLE)
    moved = rewired(secure, HERE, keep_security=True)
    assert moved.dropped == ()
    before, after = secure.spec.source.kafka, moved.stream.spec.source.kafka
    assert before is not None
    assert after == before.model_copy(update={"bootstrap_servers": HERE})


def test_what_is_not_kafka_stays_as_it_is() -> None:
    moved = rewired(stream(), HERE)
    assert moved.stream == stream()


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ({}, {"in": 4, "out": 4}),
        ({"topics": ["a", "b"]}, {"a": 4, "b": 4, "out": 4}),
        ({"topics": None, "assign": {"in": [0, 6]}}, {"in": 7, "out": 4}),
        ({"startingOffsetsByPartition": {"in": {"0": 1, "1": -2}}}, {"in": 2, "out": 4}),
    ],
    ids=["plain", "two", "assigned", "offsets"],
)
def test_topics_to_make(source: dict[str, Any], wanted: dict[str, int]) -> None:
    """With as many partitions as are named, where they are."""
    spec = stream(kafka_source(**source), kafka_sink()).spec
    assert topics(spec, 4) == wanted
    assert topics(spec, 4, ("more",)) == {**wanted, "more": 4}


def test_a_pattern_needs_topics_that_match_it() -> None:
    spec = stream(kafka_source(topics=None, topicPattern="in-.*"), kafka_sink()).spec
    with pytest.raises(Refused, match="--topic"):
        topics(spec, 2, ("other",))
    assert topics(spec, 2, ("in-1",)) == {"in-1": 2, "out": 2}
    assert first_source_topic(spec, ("other", "in-1")) == "in-1"


def test_the_topic_that_is_fed() -> None:
    assert first_source_topic(stream(kafka_source(topics=["a", "b"])).spec) == "a"
    assert first_source_topic(stream().spec) is None
