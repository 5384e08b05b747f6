"""The driver's Prometheus metrics, each with its unit in its name (docs/metrics.md).

The number of series is bounded: metrics of the whole stream, and metrics by reason, partition and
executor up to the limits below. No label or value contains anything of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from penstock import __version__
from penstock.contract.checkpoint_repairs import RepairKind
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.contract.metric_catalogue import MetricDescription
from penstock.driver.checkpoint.progress import Commit, OffsetRange
from penstock.driver.jvm import JvmMetrics
from penstock.driver.kafka import held_records
from penstock.driver.kafka.held_records import Holds
from penstock.driver.kafka.offsets import Offsets, lag, lags
from penstock.driver.record_position import Position
from penstock.driver.reporting import metric_descriptions as described
from penstock.driver.spark.batch_metrics import BatchMetrics, StateMetrics
from penstock.driver.spark.executor_metrics import ExecutorMetrics

PREFIX = "penstock_driver"
# A stream with more partitions has only the totals.
MAX_PARTITIONS = 1000
MAX_EXECUTORS = 200
# Reasons come from classes and error conditions. There are dozens; more become "Other".
MAX_REASONS = 100
OTHER = "Other"


class Metrics:
    """The metrics of one stream, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reasons: set[str] = set()
        self._offsets: tuple[Offsets, Offsets] | None = None
        self._executors: Sequence[ExecutorMetrics] = ()
        self._batch: BatchMetrics | None = None
        self._jvm: JvmMetrics | None = None
        self._commit: Commit | None = None
        self._partitions: int | None = None
        self._unhandled: int | None = None
        self._lag_seconds: float | None = None
        self._held: tuple[int, float] | None = None
        self._in_doubt: int | None = None
        self._failed_record: Position | None = None
        described.BUILD_INFO.gauge(self.registry).labels(__version__, _spark_version()).set(1)
        self._state = described.STATE.gauge(self.registry)
        self._cores = described.CORES.gauge(self.registry)
        self._restarts = described.RESTARTS.counter(self.registry)
        self._failures = described.FAILURES.counter(self.registry)
        self._stall_actions = described.STALL_ACTIONS.counter(self.registry)
        self._dead_letters = described.DEAD_LETTERS.counter(self.registry)
        self._repairs = described.REPAIRS.counter(self.registry)
        self._records = described.COMMITTED_RECORDS.counter(self.registry)
        self._commit_duration = described.COMMIT_DURATION.histogram(self.registry)
        self._batch_seconds = described.BATCH_SECONDS.counter(self.registry)
        self._batches = described.BATCHES.counter(self.registry)
        self._batches_missed = described.BATCHES_MISSED.counter(self.registry)
        self._batch_rows = described.BATCH_ROWS_TOTAL.counter(self.registry)
        self._late_rows = described.LATE_ROWS.counter(self.registry)
        self._state_changes = described.STATE_CHANGES.counter(self.registry)
        self._state_commit = described.STATE_COMMIT_SECONDS.counter(self.registry)
        self._rocksdb_seconds = described.ROCKSDB_SECONDS.counter(self.registry)
        self._rocksdb_operations = described.ROCKSDB_OPERATIONS.counter(self.registry)
        self._latency = described.COMMIT_LATENCY.histogram(self.registry)
        self._fetch_duration = described.FETCH_DURATION.histogram(self.registry)
        self._sink_latency = described.SINK_LATENCY.histogram(self.registry)
        self._sink_latency_bound = described.SINK_LATENCY_BOUND.histogram(self.registry)
        self.registry.register(_Snapshot(self._of_query))
        self.registry.register(_Snapshot(self._by_partition))
        self.registry.register(_Snapshot(self._by_executor))
        self.registry.register(_Snapshot(self._of_batch))
        self.registry.register(_Snapshot(self._of_jvm))

    def count_restart(self, reason: str) -> None:
        """Counts a restart of the query after a failure."""
        self._restarts.labels("query", self._bounded(reason)).inc()

    def count_failure(self, reason: str, *, permanent: bool) -> None:
        """Counts a failure, or a warning."""
        self._failures.labels(self._bounded(reason), str(permanent).lower()).inc()

    def count_stall_action(self, reason: str, action: str) -> None:
        """Counts an action on a query that stalled without an exception."""
        self._stall_actions.labels(reason, action).inc()

    def count_repair(self, kind: RepairKind) -> None:
        """Counts a repair of the checkpoint."""
        self._repairs.labels(kind.value).inc()

    def observe_commit(self, commit: Commit, offset_range: OffsetRange | None) -> None:
        """Records a committed epoch, and its records where they are known."""
        self._commit = commit
        if commit.took is not None:
            self._commit_duration.observe(commit.took)
        if offset_range is not None:
            self._records.inc(offset_range.records())

    def observe_latency(self, seconds: float) -> None:
        """Records the time from one record's timestamp to its commit."""
        self._latency.observe(seconds)

    def observe_sink_latency(self, seconds: float) -> None:
        """Records the time from one record of the source to the sink."""
        self._sink_latency.observe(seconds)

    def observe_sink_latency_bound(self, seconds: float) -> None:
        """Records a time that this was at most."""
        self._sink_latency_bound.observe(seconds)

    def observe_fetch(self, of: str, seconds: float) -> None:
        """Records how long the brokers of `source` or `sink` took to deliver one record."""
        self._fetch_duration.labels(of).observe(seconds)

    def set_lag_seconds(self, seconds: float | None) -> None:
        """Sets the age of the oldest record that is not committed; None if it is not known."""
        self._lag_seconds = seconds

    def set_offsets(self, offsets: tuple[Offsets, Offsets] | None) -> None:
        """The committed and the newest offsets; None while they are unknown."""
        self._offsets = offsets

    def set_held(self, holds: Holds | None, now: float) -> None:
        """What open transactions hold back in the source; None if they do not, or unknown."""
        self._held = (
            None
            if holds is None
            else (held_records.records(holds), held_records.seconds(holds, now))
        )

    def set_records_in_doubt(self, records: int) -> None:
        """The records that come twice if the query ends without another commit, at most."""
        self._in_doubt = records

    def count_dead_letter(self) -> None:
        """Counts a record that was copied to the dead-letter topic."""
        self._dead_letters.inc()

    def set_failed_record(self, record: Position) -> None:
        """Where the record is that the query has failed over."""
        self._failed_record = record

    def set_executors(self, executors: Sequence[ExecutorMetrics]) -> None:
        """Spark's metrics of all executors."""
        self._executors = executors

    def set_jvm(self, jvm: JvmMetrics) -> None:
        """The heap of the driver's JVM and its garbage collection."""
        self._jvm = jvm

    def observe_batch(self, batch: BatchMetrics) -> None:
        """Spark's metrics of one batch."""
        self._batch = batch
        self._batches.inc()
        self._batch_rows.labels("input").inc(batch.input_rows)
        if batch.output_rows is not None:
            self._batch_rows.labels("output").inc(batch.output_rows)
        _add(self._batch_seconds, batch.durations)
        if batch.state is not None:
            self._observe_state(batch.state)

    def _observe_state(self, state: StateMetrics) -> None:
        self._late_rows.inc(state.late_rows)
        self._state_changes.labels("updated").inc(state.updated_rows)
        self._state_changes.labels("removed").inc(state.removed_rows)
        self._state_commit.inc(state.commit_seconds)
        if state.rocksdb is not None:
            _add(self._rocksdb_seconds, state.rocksdb.seconds)
            _add(self._rocksdb_operations, state.rocksdb.operations)

    def count_missed_batches(self, number: int) -> None:
        """Counts batches that Spark no longer kept."""
        self._batches_missed.inc(number)

    def set_report(self, report: DriverReport) -> None:
        """Sets the metrics that a report contains."""
        for state in QueryState:
            self._state.labels(state.value).set(state is report.state)
        self._cores.labels("desired").set(report.cores or 0)
        self._cores.labels("registered").set(report.registered_cores or 0)
        self._partitions, self._unhandled = report.partitions, report.lag

    def _of_query(self) -> Iterator[Metric]:
        """What is not known has no series: a 0 would be a commit in 1970, or no lag."""
        commit = self._commit
        yield _number(described.EPOCH, None if commit is None else commit.epoch)
        yield _number(described.LAST_COMMIT, None if commit is None else commit.at)
        yield _number(described.PARTITIONS, self._partitions)
        committed = self._offsets if self._unhandled is not None else None
        yield _number(described.LAG_RECORDS, None if committed is None else lag(*committed))
        yield _number(described.UNHANDLED_RECORDS, self._unhandled)
        yield _number(described.LAG_SECONDS, self._lag_seconds)
        held, held_seconds = self._held or (None, None)
        yield _number(described.HELD_RECORDS, held)
        yield _number(described.HELD_SECONDS, held_seconds)
        yield _number(described.RECORDS_IN_DOUBT, self._in_doubt)
        failed = described.FAILED_RECORD.gauge_family()
        if (record := self._failed_record) is not None:
            failed.add_metric([record.topic, str(record.partition)], record.offset)
        yield failed

    def _by_partition(self) -> Iterator[Metric]:
        committed, newest = self._offsets or ({}, {})
        if sum(map(len, newest.values())) > MAX_PARTITIONS:
            return
        offset = described.COMMITTED_OFFSET.gauge_family()
        lag = described.PARTITION_LAG.gauge_family()
        for (topic, partition), behind in lags(committed, newest).items():
            labels = [topic, str(partition)]
            lag.add_metric(labels, behind)
            if partition in committed.get(topic, {}):
                offset.add_metric(labels, committed[topic][partition])
        yield from (offset, lag)

    def _by_executor(self) -> Iterator[Metric]:
        columns: tuple[tuple[MetricDescription, Callable[[ExecutorMetrics], int]], ...] = (
            (described.EXECUTOR_TASK_SLOTS, lambda executor: executor.cores),
            (described.EXECUTOR_ACTIVE_TASKS, lambda executor: executor.active_tasks),
            (described.EXECUTOR_FAILED_TASKS, lambda executor: executor.failed_tasks),
            (described.EXECUTOR_HEAP, lambda executor: executor.heap_peak),
            (described.EXECUTOR_OFF_HEAP, lambda executor: executor.off_heap_peak),
            (described.EXECUTOR_STORAGE, lambda executor: executor.storage_used),
        )
        for metric, value in columns:
            family = metric.gauge_family()
            for executor in self._executors[:MAX_EXECUTORS]:
                family.add_metric([executor.id], value(executor))
            yield family
        gc = described.EXECUTOR_GC.counter_family()
        for executor in self._executors[:MAX_EXECUTORS]:
            gc.add_metric([executor.id], executor.gc_seconds)
        yield gc

    def _of_batch(self) -> Iterator[Metric]:
        batch = self._batch
        rows = described.BATCH_ROWS.gauge_family()
        state = described.STATE_ROWS.gauge_family()
        memory = described.STATE_MEMORY.gauge_family()
        files = described.ROCKSDB_FILES.gauge_family()
        watermark = described.WATERMARK.gauge_family()
        if batch is not None:
            rows.add_metric(["input"], batch.input_rows_per_second)
            rows.add_metric(["processed"], batch.processed_rows_per_second)
            if batch.state is not None:
                state.add_metric([], batch.state.rows)
                memory.add_metric([], batch.state.memory)
                if batch.state.rocksdb is not None:
                    files.add_metric([], batch.state.rocksdb.file_bytes)
            if batch.watermark is not None:
                watermark.add_metric([], batch.watermark)
        yield from (rows, state, memory, files, watermark)

    def _of_jvm(self) -> Iterator[Metric]:
        jvm = self._jvm
        yield _number(described.JVM_HEAP_USED, None if jvm is None else jvm.heap_used)
        yield _number(described.JVM_HEAP_MAX, None if jvm is None else jvm.heap_max)
        gc = described.JVM_GC.counter_family()
        if jvm is not None:
            gc.add_metric([], jvm.gc_seconds)
        yield gc

    def _bounded(self, reason: str) -> str:
        if len(self._reasons) < MAX_REASONS:
            self._reasons.add(reason)
        return reason if reason in self._reasons else OTHER


def _spark_version() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:  # an image with Spark's own distribution
        return "unknown"


class _Snapshot(Collector):
    """Series whose labels change, built at each scrape."""

    def __init__(self, build: Callable[[], Iterator[Metric]]) -> None:
        self._build = build

    def collect(self) -> Iterable[Metric]:
        return self._build()


def _add(counter: Counter, by_label: Mapping[str, float]) -> None:
    """Adds to each series of a counter with one label; a clock that jumps back adds nothing."""
    for label, value in by_label.items():
        counter.labels(label).inc(max(0.0, value))


def _number(metric: MetricDescription, value: float | None) -> Metric:
    family = metric.gauge_family()
    if value is not None:
        family.add_metric([], value)
    return family
