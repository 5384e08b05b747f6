"""The driver's metrics as Prometheus reads them, and the bounds of their number."""

from __future__ import annotations

import pytest

from penstock.contract.checkpoint_repairs import RepairKind
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.checkpoint.progress import Commit, OffsetRange
from penstock.driver.jvm import JvmMetrics
from penstock.driver.reporting.metrics import MAX_PARTITIONS, MAX_REASONS, OTHER, Metrics
from penstock.driver.spark import batch_metrics
from penstock.driver.spark.executor_metrics import ExecutorMetrics
from testkit.driver.metric_samples import numbers

COMMIT = Commit(epoch=7, at=1_700_000_000.5, took=0.2, offsets={"in": {0: 30, 1: 5}})
OFFSET_RANGE = OffsetRange({"in": {0: 10, 1: 5}}, {"in": {0: 30, 1: 5, 2: 9}}, COMMIT.at)
FIGURES = ExecutorMetrics("1", 2, 2, 0, heap_peak=5 << 20, off_heap_peak=0, storage_used=0)


def test_a_report() -> None:
    metrics = Metrics()
    metrics.set_offsets(({"in": {0: 30}}, {"in": {0: 45}}))
    metrics.set_report(
        DriverReport(
            spec_hash="",
            state=QueryState.RUNNING,
            partitions=4,
            cores=4,
            registered_cores=3,
            lag=12,
        )
    )
    found = numbers(metrics)
    assert found["state{state=Running}"] == 1
    assert found["state{state=Failed}"] == 0
    assert found["source_partitions"] == 4
    assert found["executor_cores{kind=desired}"] == 4
    assert found["executor_cores{kind=registered}"] == 3
    assert found["lag_records"] == 15
    assert found["unhandled_records"] == 12


def test_commits() -> None:
    metrics = Metrics()
    metrics.observe_commit(COMMIT, None)
    metrics.observe_commit(COMMIT, OFFSET_RANGE)
    metrics.observe_latency(0.7)
    found = numbers(metrics)
    assert found["epoch"] == 7
    assert found["last_epoch_commit_timestamp_seconds"] == COMMIT.at
    assert (
        found["committed_records_total"] == 20
    )  # the first offset of the new partition is unknown
    assert found["epoch_commit_duration_seconds_count"] == 2
    assert found["record_commit_latency_seconds_bucket{le=0.5}"] == 0
    assert found["record_commit_latency_seconds_bucket{le=1.0}"] == 1


def test_what_is_not_known_has_no_series() -> None:
    """A 0, or the last value, would hide that nobody knows."""
    metrics = Metrics()
    of_lag = ("lag_records", "unhandled_records", "lag_seconds")
    unknown = ("epoch", "last_epoch_commit_timestamp_seconds", *of_lag)
    assert numbers(metrics).keys().isdisjoint(unknown)
    metrics.set_lag_seconds(12.5)
    metrics.set_offsets(({"in": {0: 30}}, {"in": {0: 33}}))
    metrics.set_report(DriverReport(spec_hash="", state=QueryState.RUNNING, lag=3))
    metrics.observe_commit(COMMIT, None)
    assert numbers(metrics).keys() >= set(unknown)
    metrics.set_lag_seconds(None)
    metrics.set_report(DriverReport(spec_hash="", state=QueryState.RESTARTING))
    assert numbers(metrics).keys().isdisjoint(of_lag)


def test_failures_restarts_and_repairs() -> None:
    metrics = Metrics()
    metrics.count_restart("TaskFailed")
    metrics.count_failure("TaskFailed", permanent=False)
    metrics.count_failure("TopicMissing", permanent=True)
    metrics.count_stall_action("NoProgress", "stop_query")
    metrics.count_repair(RepairKind.IMPORTED)
    found = numbers(metrics)
    assert found["restarts_total{level=query,reason=TaskFailed}"] == 1
    assert found["failures_total{permanent=false,reason=TaskFailed}"] == 1
    assert found["failures_total{permanent=true,reason=TopicMissing}"] == 1
    assert found["stall_actions_total{action=stop_query,reason=NoProgress}"] == 1
    assert found["checkpoint_repairs_total{kind=Imported}"] == 1


def test_partitions_and_executors_come_and_go() -> None:
    metrics = Metrics()
    metrics.set_offsets(({"in": {0: 30}}, {"in": {0: 35, 1: 4}}))
    metrics.set_executors([FIGURES])
    found = numbers(metrics)
    assert found["committed_offset{partition=0,topic=in}"] == 30
    assert "committed_offset{partition=1,topic=in}" not in found
    assert found["partition_lag_records{partition=0,topic=in}"] == 5
    assert found["partition_lag_records{partition=1,topic=in}"] == 4
    assert found["executor_heap_peak_bytes{executor=1}"] == 5 << 20
    metrics.set_executors([])
    assert not any(name.startswith("executor_heap") for name in numbers(metrics))


