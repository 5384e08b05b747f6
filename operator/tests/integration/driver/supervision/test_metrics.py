"""The metrics of a real query match the records that were sent."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.api.v1alpha1.driver_and_executor import MOST_SLOTS_IN_DRIVER
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.records import HEADER, KafkaRecords, StampedRecord
from penstock.driver.reporting.metric_sampler import Sampler
from penstock.driver.reporting.record_age import RecordAges
from testkit.driver.in_process_driver import running
from testkit.driver.metric_samples import numbers
from testkit.kafka.topics import Topics, number_flow
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import CONTINUOUS, MICRO_BATCH
from testkit.wait import wait_for

pytestmark = pytest.mark.proves(34, "metrics.md#how-latency-and-lag-are-measured")

WITH_SOURCE_TIMESTAMP = f"""
SELECT key, value, array(struct(
  '{HEADER}' AS key, CAST(CAST(unix_millis(timestamp) AS STRING) AS BINARY) AS value)) AS headers
FROM source
"""
LATENCIES = (
    "record_commit_latency_seconds",
    "record_sink_latency_seconds",
    "record_sink_latency_bound_seconds",
)


@pytest.mark.parametrize("trigger", [CONTINUOUS, MICRO_BATCH], ids=["continuous", "micro-batch"])
def test_metrics_of_a_real_query(
    topics: Topics, jvm: Jvm, tmp_path: Path, trigger: dict[str, Any], record_figure: RecordFigure
) -> None:
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink, trigger, transform={"sql": WITH_SOURCE_TIMESTAMP})
    began = time.time()
    with running(flow, jvm, tmp_path) as driver:

        def rows(records: int) -> int | None:
            """What Spark counts of them: nothing in continuous mode."""
            return records if trigger == MICRO_BATCH else None

        topics.send(source, range(10))
        driver.wait("the first", lambda _: "epoch" in numbers(driver.metrics))
        # Not before: at this pace it would slow down the start.
        sampler = Sampler(driver.runtime, jvm, flow.spec, tmp_path, driver.metrics, interval=0.2)
        sent = 10

        def sampled() -> bool:
            nonlocal sent
            topics.send(source, range(sent, sent + 10))
            sent += 10
            found = numbers(driver.metrics)
            return all(found[f"{latency}_count"] >= 3 for latency in LATENCIES)

        wait_for("samples", sampled)
        topics.wait_received(sink, range(sent))

        def at_the_end() -> bool:
            found = numbers(driver.metrics)
            each = [f"{{partition={n},topic={source}}}" for n in (0, 1)]
            return (
                sum(found[f"committed_offset{labels}"] for labels in each) == sent
                and [found[f"partition_lag_records{labels}"] for labels in each] == [0, 0]
                and found.get("lag_seconds") == 0
                and found["executor_heap_peak_bytes{executor=driver}"] > 0  # by a heartbeat
                # No batch was missed: each record is in one of them.
                and found.get("batch_rows_total{kind=input}") == rows(sent)
            )

        wait_for("the end of the topic", at_the_end)
        found = numbers(driver.metrics)
        sampler.stop()
    assert 0 < found["committed_records_total"] <= sent
    assert began < found["last_epoch_commit_timestamp_seconds"] < time.time()
    assert found["epoch_commit_duration_seconds_count"] > 0
    assert ("batch_rows_per_second{kind=input}" in found) == (trigger == MICRO_BATCH)
    assert ("batch_duration_seconds_total{part=addBatch}" in found) == (trigger == MICRO_BATCH)
    assert found.get("batch_rows_total{kind=output}") == rows(sent)
    assert found["batches_missed_total"] == 0
    assert ("records_in_doubt" in found) == (trigger == CONTINUOUS)
    assert 0 < found["jvm_heap_used_bytes"] < found["jvm_heap_max_bytes"]
    assert found["jvm_gc_seconds_total"] > 0
    for of in ("source", "sink"):
        assert found[f"kafka_fetch_duration_seconds_count{{of={of}}}"] > 0
    means = {latency: found[f"{latency}_sum"] / found[f"{latency}_count"] for latency in LATENCIES}
    for each, mean in means.items():
        record_figure(f"milliseconds of {each}", round(1000 * mean))
        record_figure(f"samples of {each}", round(found[f"{each}_count"]))
    to_commit, to_sink, bound = means.values()
    assert 0 < to_commit < time.time() - began
    really = topics.latencies(sink)
    assert min(really) <= to_sink <= max(really)
    assert min(really) <= bound
    assert found["executor_task_slots{executor=driver}"] == MOST_SLOTS_IN_DRIVER


def test_records_that_are_written_and_not_committed_are_in_doubt(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Also once the query has ended: those come again."""
    source, sink = topics.make(), topics.make()
    # The engine commits an empty epoch at once, and no other in this test.
    rarely = {"continuous": {"checkpointInterval": "1h"}}
    with running(number_flow(topics, source, sink, rarely), jvm, tmp_path) as driver:
        driver.wait("an epoch", lambda report: report.epoch is not None)
        topics.send(source, range(7))
        topics.wait_received(sink, range(7))
        wait_for("seven", lambda: numbers(driver.metrics)["records_in_doubt"] == 7)
        topics.send(source, range(7, 12), partition=1)
        topics.wait_received(sink, range(12))
        wait_for("twelve", lambda: numbers(driver.metrics)["records_in_doubt"] == 12)
        assert numbers(driver.metrics)["epoch"] == 0
    assert numbers(driver.metrics)["records_in_doubt"] == 12


