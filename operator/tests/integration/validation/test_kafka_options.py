"""What is said about options of Kafka's source and sink is what Spark says."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from penstock.api.kafka_options import BATCH_LIMITS, CONSUMER_OPTIONS, PRODUCER_OPTIONS
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


def test_spark_gives_the_verdicts_of_the_table_about_options() -> None:
    """Of those that have no field. Spark judges them when it builds the stream."""
    done = subprocess.run(
        [sys.executable, "-m", "testkit.kafka.option_verdicts"],
        cwd=CHECKOUT / "operator",
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        input=json.dumps([*ACCEPTED, *REFUSED]),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    verdicts = json.loads(done.stdout)
    wrong = [
        (end, options, refusal)
        for number, ((end, options), refusal) in enumerate(
            zip([*ACCEPTED, *REFUSED], verdicts, strict=True)
        )
        if (refusal is None) != (number < len(ACCEPTED))
    ]
    assert wrong == []
