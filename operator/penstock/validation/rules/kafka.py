"""What is known about Kafka's source and sink without a broker."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from penstock.api.kafka_options import (
    BATCH_LIMITS,
    CLIENT_PREFIX,
    KNOWN_SINK_OPTIONS,
    KNOWN_SOURCE_OPTIONS,
)
from penstock.api.modes import Mode
from penstock.api.problem import NOT_JUDGED, Problem, Severity, dotted
from penstock.api.v1alpha1 import KafkaSource, StreamSpec
from penstock.api.v1alpha1.kafka_connection import KafkaConnection
from penstock.api.v1alpha1.sinks import KafkaSink
from penstock.validation.rules import java_regex

# Numbers of Spark's source, with the smallest with which it can read and its type's largest.
_INT, _LONG = 2**31 - 1, 2**63 - 1
_NUMBERS = {
    "minpartitions": (1, _INT),
    "maxrecordsperpartition": (1, _LONG),
    "maxoffsetspertrigger": (1, _LONG),  # with 0, no limit elsewhere, it reads nothing, for ever
    "minoffsetspertrigger": (0, _LONG),
    "fetchoffset.numretries": (0, _INT),
    "fetchoffset.retryintervalms": (0, _LONG),
    "kafkaconsumer.polltimeoutms": (0, _LONG),
    "startingtimestamp": (0, _LONG),
}
_WORDS = {"startingoffsetsbytimestampstrategy": ("error", "latest")}
# JavaUtils.timeStringAs of Spark, which trims the text.
_SPARK_TIME = re.compile(r"\s*-?[0-9]+(us|ms|s|m|min|h|d)?\s*", re.IGNORECASE)
# A * as in the names of files: payments-*
_GLOB = re.compile(r"(?<!\\)[\w-]\*")
_INTEGER = re.compile(r"[-+]?\d{1,19}")
_TIMESTAMPS: TypeAdapter[dict[str, dict[str, int]]] = TypeAdapter(
    dict[str, dict[Annotated[str, Field(pattern="^[0-9]{1,9}$")], Annotated[int, Field(le=_LONG)]]]
)


def find_problems(spec: StreamSpec) -> Iterator[Problem]:
    """Problems of a valid spec."""
    source, sink = spec.source.kafka, spec.sink.kafka
    # An image of the user's own may have a newer connector, which knows more options.
    severity: Severity = "error" if spec.image is None else "warning"
    if source is not None:
        yield from _unknown_options("source", source.options, KNOWN_SOURCE_OPTIONS, severity)
        yield from _wrong_values(source.options)
        sink_topic = _read_if_matched(source, spec)
        if sink_topic in {*(source.topics or ()), *(source.assign or ())}:
            yield _loop(sink_topic)
        if source.topic_pattern is not None:
            yield from _glob(source.topic_pattern)
        yield from _batch_limits(source, spec)
        yield from _divided_partitions(source, spec)
        yield from _never_read(source, spec)
        yield from _dead_letters(source, spec)
    if sink is not None:
        yield from _unknown_options("sink", sink.options, KNOWN_SINK_OPTIONS, severity)
        yield from _broken_guarantees(sink, spec.kafka)


def judge_pattern(spec: StreamSpec) -> Iterator[Problem]:
    """What is wrong with the topics' regular expression. Only for a process with limits: Python
    may take for ever over one that Java takes.
    """
    source = spec.source.kafka
    if source is None or source.topic_pattern is None:
        return
    field, pattern = "spec.source.kafka.topicPattern", source.topic_pattern
    judged = java_regex.judge(pattern)
    if isinstance(judged, str):
        yield Problem("InvalidPattern", f"{field}: not a regular expression of Java: {judged}")
    elif judged is None:
        yield Problem(
            NOT_JUDGED, f"{field}: only Java can tell whether this expression is valid", "notice"
        )
    else:  # so its meaning is the same in Python
        sink_topic = _read_if_matched(source, spec)
        if sink_topic is not None and re.fullmatch(pattern, sink_topic):
            yield _loop(sink_topic)


def least_partitions(source: KafkaSource) -> int:
    """How many partitions the source has at least, as far as the spec says."""
    if source.assign is not None:
        return sum(len(set(numbers)) for numbers in source.assign.values())
    named = source.starting_offsets_by_partition
    if named:  # Spark requires all partitions there
        return sum(len(numbers) for numbers in named.values())
    return len(set(source.topics or ())) or 1


def _option_problem(client: str, name: str, text: str, severity: Severity = "error") -> Problem:
    path = ("spec", *client.split("."), "options", name)
    return Problem("KafkaOptionInvalid", f"{dotted(path)}: {text}", severity, path)


def _unknown_options(
    end: str, options: Mapping[str, str], known: Sequence[str], severity: Severity
) -> Iterator[Problem]:
    """Spark ignores an option that it does not know without a word, such as max.poll.records."""
    by_lower = {name.lower(): name for name in known}
    for name in options:
        if name.lower() in by_lower or name.lower().startswith(CLIENT_PREFIX):
            continue
        near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.75)
        meant = by_lower[near[0]] if near else f"{CLIENT_PREFIX}{name}"
        hint = f"did you mean {meant}?" if near or "." in name else "remove it"
        if not near and "." in name:
            hint += " Options of Kafka's client have the prefix kafka."
        message = f"Spark has no such option, and would ignore it: {hint}"
        yield _option_problem(f"{end}.kafka", name, message, severity)


def _wrong_values(options: Mapping[str, str]) -> Iterator[Problem]:
    """Values that Spark's source cannot read."""
    for name, value in options.items():
        expected = _expected(name.lower(), value)
        if expected is not None:
            yield _option_problem("source.kafka", name, f"takes {expected}")


