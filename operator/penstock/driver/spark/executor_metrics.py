"""Spark's own metrics of its executors, which it also has without its web interface.

Peaks arrive with the executors' heartbeats, every two seconds (spark.executor.heartbeatInterval).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ExecutorMetrics:
    """One executor; its id is `driver` where driver and tasks share a JVM. Sizes in bytes."""

    id: str
    cores: int
    active_tasks: int
    failed_tasks: int
    heap_peak: int
    off_heap_peak: int
    storage_used: int
    gc_seconds: float = 0.0


def collect(spark_context: Any) -> list[ExecutorMetrics]:
    """The metrics of every active executor (from AppStatusStore, as in Spark's own endpoints)."""
    java = spark_context._jsc.sc()
    summaries = java.statusStore().executorList(True)
    executors = [_read(summaries.apply(i)) for i in range(summaries.length())]
    others = [executor for executor in executors if executor.id != "driver"]
    return others or executors


def _read(summary: Any) -> ExecutorMetrics:
    peaks = summary.peakMemoryMetrics()

    def peak(name: str) -> int:
        return 0 if peaks.isEmpty() else max(0, int(peaks.get().getMetricValue(name)))

    return ExecutorMetrics(
        id=str(summary.id()),
        cores=int(summary.totalCores()),
        active_tasks=int(summary.activeTasks()),
        failed_tasks=int(summary.failedTasks()),
        heap_peak=peak("JVMHeapMemory"),
        off_heap_peak=peak("JVMOffHeapMemory"),
        storage_used=int(summary.memoryUsed()),
        gc_seconds=int(summary.totalGCTime()) / 1000,
    )