PROGRESS = """{"batchId": 3, "inputRowsPerSecond": 12.5, "processedRowsPerSecond": "Infinity",
"numInputRows": 50, "sink": {"numOutputRows": 20},
"eventTime": {"watermark": "2026-01-01T00:00:10.000Z"},
"durationMs": {"addBatch": 250, "triggerExecution": 300},
"stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 2,
"numRowsUpdated": 5, "numRowsRemoved": 1, "commitTimeMs": 30,
"customMetrics": {"rocksdbGetLatency": 200, "rocksdbCommitFileSyncLatencyMs": 506,
"rocksdbGetCount": 20, "rocksdbSstFileSize": 7000, "SnapshotLastUploaded.partition_0": 9}},
{"numRowsTotal": 4, "customMetrics": {"rocksdbGetCount": 1, "rocksdbSstFileSize": 594}}]}"""


def test_batches() -> None:
    metrics = Metrics()
    assert not any(name.startswith("batch_") for name in numbers(metrics))
    metrics.observe_batch(batch_metrics.read(PROGRESS))
    metrics.observe_batch(batch_metrics.read(PROGRESS))
    metrics.count_missed_batches(3)
    found = numbers(metrics)
    assert found["batches_total"] == 2
    assert found["batches_missed_total"] == 3
    assert found["batch_rows_total{kind=input}"] == 100
    assert found["batch_rows_total{kind=output}"] == 40
    assert found["batch_duration_seconds_total{part=addBatch}"] == 0.5
    assert found["batch_duration_seconds_total{part=triggerExecution}"] == 0.6
    assert found["batch_rows_per_second{kind=input}"] == 12.5
    assert found["batch_rows_per_second{kind=processed}"] == 0
    assert found["watermark_timestamp_seconds"] == 1767225610


def test_the_state_of_all_operators_and_rocksdb_in_it() -> None:
    metrics = Metrics()
    metrics.observe_batch(batch_metrics.read(PROGRESS))
    metrics.observe_batch(batch_metrics.read(PROGRESS))
    found = numbers(metrics)
    assert found["late_rows_dropped_total"] == 4
    assert found["state_rows"] == 7
    assert found["state_memory_bytes"] == 100
    assert found["state_changed_rows_total{kind=updated}"] == 10
    assert found["state_changed_rows_total{kind=removed}"] == 2
    assert found["state_commit_seconds_total"] == 0.06
    assert found["state_rocksdb_file_bytes"] == 7594
    assert found["state_rocksdb_seconds_total{part=Get}"] == 0.4
    assert found["state_rocksdb_seconds_total{part=CommitFileSync}"] == 1.012
    assert found["state_rocksdb_operations_total{operation=Get}"] == 42


def test_a_stateless_batch_of_a_sink_that_counts_nothing() -> None:
    metrics = Metrics()
    metrics.observe_batch(batch_metrics.read('{"batchId": 0, "sink": {"numOutputRows": -1}}'))
    unknown = ("watermark_timestamp_seconds", "state_rows", "batch_rows_total{kind=output}")
    assert numbers(metrics).keys().isdisjoint(unknown)


def test_the_driver_s_jvm() -> None:
    metrics = Metrics()
    assert "jvm_heap_used_bytes" not in numbers(metrics)
    metrics.set_jvm(JvmMetrics(heap_used=5 << 20, heap_max=9 << 20, gc_seconds=1.5))
    found = numbers(metrics)
    assert found["jvm_heap_used_bytes"] == 5 << 20
    assert found["jvm_heap_max_bytes"] == 9 << 20
    assert found["jvm_gc_seconds_total"] == 1.5


@pytest.mark.proves(34)
def test_series_are_bounded() -> None:
    metrics = Metrics()
    wide = {"in": dict.fromkeys(range(MAX_PARTITIONS + 1), 1)}
    metrics.set_offsets((wide, wide))
    for n in range(2 * MAX_REASONS):
        metrics.count_failure(f"Reason{n}", permanent=False)
    found = numbers(metrics)
    assert not any("partition=" in name for name in found)
    assert found[f"failures_total{{permanent=false,reason={OTHER}}}"] == MAX_REASONS
    assert sum("failures_total" in name for name in found) == MAX_REASONS + 1
