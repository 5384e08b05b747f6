"""The connection that source and sink share, and what of it each of them gets."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.api.v1alpha1.kafka_connection import KafkaClient
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.secrets import secret_keys
from testkit.streams.every_field import WIDE
from testkit.streams.streams import CONSOLE, stream

SHARED: dict[str, Any] = {
    "bootstrapServers": "shared:9093",
    "tls": {"caSecret": {"name": "shared-ca", "key": "ca.crt"}},
    "sasl": {
        "mechanism": "PLAIN",
        "username": "me",
        "passwordSecret": {"name": "shared-login", "key": "password"},
    },
    "options": {"kafka.client.id": "shared", "kafka.metadata.max.age.ms": "5"},
    "secretOptions": {"kafka.x": {"name": "shared-x", "key": "x"}},
}


def clients(
    source: dict[str, Any], sink: dict[str, Any], shared: dict[str, Any] | None = SHARED
) -> tuple[KafkaClient, KafkaClient]:
    """Source and sink of a stream with this shared connection."""
    more: dict[str, Any] = {} if shared is None else {"kafka": shared}
    spec = stream({"kafka": {"topics": ["in"], **source}}, {"kafka": sink}, **more).spec
    assert spec.source.kafka is not None
    assert spec.sink.kafka is not None
    return spec.source.kafka, spec.sink.kafka


def test_source_and_sink_get_the_whole_shared_connection() -> None:
    for client in clients({}, {"topic": "out"}):
        written = client.model_dump(by_alias=True, exclude_none=True)
        assert {name: written[name] for name in SHARED} == SHARED


def test_own_brokers_inherit_nothing() -> None:
    """So no credential is sent to another broker."""
    source, sink = clients({}, {"topic": "out", "bootstrapServers": "other:9092"})
    assert source.bootstrap_servers == "shared:9093"
    assert sink.bootstrap_servers == "other:9092"
    assert (sink.tls, sink.sasl, sink.options, sink.secret_options) == (None, None, {}, {})


def test_own_options_win_over_shared_ones() -> None:
    own = {"kafka.client.id": "mine", "minPartitions": "5"}
    source, sink = clients({"options": own}, {})
    assert source.options == {"kafka.metadata.max.age.ms": "5", **own}
    assert sink.options == SHARED["options"]


def test_own_options_win_in_any_case() -> None:
    own = {"Kafka.Client.Id": "mine", "KAFKA.x": "mine"}
    source, _ = clients({"options": own}, {"topic": "out"})
    assert source.options == {"kafka.metadata.max.age.ms": "5", **own}
    assert source.secret_options == {}


@pytest.mark.parametrize(
    ("source", "options", "secret_options"),
    [
        ({"options": {"kafka.x": "plain"}}, {"kafka.x": "plain"}, set()),
        ({"secretOptions": {"kafka.client.id": {"name": "a", "key": "b"}}}, {},
         {"kafka.x", "kafka.client.id"}),
    ],
    ids=["plain over secret", "secret over plain"],
)  # fmt: skip
def test_an_own_option_wins_in_both_maps(
    source: dict[str, Any], options: dict[str, str], secret_options: set[str]
) -> None:
    merged, _ = clients(source, {})
    assert merged.options.get("kafka.x") == options.get("kafka.x")
    assert set(merged.secret_options) == secret_options
    assert not set(merged.options) & set(merged.secret_options)


def test_without_a_shared_connection_each_has_its_own() -> None:
    source, sink = clients({"bootstrapServers": "a:1"}, {"bootstrapServers": "b:1"}, None)
    assert (source.bootstrap_servers, sink.bootstrap_servers) == ("a:1", "b:1")


def test_only_the_secrets_of_used_connections_are_mounted() -> None:
    """A shared connection that nobody uses needs no Secret."""
    own = {"bootstrapServers": "other:9092", "topics": ["in"]}
    unused = stream({"kafka": own}, CONSOLE, kafka=SHARED).spec
    assert secret_keys(unused) == {}
    used = stream({"kafka": {"topics": ["in"]}}, CONSOLE, kafka=SHARED).spec
    assert secret_keys(used) == {
        "shared-ca": ("ca.crt",),
        "shared-login": ("password",),
        "shared-x": ("x",),
    }


@pytest.mark.parametrize("spec", WIDE)
def test_the_resource_that_the_driver_reads_has_the_same_meaning(spec: dict[str, Any]) -> None:
    """The operator writes it with every default and connection; the driver parses it again."""
    wide = ContinuousStream.model_validate({"metadata": {"name": "wide"}, "spec": spec})
    assert ContinuousStream.from_yaml(wide.to_yaml()) == wide
