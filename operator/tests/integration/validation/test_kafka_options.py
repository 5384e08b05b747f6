"""What is said about options of Kafka's source and sink is what Spark says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from penstock.api.kafka_options import (
    BATCH_LIMITS,
    CONSUMER_OPTIONS,
    KNOWN_SINK_OPTIONS,
    KNOWN_SOURCE_OPTIONS,
    PRODUCER_OPTIONS,
)
from testkit.paths import CHECKOUT
from testkit.streams import manifest_table as table

pytestmark = pytest.mark.timeout(300)

Question = tuple[str, dict[str, str]]


def _rows(rows: list[table.Row]) -> list[Question]:
    """The rows that change the options of an end of the stream, and nothing else."""
    ends = {f"spec.{end}.kafka.options": end for end in ("source", "sink")}
    return [
        (ends[path], value)
        for (path, value), *others in rows
        if path in ends and not others and value is not None and None not in value.values()
    ]


_LIMITS = [{name: "1m" if name == "maxTriggerDelay" else "10"} for name in BATCH_LIMITS]
ACCEPTED: list[Question] = [
    *_rows(table.ACCEPTED),
    *(("source", limit) for limit in _LIMITS),
    ("real-time source", {"maxRecordsPerPartition": "10"}),
]
REFUSED: list[Question] = [
    *_rows(table.REFUSED_LATER),
    *(("source", {name: "x"}) for name in CONSUMER_OPTIONS),
    *(("sink", {name: "x"}) for name in PRODUCER_OPTIONS),
    *(("real-time source", limit) for limit in _LIMITS),
]


# Texts of the connector that are no names of options.
NO_OPTIONS = {
    "DEFAULT_MAX_TRIGGER_DELAY", "INSTRUCTION_FOR_FAIL_ON_DATA_LOSS_FALSE",
    "CUSTOM_GROUP_ID_ERROR_MESSAGE", "serClassName", "deserClassName",
    "MOCK_SYSTEM_TIME",  # an option of Spark's own tests
}  # fmt: skip


@pytest.fixture(scope="module")
def spark() -> dict[str, Any]:
    """The output of `testkit.kafka.option_verdicts`."""
    done = subprocess.run(
        [sys.executable, "-m", "testkit.kafka.option_verdicts"],
        cwd=CHECKOUT / "operator",
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        input=json.dumps([*ACCEPTED, *REFUSED]),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_spark_gives_the_verdicts_of_the_table_about_options(spark: dict[str, Any]) -> None:
    """Of those that have no field. Spark judges them when it builds the stream."""
    wrong = [
        (end, options, refusal)
        for number, ((end, options), refusal) in enumerate(
            zip([*ACCEPTED, *REFUSED], spark["refusals"], strict=True)
        )
        if (refusal is None) != (number < len(ACCEPTED))
    ]
    assert wrong == []


@pytest.mark.proves("write-a-stream.md#the-connection-to-kafka")
def test_the_options_that_are_known_are_those_of_the_connector(spark: dict[str, Any]) -> None:
    """A version of Spark that adds one, or drops one, is noticed."""
    names = {text for constant, text in spark["texts"].items() if constant not in NO_OPTIONS}
    of_batches = {"endingoffsets", "endingoffsetsbytimestamp", "endingtimestamp"}
    known = {name.lower() for name in (*KNOWN_SOURCE_OPTIONS, *KNOWN_SINK_OPTIONS)}
    assert names == known | of_batches
    assert spark["texts"].keys() >= NO_OPTIONS
