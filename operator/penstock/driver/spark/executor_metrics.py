"""Spark's own figures of its executors, which it has without its web interface too.

Peaks come with the executors' heartbeats, every ten seconds (spark.executor.heartbeatInterval).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ExecutorMetrics:
    """One executor; `driver` where driver and tasks share a JVM. Sizes in bytes."""

    id: str
    cores: int
    active_tasks: int
    failed_tasks: int
    heap_peak: int
    off_heap_peak: int
    storage_used: int


def collect(spark_context: Any) -> list[ExecutorMetrics]:
    """Of every executor that is there (AppStatusStore, which Spark's own endpoints read too)."""
    java = spark_context._jsc.sc()
    found = java.statusStore().executorList(True)
    everyone = [_figures(found.apply(i)) for i in range(found.length())]
    others = [each for each in everyone if each.id != "driver"]
    return others or everyone


def _figures(summary: Any) -> ExecutorMetrics:
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
    )
