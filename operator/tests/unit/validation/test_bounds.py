"""What a tenant writes costs a bounded part of a processor: every rule over inputs made to hurt.

The limit counts the processor time of this process, so that a busy machine changes nothing. The
process that parses texts has a limit of its own (`text_sandbox_process.MAX_CPU_SECONDS`).
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.controller.main import _RECURSION_LIMIT
from penstock.controller.observation import parse_stream
from penstock.validation.file_check import check
from penstock.validation.reading.documents import load
from testkit.controller import samples
from testkit.streams.streams import KAFKA_TO_KAFKA, changed

# Many times what the slowest takes. A pattern that backtracks takes for ever.
_SECONDS = 20.0
_KAFKA = "source.kafka"


def with_pattern(pattern: str, topic: str) -> dict[str, Any]:
    """A source that reads by a pattern, from the brokers of a sink with this topic."""
    spec = changed(KAFKA_TO_KAFKA, f"{_KAFKA}.topics", ...)
    spec = changed(spec, f"{_KAFKA}.topicPattern", pattern)
    servers = spec["source"]["kafka"].get("bootstrapServers", "k:9092")
    for client in ("source", "sink"):
        spec = changed(spec, f"{client}.kafka.bootstrapServers", servers)
    return changed(spec, "sink.kafka.topic", topic)


PATTERNS = {
    "a group repeated": with_pattern("(a+)+b", "a" * 60),
    "what may be left out": with_pattern("a?" * 28 + "a" * 28, "a" * 28 + "b"),
    "stars": with_pattern("a*" * 100 + "b", "a" * 249),
    "many ranges": with_pattern("[" + "\u0100-\uffff" * 300 + "]", "a"),
    "deep groups": with_pattern("(" * 500 + "a" + ")" * 500, "a"),
}


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """Ends the block once it has taken so much, also within a regular expression."""

    def over(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s of a processor")

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.fixture(autouse=True)
def _as_deep_as_the_operator() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(_RECURSION_LIMIT)
    yield
    sys.setrecursionlimit(before)


def judged(spec: dict[str, Any]) -> set[str]:
    """The reasons that the operator gives, within the limit."""
    raw = samples.stored()
    raw["spec"] = spec
    with processor_time(_SECONDS):
        found = parse_stream(raw, samples.SETTINGS)
        assert len(found.problems) <= 500
        return {each.reason for each in (*found.problems, *(found.warnings or ()))}


@pytest.mark.proves("decisions/bounded-tenants.md")
@pytest.mark.parametrize("spec", PATTERNS.values(), ids=PATTERNS)
def test_no_pattern_stops_the_operator_or_validate(spec: dict[str, Any]) -> None:
    """Python's `re` would try for ever, and hold the whole process meanwhile."""
    judged(spec)
    raw = samples.stored()
    raw["spec"] = spec
    with processor_time(_SECONDS):
        check(load(json.dumps(raw).encode(), "stream.yaml"))


K = 118_000
MANY: dict[str, dict[str, Any]] = {
    "fields that are not there": {**KAFKA_TO_KAFKA, **{f"a{n}": 1 for n in range(K // 12)}},
    "fields of a template": changed(
        KAFKA_TO_KAFKA,
        "driver.podTemplate",
        {"spec": {f"nodeSelekto{n}": 1 for n in range(K // 22)}},
    ),
    "containers without a name": changed(
        KAFKA_TO_KAFKA,
        "driver.podTemplate",
        {"spec": {"containers": [{"nam": 1}] * (K // 10)}},
    ),
    "levels": changed(
        KAFKA_TO_KAFKA, "driver.podTemplate", json.loads('{"a":' * 900 + "1" + "}" * 900)
    ),
    "options": changed(
        KAFKA_TO_KAFKA, "source.kafka.options", {"k" * 899 + str(n): "1" for n in range(120)}
    ),
    "partitions": changed(
        KAFKA_TO_KAFKA,
        "source.kafka.startingOffsetsByPartition",
        {"payments": {str(n): 2**62 for n in range(K // 29)}},
    ),
    "spaces": changed(KAFKA_TO_KAFKA, "driver.javaOptions", [" " * 4000] * 28),
    "a great number": changed(KAFKA_TO_KAFKA, "executor.cores", 10**300),
    "a long time": changed(KAFKA_TO_KAFKA, "rollout.deadline", "999999999h " * 5 + "999999999h"),
    "a long name": changed(KAFKA_TO_KAFKA, "queryName", "a-" * (K // 2)),
    "more than is read": changed(KAFKA_TO_KAFKA, "image", "x" * 3_000_000),
}


@pytest.mark.parametrize("spec", MANY.values(), ids=MANY)
def test_no_size_or_number_costs_more_than_a_bounded_part(spec: dict[str, Any]) -> None:
    """As much as fits the largest spec that is read, in each place that has its own rule."""
    judged(spec)


def test_a_pattern_that_reads_what_the_sink_writes_is_said() -> None:
    """Although it is matched in another process."""
    assert "SinkFeedsSource" in judged(with_pattern("flag.*|payments", "flags"))
    assert "SinkFeedsSource" not in judged(with_pattern("payments.*", "flags"))
    assert "InvalidPattern" in judged(with_pattern("payments(", "flags"))
