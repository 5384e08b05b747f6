"""A stop under traffic in each mode: fast, without warnings, and with little to replay."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.jvm import Jvm
from penstock.driver.spark import session
from testkit.driver.driver_process import LOAD, driver, traffic
from testkit.driver.in_process_driver import running
from testkit.kafka.deliveries import commits_of
from testkit.kafka.topics import Topics, number_flow
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import MOSTLY_BOTH_ENGINES

pytestmark = pytest.mark.timeout(240)


@pytest.mark.proves(2, 24, "failures.md#the-driver-is-stopped-by-an-edit-or-a-drain")
@pytest.mark.parametrize("trigger", MOSTLY_BOTH_ENGINES)
def test_a_stop_under_load_is_clean(
    trigger: dict[str, Any],
    topics: Topics,
    class_path: str,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink, trigger)
    with commits_of(tmp_path / "checkpoint") as commits:
        with traffic(topics, source, LOAD) as sent, driver(flow, tmp_path, class_path) as first:
            first.wait_ready()
            topics.wait_received(sink, range(sent[0] + 200))  # it is under load
            assert first.stop() == 0
        numbers = range(sent[0])
        with driver(flow, tmp_path, class_path) as second:
            received = topics.wait_received(sink, numbers)
            assert second.stop() == 0
    assert set(received) == set(numbers)
    record_figure("records sent", len(numbers))
    record_figure("duplicates after the stop", sum(received.values()) - len(numbers))
    assert max(received.values()) <= 2
    assert topics.replays_of_committed(commits, source, sink) == []
    for process in (first, second):
        assert process.warnings() == []


_SLOW_SEVEN = """
import time
from pyspark.sql.functions import col, udf

def slow(value):
    if value == "7":
        time.sleep(5)
    return value

def transform(source):
    return source.select("key", udf(slow)(col("value").cast("string")).alias("value"))
"""


def test_a_stop_waits_for_the_batch_that_has_begun(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """One partition's records are written while the other's are still worked at."""
    source, sink = topics.make(), topics.make()
    transform = {"python": {"function": "slow_seven:transform", "inline": _SLOW_SEVEN}}
    every_two_seconds = {"microBatch": {"interval": "2s"}}
    flow = number_flow(topics, source, sink, every_two_seconds, transform=transform)
    with running(flow, jvm, tmp_path) as driver:
        driver.wait_ready()
        topics.send(source, range(100, 101))
        driver.wait_committed(1)  # the next batch is two seconds away, and has all that follows
        topics.send(source, range(10, 20), partition=0)
        topics.send(source, range(7, 8), partition=1)
        topics.wait_received(sink, range(10, 20))
    with running(flow, jvm, tmp_path):
        received = topics.wait_received(sink, [7, *range(10, 20), 100])
    assert set(received.values()) == {1}, received


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
