"""The dashboard of one stream: is it on time, and if not, why?"""

from __future__ import annotations

from scripts.codegen.dashboards.grafana import Dashboard, Panel, Row, Variable
from scripts.codegen.dashboards.shared import RUNBOOK, STATE_COLORS, quantile, quantiles

_INTERVAL = "max(penstock_stream_commit_interval_seconds{<chosen>})"

_NOW = Row(
    "Now",
    (
        Panel(
            "What runs?",
            "The mode and the image of the spec in force.",
            {"": "max by (mode, image) (penstock_stream_info{<chosen>})"},
            kind="table",
        ),
        Panel(
            "What do its conditions say?",
            "Good: Ready is True, and nothing else is. docs/reasons.md says what to do.",
            {"": "max by (condition, status, reason) (penstock_stream_condition{<chosen>})"},
            kind="table",
        ),
        Panel(
            "Firing alerts",
            "Good: none. A click opens the runbook.",
            {
                "": "max by (alertname, severity) "
                '(ALERTS{alertname=~"Penstock.+", alertstate="firing", <chosen>})'
            },
            kind="table",
            link=RUNBOOK,
        ),
        Panel(
            "Last commit, failure and repair",
            "Good: a commit within some intervals while records wait, and no failure since.",
            {
                "commit": "1000 * max(penstock_stream_last_commit_timestamp_seconds{<chosen>})",
                "failure: {{reason}}": "1000 * max by (reason) "
                "(penstock_stream_last_failure_timestamp_seconds{<chosen>})",
                "repair: {{cause}}": "1000 * max by (cause) "
                "(penstock_stream_last_repair_timestamp_seconds{<chosen>})",
            },
            unit="dateTimeFromNow",
            kind="stat",
        ),
    ),
    height=6,
)

_TIMELINESS = Row(
    "Is it on time?",
    (
        Panel(
            "How old is the oldest record that waits?",
            "Good: below the limit of the freshness objective. Rising: look at throughput, cores "
            "and the partitions that lag.",
            {
                "oldest record": "max(penstock_driver_lag_seconds{<chosen>})",
                "limit": f"3 * {_INTERVAL} + 30",
            },
            unit="s",
            colors={"limit": "red"},
        ),
        Panel(
            "How long does a record take to its commit?",
            "Good: the 95% below the limit of the alert PenstockStreamLatencyHigh. Sampled; the "
            "record reaches the sink earlier.",
            {
                **quantiles("penstock_driver_record_commit_latency_seconds", 0.5, 0.95),
                "limit": f"3 * {_INTERVAL} + 5",
            },
            unit="s",
            colors={"limit": "red"},
        ),
        Panel(
            "How long does a record take to the sink's topic?",
            "Good: level. Sampled, from Kafka to Kafka only; exact where the query writes the "
            "header penstock-source-timestamp (docs/metrics.md), else an upper bound.",
            {
                **quantiles("penstock_driver_record_sink_latency_seconds", 0.5, 0.95),
                "bound of 95%": quantile(0.95, "penstock_driver_record_sink_latency_bound_seconds"),
            },
            unit="s",
            colors={"bound of 95%": "text"},
        ),
        Panel(
            "How long does an epoch or batch take?",
            "Good: below the commit interval (0 where a batch starts when the one before has "
            "ended). A failure repeats what came since the last commit.",
            {
                **quantiles("penstock_driver_epoch_commit_duration_seconds", 0.5, 0.95),
                "interval": _INTERVAL,
            },
            unit="s",
            colors={"interval": "text"},
        ),
    ),
)

_LOAD = Row(
    "Does it keep up?",
    (
        Panel(
            "Committed records a second",
            "Good: follows the producers. Flat while the lag grows: the query is at its limit.",
            {
                "records": "sum(rate("
                "penstock_driver_committed_records_total{<chosen>}[$__rate_interval]))"
            },
            unit="cps",
        ),
        Panel(
            "How many records wait?",
            "Good: steady, and about one commit interval of records. No line: no query runs.",
            {"records": "max(penstock_driver_lag_records{<chosen>})"},
        ),
        Panel(
            "Which partitions lag?",
            "Good: all alike. One that stands out has a hot key, or its broker is slow.",
            {
                "{{topic}}-{{partition}}": "topk(10, max by (topic, partition) "
                "(penstock_driver_partition_lag_records{<chosen>}))"
            },
            kind="bargauge",
        ),
    ),
)

_FAULTS = Row(
    "What went wrong?",
    (
        Panel(
            "State",
            "Good: Running throughout. Compare with the failures beside it.",
            {"{{state}}": "max by (state) (penstock_stream_state{<chosen>}) == 1"},
            kind="state-timeline",
            colors=STATE_COLORS,
        ),
        Panel(
            "Restarts so far, by level",
            "Good: flat. query: the same process tried again; process: a new JVM; pod: Kubernetes "
            "made a new pod.",
            {"{{level}}": "max by (level) (penstock_stream_restarts_total{<chosen>})"},
        ),
        Panel(
            "Failures and stalls, by reason",
            "Good: none. docs/reasons.md says what each means. A failure that ends the process is "
            "missing here, and is the last one above.",
            {
                "{{reason}}": "sum by (reason) "
                "(increase(penstock_driver_failures_total{<chosen>}[$__rate_interval])) > 0",
                "{{reason}}: {{action}}": "sum by (reason, action) (increase("
                "penstock_driver_stall_actions_total{<chosen>}[$__rate_interval])) > 0",
            },
        ),
    ),
)

