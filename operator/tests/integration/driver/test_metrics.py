"""The metrics of a real query match the records that were sent."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.jvm import Jvm
from penstock.driver.reporting.sampler import Sampler
from testkit.driver.in_process_driver import running
from testkit.driver.metric_samples import numbers
from testkit.kafka.topics import Topics, number_flow
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import CONTINUOUS, MICRO_BATCH
from testkit.wait import wait_for


@pytest.mark.parametrize("trigger", [CONTINUOUS, MICRO_BATCH], ids=["continuous", "micro-batch"])
def test_metrics_of_a_real_query(
    topics: Topics, jvm: Jvm, tmp_path: Path, trigger: dict[str, Any], record_figure: RecordFigure
) -> None:
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink, trigger)
    began = time.time()
    with running(flow, jvm, tmp_path) as driver:
        sampler = Sampler(driver.runtime, jvm, flow.spec, tmp_path, driver.metrics, interval=0.2)
        topics.send(source, range(10))
        driver.wait("the first", lambda _: numbers(driver.metrics)["epoch"] >= 0)
        sent = 10

        def sampled() -> bool:
            nonlocal sent
            topics.send(source, range(sent, sent + 10))
            sent += 10
            return numbers(driver.metrics)["record_commit_latency_seconds_count"] >= 3

        wait_for("samples", sampled)
        topics.wait_received(sink, range(sent))

        def at_the_end() -> bool:
            found = numbers(driver.metrics)
            each = [f"{{partition={n},topic={source}}}" for n in (0, 1)]
            return (
                sum(found[f"committed_offset{labels}"] for labels in each) == sent
                and [found[f"partition_lag_records{labels}"] for labels in each] == [0, 0]
                and found["executor_heap_peak_bytes{executor=driver}"] > 0  # by a heartbeat
            )

        wait_for("the end of the topic", at_the_end)
        found = numbers(driver.metrics)
        sampler.stop()
    assert 0 < found["committed_records_total"] <= sent
    assert began < found["last_epoch_commit_timestamp_seconds"] < time.time()
    assert found["epoch_commit_duration_seconds_count"] > 0
    assert ("batch_rows_per_second{kind=input}" in found) == (trigger == MICRO_BATCH)
    samples = found["record_commit_latency_seconds_count"]
    mean = found["record_commit_latency_seconds_sum"] / samples
    record_figure("milliseconds from a record to its commit", round(1000 * mean))
    record_figure("samples", round(samples))
    assert 0 < mean < time.time() - began
    assert found["executor_task_slots{executor=driver}"] == 2
