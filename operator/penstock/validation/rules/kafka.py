"""What is known about Kafka's source and sink without a broker."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.api.kafka_options import BATCH_LIMITS
from penstock.api.problem import NOT_JUDGED, Problem
from penstock.api.v1alpha1 import KafkaSource, StreamSpec
from penstock.validation.rules import java_regex


def find_problems(spec: StreamSpec) -> Iterator[Problem]:
    """Problems of a valid spec."""
    source = spec.source.kafka
    if source is None:
        return
    if source.topic_pattern is not None:
        yield from _pattern(source.topic_pattern)
    yield from _loop(source, spec)
    yield from _batch_limits(source, spec)


def least_partitions(source: KafkaSource) -> int:
    """How many partitions the source has at least, as far as the spec says."""
    if source.assign is not None:
        return sum(len(set(each)) for each in source.assign.values())
    named = source.starting_offsets_by_partition
    if named:  # Spark requires all partitions there
        return sum(len(each) for each in named.values())
    return len(set(source.topics or ())) or 1


def _pattern(pattern: str) -> Iterator[Problem]:
    field = "spec.source.kafka.topicPattern"
    judged = java_regex.judge(pattern)
    if isinstance(judged, str):
        yield Problem("InvalidPattern", f"{field}: not a regular expression of Java: {judged}")
    elif judged is None:
        yield Problem(
            NOT_JUDGED, f"{field}: only Java can tell whether this expression is valid", "notice"
        )


def _loop(source: KafkaSource, spec: StreamSpec) -> Iterator[Problem]:
    sink = spec.sink.kafka
    if sink is None or sink.topic is None or not _shares_broker(source, sink.bootstrap_servers):
        return
    topics = [*(source.topics or ()), *(source.assign or ())]
    if sink.topic in topics or _matches(source.topic_pattern, sink.topic):
        yield Problem(
            "SinkFeedsSource",
            f"spec.sink.kafka.topic: the source reads {sink.topic} too, so each record that is "
            "written is read again, for ever: write to another topic, unless the query filters "
            "out what it has written",
            "warning",
        )


def _batch_limits(source: KafkaSource, spec: StreamSpec) -> Iterator[Problem]:
    """Options that only a micro-batch has a use for. Spark ignores the case of their names."""
    limits = {each.lower() for each in BATCH_LIMITS}
    for name in source.options:
        if name.lower() not in limits:
            continue
        field = f"spec.source.kafka.options.{name}"
        if spec.trigger.real_time is not None:
            yield Problem(
                "KafkaOptionInvalid",
                f"{field}: Spark refuses it in real-time mode, whose batches end by time: remove "
                "it, or use trigger.microBatch",
            )
        elif spec.trigger.continuous is not None:
            yield Problem(
                "OptionIgnored",
                f"{field}: Spark ignores it in continuous mode, which has no batches: remove it, "
                "or use trigger.microBatch",
                "warning",
            )


def _shares_broker(source: KafkaSource, servers: str) -> bool:
    def brokers(text: str) -> set[str]:
        return {each.strip() for each in text.split(",")} - {""}

    return bool(brokers(source.bootstrap_servers) & brokers(servers))


def _matches(pattern: str | None, topic: str) -> bool:
    """Whether a pattern whose meaning is the same in Python certainly matches."""
    if pattern is None or java_regex.judge(pattern) is not True:
        return False
    # Without nested repetition, which could take for ever.
    return pattern.count("*") + pattern.count("+") + pattern.count("{") <= 3 and (
        re.fullmatch(pattern, topic) is not None
    )
