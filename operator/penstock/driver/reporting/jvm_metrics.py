"""The driver's own JVM: its heap, and its garbage collection.

From the JVM's management beans, which every JVM has. Executors report theirs to Spark
(executor_metrics.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.driver.java_classes import java_class


@dataclass(frozen=True)
class JvmMetrics:
    """Sizes in bytes."""

    heap_used: int
    heap_max: int
    gc_seconds: float
    """Since the JVM's start, over all collectors. A concurrent collector counts its work, not only
    its pauses (GarbageCollectorMXBean.getCollectionTime)."""


def collect(gateway: Any) -> JvmMetrics:
    """The metrics of the gateway's JVM."""
    beans = java_class(gateway, "java.lang.management.ManagementFactory")
    heap = beans.getMemoryMXBean().getHeapMemoryUsage()
    # Of a collector that does not know its time it is -1.
    times = (max(0, int(each.getCollectionTime())) for each in beans.getGarbageCollectorMXBeans())
    return JvmMetrics(int(heap.getUsed()), int(heap.getMax()), sum(times) / 1000)