def _expected(key: str, value: str) -> str | None:
    """What an option takes, if that is something else."""
    if key in _NUMBERS:
        least, greatest = _NUMBERS[key]
        text = value.strip() if key == "startingtimestamp" else value
        if not _INTEGER.fullmatch(text) or not least <= int(text) <= greatest:
            no_limit = ": remove it for no limit" if key == "maxoffsetspertrigger" else ""
            return f"an integer of {least} or more{no_limit}"
    elif key in _WORDS and value.lower() not in _WORDS[key]:
        return f"one of: {', '.join(_WORDS[key])}"
    elif key == "maxtriggerdelay" and not _SPARK_TIME.fullmatch(value):
        return "a number and a unit without a space, such as 15m"
    elif key == "startingoffsetsbytimestamp" and not _are_timestamps(value):
        return 'milliseconds in JSON, such as {"payments": {"0": 1767225600000}}'
    return None


def _are_timestamps(value: str) -> bool:
    try:
        _TIMESTAMPS.validate_json(value, strict=True)
    except ValidationError:
        return False
    return True


def _broken_guarantees(sink: KafkaSink, shared: KafkaConnection | None) -> Iterator[Problem]:
    """Options with which a committed epoch would not mean that its records are in Kafka."""
    for name, value in sink.options.items():
        why = None
        if name.lower() == "kafka.acks" and value.strip() in ("0", "1"):
            why = (
                f"with {value.strip()} a broker's failure loses records that the stream has "
                "committed: remove it, or set all"
            )
        elif name.lower() == "kafka.transactional.id":
            why = (
                "Spark's writer begins no transactions, so every record would fail: remove it, or "
                "set sink.kafka.delivery to ExactlyOnce instead"
            )
        if why is not None:
            is_shared = (
                shared is not None
                and shared.bootstrap_servers == sink.bootstrap_servers
                and shared.options.get(name) == value
            )
            yield _option_problem("kafka" if is_shared else "sink.kafka", name, why)


def _glob(pattern: str) -> Iterator[Problem]:
    """A pattern that looks like one for names of files."""
    if _GLOB.search(pattern) and not any(each in pattern for each in ("[", "\\Q")):
        yield Problem(
            "InvalidPattern",
            "spec.source.kafka.topicPattern: a * repeats the character before it, and here that is "
            "a letter, a digit, - or _: for any text write .*",
            "warning",
        )


