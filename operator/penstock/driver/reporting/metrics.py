"""The driver's Prometheus metrics, each with its unit in its name (docs/metrics.md).

The number of series is bounded: metrics of the whole stream, and metrics by reason, partition and
executor up to the limits below. No label or value contains anything of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.contract.checkpoint_repairs import RepairKind
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.checkpoint.progress import Commit, OffsetRange
from penstock.driver.failures import Failure
from penstock.driver.kafka.offsets import Offsets, lags
from penstock.driver.spark.batch_metrics import BatchMetrics
from penstock.driver.spark.executor_metrics import ExecutorMetrics

PREFIX = "penstock_driver"
# A stream with more partitions has only the totals.
MAX_PARTITIONS = 1000
MAX_EXECUTORS = 200
# Reasons come from classes and error conditions. There are dozens; more become "Other".
MAX_REASONS = 100
OTHER = "Other"

_COMMIT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_LATENCY_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)


class Metrics:
    """The metrics of one stream, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reasons: set[str] = set()
        self._offsets: tuple[Offsets, Offsets] = ({}, {})
        self._executors: Sequence[ExecutorMetrics] = ()
        self._batch: BatchMetrics | None = None
        self._state = self._gauge("state", "1 for the state the stream is in.", "state")
        self._epoch = self._gauge("epoch", "Last committed epoch.")
        self._commit = self._gauge(
            "last_epoch_commit_timestamp_seconds", "When the last epoch was committed."
        )
        self._partitions = self._gauge("source_partitions", "Partitions of the source.")
        self._cores = self._gauge("executor_cores", "Executors' cores.", "kind")
        self._lag = self._gauge(
            "lag_records", "Records between the committed and the newest offsets."
        )
        self._restarts = self._counter("restarts", "Restarts.", "level", "reason")
        self._failures = self._counter("failures", "Failures.", "reason", "permanent")
        self._stall_actions = self._counter(
            "stall_actions", "Actions on a query that stalled without an exception.",
            "reason", "action",
        )  # fmt: skip
        self._repairs = self._counter(
            "checkpoint_repairs", "Repairs of the checkpoint before a start.", "kind"
        )
        self._records = self._counter(
            "committed_records", "Committed records of the source, counted by their offsets."
        )
        self._commit_duration = self._histogram(
            "epoch_commit_duration_seconds",
            "Time from an epoch's offsets to its commit; in the batch modes, of the whole batch.",
            _COMMIT_BUCKETS,
        )
        self._latency = self._histogram(
            "record_commit_latency_seconds",
            "Time from a record's Kafka timestamp to the commit of its epoch, for a few random "
            "records every ten seconds. The record reaches the sink earlier.",
            _LATENCY_BUCKETS,
        )
        self.registry.register(_Snapshot(self._by_partition))
        self.registry.register(_Snapshot(self._by_executor))
        self.registry.register(_Snapshot(self._of_batch))

    def count_restart(self, reason: str) -> None:
        """Counts a restart of the query after a failure."""
        self._restarts.labels("query", self._bounded(reason)).inc()

    def count_failure(self, failure: Failure) -> None:
        """Counts a failure."""
        permanent = str(failure.permanent).lower()
        self._failures.labels(self._bounded(failure.reason), permanent).inc()

    def count_stall_action(self, reason: str, action: str) -> None:
        """Counts an action on a query that stalled without an exception."""
        self._stall_actions.labels(reason, action).inc()

    def count_repair(self, kind: RepairKind) -> None:
        """Counts a repair of the checkpoint."""
        self._repairs.labels(kind.value).inc()

    def observe_commit(self, commit: Commit, offset_range: OffsetRange | None) -> None:
        """Records a committed epoch, and its records where they are known."""
        self._epoch.set(commit.epoch)
        self._commit.set(commit.at)
        if commit.took is not None:
            self._commit_duration.observe(commit.took)
        if offset_range is not None:
            self._records.inc(offset_range.records())

    def observe_latency(self, seconds: float) -> None:
        """Records the time from one record's timestamp to its commit."""
        self._latency.observe(seconds)

    def set_offsets(self, committed: Offsets, newest: Offsets) -> None:
        """Sets the committed and the newest offsets."""
        self._offsets = (committed, newest)

    def set_executors(self, executors: Sequence[ExecutorMetrics]) -> None:
        """Spark's metrics of all executors."""
        self._executors = executors

    def set_batch(self, batch: BatchMetrics | None) -> None:
        """Spark's metrics of the last batch; None if there is none."""
        self._batch = batch

    def set_report(self, report: DriverReport) -> None:
        """Sets the metrics that a report contains."""
        for state in QueryState:
            self._state.labels(state.value).set(state is report.state)
        self._cores.labels("desired").set(report.cores or 0)
        self._cores.labels("registered").set(report.registered_cores or 0)
        if report.partitions is not None:
            self._partitions.set(report.partitions)
        if report.lag is not None:
            self._lag.set(report.lag)

    def _by_partition(self) -> Iterator[Metric]:
        committed, newest = self._offsets
        if sum(map(len, newest.values())) > MAX_PARTITIONS:
            return
        offset = _family(
            "committed_offset", "Offset of the next record to commit.", "topic", "partition"
        )
        lag = _family(
            "partition_lag_records", "Records that are not committed yet.", "topic", "partition"
        )
        for (topic, partition), behind in lags(committed, newest).items():
            labels = [topic, str(partition)]
            lag.add_metric(labels, behind)
            if partition in committed.get(topic, {}):
                offset.add_metric(labels, committed[topic][partition])
        yield from (offset, lag)

    def _by_executor(self) -> Iterator[Metric]:
        columns: tuple[tuple[str, str, Callable[[ExecutorMetrics], int]], ...] = (
            ("task_slots", "Cores for tasks.", lambda each: each.cores),
            ("active_tasks", "Running tasks.", lambda each: each.active_tasks),
            ("failed_tasks", "Failed tasks.", lambda each: each.failed_tasks),
            ("heap_peak_bytes", "Peak heap usage.", lambda each: each.heap_peak),
            (
                "off_heap_peak_bytes",
                "Peak off-heap memory.",
                lambda each: each.off_heap_peak,
            ),
            ("storage_used_bytes", "Memory for cached blocks.", lambda each: each.storage_used),
        )
        for name, words, value in columns:
            family = _family(f"executor_{name}", f"Spark's own metric: {words}", "executor")
            for each in self._executors[:MAX_EXECUTORS]:
                family.add_metric([each.id], value(each))
            yield family

    def _of_batch(self) -> Iterator[Metric]:
        batch = self._batch
        rows = _family("batch_rows_per_second", "Spark's own metric of the last batch.", "kind")
        state = _family("state_rows", "Spark's own metric: rows of state.")
        memory = _family("state_memory_bytes", "Spark's own metric: memory of the state.")
        watermark = _family("watermark_timestamp_seconds", "Event time up to which data is final.")
        if batch is not None:
            rows.add_metric(["input"], batch.input_rows_per_second)
            rows.add_metric(["processed"], batch.processed_rows_per_second)
            state.add_metric([], batch.state_rows)
            memory.add_metric([], batch.state_memory)
            if batch.watermark is not None:
                watermark.add_metric([], batch.watermark)
        yield from (rows, state, memory, watermark)

    def _bounded(self, reason: str) -> str:
        if len(self._reasons) < MAX_REASONS:
            self._reasons.add(reason)
        return reason if reason in self._reasons else OTHER

    def _gauge(self, name: str, words: str, *labels: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", words, labels, registry=self.registry)

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", words, labels, registry=self.registry)

    def _histogram(self, name: str, words: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(f"{PREFIX}_{name}", words, buckets=buckets, registry=self.registry)


class _Snapshot(Collector):
    """Series whose labels change, built at each scrape."""

    def __init__(self, build: Callable[[], Iterator[Metric]]) -> None:
        self._build = build

    def collect(self) -> Iterable[Metric]:
        return self._build()


def _family(name: str, words: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", words, labels=labels)