def test_the_lag_in_seconds_is_the_age_of_the_first_record_that_waits(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """With a real broker: also where retention has deleted the first ones, or nothing waits."""
    topic = topics.make()
    source = number_flow(topics, topic, topics.make(), MICRO_BATCH).spec.source.kafka
    assert source is not None
    before = time.time()
    topics.send(topic, range(3), partition=0)
    after = time.time()
    topics.send(topic, range(1), partition=1)
    topics.delete_before(topic, {0: 1})
    reader = KafkaRecords(jvm.gateway, source, tmp_path)
    try:
        committed, newest = {topic: {0: 0, 1: 1}}, {topic: {0: 3, 1: 1}}
        now = after + 100
        lag = RecordAges().measure(committed, newest, reader.first_from, now)
        # Kafka's timestamps are in whole milliseconds.
        assert 100 - 0.001 <= lag <= now - before + 0.001
        record = reader.first_from(topic, 0, 0)
        assert record is not None
        assert record.offset == 1
        assert reader.first_from(topic, 0, 3) is None
    finally:
        reader.close()


@pytest.mark.proves("metrics.md#how-latency-and-lag-are-measured")
def test_the_last_record_before_the_markers_of_transactions_is_found(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """With a real broker: each commit leaves a marker at the end of the partition."""
    topic = topics.make(1)
    sink = number_flow(topics, topic, topic).spec.sink.kafka
    assert sink is not None
    topics.send(topic, range(3))
    for count in (1, 5):  # five producers, whose markers follow each other
        producers = [
            Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": f"{topic}-{n}"})
            for n in range(count)
        ]
        for producer in producers:
            producer.init_transactions(30)
            producer.begin_transaction()
            producer.produce(topic, b"7")
            producer.flush(30)
        for producer in producers:
            producer.commit_transaction(30)
    reader = KafkaRecords(jvm.gateway, sink, tmp_path)
    try:
        assert [_offset(reader.last_before(topic, 0, end)) for end in (3, 5, 15)] == [2, 3, 9]
        assert reader.last_before(topics.make(1), 0, 0) is None
    finally:
        reader.close()


def _offset(record: StampedRecord | None) -> int | None:
    return None if record is None else record.offset
