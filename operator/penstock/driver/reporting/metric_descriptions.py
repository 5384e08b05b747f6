"""What the driver measures: every metric, in the order of docs/metrics.md."""

from __future__ import annotations

from penstock.contract.metric_catalogue import Catalogue

_COMMIT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_SINK_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900,
)  # fmt: skip
_LATENCY_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)

DRIVER = Catalogue("penstock_driver_")

BUILD_INFO = DRIVER.gauge(
    "build_info", "1, with the version of Penstock and of Spark in the image", "version", "spark"
)
STATE = DRIVER.gauge(
    "state",
    "1 for the current state of the query: `Starting`, `WaitingForCores`, `Running`, `Restarting`, "
    "`Failed`, `Stopping`, `Completed`. In the stream's status `Failed` is `Stalled`, and "
    "`Stopping` is `Restarting`",
    "state",
)
EPOCH = DRIVER.gauge("epoch", "last committed epoch, or batch")
LAST_COMMIT = DRIVER.gauge(
    "last_epoch_commit_timestamp_seconds",
    "time of the last commit; `time() - ...` is the age of the checkpoint",
    unit="seconds since 1970",
)
COMMIT_DURATION = DRIVER.histogram(
    "epoch_commit_duration_seconds",
    "time from writing an epoch's offsets to its commit. In continuous mode it ends when every "
    "writer has flushed; in the batch modes it is the duration of the batch",
    unit="seconds",
    buckets=_COMMIT_BUCKETS,
)
COMMITTED_RECORDS = DRIVER.counter(
    "committed_records_total",
    "committed records of the source, counted by Kafka offsets (gaps from compaction and "
    "transactions included); `rate()` gives the throughput",
    unit="records",
)
COMMITTED_OFFSET = DRIVER.gauge(
    "committed_offset", "offset of the next record to read", "topic", "partition"
)
PARTITION_LAG = DRIVER.gauge(
    "partition_lag_records",
    "records that are not committed yet",
    "topic",
    "partition",
    unit="records",
)
LAG_RECORDS = DRIVER.gauge(
    "lag_records",
    "records that are not committed yet, in all partitions; no value while no query runs",
    unit="records",
)
UNHANDLED_RECORDS = DRIVER.gauge(
    "unhandled_records",
    "records that the query has not handled: the lag in the status. A running batch of real-time "
    "mode has handled what it has read; in the other modes the value is that of lag_records",
    unit="records",
)
LAG_SECONDS = DRIVER.gauge(
    "lag_seconds",
    "age of the oldest uncommitted record, by its Kafka timestamp; 0 if all are committed (see "
    "below)",
    unit="seconds",
)
HELD_RECORDS = DRIVER.gauge(
    "source_held_records",
    "records that `read_committed` cannot read yet, because a transaction before them is open: "
    "those between the last stable offset and the high watermark. `lag_records` does not count "
    "them",
    unit="records",
)
HELD_SECONDS = DRIVER.gauge(
    "source_held_seconds",
    "how long an open transaction has held records back: the time for which a partition's last "
    "stable offset has not moved, of the partition where this is longest; 0 if none is held",
    unit="seconds",
)
RECORDS_IN_DOUBT = DRIVER.gauge(
    "records_in_doubt",
    "continuous mode: records read but not committed, the most that would be written twice if the "
    "query ended now. It counts up to the newest offset of the source, and keeps its value while "
    "no query runs",
    unit="records",
)
COMMIT_LATENCY = DRIVER.histogram(
    "record_commit_latency_seconds",
    "time from a record's Kafka timestamp to the commit of its epoch, of a few random records "
    "every ten seconds. The record reaches the sink earlier (see below)",
    unit="seconds",
    buckets=_LATENCY_BUCKETS,
)
SINK_LATENCY = DRIVER.histogram(
    "record_sink_latency_seconds",
    "time from a record's timestamp in the source to that in the Kafka sink, of a few random "
    "records every ten seconds; the query has to write the first one into a header (see below)",
    unit="seconds",
    buckets=_SINK_BUCKETS,
)
SINK_LATENCY_BOUND = DRIVER.histogram(
    "record_sink_latency_bound_seconds",
    "upper bound of record_sink_latency_seconds, for every query from Kafka to a Kafka topic; "
    "needs no header (see below)",
    unit="seconds",
    buckets=_SINK_BUCKETS,
)
FETCH_DURATION = DRIVER.histogram(
    "kafka_fetch_duration_seconds",
    "time that the brokers of `source` and `sink` need to deliver a sampled record to the driver; "
    "the executors' own times are not known (see below)",
    "of",
    unit="seconds",
    buckets=_COMMIT_BUCKETS,
)
PARTITIONS = DRIVER.gauge("source_partitions", "partitions of the source")
CORES = DRIVER.gauge(
    "executor_cores",
    "cores `desired` (at least one for each partition) and `registered`",
    "kind",
    unit="cores",
)
RESTARTS = DRIVER.counter(
    "restarts_total",
    "restarts of the query by this process. The operator counts the other levels in "
    "`penstock_stream_restarts_total`",
    "level",
    "reason",
)
FAILURES = DRIVER.counter(
    "failures_total",
    "failures by cause. `DataLoss` that is not permanent counts the polls that found lost records "
    "under `failOnDataLoss: false`",
    "reason",
    "permanent",
)
FAILED_RECORD = DRIVER.gauge(
    "failed_record_offset",
    "offset of the last record over which the query failed in this process, if it is known",
    "topic",
    "partition",
)
DEAD_LETTERS = DRIVER.counter(
    "dead_letters_total",
    "records copied to the dead-letter topic (`source.kafka.deadLetters`)",
    unit="records",
)
STALL_ACTIONS = DRIVER.counter(
    "stall_actions_total",
    "actions on a query that stalled without an exception: `NoProgress`, `CommitsStuck`, "
    "`TasksMissing`, `ExecutorLost`, `CoresLost`, `ClockSetBack`, `PartitionsNotRead`",
    "reason",
    "action",
)
REPAIRS = DRIVER.counter(
    "checkpoint_repairs_total",
    "repairs of the checkpoint before a start ([kinds](checkpoints.md#repairs)); "
    "`status.lastRepair.reason` is the most severe kind",
    "kind",
)
JVM_HEAP_USED = DRIVER.gauge(
    "jvm_heap_used_bytes",
    "used heap of the driver's JVM; on a laptop the tasks run in it too",
    unit="bytes",
)
JVM_HEAP_MAX = DRIVER.gauge("jvm_heap_max_bytes", "maximum heap of the driver's JVM", unit="bytes")
JVM_GC = DRIVER.counter(
    "jvm_gc_seconds_total", "time of the driver's JVM in garbage collection", unit="seconds"
)
BATCHES = DRIVER.counter(
    "batches_total",
    "batches that Spark has measured in this process: micro-batch and real-time only, like every "
    "metric from here to the watermark (see below)",
)
BATCHES_MISSED = DRIVER.counter(
    "batches_missed_total", "batches whose measurements Spark had dropped before the driver asked"
)
BATCH_ROWS_TOTAL = DRIVER.counter(
    "batch_rows_total",
    "rows of the measured batches, `input` and `output`; not every sink counts its rows",
    "kind",
    unit="rows",
)
BATCH_ROWS = DRIVER.gauge(
    "batch_rows_per_second",
    "rows `input` and `processed` a second in the last batch",
    "kind",
    unit="rows a second",
)
BATCH_SECONDS = DRIVER.counter(
    "batch_duration_seconds_total",
    "time of each part of the batches, in Spark's words, such as `addBatch` (reading, computing "
    "and writing), `latestOffset`, `walCommit`; `triggerExecution` is the whole",
    "part",
    unit="seconds",
)
LATE_ROWS = DRIVER.counter(
    "late_rows_dropped_total",
    "rows that stateful operators dropped because they came after the watermark. Spark counts them "
    "after its partial aggregation, so more records may have been late",
    unit="rows",
)
STATE_ROWS = DRIVER.gauge("state_rows", "rows of the state of a stateful query", unit="rows")
STATE_MEMORY = DRIVER.gauge("state_memory_bytes", "memory of the state", unit="bytes")
STATE_CHANGES = DRIVER.counter(
    "state_changed_rows_total",
    "rows of the state, `updated` and `removed`",
    "kind",
    unit="rows",
)
STATE_COMMIT_SECONDS = DRIVER.counter(
    "state_commit_seconds_total", "time that tasks spend committing state", unit="seconds"
)
ROCKSDB_FILES = DRIVER.gauge(
    "state_rocksdb_file_bytes",
    "size of RocksDB's SST files, if RocksDB is the state store",
    unit="bytes",
)
ROCKSDB_SECONDS = DRIVER.counter(
    "state_rocksdb_seconds_total",
    "time that tasks spend in RocksDB, by Spark's part, such as `Get` and `CommitFileSync`",
    "part",
    unit="seconds",
)
ROCKSDB_OPERATIONS = DRIVER.counter(
    "state_rocksdb_operations_total",
    "operations of RocksDB, such as `Get`, `ReadBlockCacheHit` and `ReadBlockCacheMiss`",
    "operation",
)
WATERMARK = DRIVER.gauge(
    "watermark_timestamp_seconds",
    "event time up to which aggregates are final",
    unit="seconds since 1970",
)
EXECUTOR_ACTIVE_TASKS = DRIVER.gauge(
    "executor_active_tasks",
    "running tasks. Spark measures this and every metric below",
    "executor",
    unit="tasks",
)
EXECUTOR_FAILED_TASKS = DRIVER.gauge(
    "executor_failed_tasks", "failed tasks", "executor", unit="tasks"
)
EXECUTOR_TASK_SLOTS = DRIVER.gauge("executor_task_slots", "task slots", "executor", unit="cores")
EXECUTOR_HEAP = DRIVER.gauge(
    "executor_heap_peak_bytes", "peak use of the heap", "executor", unit="bytes"
)
EXECUTOR_OFF_HEAP = DRIVER.gauge(
    "executor_off_heap_peak_bytes", "peak use of memory outside the heap", "executor", unit="bytes"
)
EXECUTOR_GC = DRIVER.counter(
    "executor_gc_seconds_total", "time in garbage collection", "executor", unit="seconds"
)
EXECUTOR_STORAGE = DRIVER.gauge(
    "executor_storage_used_bytes", "memory used by cached blocks", "executor", unit="bytes"
)
