"""Manifests that cannot work, with the ring that refuses each and what the refusal says.

Ring 1 is the API server with the CRD alone (integration/api/test_admission.py runs these against a
real one); ring 2 is the operator before it creates anything, and `penstock validate`, which refuses
all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testkit.streams.specs import changed

KAFKA = "kafka.kafka:9092"
GOOD: dict[str, Any] = {
    "source": {"kafka": {"bootstrapServers": KAFKA, "topics": ["a"]}},
    "sink": {"kafka": {"bootstrapServers": KAFKA, "topic": "b"}},
    "trigger": {"continuous": {"checkpointInterval": "1s"}},
}
REF = {"name": "credentials", "key": "k"}


@dataclass(frozen=True)
class Bad:
    """A good spec with some fields changed (`...` removes one), and the refusal of it.

    `at` is the field that is named, `says` the reason and the remedy, in all rings. The API server
    names a schema's breach in words of its own: `ring1`, where they are not `says`.
    """

    changes: dict[str, Any]
    at: str
    says: str
    ring: int = 1
    ring1: str = ""

    @property
    def spec(self) -> dict[str, Any]:
        """The spec as somebody would apply it."""
        spec = GOOD
        for path, value in self.changes.items():
            spec = changed(spec, path, value)
        return spec

    def __str__(self) -> str:
        return ", ".join(self.changes)


SOCKET = {"socket": {"host": "h", "port": 9}}
BATCH: dict[str, Any] = {"microBatch": {}}
ASYNC: dict[str, Any] = {"microBatch": {"asyncProgress": {}}}
REAL: dict[str, Any] = {"realTime": {}}
PARQUET = {"custom": {"format": "Parquet"}}
MARK = {"watermark": {"column": "timestamp", "delay": "5s"}}


def _template(pod: str, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [] if container is None else [{"name": pod, **container}]
    return {f"{pod}.podTemplate": {"spec": {**spec, "containers": containers}}}


RING_1 = (
    # What is missing, unknown or too much
    Bad({"source": ...}, "spec.source", "this field is required", ring1="Required value"),
    Bad({"sink": ...}, "spec.sink", "this field is required", ring1="Required value"),
    Bad({"trigger": ...}, "spec.trigger", "this field is required", ring1="Required value"),
    Bad({"source": {}}, "spec.source", "takes exactly one of: kafka, rate, socket, custom"),
    Bad({"source.rate": {}}, "spec.source", "takes exactly one of: kafka, rate, socket, custom"),
    Bad({"sink": {}}, "spec.sink", "takes exactly one of: kafka, console, noop, memory, custom"),
    Bad({"sink.noop": {}}, "spec.sink", "takes exactly one of: kafka, console, noop"),
    Bad({"trigger": {}}, "spec.trigger", "takes exactly one of: continuous, microBatch"),
    Bad({"trigger.microBatch": {}}, "spec.trigger", "takes exactly one of: continuous, microBatch"),
    Bad({"transfrom": {}}, "spec.transfrom", "there is no such field", ring1="unknown field"),
    Bad(
        {"source.kafka.topic": "a"}, "spec.source.kafka.topic", "there is no such field",
        ring1="unknown field",
    ),
    Bad(
        {"trigger": {"availableNow": {"asyncProgress": {}}}},
        "spec.trigger.availableNow.asyncProgress", "there is no such field",
        ring1="unknown field",
    ),
    # Kafka
    Bad({"source.kafka.topics": ...}, "spec.source.kafka", "exactly one of: topics, topicPattern"),
    Bad({"source.kafka.topicPattern": "x"}, "spec.source.kafka", "exactly one of: topics, topicP"),
    Bad({"source.kafka.topics": []}, "spec.source.kafka.topics", "at least 1 item"),
    Bad(
        {"source.kafka.topics": ["not a topic"]}, "spec.source.kafka.topics", "should match",
    ),
    Bad({"sink.kafka.topic": "a/b"}, "spec.sink.kafka.topic", "should match"),
    Bad(
        {"source.kafka.bootstrapServers": ...}, "spec.source.kafka.bootstrapServers",
        "this field is required", ring1="Required value",
    ),
    Bad(
        {"source.kafka.startingOffsets": "newest"}, "spec.source.kafka.startingOffsets",
        "'earliest' or 'latest'", ring1='"earliest", "latest"',
    ),
    Bad(
        {
            "source.kafka.startingOffsets": "latest",
            "source.kafka.startingOffsetsByPartition": {"a": {"0": 1}},
        },
        "spec.source.kafka",
        "startingOffsets and startingOffsetsByPartition exclude each other: keep one",
    ),
    Bad({"source.kafka.options": {"subscribe": "a"}}, "spec.source.kafka", "use topics"),
    Bad({"source.kafka.options": {"assign": "{}"}}, "spec.source.kafka", "use assign"),
    Bad(
        {"source.kafka.options": {"startingOffsets": "{}"}}, "spec.source.kafka",
        "startingOffsets cannot be set here, a field says it: use startingOffsets",
    ),
    Bad(
        {"source.kafka.options": {"failOnDataLoss": "false"}}, "spec.source.kafka",
        "failOnDataLoss cannot be set here, a field says it: use failOnDataLoss",
    ),
    Bad(
        {"source.kafka.options": {"kafka.security.protocol": "SSL"}}, "spec.source.kafka",
        "kafka.security.protocol cannot be set here, a field says it: use tls and sasl",
    ),
    Bad(
        {"sink.kafka.options": {"kafka.sasl.jaas.config": "x"}}, "spec.sink.kafka",
        "kafka.sasl.jaas.config cannot be set here, a field says it: use sasl, or secretOptions",
    ),
    Bad(
        {"sink.kafka.options": {"kafka.x.client.secret": "x"}}, "spec.sink.kafka",
        "options cannot hold a credential in plain text: use secretOptions",
    ),
    Bad({"sink.kafka.options": {"topic": "x"}}, "spec.sink.kafka", "use topic"),
    Bad(
        {"sink.kafka.options": {"checkpointLocation": "/x"}}, "spec.sink.kafka",
        "checkpointLocation cannot be set here, a field says it: use spec.checkpoint",
    ),
    Bad(
        {"sink.kafka.options": {"asyncProgressTrackingEnabled": "true"}}, "spec.sink.kafka",
        "use spec.trigger.microBatch.asyncProgress",
    ),
    Bad(
        {"sink.kafka.options": {"kafka.a": "1"}, "sink.kafka.secretOptions": {"kafka.a": REF}},
        "spec.sink.kafka", "stands in options and in secretOptions: keep the one in secretOptions",
    ),
    Bad(
        {
            "sink.kafka.sasl": {"mechanism": "PLAIN", "username": "u", "passwordSecret": REF},
            "sink.kafka.secretOptions": {"kafka.sasl.jaas.config": REF},
        },
        "spec.sink.kafka", "exclude each other: keep one",
    ),
    Bad(
        {"sink.kafka.sasl": {"mechanism": "SCRAM", "username": "u", "passwordSecret": REF}},
        "spec.sink.kafka.sasl.mechanism", "SCRAM-SHA-256",
    ),
    Bad(
        {"sink.kafka.sasl": {"mechanism": "PLAIN", "username": "u"}},
        "spec.sink.kafka.sasl.passwordSecret", "this field is required", ring1="Required value",
    ),
    Bad(
        {"source.kafka.tls": {"caSecret": {"name": "own"}}}, "spec.source.kafka.tls.caSecret.key",
        "this field is required", ring1="Required value",
    ),
    # Other sources and sinks
    Bad(
        {"source": {"rate": {"numPartitions": 0}}}, "spec.source.rate.numPartitions",
        "greater than or equal to 1",
    ),
    Bad(
        {"source": {"socket": {"host": "h", "port": 70000}}}, "spec.source.socket.port",
        "less than or equal to 65535",
    ),
    Bad(
        {"sink": {"console": {"numRows": 0}}}, "spec.sink.console.numRows",
        "greater than or equal to 1",
    ),
    Bad(
        {"sink": {"custom": {"format": "x", "options": {"checkpointLocation": "/x"}}},
         "trigger": BATCH},
        "spec.sink.custom", "use spec.checkpoint",
    ),
    # Transform
    Bad(
        {"transform": {"sql": "SELECT 1", "python": {"function": "m:f"}}}, "spec.transform",
        "sql and python exclude each other",
    ),
    Bad(
        {"transform": {"python": {"function": "m:f", "inline": "x", "configMap": REF}}},
        "spec.transform.python", "inline and configMap exclude each other: keep one",
    ),
    Bad(
        {"transform": {"python": {"function": "no function"}}}, "spec.transform.python.function",
        "should match",
    ),
    # Durations and amounts
    Bad(
        {"trigger.continuous.checkpointInterval": "soon"},
        "spec.trigger.continuous.checkpointInterval",
        "not a duration: write for example 500ms, 1s or 5m",
    ),
    Bad(
        {"trigger.continuous.checkpointInterval": "0 seconds"},
        "spec.trigger.continuous.checkpointInterval",
        "checkpointInterval must be longer than 0: write for example 1s",
    ),
    Bad(
        {"trigger": {"realTime": {"batchDuration": "4 seconds"}}},
        "spec.trigger.realTime.batchDuration",
        "batchDuration must be at least 5s: Spark refuses shorter ones",
    ),
    Bad(
        {"trigger": {"microBatch": {"interval": "1 week"}}}, "spec.trigger.microBatch.interval",
        "not a duration: write for example 500ms, 1s or 5m",
    ),
    Bad({"driver.memory": "lots"}, "spec.driver.memory", "write for example 512Mi or 2Gi"),
    Bad({"driver.memory": "449Mi"}, "spec.driver", "memory must be at least 450Mi"),
    Bad({"executor.memory": "256Mi"}, "spec.executor", "memory must be at least 450Mi"),
    Bad({"executor.memoryOverhead": "1"}, "spec.executor.memoryOverhead", "for example 512Mi"),
    Bad({"driver.coreRequest": "half"}, "spec.driver.coreRequest", "for example 500m or 2"),
    Bad({"executor.cores": 0}, "spec.executor.cores", "greater than or equal to 1"),
    Bad(
        {"executor": {"minInstances": 3, "maxInstances": 2}}, "spec.executor",
        "minInstances cannot be above maxInstances",
    ),
    Bad(
        {"executor.javaOptions": ["-XX:+UseZGC", "-Xmx4g"]}, "spec.executor",
        "javaOptions cannot set the heap (-Xmx, -Xms): use memory",
    ),
    Bad(
        {"checkpoint": {"volume": {"reclaimPolicy": "Recycle"}}},
        "spec.checkpoint.volume.reclaimPolicy", "'Retain' or 'Delete'", ring1='"Retain", "Delete"',
    ),
    Bad({"dependencies.jars": ["netcat.jar"]}, "spec.dependencies.jars", "should match"),
    Bad({"dependencies.packages": ["a:b"]}, "spec.dependencies.packages", "should match"),
    # Modes
    Bad(
        {"sink": PARQUET}, "spec",
        "trigger.continuous cannot write files: use trigger.microBatch for sink.custom",
    ),
    Bad(
        {"source": {"rate": {"rampUpTime": "5s"}}}, "spec",
        "takes only rowsPerSecond and numPartitions of source.rate: remove rampUpTime",
    ),
    Bad(
        {"transform": MARK}, "spec",
        "trigger.continuous does not support EventTimeWatermark: remove transform.watermark",
    ),
    Bad(
        {"outputMode": "complete"}, "spec",
        "trigger.continuous has no aggregates to write as complete: use outputMode append",
    ),
    Bad(
        {"trigger": REAL, "source": SOCKET}, "spec",
        "trigger.realTime reads Kafka only: use source.kafka",
    ),
    Bad(
        {"trigger": REAL, "sink": {"noop": {}}}, "spec",
        "trigger.realTime writes to Kafka, console or memory only: change sink",
    ),
    Bad(
        {"trigger": REAL, "outputMode": "append"}, "spec",
        "trigger.realTime knows outputMode update only",
    ),
    Bad(
        {"trigger": ASYNC, "sink": PARQUET}, "spec",
        "trigger.microBatch.asyncProgress needs sink.kafka: remove asyncProgress",
    ),
    Bad(
        {"trigger": ASYNC, "transform": MARK}, "spec",
        "trigger.microBatch.asyncProgress needs a stateless query: remove asyncProgress",
    ),
)  # fmt: skip


RING_2 = (
    Bad(
        {"source.kafka.startingOffsetsByPartition": {"a": {"first": 0}}},
        "spec.source.kafka.startingOffsetsByPartition", "'first' is not a partition's number", 2,
    ),
    Bad({"trigger": BATCH, "sink": {"memory": {"queryName": "t"}}}, "spec.sink.memory",
        "nobody in the cluster can read them: use sink.kafka", 2),
    Bad(
        {"source": {"rate": {"numPartitions": 4}}, "executor.maxInstances": 2}, "spec.executor.max",
        "4 partitions need 4 executors, but spec.executor.maxInstances is 2: raise it", 2,
    ),
    Bad(_template("driver", {"image": "x"}), "spec.driver.podTemplate", "use spec.image", 2),
    Bad(_template("executor", {"command": ["x"]}), "spec.executor.podTemplate",
        "podTemplate cannot set command of the container executor: it is the image's own", 2),
    Bad(_template("driver", restartPolicy="Never"), "spec.driver.podTemplate",
        "podTemplate cannot set spec.restartPolicy: the pod is kept running by its owner", 2),
    Bad(_template("executor", serviceAccountName="x"), "spec.executor.podTemplate",
        "use spec.serviceAccountName", 2),
    Bad(_template("driver", imagePullSecrets=[]), "spec.driver.podTemplate",
        "use spec.imagePullSecrets", 2),
    Bad(_template("executor", {"resources": {"limits": {"memory": "1Gi"}}}),
        "spec.executor.podTemplate", "use memory and memoryOverhead", 2),
    Bad({"driver.podTemplate": {"nodeSelector": {}}}, "spec.driver.podTemplate",
        "podTemplate cannot set nodeSelector: it takes metadata and spec", 2),
    Bad({"transform": {"sql": "DROP TABLE x"}}, "spec.transform.sql", "takes one SELECT", 2),
    Bad({"transform": {"sql": "SELECT count(*) AS value FROM source"}}, "spec.transform.sql",
        "does not support Aggregate (an aggregate: COUNT(*))", 2),
    Bad({"transform": {"sql": "SELECT DISTINCT value FROM source"}, "trigger": REAL},
        "spec.transform.sql", "does not support Deduplicate", 2),
    Bad({"transform": {"sql": "SELECT value FROM source LIMIT 3"}, "trigger": ASYNC},
        "spec.transform.sql", "asynchronous progress tracking takes stateless queries only", 2),
    Bad({"transform": {"sql": "SELECT key, max(offset) AS value FROM source GROUP BY key"},
         "trigger": {"availableNow": {}}},
        "spec.transform.sql", "use trigger.microBatch with outputMode update", 2),
)  # fmt: skip
