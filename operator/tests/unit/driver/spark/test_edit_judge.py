"""Which edits the driver that runs asks Spark about."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.driver.spark.edit_judge import asks_spark
from testkit.streams.streams import MICRO_BATCH, RATE, stream

SQL = {"transform": {"sql": "SELECT value + 1 AS value FROM source"}}
PYTHON = {"function": "flows:flow"}


@pytest.mark.parametrize(
    ("edit", "asks"),
    [
        (SQL, True),
        ({"source": {"rate": {"numPartitions": 3}}}, True),
        ({"sink": {"console": {}}}, True),
        ({"trigger": {"microBatch": {"interval": "2s"}}}, True),
        ({"outputMode": "update"}, True),
        ({"transform": {"python": {**PYTHON, "inline": "def flow(source): return source"}}}, True),
        ({}, False),
        ({"restartedAt": "now"}, False),
        ({"executor": {"cores": 2}}, False),
        ({"checkpoint": {"volume": {"size": "2Gi"}}}, False),
        ({"checkpoint": {"generation": 1}}, True),
        ({**SQL, "sparkConf": {"spark.sql.ansi.enabled": "false"}}, False),
        ({**SQL, "driver": {"javaOptions": ["-Da=b"]}}, False),
        ({**SQL, "dependencies": {"jars": ["local:///a.jar"]}}, False),
        ({"transform": {"python": {**PYTHON, "configMap": {"name": "a", "key": "b"}}}}, False),
    ],
)
def test_spark_is_asked_about_what_it_would_plan_as_the_next_process_does(
    edit: dict[str, Any], asks: bool
) -> None:
    before: dict[str, Any] = {"source": RATE, "sink": {"noop": {}}, "trigger": MICRO_BATCH}
    running, edited = stream(**before), stream(**{**before, **edit})
    assert asks_spark(running.spec, edited.spec) is asks
