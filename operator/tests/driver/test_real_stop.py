"""A stop in the middle of a batch is as quiet as one of a continuous query."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from penstock.driver import session
from penstock.driver.jvm import Jvm
from tests.driver.running import Topics
from tests.driver.streams import ASYNC, MICRO_BATCH, REAL_TIME, kafka_sink, kafka_source, stream
from tests.driver.test_real_process import EXPECTED_WARNINGS, driver

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]


@pytest.mark.parametrize(
    "trigger", [MICRO_BATCH, ASYNC, REAL_TIME], ids=["micro-batch", "async", "real-time"]
)
def test_a_stop_is_clean(
    trigger: dict[str, Any], topics: Topics, class_path: str, tmp_path: Path
) -> None:
    source, sink = topics.make(), topics.make()
    flow = stream(
        kafka_source(topics.bootstrap, topics=[source], startingOffsets="earliest"),
        kafka_sink(topics.bootstrap, topic=sink),
        trigger=trigger,
    )
    with driver(flow, tmp_path, class_path) as it:
        it.wait_ready()
        topics.send(source, range(2000))
        it.process.send_signal(signal.SIGTERM)
        assert it.process.wait(60) == 0
    complaints = [
        line
        for line in it.log.read_text().splitlines()
        if (" WARN " in line or " ERROR " in line or '"WARNING"' in line or '"ERROR"' in line)
        and not any(known in line for known in EXPECTED_WARNINGS)
    ]
    assert not complaints


def test_spark_leaves_ctrl_c_to_the_driver(jvm: Jvm) -> None:
    """pyspark's own handler, in the main thread, would cancel all jobs and raise."""
    ours = signal.getsignal(signal.SIGINT)
    conf = {
        "spark.app.name": "interrupt",
        "spark.master": "local[1]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    spark = session.start(jvm.gateway, conf)
    try:
        assert signal.getsignal(signal.SIGINT) is ours
    finally:
        spark.stop()
