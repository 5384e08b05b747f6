"""The topics that a local broker needs for a stream. Pure."""

from __future__ import annotations

import re
import warnings

from penstock.api.v1alpha1 import KafkaSource, StreamSpec
from penstock.local.errors import CommandError


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
