"""A stream on another Kafka broker: its address, the topics that it needs, what it reads. Pure."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

from penstock.api.modes import Mode
from penstock.api.v1alpha1 import KafkaSource, StreamSpec
from penstock.api.v1alpha1.kafka_connection import KafkaClient, KafkaConnection
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.command_line import CommandError
from penstock.driver.checkpoint.start_position import depends_on_start_time

# Spark's number for the latest offset in startingOffsetsByPartition.
_LATEST = -1
# Kafka client options about security; the local broker has none.
_SECURITY = re.compile(r"^kafka\.(ssl\.|sasl\.|security\.|config\.providers)", re.IGNORECASE)
_SECURITY_FIELDS = ("tls", "sasl", "secret_options")


@dataclass(frozen=True)
class RedirectedStream:
    """A stream that uses the other broker, and what was removed from it."""

    stream: ContinuousStream
    dropped: tuple[str, ...]
    """The paths of the removed fields and options in the resource."""


def redirect(
    stream: ContinuousStream, bootstrap: str, *, keep_security: bool = False
) -> RedirectedStream:
    """The stream with this address for source and sink, and without TLS and SASL unless kept."""
    spec, dropped = stream.spec, list[str]()
    # Source and sink hold complete connections, so the shared one has no more readers.
    changes: dict[str, Any] = {"kafka": None}
    for part in ("source", "sink"):
        end = getattr(spec, part)
        client: KafkaClient | None = end.kafka
        if client is None:
            continue
        update: dict[str, Any] = {"bootstrap_servers": bootstrap}
        if not keep_security:
            update |= _without_security(client)
            shared = _shared_settings(spec, client)
            dropped += [
                f"spec.kafka.{setting}" if setting in shared else f"spec.{part}.kafka.{setting}"
                for setting in _security_settings(client)
            ]
        changes[part] = end.model_copy(update={"kafka": client.model_copy(update=update)})
    return RedirectedStream(
        stream.model_copy(update={"spec": spec.model_copy(update=changes)}),
        tuple(dict.fromkeys(dropped)),
    )


def without_consumer_group(stream: ContinuousStream) -> ContinuousStream:
    """The stream, and no offsets of it in a group that belongs to the one in the cluster."""
    spec = stream.spec
    if spec.source.kafka is None:
        return stream
    kafka = spec.source.kafka.model_copy(update={"consumer_group": None})
    source = spec.source.model_copy(update={"kafka": kafka})
    return stream.model_copy(update={"spec": spec.model_copy(update={"source": source})})


def _shared_settings(spec: StreamSpec, client: KafkaClient) -> list[str]:
    """The security settings that the client has from spec.kafka."""
    shared = spec.kafka
    if shared is None or shared.bootstrap_servers != client.bootstrap_servers:
        return []
    return _security_settings(shared)


def _security_settings(client: KafkaConnection) -> list[str]:
    fields = [name for name in _SECURITY_FIELDS if getattr(client, name)]
    aliases = [type(client).model_fields[name].alias or name for name in fields]
    options = [f"options.{name}" for name in client.options if _SECURITY.match(name)]
    return [*aliases, *options]


def _without_security(client: KafkaClient) -> dict[str, Any]:
    kept = {name: value for name, value in client.options.items() if not _SECURITY.match(name)}
    return {"tls": None, "sasl": None, "secret_options": {}, "options": kept}


def topics_to_create(
    spec: StreamSpec, partitions: int, extra_topics: tuple[str, ...] = ()
) -> dict[str, int]:
    """The topics that the stream needs, each with its number of partitions.

    Raises CommandError if the source has a topicPattern that no extra topic matches.
    """
    topics = dict.fromkeys(extra_topics, partitions)
    if spec.sink.kafka is not None and spec.sink.kafka.topic is not None:
        topics[spec.sink.kafka.topic] = partitions
    if spec.source.kafka is not None:
        topics |= _source_topics(spec.source.kafka, partitions, extra_topics)
        if spec.source.kafka.dead_letters is not None:
            topics[spec.source.kafka.dead_letters.topic] = partitions
    return topics


def _source_topics(
    source: KafkaSource, partitions: int, extra_topics: tuple[str, ...]
) -> dict[str, int]:
    if source.topic_pattern is not None:
        if not any(_may_match(source.topic_pattern, topic) for topic in extra_topics):
            raise CommandError(
                "spec.source.kafka.topicPattern does not say which topics to create: name "
                "topics that match it with --topic",
                code=2,
            )
        return {}
    if source.assign is not None:
        return {
            topic: max(partitions, *(n + 1 for n in numbers))
            for topic, numbers in source.assign.items()
        }
    offsets = source.starting_offsets_by_partition
    # Spark wants an offset for every partition, so the topic gets no more than those.
    return {topic: len(offsets.get(topic, ())) or partitions for topic in source.topics or ()}


def _may_match(pattern: str, topic: str) -> bool:
    """Whether the topic matches; True if only Java can tell, which does when the stream starts."""
    try:
        with warnings.catch_warnings():
            # Python warns of what means something else in other languages, such as [a-z&&[^x]].
            warnings.simplefilter("error")
            return re.fullmatch(pattern, topic) is not None
    except (re.error, FutureWarning, DeprecationWarning, OverflowError, RecursionError):
        return True


def topic_to_feed(spec: StreamSpec, extra_topics: tuple[str, ...] = ()) -> str | None:
    """The topic that --feed sends to; None if the source is not Kafka."""
    source = spec.source.kafka
    if source is None:
        return None
    if source.topic_pattern is not None:
        pattern = source.topic_pattern
        return next((topic for topic in extra_topics if _may_match(pattern, topic)), None)
    return next(iter(source.topics or source.assign or ()), None)


def partitions_to_feed(spec: StreamSpec, topic: str) -> tuple[int, ...]:
    """The partitions of the topic that the stream reads; empty if it reads all of them."""
    source = spec.source.kafka
    assigned = (source and source.assign) or {}
    return tuple(sorted(set(assigned.get(topic, ()))))


def check_feed(spec: StreamSpec, once: bool) -> None:
    """Raises CommandError if the stream could not read all that --feed sends."""
    if spec.source.kafka is None:
        raise CommandError("--feed needs a Kafka source, and the stream has none", code=2)
    if spec.trigger.mode is not Mode.AVAILABLE_NOW:
        return
    if not once:
        raise CommandError(
            "an availableNow stream reads what is there when it starts, and --feed sends the lines "
            "again and again: add --once, which sends all of them before the stream starts",
            code=2,
        )
    if _starts_after_the_feed(spec):
        raise CommandError(
            "an availableNow stream that starts at the latest offsets does not read the lines of "
            "--feed, which are sent before it starts: set startingOffsets: earliest in "
            "spec.source.kafka",
            code=2,
        )


def _starts_after_the_feed(spec: StreamSpec) -> bool:
    kafka, start = spec.source.kafka, spec.checkpoint.start_from
    assert kafka is not None
    named = kafka.starting_offsets_by_partition if start is None else start.offsets_by_partition
    if named:
        return any(_LATEST in of_topic.values() for of_topic in named.values())
    return depends_on_start_time(spec)