_RESOURCES = Row(
    "Has it what it needs?",
    (
        Panel(
            "Executor cores",
            "Good: registered equals desired. A continuous or real-time query waits for a core for "
            "each partition.",
            {
                "{{kind}}": "max by (kind) (penstock_driver_executor_cores{<chosen>})",
                "partitions": "max(penstock_driver_source_partitions{<chosen>})",
            },
        ),
        Panel(
            "Peak memory, by executor",
            "Good: some room below the memory of the pod. At the limit the kernel kills the "
            "executor: give it more.",
            {
                "{{executor}} heap": "max by (executor) "
                "(penstock_driver_executor_heap_peak_bytes{<chosen>})",
                "{{executor}} outside": "max by (executor) "
                "(penstock_driver_executor_off_heap_peak_bytes{<chosen>})",
            },
            unit="bytes",
        ),
        Panel(
            "Share of time in garbage collection, by executor",
            "Good: below 10%. More costs throughput and latency: give the executors more memory.",
            {
                "{{executor}}": "sum by (executor) "
                "(rate(penstock_driver_executor_gc_seconds_total{<chosen>}[$__rate_interval]))"
            },
            unit="percentunit",
            alarm=0.1,
        ),
        Panel(
            "The driver's heap",
            "Good: it falls after each collection, and stays below its maximum. Growth without "
            "end: the driver collects results, or holds too many batches' progress.",
            {
                "used": "max(penstock_driver_jvm_heap_used_bytes{<chosen>})",
                "maximum": "max(penstock_driver_jvm_heap_max_bytes{<chosen>})",
            },
            unit="bytes",
            colors={"maximum": "red"},
        ),
        Panel(
            "Share of the driver's time in garbage collection",
            "Good: below 10%. More delays commits: give the driver more memory.",
            {
                "driver": "sum(rate("
                "penstock_driver_jvm_gc_seconds_total{<chosen>}[$__rate_interval]))"
            },
            unit="percentunit",
            alarm=0.1,
        ),
        Panel(
            "Free share of the checkpoint's volume",
            "Good: above 15%. A full volume stops the stream. Measured by the kubelet.",
            {
                "bytes": "min by (persistentvolumeclaim) (kubelet_volume_stats_available_bytes"
                '{namespace="$namespace", persistentvolumeclaim="$name-checkpoint"} / '
                "kubelet_volume_stats_capacity_bytes)",
                "inodes": "min by (persistentvolumeclaim) (kubelet_volume_stats_inodes_free"
                '{namespace="$namespace", persistentvolumeclaim="$name-checkpoint"} / '
                "kubelet_volume_stats_inodes)",
            },
            unit="percentunit",
        ),
    ),
)

_BATCHES = Row(
    "Batches (none in continuous mode)",
    (
        Panel(
            "Where does the time of batches go?",
            "Good: mostly addBatch. Seconds of each second, by Spark's parts: latestOffset is the "
            "broker, walCommit and commitOffsets are the checkpoint's volume.",
            {
                "{{part}}": "sum by (part) (rate(penstock_driver_batch_duration_seconds_total"
                '{part!="triggerExecution", <chosen>}[$__rate_interval]))'
            },
            unit="percentunit",
        ),
        Panel(
            "Rows read in batches a second",
            "Good: follows the producers. Gaps are batches that Spark no longer had when it was "
            "asked.",
            {
                "rows": "sum(rate(penstock_driver_batch_rows_total{<chosen>}[$__rate_interval]))",
                "batches missed": "sum(rate("
                "penstock_driver_batches_missed_total{<chosen>}[$__rate_interval]))",
            },
            unit="cps",
        ),
    ),
)

_STATE = Row(
    "State (none in continuous mode)",
    (
        Panel(
            "Rows of state",
            "Good: level. Growth without end means that a key or window never expires: set a "
            "watermark, or shorten it.",
            {"rows": "max(penstock_driver_state_rows{<chosen>})"},
        ),
        Panel(
            "How large is the state?",
            "Good: level, like its rows. Memory of the executors, and RocksDB's files if that "
            "is the state store.",
            {
                "memory": "max(penstock_driver_state_memory_bytes{<chosen>})",
                "files": "max(penstock_driver_state_rocksdb_file_bytes{<chosen>})",
            },
            unit="bytes",
        ),
        Panel(
            "Where does RocksDB's time go?",
            "Good: no part stands out. Seconds of tasks each second, in Spark's words: "
            "CommitFileSync is the checkpoint's volume; Get grows when the blocks do not fit into "
            "the cache.",
            {
                "{{part}}": "sum by (part) (rate("
                "penstock_driver_state_rocksdb_seconds_total{<chosen>}[$__rate_interval]))"
            },
            unit="percentunit",
        ),
        Panel(
            "How far behind is the watermark?",
            "Good: the delay of the watermark and some batches. More: one partition or producer is "
            "late and holds back every result.",
            {"behind": "time() - max(penstock_driver_watermark_timestamp_seconds{<chosen>})"},
            unit="s",
        ),
        Panel(
            "Late rows dropped a second",
            "Good: none. They are in no result: a longer watermark keeps them and costs state.",
            {
                "rows": "sum(rate("
                "penstock_driver_late_rows_dropped_total{<chosen>}[$__rate_interval]))"
            },
            unit="cps",
        ),
    ),
)

STREAM = Dashboard(
    name="stream",
    title="Penstock / Stream",
    description="One stream: is it on time, and if not, why?",
    chosen='namespace="$namespace", name="$name"',
    variables=(
        Variable("namespace", "Namespace", "label_values(penstock_stream_info, namespace)"),
        Variable(
            "name", "Stream", 'label_values(penstock_stream_info{namespace="$namespace"}, name)'
        ),
    ),
    rows=(_NOW, _TIMELINESS, _LOAD, _FAULTS, _RESOURCES, _BATCHES, _STATE),
)
