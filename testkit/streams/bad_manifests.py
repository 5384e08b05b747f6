"""Invalid manifests, the ring of validation that refuses each, and the message.

Ring 1 is the API server with the CRD alone (integration/api/test_admission.py uses a real one).
Ring 2 is the operator before it creates anything. `penstock validate` refuses all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testkit.streams.streams import changed

KAFKA = "kafka.kafka:9092"
GOOD: dict[str, Any] = {
    "source": {"kafka": {"bootstrapServers": KAFKA, "topics": ["a"]}},
    "sink": {"kafka": {"bootstrapServers": KAFKA, "topic": "b"}},
    "trigger": {"continuous": {"checkpointInterval": "1s"}},
}
REF = {"name": "credentials", "key": "k"}
SHARED: dict[str, Any] = {"bootstrapServers": KAFKA}
LOGIN: dict[str, Any] = {"mechanism": "PLAIN", "username": "u", "passwordSecret": REF}
DRIVER_LIMITS = "driver.resources.limits"


@dataclass(frozen=True)
class Bad:
    """The good spec with some fields changed (`...` removes one), and the message about it.

    `at` is the field that the message names, `says` the reason and the remedy, in all rings. For
    violations of the schema the API server has its own words: `ring1`, if they differ.
    """

    changes: dict[str, Any]
    at: str
    says: str
    ring1: str = ""

    @property
    def spec(self) -> dict[str, Any]:
        """The spec as a user would apply it."""
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
TABLE = {"url": "jdbc:postgresql://db.shop:5432/shop", "table": "public.orders"}
COUNT = "SELECT key, count(*) AS value FROM source GROUP BY key"
MARK = {"watermark": {"column": "timestamp", "delay": "5s"}}
STORE = {"location": "s3a://bucket/prefix"}


def _template(pod: str, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [] if container is None else [{"name": pod, **container}]
    return {f"{pod}.podTemplate": {"spec": {**spec, "containers": containers}}}


RING_1 = (
    Bad({"sparkConf": {"spark.app.id": "a"}}, "spec.sparkConf", "delete each other's executors"),
    *(
        Bad({"sparkConf": {f"spark.sql.streaming.{name}": "2"}}, "spec.sparkConf", says)
        for name, says in (
            ("stateStore.checkpointFormatVersion", "it is 2, which real-time mode and object"),
            ("offsetLog.formatVersion", "the driver reads and repairs version 1"),
        )
    ),
    Bad({"serviceAccountName": "default"}, "spec.serviceAccountName", "name another"),
    # Missing, unknown and conflicting fields
    Bad({"source": ...}, "spec.source", "this field is required", ring1="Required value"),
    Bad({"sink": ...}, "spec.sink", "this field is required", ring1="Required value"),
    Bad({"trigger": ...}, "spec.trigger", "this field is required", ring1="Required value"),
    Bad({"source": {}}, "spec.source", "takes exactly one of: kafka, rate, socket, custom"),
    Bad({"source.rate": {}}, "spec.source", "takes exactly one of: kafka, rate, socket, custom"),
    Bad({"sink": {}}, "spec.sink", "takes exactly one of: kafka, jdbc, console, noop"),
    Bad({"sink.noop": {}}, "spec.sink", "takes exactly one of: kafka, jdbc, console, noop"),
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
    Bad(
        {"source.kafka.deadLetters": {"topic": "a"}},
        "spec.source.kafka", "deadLetters.topic is a topic that the source reads: name another one",
    ),
    Bad(
        {"source.kafka.topics": ..., "source.kafka.assign": {"a": [0]},
         "source.kafka.deadLetters": {"topic": "a"}},
        "spec.source.kafka", "deadLetters.topic is a topic that the source reads: name another one",
    ),
    Bad(
        {"source.kafka.deadLetters": {"topic": "b"}},
        "spec", "source.kafka.deadLetters.topic is the sink's topic: name another one",
    ),
    Bad({"source.kafka.topicPattern": "x"}, "spec.source.kafka", "exactly one of: topics, topicP"),
    Bad({"source.kafka.topics": []}, "spec.source.kafka.topics", "at least 1 item"),
    Bad(
        {"source.kafka.topics": ["not a topic"]}, "spec.source.kafka.topics",
        "takes ", ring1="should match",
    ),
    Bad({"sink.kafka.topic": "a/b"}, "spec.sink.kafka.topic", "takes ", ring1="should match"),
    Bad(
        {"source.kafka.consumerGroup": "fraud flags"}, "spec.source.kafka.consumerGroup",
        "takes ", ring1="should match",
    ),
    Bad({"source.kafka.consumerGroup": "penstock/a"}, "spec.source.kafka", "which is reserved"),
    # The connection that source and sink share
    Bad(
        {"source.kafka.bootstrapServers": ...}, "spec",
        "spec.source.kafka has no brokers: set its bootstrapServers, or set spec.kafka",
    ),
    Bad({"sink.kafka.bootstrapServers": ...}, "spec", "spec.sink.kafka has no brokers: set"),
    Bad(
        {"kafka": {"tls": {}}}, "spec.kafka.bootstrapServers", "this field is required",
        ring1="Required value",
    ),
    Bad(
        {"kafka": SHARED, "source.kafka.bootstrapServers": ..., "source.kafka.tls": {}},
        "spec.source.kafka", "need bootstrapServers beside them: set bootstrapServers here",
    ),
    Bad(
        {"kafka": SHARED, "sink.kafka.bootstrapServers": ..., "sink.kafka.sasl": LOGIN},
        "spec.sink.kafka", "need bootstrapServers beside them: set bootstrapServers here",
    ),
    Bad(
        {"kafka": {**SHARED, "options": {"maxOffsetsPerTrigger": "5"}}}, "spec.kafka",
        "takes options of Kafka's clients only, with the prefix kafka.: put options of Spark's",
    ),
    Bad(
        {"kafka": {**SHARED, "options": {"kafka.bootstrap.servers": "x:1"}}}, "spec.kafka",
        ": use bootstrapServers",
    ),
    Bad(
        {"kafka": {**SHARED, "options": {"kafka.ssl.key.secret": "x"}}}, "spec.kafka",
        "options cannot hold a credential in plain text: use secretOptions",
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
        ": use startingOffsets",
    ),
    Bad(
        {"source.kafka.options": {"failOnDataLoss": "false"}}, "spec.source.kafka",
        ": use failOnDataLoss",
    ),
    Bad(
        {"source.kafka.options": {"kafka.security.protocol": "SSL"}}, "spec.source.kafka",
        ": use tls and sasl",
    ),
    Bad(
        {"sink.kafka.options": {"kafka.sasl.jaas.config": "x"}}, "spec.sink.kafka",
        ": use sasl",
    ),
    Bad(
        {"sink.kafka.options": {"kafka.x.client.secret": "x"}}, "spec.sink.kafka",
        "options cannot hold a credential in plain text: use secretOptions",
    ),
    Bad({"sink.kafka.options": {"topic": "x"}}, "spec.sink.kafka", "use topic"),
    Bad(
        {"sink.kafka.options": {"checkpointLocation": "/x"}}, "spec.sink.kafka",
        ": use spec.checkpoint",
    ),
    Bad(
        {"sink.kafka.options": {"asyncProgressTrackingEnabled": "true"}}, "spec.sink.kafka",
        "use spec.trigger.microBatch.asyncProgress",
    ),
    Bad(
        {"sink.kafka.options": {"kafka.a": "1"}, "sink.kafka.secretOptions": {"kafka.a": REF}},
        "spec.sink.kafka", "is in options and in secretOptions: keep the one in secretOptions",
    ),
    Bad(
        {"sink.kafka.secretOptions": {"kafka.sasl.jaas.config": REF}},
        "spec.sink.kafka", "that have no field of their own",
    ),
    *(
        Bad({f"{client}.secretOptions": {name: REF}, **more}, f"spec.{client}",
            "decide whether a commit means that its records are in Kafka: remove them")
        for client, more in (("sink.kafka", {}), ("kafka", {"kafka.bootstrapServers": KAFKA}))
        for name in ("kafka.acks", "kafka.Transactional.Id")
    ),
    # Authentication
    Bad(
        {"sink.kafka.sasl": {"mechanism": "SCRAM", "username": "u", "passwordSecret": REF}},
        "spec.sink.kafka.sasl", "are for the mechanisms PLAIN, SCRAM-SHA-256, SCRAM-SHA-512: use",
    ),
    Bad(
        {"sink.kafka.sasl": {"mechanism": "scram", "username": "u", "passwordSecret": REF}},
        "spec.sink.kafka.sasl.mechanism", "takes ", ring1="should match",
    ),
    Bad(
        {"sink.kafka.sasl": {"mechanism": "PLAIN", "username": "u"}}, "spec.sink.kafka.sasl",
        "takes exactly one of: passwordSecret (with username), jaasConfigSecret, jaasConfig",
    ),
    Bad(
        {"sink.kafka.sasl": {"mechanism": "PLAIN", "passwordSecret": REF}}, "spec.sink.kafka.sasl",
        "username and passwordSecret need each other: set both",
    ),
    Bad(
        {"sink.kafka.sasl": {**LOGIN, "jaasConfigSecret": REF}}, "spec.sink.kafka.sasl",
        "takes exactly one of: passwordSecret (with username), jaasConfigSecret, jaasConfig",
    ),
    Bad(
        {"sink.kafka.sasl": {"mechanism": "OAUTHBEARER"}}, "spec.sink.kafka.sasl",
        "takes exactly one of: passwordSecret (with username), jaasConfigSecret, jaasConfig",
    ),
    Bad(
        {"sink.kafka.sasl": {"mechanism": "OAUTHBEARER",
                             "jaasConfig": 'a.Login required clientId="i" clientSecret="x";'}},
        "spec.sink.kafka.sasl",
        "jaasConfig cannot hold a credential in plain text: put the whole text into a Secret",
    ),
    Bad(
        {"sink.kafka.sasl": {"mechanism": "PLAIN", "jaasConfig": "a.B required Password = x;"}},
        "spec.sink.kafka.sasl", "jaasConfig cannot hold a credential in plain text",
    ),
    Bad(
        {"sink.kafka.sasl": {**LOGIN, "clientCallbackHandlerClass": "no class"}},
        "spec.sink.kafka.sasl.clientCallbackHandlerClass", "takes ", ring1="should match",
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
        "sql, python and java exclude each other",
    ),
    Bad(
        {"transform": {"sql": "SELECT 1", "java": {"className": "a.B"}}}, "spec.transform",
        "sql, python and java exclude each other",
    ),
    Bad(
        {"transform": {"java": {"className": "a-b"}}}, "spec.transform.java.className",
        "takes ", ring1="should match",
    ),
    Bad({"queryName": "no name"}, "spec.queryName", "takes ", ring1="should match"),
    Bad(
        {"transform": {"python": {"function": "m:f", "inline": "x", "configMap": REF}}},
        "spec.transform.python", "inline and configMap exclude each other: keep one",
    ),
    Bad(
        {"transform": {"python": {"function": "no function"}}}, "spec.transform.python.function",
        "takes ", ring1="should match",
    ),
    # Durations and quantities
    Bad(
        {"trigger.continuous.checkpointInterval": "soon"},
        "spec.trigger.continuous.checkpointInterval",
        "not a duration: write for example 500ms, 5m or 24h",
    ),
    Bad(
        {"trigger.continuous.checkpointInterval": "0 seconds"},
        "spec.trigger.continuous.checkpointInterval",
        "checkpointInterval must be longer than 0: write for example 1s",
    ),
    Bad(
        {"trigger": {"realTime": {"batchDuration": "900 milliseconds"}}},
        "spec.trigger.realTime.batchDuration",
        "batchDuration must be at least 1s: a shorter batch is mostly its end",
    ),
    Bad(
        {"trigger": {"realTime": {"batchDuration": "0s 999ms"}}},
        "spec.trigger.realTime.batchDuration",
        "batchDuration must be at least 1s: a shorter batch is mostly its end",
    ),
    Bad(
        {"trigger": {"microBatch": {"interval": "1 week"}}}, "spec.trigger.microBatch.interval",
        "not a duration: write for example 500ms, 5m or 24h",
    ),
    Bad({f"{DRIVER_LIMITS}.memory": "lots"}, f"spec.{DRIVER_LIMITS}.memory", "for example 512Mi"),
    Bad({f"{DRIVER_LIMITS}.memory": "1gb"}, f"spec.{DRIVER_LIMITS}.memory", "for example 512Mi"),
    # Thousandths of a byte, where 512Mi was meant
    Bad({f"{DRIVER_LIMITS}.memory": "512m"}, f"spec.{DRIVER_LIMITS}.memory", "1Mi or more"),
    Bad({f"{DRIVER_LIMITS}.memory": "991Mi"}, "spec.driver", "heap must be at least 480Mi"),
    Bad(
        {f"{DRIVER_LIMITS}.memory": "2Gi", "driver.memoryOverhead": "1569Mi"}, "spec.driver",
        "heap must be at least 480Mi",
    ),
    Bad({"driver.memoryOverhead": "3Gi"}, "spec.driver", "lower the overhead"),
    Bad({"executor.resources.requests.memory": 863 * 2**20}, "spec.executor", "at least 480Mi"),
    Bad({"executor.memoryOverhead": 1}, "spec.executor.memoryOverhead", "for example 512Mi"),
    Bad({"driver.memoryOverhead": "255Mi"}, "spec.driver", "must be at least 256Mi"),
    Bad({"executor": {"mode": "InDriver", "cores": 1}}, "spec.executor", "set mode to Pods"),
    Bad({"executor": {"mode": "driver"}}, "spec.executor.mode", "InDriver"),
    Bad(
        {"executor": {"mode": "InDriver"}, "sparkConf": {"spark.executor.pyspark.memory": "1g"}},
        "spec", "remove spark.executor..., spark.kubernetes... and spark.memory.offHeap...",
    ),
    Bad(
        {"driver.resources.requests.cpu": "half"}, "spec.driver.resources.requests.cpu",
        "for example 500m or 2",
    ),
    Bad({f"{DRIVER_LIMITS}.cpu": -1}, f"spec.{DRIVER_LIMITS}.cpu", "for example 500m or 2"),
    Bad(
        {f"{DRIVER_LIMITS}.cpu": 1, "driver.resources.requests.cpu": "1001m"},
        "spec.driver.resources",
        "requests.cpu cannot be above limits.cpu: lower the request or raise the limit",
    ),
    Bad(
        {f"{DRIVER_LIMITS}.memory": "2Gi", "driver.resources.requests.memory": "2148Mi"},
        "spec.driver.resources", "requests.memory cannot be above limits.memory",
    ),
    Bad(
        {"executor.resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}},
        "spec.executor", "Spark gives an executor one memory for both: remove one of them",
    ),
    Bad(
        {"driver.resources": {"limits": {"ephemeral-storage": "1Gi"}}},
        f"spec.{DRIVER_LIMITS}.ephemeral-storage", "there is no such field", ring1="unknown field",
    ),
    Bad({"driver.cores": 1}, "spec.driver.cores", "there is no such field", ring1="unknown field"),
    Bad(
        {"checkpoint": {"volume": {"size": "0Gi"}}}, "spec.checkpoint.volume.size", "1Mi or more",
    ),
    Bad({"executor.cores": 0}, "spec.executor.cores", "greater than or equal to 1"),
    Bad(
        {"executor": {"minInstances": 3, "maxInstances": 2}}, "spec.executor",
        "minInstances cannot be above maxInstances",
    ),
    Bad(
        {"executor.javaOptions": ["-XX:+UseZGC", "-Xmx4g"]}, "spec.executor",
        "javaOptions cannot set the heap (-Xmx, -Xms) or Spark's configuration (-Dspark): use res",
    ),
    Bad(
        {"checkpoint": {"volume": {"reclaimPolicy": "Recycle"}}},
        "spec.checkpoint.volume.reclaimPolicy", "'Retain' or 'Delete'", ring1='"Retain", "Delete"',
    ),
    Bad(
        {
            "checkpoint": {"statePartitions": 8},
            "sparkConf": {"spark.sql.shuffle.partitions": "8"},
        },
        "spec", "are the same number: remove the latter",
    ),
    # A checkpoint in an object store
    Bad(
        {"checkpoint": {"volume": {}, "objectStore": STORE}}, "spec.checkpoint",
        "spec.checkpoint takes volume or objectStore, not both: remove one",
    ),
    Bad(
        {"checkpoint": {"objectStore": {**STORE, "accessKeyIdSecret": REF}}},
        "spec.checkpoint.objectStore", "need each other: set both, or neither",
    ),
    Bad(
        {"checkpoint": {"objectStore": {**STORE, "secretAccessKeySecret": REF}}},
        "spec.checkpoint.objectStore", "need each other: set both, or neither",
    ),
    Bad(
        {
            "checkpoint": {"objectStore": STORE},
            "sparkConf": {"spark.sql.streaming.stateStore.providerClass": "mine"},
        },
        "spec", "with checkpoint.objectStore, sparkConf cannot set how",
    ),
    Bad({"checkpoint": {"objectStore": {}}}, "spec.checkpoint.objectStore.location",
        "this field is required", ring1="Required value"),
    *(
        Bad({"checkpoint": {"objectStore": {"location": location}}},
            "spec.checkpoint.objectStore.location", says)
        for location, says in (
            ("s3://bucket/a", "takes the scheme s3a only, the name of S3 in Hadoop: write s3a://"),
            ("s3n://bucket/a", "takes the scheme s3a only"),
            ("gs://bucket/a", "other stores than S3, and those with its API, are not supported"),
            ("abfss://c@a.dfs.core.windows.net/a", "are not supported yet"),
            ("bucket/a", "location takes s3a://bucket/prefix"),
            ("s3a://Bucket/a", "a bucket of 3 to 63 characters a-z"),
            ("s3a://b/a", "a bucket of 3 to 63 characters a-z"),
            ("s3a://bucket/a b", "and a prefix of letters, digits"),
            ("s3a://b--x-s3/a", "cannot be in a directory bucket (S3 Express One Zone)"),
            ("s3a://data.2024/a", "whose part after its last '.' begins with a digit"),
        )
    ),
    Bad({"checkpoint": {"objectStore": {**STORE, "endpoint": "minio:9000"}}},
        "spec.checkpoint.objectStore.endpoint", "takes the URL of a host", ring1="should match"),
    Bad({"dependencies.jars": ["netcat.jar"]}, "spec.dependencies.jars",
        "takes ", ring1="should match"),
    Bad({"dependencies.packages": ["a:b"]}, "spec.dependencies.packages",
        "takes ", ring1="should match"),
    # Exactly once
    Bad(
        {"sink.kafka.transactionInterval": "50ms"}, "spec.sink.kafka",
        "transactionInterval is for transactions: set delivery to ExactlyOnce, or remove it",
    ),
    Bad(
        {
            "sink.kafka.delivery": "ExactlyOnce", "sink.kafka.transactionInterval": "50ms",
            "trigger": {"microBatch": {}},
        },
        "spec",
        "sink.kafka.transactionInterval is for trigger.continuous",
    ),
    Bad(
        {"sink.kafka.delivery": "ExactlyOnce", "source": {"rate": {}}}, "spec",
        "sink.kafka.delivery ExactlyOnce needs source.kafka: a transaction holds the offsets",
    ),
    # Secrets
    *(
        Bad(
            {end: {"custom": {"format": "a", "options": {"a": ""}, "secretOptions": {"a": REF}}}},
            f"spec.{end}.custom", "is in options and in secretOptions",
        )
        for end in ("source", "sink")
    ),
    Bad(
        {"secretSparkConf": {"spark.driver.memory": REF}}, "spec.secretSparkConf",
        "use spec.driver.resources",
    ),
    *(
        Bad({"secretSparkConf": {name: REF}}, "spec", "secretSparkConf takes what Hadoop")
        for name in ("spark.executorEnv.A", "spark.ssl.keyPassword", "spark.kubernetes.a")
    ),
    Bad(
        {"sparkConf": {"spark.a": "b"}, "secretSparkConf": {"spark.a": REF}}, "spec",
        "a setting is in sparkConf and in secretSparkConf",
    ),
    # Tables
    Bad(
        {"sink": {"jdbc": {**TABLE, "url": "jdbc:oracle:thin:@db:1521/shop"}}, "trigger": BATCH},
        "spec.sink.jdbc.url", "takes the URL of a PostgreSQL database: write for example",
        ring1="should match",
    ),
    *(
        Bad({"sink": {"jdbc": {**TABLE, **sink}}, "trigger": BATCH, **more}, at, says)
        for sink, more, at, says in (
            ({"url": "jdbc:postgresql://me:secret@db/shop"}, {}, "spec.sink.jdbc",
             "url cannot hold a login in plain text: put it into a Secret"),
            ({"url": "jdbc:postgresql://db/shop?ssl=true&Password=x"}, {}, "spec.sink.jdbc",
             "url cannot hold a login in plain text: put it into a Secret"),
            ({"url": "jdbc:postgresql://db/shop?ApplicationName=x"}, {}, "spec.sink.jdbc",
             "url cannot set ApplicationName, socketTimeout or readOnly"),
            ({"url": "jdbc:postgresql://db/shop?sslmode=disable", "tls": {}}, {}, "spec.sink.jdbc",
             "url says how to use TLS, which wins over tls"),
            ({"write": "Upsert"}, {}, "spec.sink.jdbc", "write Upsert needs keys"),
            ({"keys": ["id"]}, {}, "spec.sink.jdbc", "keys is for rows that replace others"),
            ({"latestBy": "at"}, {}, "spec.sink.jdbc", "latestBy is for rows that replace others"),
            ({"deleteWhen": "a"}, {}, "spec.sink.jdbc", "deleteWhen is for rows that replace"),
            ({"write": "Upsert", "keys": ["id", "id"]}, {}, "spec.sink.jdbc",
             "keys has a column twice: remove one"),
            ({"write": "Insert"}, {}, "spec.sink.jdbc.write", "Append"),
            ({}, {"trigger": {"continuous": {"checkpointInterval": "1s"}}}, "spec",
             "sink.jdbc writes whole batches, each with its number: use trigger.microBatch"),
            ({}, {"trigger": ASYNC}, "spec", "sink.jdbc writes whole batches"),
            ({"write": "Upsert", "keys": ["key"]},
             {"outputMode": "complete", "transform.sql": COUNT}, "spec",
             "sink.jdbc does not take outputMode complete: use update, with write Upsert"),
        )
    ),
    Bad(
        {"sink": {"python": {"function": "f"}}, "trigger": BATCH}, "spec.sink.python.function",
        "takes a module and a function with : between them", ring1="should match",
    ),
    *(
        Bad({"sink": {"python": {"function": "m:f", **sink}}, "trigger": BATCH, **more}, at, says)
        for sink, more, at, says in (
            ({"inline": "x", "configMap": REF}, {}, "spec.sink.python",
             "inline and configMap exclude each other: keep one"),
            ({"options": {"a": ""}, "secretOptions": {"a": REF}}, {}, "spec.sink.python",
             "is in options and in secretOptions"),
            ({}, {"trigger": {"continuous": {"checkpointInterval": "1s"}}}, "spec",
             "sink.python writes whole batches, each with its number: use trigger.microBatch"),
            ({}, {"trigger": ASYNC}, "spec", "sink.python writes whole batches"),
            ({}, {"trigger": REAL}, "spec", "trigger.realTime writes to Kafka, console or memory"),
        )
    ),
    # Modes
    Bad(
        {"sink": PARQUET}, "spec",
        "trigger.continuous cannot write files: use trigger.microBatch for sink.custom",
    ),
    Bad(
        {"source": {"custom": {"format": "JSON", "schema": "value STRING"}}}, "spec",
        "trigger.continuous cannot read files: use trigger.microBatch for source.custom",
    ),
    Bad(
        {"trigger": {"microBatch": {}}, "outputMode": "complete", "transform": {}}, "spec",
        "outputMode complete needs an aggregate, and without a transform there is none",
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
        "trigger.continuous does not support outputMode complete, which needs an aggregate: use"
        " outputMode append",
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
        "trigger.realTime supports outputMode update only: set update, or remove outputMode",
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
        {
            "sink.kafka.delivery": "ExactlyOnce", "trigger": {"microBatch": {}},
            "source.kafka.options": {"maxRecordsPerPartition": "5"},
        },
        "spec.source.kafka.options.maxRecordsPerPartition",
        "only one task may read a partition",
    ),
    Bad(
        {
            "kafka": {**SHARED, "options": {f"kafka.a.{i}": "" for i in range(70)}},
            "source.kafka.bootstrapServers": ...,
            "source.kafka.options": {f"kafka.b.{i}": "" for i in range(70)},
        },
        "spec", "options of spec.kafka and of a source or sink are more than 128 together",
    ),
    Bad(
        {"source.kafka.startingOffsetsByPartition": {"a": {"first": 0}}},
        "spec.source.kafka.startingOffsetsByPartition", "'first' is not a partition's number",
    ),
    Bad(
        {"source.kafka.options": {"maxoffsetspertrigger": "10"}, "trigger": {"realTime": {}}},
        "spec.source.kafka.options.maxoffsetspertrigger",
        "Spark refuses it in real-time mode, whose batches end by time: remove it",
    ),
    *(
        Bad({f"{end}.kafka.options": {name: "5"}}, f"spec.{end}.kafka.options.{name}", says)
        for end, name, says in (
            ("source", "maxOffsetPerTrigger", "did you mean maxOffsetsPerTrigger?"),
            ("source", "max.poll.records", "did you mean kafka.max.poll.records?"),
            ("sink", "compression.type", "did you mean kafka.compression.type?"),
            ("source", "nonsense", "Spark has no such option, and would ignore it: remove it"),
        )
    ),
    Bad({"sink.kafka.options": {"kafka.acks": "0"}}, "spec.sink.kafka.options.kafka.acks",
        "loses records that the stream has committed: remove it, or set all"),
    Bad({"kafka": {**SHARED, "options": {"kafka.acks": "1"}}, "sink.kafka.bootstrapServers": ...},
        "spec.kafka.options.kafka.acks", "loses records that the stream has committed"),
    Bad({"kafka": SHARED, "sink.kafka": {"topic": "b", "options": {"kafka.acks": "1"}}},
        "spec.sink.kafka.options.kafka.acks", "loses records that the stream has committed"),
    Bad({"trigger": BATCH, "sink": {"memory": {}}}, "spec.sink.memory",
        "nobody in a cluster can read them: use sink.kafka"),
    Bad(
        {"source": {"rate": {"numPartitions": 4}}, "executor.maxInstances": 2}, "spec.executor.max",
        "4 partitions need 4 executors, but spec.executor.maxInstances is 2: raise it",
    ),
    Bad(_template("driver", {"image": "x"}), "spec.driver.podTemplate", "use spec.image"),
    Bad(_template("executor", {"command": ["x"]}), "spec.executor.podTemplate",
        "podTemplate cannot set command of the container executor: the image's own command"),
    Bad(_template("driver", restartPolicy="Never"), "spec.driver.podTemplate",
        "podTemplate cannot set spec.restartPolicy: the pod's owner restarts it"),
    Bad(_template("executor", serviceAccountName="x"), "spec.executor.podTemplate",
        "use spec.serviceAccountName"),
    Bad(_template("driver", imagePullSecrets=[]), "spec.driver.podTemplate",
        "use spec.imagePullSecrets"),
    Bad(_template("executor", {"resources": {"limits": {"memory": "1Gi"}}}),
        "spec.executor.podTemplate", "use spec.executor.resources.limits.memory"),
    Bad({"driver.podTemplate": {"nodeSelector": {}}}, "spec.driver.podTemplate",
        "podTemplate cannot set nodeSelector: it takes metadata and spec"),
    Bad({"source.kafka.options": {"maxOffsetsPerTrigger": "0"}, "trigger": BATCH},
        "spec.source.kafka.options.maxOffsetsPerTrigger",
        "takes an integer of 1 or more: remove it for no limit"),
    *(
        Bad({"sink": {"custom": sink}, "trigger": BATCH, **more}, at, says)
        for sink, more, at, says in (
            ({"format": "jdbc"}, {}, "spec.sink.custom.format",
             "Spark cannot write a stream to jdbc: use sink.jdbc, for a table of PostgreSQL"),
            ({"format": "binaryFile", "options": {"path": "/a"}}, {}, "spec.sink.custom.format",
             "Spark cannot write a stream to binaryFile"),
            ({"format": "parquet"}, {}, "spec.sink.custom.options",
             "parquet has no folder to write to: set the option path"),
            ({"format": "JSON", "options": {"PATH": "/a"}}, {"outputMode": "update"},
             "spec.outputMode", "takes outputMode append only: use append, with a watermark"),
            ({"format": "csv", "options": {"path": "/a"}},
             {"outputMode": "complete", "transform.sql": "SELECT count(*) AS n FROM source"},
             "spec.outputMode", "files cannot be changed once they are written"),
            ({"format": "parquet", "options": {"path": "/a", "PartitionBy": "day"}}, {},
             "spec.sink.custom.options.PartitionBy", "Spark ignores it: use sink.custom.partition"),
            ({"format": "delta", "options": {"path": "/a", "partitionBy": "day"}}, {},
             "spec.sink.custom.options.partitionBy", "use sink.custom.partitionBy, a list of"),
            ({"format": "parquet", "options": {"path": "/a"}, "partitionBy": ["day"]},
             {"transform.sql": "SELECT key, value FROM source"}, "spec.sink.custom.partitionBy",
             "the rows have no column day (they have key, value): correct the name, or select"),
        )
    ),
    Bad({"source": {"custom": {"format": "jdbc"}}, "sink": {"console": {}}, "trigger": BATCH},
        "spec.source.custom.format", "cannot be read as a stream: read a table in"),
    *(
        Bad({"sink": {"python": {"function": "m:f", "inline": text}}, "trigger": BATCH}, at, says)
        for text, at, says in (
            ("def g(rows, batch): pass", "spec.sink.python.function", "the text of inline has"),
            ("def f(rows): pass", "spec.sink.python.inline", "f must take two arguments"),
            ("async def f(rows, batch): pass", "spec.sink.python.inline", "must not be async or"),
            ("def f(rows, batch): yield rows", "spec.sink.python.inline", "must not be async or"),
            ("def f(rows, batch) pass", "spec.sink.python.inline", "expected ':'"),
            ("def f(rows, batch): rows.writeStream.start()", "spec.sink.python.inline",
             "writeStream cannot be used here: write the rows of the batch that the function gets"),
        )
    ),
    Bad({"source.kafka.deadLetters": {"topic": "c"}, "trigger": BATCH,
         "sink": {"python": {"function": "m:f"}}},
        "spec.source.kafka.deadLetters", "is not possible with sink.python, which may keep"),
    Bad({"source.kafka.deadLetters": {"topic": "c"}, "sink": {"custom": {"format": "x"}}},
        "spec.source.kafka.deadLetters", "is not possible with sink.custom, which may keep"),
    Bad({"sink": {"jdbc": {**TABLE, "write": "Upsert", "keys": ["id"]}}, "trigger": BATCH,
         "transform.sql": "SELECT key, value FROM source"}, "spec.sink.jdbc.keys",
        "the rows have no column id (they have key, value): correct the name, or the query"),
    Bad({"sink": {"jdbc": {**TABLE, "write": "Upsert", "keys": ["key"], "latestBy": "at"}},
         "trigger": BATCH, "transform.sql": "SELECT key, value FROM source"},
        "spec.sink.jdbc.latestBy", "the rows have no column at"),
    Bad({"sink": {"jdbc": {**TABLE, "write": "Upsert", "keys": ["key"]}}, "trigger": BATCH,
         "source.kafka.options": {"minPartitions": "8"}},
        "spec.source.kafka.options.minPartitions", "nobody knows which row of a key is the newest"),
    Bad({"transform": {"sql": "DROP TABLE x"}}, "spec.transform.sql", "takes one SELECT"),
    Bad({"transform": {"sql": "SELECT count(*) AS value FROM source"}}, "spec.transform.sql",
        "does not support Aggregate (an aggregate: COUNT(*))"),
    Bad({"transform": {"sql": "SELECT value FROM source UNION SELECT key FROM source"},
         "trigger": REAL}, "spec.transform.sql", "does not support Union"),
    Bad({"transform": {"sql": "SELECT value FROM source LIMIT 3"}, "trigger": ASYNC},
        "spec.transform.sql", "asynchronous progress tracking supports stateless queries only"),
    Bad({"transform": {"sql": "SELECT key, max(offset) AS value FROM source GROUP BY key"},
         "trigger": {"availableNow": {}}},
        "spec.transform.sql", "use trigger.microBatch with outputMode update"),
)  # fmt: skip
