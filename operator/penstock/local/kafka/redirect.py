"""A stream pointed at another broker. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.api.v1alpha1 import KafkaSource, StreamSpec
from penstock.api.v1alpha1.kafka import KafkaClient
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.local.errors import Refused

# How to get in, in the Kafka client's naming; a broker on loopback has no doors.
_SECURITY = re.compile(r"^kafka\.(ssl\.|sasl\.|security\.|config\.providers)")
_SECURITY_FIELDS = ("tls", "sasl", "secret_options")


@dataclass(frozen=True)
class Rewired:
    """A stream that uses the broker, and what was left out of it."""

    stream: ContinuousStream
    dropped: tuple[str, ...]
    """Fields and options, by their place in the resource."""


def uses_kafka(spec: StreamSpec) -> bool:
    """Whether its source or its sink is Kafka."""
    return spec.source.kafka is not None or spec.sink.kafka is not None


def rewired(stream: ContinuousStream, bootstrap: str, *, keep_security: bool = False) -> Rewired:
    """The stream with this address for source and sink, and no security unless it is kept."""
    spec, dropped, changes = stream.spec, [], {}
    for part in ("source", "sink"):
        end = getattr(spec, part)
        client: KafkaClient | None = end.kafka
        if client is None:
            continue
        update: dict[str, Any] = {"bootstrap_servers": bootstrap}
        if not keep_security:
            update |= _without_security(client)
            dropped += [f"spec.{part}.kafka.{each}" for each in _security_of(client)]
        changes[part] = end.model_copy(update={"kafka": client.model_copy(update=update)})
    return Rewired(
        stream.model_copy(update={"spec": spec.model_copy(update=changes)}), tuple(dropped)
    )


def _options(client: KafkaClient) -> Mapping[str, str]:
    found: Mapping[str, str] = getattr(client, "options", {})
    return found


def _security_of(client: KafkaClient) -> list[str]:
    fields = [name for name in _SECURITY_FIELDS if getattr(client, name)]
    aliases = [type(client).model_fields[name].alias or name for name in fields]
    options = [f"options.{name}" for name in _options(client) if _SECURITY.match(name)]
    return [*aliases, *options]


def _without_security(client: KafkaClient) -> dict[str, Any]:
    kept = {name: value for name, value in _options(client).items() if not _SECURITY.match(name)}
    return {"tls": None, "sasl": None, "secret_options": {}, "options": kept}


def topics(spec: StreamSpec, partitions: int, further: tuple[str, ...] = ()) -> dict[str, int]:
    """The topics that the stream needs, and how many partitions to make them with."""
    wanted = dict.fromkeys(further, partitions)
    if spec.sink.kafka is not None and spec.sink.kafka.topic is not None:
        wanted[spec.sink.kafka.topic] = partitions
    if spec.source.kafka is not None:
        wanted |= _of_source(spec.source.kafka, partitions, further)
    return wanted


def _of_source(source: KafkaSource, partitions: int, further: tuple[str, ...]) -> dict[str, int]:
    if source.topic_pattern is not None:
        if not any(re.fullmatch(source.topic_pattern, topic) for topic in further):
            raise Refused(
                "spec.source.kafka.topicPattern says what to read and not what to make: name the "
                "topics that match it with --topic",
                code=2,
            )
        return {}
    if source.assign is not None:
        return {
            topic: max(partitions, *(n + 1 for n in numbers))
            for topic, numbers in source.assign.items()
        }
    named = source.starting_offsets_by_partition
    # Every partition that there is must be named, so there may be no more of them.
    return {topic: len(named.get(topic, ())) or partitions for topic in source.topics or ()}


def first_source_topic(spec: StreamSpec, further: tuple[str, ...] = ()) -> str | None:
    """The topic that --feed fills; None if Kafka is not the source."""
    source = spec.source.kafka
    if source is None:
        return None
    if source.topic_pattern is not None:
        pattern = source.topic_pattern
        return next((topic for topic in further if re.fullmatch(pattern, topic)), None)
    return next(iter(source.topics or source.assign or ()), None)
