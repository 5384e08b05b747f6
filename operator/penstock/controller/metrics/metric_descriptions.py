"""What the operator exports: every metric, in the order of docs/metrics.md."""

from __future__ import annotations

from penstock.contract.metric_catalogue import Catalogue

_STREAM = ("namespace", "name")
_REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_RECONCILE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

STREAM = Catalogue("penstock_stream_")

STATE = STREAM.gauge("state", "1, with the state in the stream's status", *_STREAM, "state")
CONDITION = STREAM.gauge(
    "condition",
    "1 for each condition of the status: its type, such as `Ready`, its status `True`, `False` or "
    "`Unknown`, and its reason",
    *_STREAM,
    "condition",
    "status",
    "reason",
)
INFO = STREAM.gauge("info", "1, with the mode and the image", *_STREAM, "mode", "image")
COMMIT_INTERVAL = STREAM.gauge(
    "commit_interval_seconds",
    "how often a commit is due while there are records, by the spec's trigger; 0: as soon as the "
    "previous batch has ended",
    *_STREAM,
    unit="seconds",
)
LAST_COMMIT = STREAM.gauge(
    "last_commit_timestamp_seconds",
    "time of the last commit",
    *_STREAM,
    unit="seconds since 1970",
)
RESTARTS = STREAM.counter(
    "restarts_total", "restarts of `query`, `process` and `pod`", *_STREAM, "level"
)
LAST_FAILURE = STREAM.gauge(
    "last_failure_timestamp_seconds",
    "time of the last failure, with its reason",
    *_STREAM,
    "reason",
    unit="seconds since 1970",
)
LAST_REPAIR = STREAM.gauge(
    "last_repair_timestamp_seconds",
    "time of the last repair of the checkpoint, with its cause: `Crash` or `Switch`",
    *_STREAM,
    "cause",
    unit="seconds since 1970",
)
CORES = STREAM.gauge(
    "cores",
    "executors' cores `desired` and `registered`; no value while no driver reports",
    *_STREAM,
    "kind",
    unit="cores",
)
PARTITIONS = STREAM.gauge("partitions", "partitions of the source, as in the status", *_STREAM)
EXECUTORS = STREAM.gauge("executors", "registered executors, as in the status", *_STREAM)
EPOCH = STREAM.gauge("epoch", "last committed epoch or batch, as in the status", *_STREAM)
LAG = STREAM.gauge(
    "lag",
    "records that the query has not handled, as in the status; no value while no query runs",
    *_STREAM,
    unit="records",
)
IMAGE_FAILED = STREAM.gauge(
    "image_failed",
    "1 for a stream that did not become Ready with the operator's default image but was Ready "
    "before; no value for others",
    *_STREAM,
)
COMPLETION = STREAM.gauge(
    "completion_timestamp_seconds",
    "time at which an `availableNow` stream had read everything; no value while it runs",
    *_STREAM,
    unit="seconds since 1970",
)
RECONCILE_FAILURES = STREAM.gauge(
    "reconcile_failures",
    "failed reconciles of this stream in a row; no value after a successful one",
    *_STREAM,
)

OPERATOR = Catalogue("penstock_operator_")

BUILD_INFO = OPERATOR.gauge("build_info", "1, with the version of Penstock", "version")
LEADER = OPERATOR.gauge("leader", "1 while this process reconciles, else 0")
RECONCILES = OPERATOR.counter(
    "reconcile_total", "reconciles: `changed`, `unchanged`, `error`", "result"
)
RECONCILE_DURATION = OPERATOR.histogram(
    "reconcile_duration_seconds",
    "duration of one reconcile",
    unit="seconds",
    buckets=_RECONCILE_BUCKETS,
)
QUEUE_DEPTH = OPERATOR.gauge(
    "work_queue_depth",
    "streams that are due for a reconcile, or being reconciled",
    unit="streams",
)
QUEUE_AGE = OPERATOR.gauge(
    "work_queue_age_seconds",
    "how long the first stream in the work queue has been due; 0 if none is",
    unit="seconds",
)
IMAGE_WAITING = OPERATOR.gauge(
    "image_waiting_streams",
    "streams that wait for their turn to get the operator's default image",
    unit="streams",
)
IMAGE_STOPPED = OPERATOR.gauge(
    "image_rollout_stopped",
    "1 while no other stream gets the operator's default image, because too many have failed with "
    "it (`penstock_stream_image_failed`); else 0",
)
MEMORY_USED = OPERATOR.gauge(
    "memory_working_set_bytes",
    "memory that all processes of the container use, as the kubelet counts it; no value without a "
    "limit",
    unit="bytes",
)
MEMORY_LIMIT = OPERATOR.gauge(
    "memory_limit_bytes",
    "the container's limit, at which the kernel ends it",
    unit="bytes",
)
WATCH_AGE = OPERATOR.gauge(
    "watch_age_seconds",
    "how long the API server has sent nothing about a resource, not even the bookmark of each "
    "minute; for `continuousstreams` also how long it has not shown what the operator wrote",
    "resource",
    unit="seconds",
)
API_REQUESTS = OPERATOR.counter(
    "api_requests_total",
    "requests to the API server, by the HTTP status of the answer (`none`: no answer)",
    "verb",
    "resource",
    "code",
)
API_DURATION = OPERATOR.histogram(
    "api_request_duration_seconds",
    "time until the operator had read the answer, or gave up",
    "verb",
    "resource",
    unit="seconds",
    buckets=_REQUEST_BUCKETS,
)