def _never_read(source: KafkaSource, spec: StreamSpec) -> Iterator[Problem]:
    """What is there before the first start, of a query that ends once it has read what is there."""
    names = {name.lower() for name in source.options}
    if (
        spec.trigger.mode is Mode.AVAILABLE_NOW
        and source.starting_offsets is None
        and not source.starting_offsets_by_partition
        and not names & {"startingtimestamp", "startingoffsetsbytimestamp"}
        and spec.checkpoint.start_from is None
    ):
        yield Problem(
            "StartsAtLatest",
            "spec.source.kafka.startingOffsets is latest by default, so the first run with "
            "trigger.availableNow reads nothing, and is Completed: set earliest",
            "warning",
        )


def _dead_letters(source: KafkaSource, spec: StreamSpec) -> Iterator[Problem]:
    if source.dead_letters is not None and spec.sink.of_others is not None:
        sink = "sink.custom" if spec.sink.custom is not None else "sink.python"
        yield Problem(
            "DeadLettersNotPossible",
            f"spec.source.kafka.deadLetters is not possible with {sink}, which may keep rows "
            "for a later write, so that nobody knows which record failed: remove one of them",
        )


def _read_if_matched(source: KafkaSource, spec: StreamSpec) -> str | None:
    """The topic of the sink, if the source would read what it matches; None if it never would."""
    sink = spec.sink.kafka
    if sink is None or not _shares_broker(source, sink.bootstrap_servers):
        return None
    return sink.topic


def _loop(topic: str | None) -> Problem:
    return Problem(
        "SinkFeedsSource",
        f"spec.sink.kafka.topic: the source reads {topic} too, so each record that is written is "
        "read again, for ever: write to another topic, unless the query filters out what it has "
        "written",
        "warning",
    )


def _batch_limits(source: KafkaSource, spec: StreamSpec) -> Iterator[Problem]:
    """Options that only a micro-batch has a use for. Spark ignores the case of their names."""
    limits = {limit.lower() for limit in BATCH_LIMITS}
    for name in source.options:
        if name.lower() not in limits:
            continue
        if spec.trigger.mode is Mode.REAL_TIME:
            yield _option_problem(
                "source.kafka",
                name,
                "Spark refuses it in real-time mode, whose batches end by time: remove it, or use "
                "trigger.microBatch",
            )
        elif spec.trigger.mode is Mode.CONTINUOUS:
            yield Problem(
                "OptionIgnored",
                f"spec.source.kafka.options.{name}: Spark ignores it in continuous mode, which has "
                "no batches: remove it, or use trigger.microBatch",
                "warning",
            )


def _divided_partitions(source: KafkaSource, spec: StreamSpec) -> Iterator[Problem]:
    """Options with which several tasks of a batch read one partition."""
    jdbc = spec.sink.jdbc
    by_order = jdbc is not None and jdbc.write == "Upsert" and jdbc.latest_by is None
    if spec.trigger.mode.has_long_running_tasks or not (spec.sink.exactly_once or by_order):
        return
    for name in source.options:
        if name.lower() not in ("minpartitions", "maxrecordsperpartition"):
            continue
        if by_order:
            yield _option_problem(
                "source.kafka",
                name,
                "several tasks read a partition then, and nobody knows which row of a key is the "
                "newest: set sink.jdbc.latestBy, or remove it",
            )
        else:
            yield _option_problem(
                "source.kafka",
                name,
                "with sink.kafka.delivery ExactlyOnce only one task may read a partition, in a "
                "transaction: remove it",
            )


def _shares_broker(source: KafkaSource, servers: str) -> bool:
    def brokers(text: str) -> set[str]:
        return {server.strip().rpartition("://")[2] for server in text.split(",")} - {""}

    return bool(brokers(source.bootstrap_servers) & brokers(servers))
