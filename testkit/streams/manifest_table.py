"""Manifests, good and bad, and who refuses each: one idea a row.

A row of a list is a change of the good spec (bad_manifests.GOOD) at a path below the resource's
root, `...` removes it. Rows of texts are whole resources in YAML, for what only YAML has.
integration/validation/test_verdicts.py compares all with a real API server; unit tests compare them
with `penstock validate` alone.
"""

from __future__ import annotations

import json
from typing import Any

from testkit.streams.bad_manifests import GOOD, REF, STORE
from testkit.streams.streams import changed, manifest

_KAFKA = "spec.source.kafka"
_SINK = "spec.sink.kafka"
_BOTH = {"a": [0, 1]}
_POD = "spec.driver.podTemplate"
_ENV = {"containers": [{"name": "driver", "env": [{"name": "A", "value": "b"}]}]}
_FUNCTION = {"name": "f", "returns": "INT", "expression": "1"}
_OWNER = {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"}
_SOCKET = {"socket": {"host": "h", "port": 9}}
_STORE = "spec.checkpoint.objectStore"

_SOURCES: tuple[Any, ...] = (
    {"rate": {}},
    {"rate": {"rowsPerSecond": 1000000}},
    {"rate": {"numPartitions": 2.0}},
    {"custom": {"format": "a.B"}},
    _SOCKET,
)
_BAD_ASSIGNMENTS: tuple[Any, ...] = (
    {"a": [-1]}, {"a": []}, {"a": ["0"]}, {"a": 0}, {}, {"a": [2**31]},
)  # fmt: skip
Row = tuple[tuple[str, Any], ...]
# Each needs a core, except in micro-batches.
_TOO_MANY_TOPICS: Row = (
    (f"{_KAFKA}.topics", ["a", "b", "c"]), ("spec.executor.maxInstances", 2),
)  # fmt: skip
_BATCHES: tuple[Any, ...] = ({"microBatch": {}}, {"availableNow": {}})


def _rows(path: str, *values: Any) -> list[Row]:
    """One row a value."""
    return [((path, value),) for value in values]


# Everybody accepts these.
ACCEPTED: list[Row] = [
    *_rows("metadata.labels", {"team": "a"}, {"example.com/team": ""}, {}),
    *_rows("metadata.annotations", {"example.com/note": "a b/c: d"}, {"A": "x" * 1000}),
    *_rows("metadata.finalizers", ["example.com/f"]),
    *_rows("metadata.name", "a", "0", "a-b-0", "x" * 45),
    *_rows(f"{_KAFKA}.bootstrapServers", "k:1", "a:9092,b:9092", "a:9092, b:9092", "10.0.0.1:9092"),
    *_rows(f"{_KAFKA}.bootstrapServers", "[::1]:9092", "my_host.ns.svc:9092", "k:9092,", " k:1 "),
    *_rows(f"{_KAFKA}.bootstrapServers", "SASL_SSL://k:9092", "PLAINTEXT://a:1,SSL://[::1]:2"),
    *_rows(f"{_KAFKA}.topics", ["2024-01-01"], ["..."], ["a", "a"], ["_a"], ["x" * 249], ["a..b"]),
    *_rows(f"{_KAFKA}.startingOffsets", "earliest", "latest"),
    *_rows(f"{_KAFKA}.startingOffsetsByPartition", {"a": {"0": -2}}),
    *_rows(f"{_KAFKA}.startingOffsetsByPartition", {"a": {"0": 2**63 - 1, "1": -1}}),
    *_rows(f"{_KAFKA}.failOnDataLoss", True, False),
    *_rows(f"{_KAFKA}.includeHeaders", True),
    *_rows(f"{_KAFKA}.consumerGroup", "fraud-flags", "team/a:b@c~!", "g" * 255),
    *_rows("spec.observability", {"ui": False}, {"eventLog": "file:///logs"}),
    *_rows(f"{_KAFKA}.options", {}, {"kafka.fetch.min.bytes": "5"}, {"minPartitions": "4"}),
    *_rows(f"{_KAFKA}.options", {"maxOffsetsPerTrigger": "100"}, {"kafka.group.id": "g"}),
    *_rows(f"{_KAFKA}.options", {"MINPARTITIONS": "4"}, {"maxTriggerDelay": "15m"}),
    *_rows(f"{_KAFKA}.options", {"startingTimestamp": " 1000 "}, {"groupIdPrefix": "g"}),
    *_rows(f"{_KAFKA}.options", {"maxTriggerDelay": " 5MS "}, {"minPartitions": "+1"}),
    *_rows(f"{_KAFKA}.options", {"startingOffsetsByTimestamp": '{"a": {"0": 1}}'}),
    *_rows(f"{_KAFKA}.options", {"startingOffsetsByTimestampStrategy": "LATEST"}),
    *_rows(f"{_KAFKA}.options", {"maxOffsetsPerTrigger": "9223372036854775807"}),
    *_rows(f"{_KAFKA}.secretOptions", {"kafka.ssl.key.password": REF}, {"kafka.x": REF}),
    *[
        ((f"{_KAFKA}.topics", ...), (f"{_KAFKA}.topicPattern", pattern))
        for pattern in ("a.*", "payments-[a-z]+", "\\p{Alpha}+", "\\Q(\\E", "a{1,3}", "(?i)a|b")
    ],
    ((f"{_KAFKA}.topics", ...), (f"{_KAFKA}.assign", _BOTH)),
    (
        (f"{_KAFKA}.topics", ...),
        (f"{_KAFKA}.assign", _BOTH),
        (f"{_KAFKA}.startingOffsetsByPartition", {"a": {"0": 0, "1": 0}}),
    ),
    *[
        (("spec.source", source), ("spec.sink", {"noop": {}}))
        for source in _SOURCES
    ],
    *[(*_TOO_MANY_TOPICS, ("spec.trigger", trigger)) for trigger in _BATCHES],
    *_rows(f"{_SINK}.topic", "b", "b.c_d-e"),
    *_rows(f"{_SINK}.options", {"kafka.compression.type": "lz4"}, {"kafka.acks": "all"}),
    *_rows("spec.sink", {"noop": {}}, {"console": {}}, {"console": {"truncate": False}}),
    *_rows("spec.trigger", {"continuous": {"checkpointInterval": "1m30s"}}, {"microBatch": {}}),
    *_rows("spec.trigger", {"continuous": {"checkpointInterval": "1 minute 30 seconds"}}),
    *_rows("spec.trigger", {"availableNow": {}}, {"realTime": {"batchDuration": "5s"}}),
    *_rows("spec.transform", {}, {"sql": "SELECT key, value FROM source"}),
    *_rows("spec.transform.functions", [], [_FUNCTION], [_FUNCTION, {**_FUNCTION, "name": "g"}]),
    *_rows("spec.transform.java", {"className": "a.B$C"}),
    *_rows("spec.queryName", "a", "a.b_c-d"),
    *_rows("spec.image", "registry:5000/a/b@sha256:0", "a"),
    *_rows("spec.executor.cores", 1, 64, 2.0),
    *_rows("spec.executor.resources", {"requests": {"cpu": 1}}, {"requests": {"cpu": "0.5"}}),
    *_rows("spec.executor.resources", {"limits": {"memory": 2147483648}}, {"limits": {}}),
    *_rows("spec.executor.resources", {"limits": {"memory": "2e9"}}, {"requests": {"cpu": 2.0}}),
    *_rows("spec.executor.javaOptions", ["-XX:+UseZGC"], ["-Xss4m -Dfoo=bar"], []),
    *_rows("spec.checkpoint.volume", {"storageClassName": ""}, {"storageClassName": "a-1.b"}),
    *_rows("spec.checkpoint.volume", {"size": "1Mi"}, {"size": 10737418240}),
    *_rows(f"{_STORE}.location", "s3a://bucket", "s3a://bucket/", "s3a://b.u-ck3t/a_b/c=1.d/"),
    *_rows(f"{_STORE}.location", "s3a://" + "b" * 63, "s3a://bucket/" + "x" * 499),
    *_rows(_STORE, {**STORE, "endpoint": "http://minio:9000"}, {**STORE, "endpoint": None}),
    *_rows(_STORE, {**STORE, "endpoint": "https://[::1]:9000/"}, {**STORE, "region": "RegionOne"}),
    *_rows(_STORE, {**STORE, "accessKeyIdSecret": None, "secretAccessKeySecret": None}),
    *_rows("spec.checkpoint", {"objectStore": STORE, "volume": None, "generation": 0}),
    *_rows("spec.checkpoint.statePartitions", 2, 1024),
    *_rows("spec.restart", {"maxAttempts": 1}, {"stableAfter": "1h"}),
    *_rows("spec.rollout", {"deadline": "1m30s"}, {"rollback": "Never"}),
    *_rows("spec.sparkConf", {"spark.sql.shuffle.partitions": "5"}),
    *_rows(_POD, {}, {"spec": _ENV}, {"spec": {"nodeSelector": {"disk": "ssd"}}}),
    *_rows(_POD, {"metadata": {"annotations": {"a": "b"}}}),
    *_rows(_POD, {"spec": {"priorityClassName": "high"}}),
    *_rows(_POD, {"spec": {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]}}),
    # Whatever its type: the API server drops it
    *_rows("status", {}, {"state": "Running"}, {"state": 5}, {"conditions": 5}, 5, [], "x", None),
    # Null is as good as absent
    *_rows("spec.executor.cores", None),
    *_rows(f"{_KAFKA}.failOnDataLoss", None),
    *_rows(f"{_KAFKA}.options", None, {"kafka.x": None}),
    *_rows(f"{_KAFKA}.secretOptions", {"kafka.x": None}),
    *_rows(f"{_KAFKA}.startingOffsetsByPartition", {"a": None}, {"a": {"0": None}}),
    *_rows("spec.sparkConf", None, {"spark.a": None}),
    *_rows("spec.transform", None, {"sql": None}),
    *_rows("spec.transform.functions", None, [{**_FUNCTION, "parameters": None}]),
    *_rows("spec.trigger", {"continuous": None, "microBatch": {}}),
    *_rows("spec.sink", {"noop": {}, "kafka": None}),
    *_rows(_POD, None, {"spec": None}, {"spec": {"nodeSelector": {"a": None}}}),
    *_rows("metadata.labels", None, {"a": None}),
    *_rows("metadata.annotations", None, {"a": None}),
    *_rows("metadata.finalizers", None, ["f"]),
    *_rows("metadata.ownerReferences", None, [_OWNER], [{**_OWNER, "controller": True}]),
    *_rows("metadata.managedFields", [{"manager": "m"}]),
    *_rows("metadata.creationTimestamp", None, "2024-01-01T00:00:00.5+01:00"),
    *_rows("metadata.generateName", "", "a" * 250, "a-"),
    *[
        (("metadata.name", ...), ("metadata.generateName", prefix))
        for prefix in ("a-", "a" * 40, "0")
    ],
]  # fmt: skip

# The API server refuses these, by the CRD alone.
REFUSED: list[Row] = [
    # Types: none is converted
    *_rows("spec.executor.cores", "2", 1.5, True, [], {}, 65, -1),
    *_rows(f"{_KAFKA}.failOnDataLoss", "false", 0),
    *_rows(f"{_KAFKA}.topics", "a", [1], [None], {}),
    *_rows("spec.source", {"rate": {"rowsPerSecond": True}}, {"rate": {"rowsPerSecond": "5"}}),
    *_rows("spec.source", {"rate": None}, {"rate": []}, None, "kafka", []),
    *_rows("spec.sink", {"console": {"truncate": 0}}, {"console": {"truncate": 20}}),
    *_rows("spec.queryName", 5, True, ""),
    *_rows("spec.sparkConf", {"spark.a": 5}, {"spark.a": True}, [], "a=b"),
    *_rows("spec.transform", [], "SELECT 1", {"sql": 1}, {"sql": ["a"]}, {"sql": ""}),
    *_rows("spec.transform.functions", {}, [1], [{}], [None]),
    *_rows("spec.driver.podTemplate", "x", []),
    *_rows("spec", None, [], "a", {}),
    # Other spellings of a field
    *_rows("spec.outputmode", "append"),
    *_rows("spec.output_mode", "append"),
    *_rows("spec.trigger", {"micro_batch": {}}, {"microbatch": {}}),
    *_rows(f"{_KAFKA}.starting_offsets", "earliest"),
    *_rows("spec.source", {"custom": {"format": "x", "schema_": "a INT"}}),
    *_rows("Spec", {}),
    *_rows("speck", {}),
    *_rows("metadata.nmae", "x"),
    # Metadata
    *_rows("metadata.name", "A", "a_b", "a.b", "-a", "a-", "x" * 46, "x" * 254, "a b"),
    *_rows("metadata.labels", {"a": 1}, {"a": True}, [], "a=b"),
    *_rows("metadata.annotations", {"a": 1}, {"a": True}),
    *_rows("metadata.name", ...),
    *[
        (("metadata.name", ...), ("metadata.generateName", prefix))
        for prefix in ("a" * 41, "a.b", "A", "")
    ],
    *_rows("spec.unknown", None),
    *_rows(f"{_KAFKA}.unknown", None),
    *_rows("apiVersion", "penstock.dev/v1", "penstock.dev", "v1", "", 1, None),
    *_rows("kind", "continuousstream", "ContinuousStreams", "", 1, None),
    # Kafka
    *_rows(f"{_KAFKA}.bootstrapServers", "k", "http://k:9092", "a:9092;b:9092", "a:9092 b:9092"),
    *_rows(f"{_KAFKA}.bootstrapServers", "SASL_SSL:k:9092", "sasl://k:9092", "SSL://k"),
    *_rows(f"{_KAFKA}.bootstrapServers", "", ":9092", "k:", "${KAFKA}", "k:9092/", "a:1,,b:1"),
    *_rows(f"{_KAFKA}.topics", ["."], [".."], ["a/b"], ["x" * 250], ["é"], [""], ["a,b"]),
    *_rows(f"{_SINK}.topic", ".", "..", "", "a b"),
    *[
        ((f"{_KAFKA}.topics", ...), (f"{_KAFKA}.assign", each))
        for each in _BAD_ASSIGNMENTS
    ],
    *_rows(f"{_KAFKA}.startingOffsetsByPartition", {"a": {"0": -3}}, {"a": {"0": "5"}}, {"a": 5}),
    *_rows(f"{_KAFKA}.startingOffsetsByPartition", {"a": {"0": 2**63}}, {"a": {"0": 1e30}}),
    *_rows(f"{_KAFKA}.startingOffsets", "Earliest", "none", 0),
    *_rows(f"{_KAFKA}.options", {"kafka.value.deserializer": "x"}, {"kafka.key.deserializer": "x"}),
    *_rows(f"{_KAFKA}.options", {"kafka.auto.offset.reset": "x"}, {"endingOffsets": "latest"}),
    *_rows(f"{_KAFKA}.options", {"endingTimestamp": "1"}, {"endingOffsetsByTimestamp": "{}"}),
    *_rows(f"{_KAFKA}.options", {"kafka.enable.auto.commit": "1"}, {"startingoffsets": "latest"}),
    *_rows(f"{_KAFKA}.options", {"SUBSCRIBE": "a"}, {"Kafka.Bootstrap.Servers": "k:1"}),
    *_rows(f"{_KAFKA}.options", {"kafka.interceptor.classes": "x"}, {"kafka.x": 5}),
    *_rows(f"{_SINK}.options", {"kafka.key.serializer": "x"}, {"kafka.value.serializer": "x"}),
    *_rows(f"{_SINK}.options", {"TOPIC": "x"}, {"checkpointlocation": "/x"}),
    *_rows(f"{_KAFKA}.secretOptions", {"subscribe": REF}, {"startingOffsets": REF}),
    *_rows(f"{_KAFKA}.secretOptions", {"checkpointLocation": REF}),
    *_rows(f"{_KAFKA}.secretOptions", {"kafka.auto.offset.reset": REF}),
    *_rows(f"{_KAFKA}.secretOptions", {"kafka.security.protocol": REF}, {"kafka.x": {"name": "a"}}),
    *_rows(f"{_SINK}.secretOptions", {"topic": REF}, {"kafka.Bootstrap.Servers": REF}),
    *_rows(f"{_SINK}.secretOptions", {"kafka.acks": REF}, {"kafka.Transactional.ID": REF}),
    ((f"{_KAFKA}.topics", ...), (f"{_KAFKA}.topicPattern", "")),
    # Pods and quantities
    *_rows("spec.executor.javaOptions", ["-Xss4m -Xmx2g"], ["-Dspark.ui.enabled=true"], "-Xss4m"),
    *_rows("spec.executor.javaOptions", ["-XX:MaxHeapSize=2g"], ["-XX:MaxRAMPercentage=90"], [1]),
    *_rows("spec.executor.resources", {"requests": {"cpu": 0.5}}, {"limits": {"memory": "1 Gi"}}),
    *_rows("spec.executor.resources", {"limits": {"memory": "2GB"}}, {"requests": {"gpu": 1}}),
    *_rows("spec.checkpoint.volume", {"storageClassName": "Fast_SSD"}, {"storageClassName": "a b"}),
    *_rows("spec.checkpoint.volume", {"size": "0Gi"}, {"size": "-1Gi"}, {"size": "1m"}),
    *_rows(f"{_STORE}.location", "", "s3a://", "s3a:///a", "S3A://bucket", "s3a:/bucket", "/a", 5),
    *_rows(f"{_STORE}.location", "s3a://bucket//a", "s3a://bucket/a//", "s3a://bucket/./a", None),
    *_rows(f"{_STORE}.location", "s3a://bucket/../a", "s3a://bucket/a..b", "s3a://bu..cket/a"),
    *_rows(f"{_STORE}.location", "s3a://bucket/a%20b", "s3a://bucket/a?b", "s3a://bucket/a#b"),
    *_rows(f"{_STORE}.location", "s3a://u:p@bucket/a", "s3a://bucket:80/a", "s3a://-bucket/a"),
    *_rows(f"{_STORE}.location", "s3a://bucket/a\n", " s3a://bucket/a", "s3a://bucket/{a,b}"),
    *_rows(f"{_STORE}.location", "s3a://" + "b" * 64, "s3a://bucket/" + "x" * 500),
    *_rows(f"{_STORE}.location", "s3a://b--x-s3", "s3a://b--x-s3/a", "s3a://bucket/é"),
    *_rows(_STORE, {**STORE, "endpoint": "https://minio/a"}, {**STORE, "endpoint": "s3://minio"}),
    *_rows(_STORE, {**STORE, "endpoint": "http://u:p@minio"}, {**STORE, "region": "eu central"}),
    *_rows(_STORE, {**STORE, "region": ""}, {**STORE, "pathStyle": True}, {}, "s3a://bucket/a"),
    *_rows(_STORE, {**STORE, "accessKeyIdSecret": REF}, {**STORE, "secretAccessKeySecret": REF}),
    *_rows("spec.checkpoint", {"objectStore": STORE, "volume": {}}),
    *_rows("spec.checkpoint.statePartitions", 1, 1025, "4"),
    *_rows("spec.trigger", {"continuous": {"checkpointInterval": 1}}, {"continuous": {}}),
    *_rows("spec.trigger", {"continuous": {"checkpointInterval": "1m" * 33}}, {"continuous": None}),
    *_rows("spec.observability", {"ui": "yes"}, {"eventLog": "/logs"}, {"eventLog": "s3a://"}),
    *_rows("spec.sparkConf", {"spark.eventLog.enabled": "true"}, {"spark.ui.enabled": "true"}),
    *_rows("spec.restart", {"maxAttempts": 0}, {"maxAttempts": "5"}, {"maxRetries": 5}),
    *_rows("spec.rollout", {"deadline": "soon"}, {"rollback": "Always"}, {"deadline": 60}),
    *_rows("spec.transform.functions", [_FUNCTION, _FUNCTION]),
    *_rows("spec.transform.python", {"function": "m"}, {"function": "m:f:g"}, {}),
]  # fmt: skip

# The API server accepts these; the operator and `penstock validate` refuse them, since the stream
# could not run.
REFUSED_LATER: list[Row] = [
    *_rows(f"{_KAFKA}.bootstrapServers", "k:0", "k:70000"),
    *_rows(f"{_KAFKA}.options", {"minPartitions": "0"}, {"maxOffsetsPerTrigger": "many"}),
    *_rows(f"{_KAFKA}.options", {"maxTriggerDelay": "soon"}, {"minPartitions": "1.5"}),
    *_rows(f"{_KAFKA}.options", {"minPartitions": "-1"}, {"maxRecordsPerPartition": "-1"}),
    *_rows(f"{_KAFKA}.options", {"maxTriggerDelay": "15 m"}, {"minPartitions": "2147483648"}),
    *_rows(f"{_KAFKA}.options", {"maxTriggerDelay": "1h30m"}, {"maxTriggerDelay": ""}),
    *_rows(f"{_KAFKA}.options", {"startingOffsetsByTimestamp": '{"a": {"0": "1"}}'}),
    *_rows(f"{_KAFKA}.options", {"startingOffsetsByTimestamp": "5"}, {"startingTimestamp": "x"}),
    *_rows(f"{_KAFKA}.options", {"startingOffsetsByTimestampStrategy": "earliest"}),
    *_rows(f"{_KAFKA}.options", {"maxRecordsPerPartition": "0"}, {"minPartitions": " 1"}),
    *_rows(f"{_KAFKA}.options", {"fetchOffset.numRetries": "x"}, {"minOffsetsPerTrigger": "1L"}),
    *_rows(f"{_KAFKA}.startingOffsetsByPartition", {"b": {"0": 1}}, {"a": {"-1": 1}}),
    *_rows(f"{_KAFKA}.startingOffsetsByPartition", {"a": {"0": 1}, "b": {"0": 1}}, {"a": {"x": 1}}),
    ((f"{_KAFKA}.topics", ...), (f"{_KAFKA}.assign", {"a/b": [0]})),
    ((f"{_KAFKA}.topics", ["a", "b"]), (f"{_KAFKA}.startingOffsetsByPartition", {"a": {"0": 1}})),
    (
        (f"{_KAFKA}.topics", ...),
        (f"{_KAFKA}.assign", _BOTH),
        (f"{_KAFKA}.startingOffsetsByPartition", {"a": {"0": 1}}),
    ),
    *[
        ((f"{_KAFKA}.topics", ...), (f"{_KAFKA}.topicPattern", pattern))
        for pattern in ("*", "a(b", "a)b", "[a", "a-{env}", "a\\", "a{3,1}", "+a", "(?:a")
    ],
    (
        (f"{_KAFKA}.topics", ...),
        (f"{_KAFKA}.assign", {"a": [0, 1, 2, 3]}),
        ("spec.executor.maxInstances", 1),
    ),
    _TOO_MANY_TOPICS,
    (*_TOO_MANY_TOPICS, ("spec.trigger", {"realTime": {}})),
    *_rows("spec.transform.functions", [_FUNCTION, {**_FUNCTION, "name": "F"}]),
    *_rows(
        "spec.transform.functions",
        [{**_FUNCTION, "parameters": [{"name": n, "type": "INT"} for n in ("a", "A")]}],
    ),
    (
        ("spec.transform.functions", [_FUNCTION]),
        ("spec.transform.javaFunctions", [{"name": "F", "className": "a.B"}]),
    ),
    *_rows(_POD, {"spec": {"containers": [{"env": []}]}}, {"spec": {"nodeSelektor": {"a": "b"}}}),
    *_rows(_POD, {"spec": {"tolerations": [{"operater": "Exists"}]}}, {"spec": {"affinity": "x"}}),
    *_rows(_POD, {"spec": {"nodeSelector": {"a": 1}}}, {"spec": {"volumes": [{"emptyDir": {}}]}}),
    *_rows(_POD, {"spec": {"initContainers": [{"name": "a", "image": "b", "env": [{}]}]}}),
    *_rows(f"{_SINK}.topic", ...),
    *_rows(_POD, {"spec": {"containers": [{"name": "sidecar"}]}}, {"spec": {"containers": {}}}),
    *_rows(_POD, {"metadata": {"labels": {"a": 1}}}, {"specs": {}}, {"spec": "x"}),
]  # fmt: skip

# Spark takes these as well, and ignores them, or loses records by them.
REFUSED_FOR_SAFETY: list[Row] = [
    *_rows(f"{_KAFKA}.options", {"maxOffsetPerTrigger": "5"}, {"max.poll.records": "1"}),
    # A limit elsewhere; Spark reads nothing for ever.
    *_rows(f"{_KAFKA}.options", {"maxOffsetsPerTrigger": "0"}, {"MAXOFFSETSPERTRIGGER": "00"}),
    *_rows(f"{_SINK}.options", {"max.request.size": "5"}, {"topics": "5"}),
    *_rows(f"{_SINK}.options", {"kafka.acks": "1"}, {"Kafka.Acks": "0"}),
    *_rows(f"{_SINK}.options", {"kafka.transactional.id": "a"}),
]

_HEAD = "apiVersion: penstock.dev/v1alpha1\nkind: ContinuousStream\nmetadata: {name: a}\n"
_SPEC = f"""spec:
  source: {json.dumps(GOOD["source"])}
  sink: {{noop: {{}}}}
  trigger: {{continuous: {{checkpointInterval: 1s}}}}
"""
TEXT = _HEAD + _SPEC


def _kafka(fields: str) -> str:
    """The good text with other fields of its Kafka source."""
    return TEXT.replace('"topics": ["a"]', fields)


ACCEPTED_TEXTS: dict[str, str] = {
    "plain": TEXT,
    "json": json.dumps(manifest("a", GOOD), indent=1),
    "a topic that looks like a date": _kafka("topics: [2024-01-01]"),
    "a topic that looks like a time": _kafka("topics: [2001-12-14t21_59]"),
    "integer keys": _kafka("topics: [a], startingOffsetsByPartition: {a: {0: 23, 1: -2}}"),
    "octal and hexadecimal numbers": _kafka(
        "topics: [a], startingOffsetsByPartition: {a: {0: 010}}"
    )
    + "  executor: {cores: 0x10}\n",
    "YAML 1.1 booleans": _kafka("topics: [a], failOnDataLoss: no, includeHeaders: on"),
    "y and n": _kafka("topics: [a], failOnDataLoss: n"),
    "numbers with underscores": TEXT + "  executor: {cores: 1_0}\n",
    "a whole float": TEXT + "  executor: {cores: 2.0}\n",
    "an exponent": TEXT + "  executor: {cores: 1e1}\n",
    "an alias": TEXT.replace("{noop: {}}", "&s {noop: {}}").replace("name: a}", "name: &n a}"),
    "a merge key": TEXT + "  executor:\n    <<: {cores: 1}\n    cores: 2\n",
    "a tag of the core schema": TEXT + '  queryName: !!str 5\n  executor: {cores: !!int "2"}\n',
    "comments": f"# a\n{TEXT}# b\n",
    "a document end": f"{TEXT}...\n",
    "a separator with a comment": f"--- # a\n{TEXT}",
    "Windows line ends": TEXT.replace("\n", "\r\n"),
    "a byte order mark": f"\ufeff{TEXT}",
    "a complex key": TEXT.replace("  sink: {noop: {}}", "  ? sink\n  : noop: {}"),
    "a block text": TEXT + "  transform:\n    sql: |2\n       SELECT value FROM source\n",
    "a folded text": TEXT + "  transform:\n    sql: >-\n      SELECT value\n      FROM source\n",
    "text outside of ASCII": TEXT.replace("name: a}", "name: a, annotations: {a: 日本 😀}}"),
    "octal 8": TEXT + "  executor: {cores: 08}\n",
    "empty values of Helm": TEXT + "  executor:\n",
    "JSON after a separator": json.dumps(manifest("b", GOOD)) + f"\n---\n{TEXT}",
    "a null document": f"{TEXT}---\nnull\n",
}
# kubectl accepts these, and only `penstock validate` refuses them. Of a key that is there twice
# kubectl keeps one value without a word, of the second row a random one; it ignores tags; and the
# others are so rare that nobody misses them.
REFUSED_BY_VALIDATE = {
    "a tag that nobody knows": TEXT + "  queryName: !foo bar\n",
    "a tag of Python": TEXT + "  queryName: !!python/name:os.system x\n",
    "binary": TEXT + "  queryName: !!binary YWJj\n",
    "JSON after JSON": json.dumps(manifest("a", GOOD)) + json.dumps(manifest("b", GOOD)),
    "a fraction as a key": TEXT + "  sparkConf: {1.5: a}\n",
    "a key twice": TEXT + "  trigger: {continuous: {checkpointInterval: 1s}}\n",
    "a key twice, once in quotes": _kafka(
        "topics: [a], startingOffsetsByPartition: {a: {0: 1, '0': 2}}"
    ),
}
REFUSED_TEXTS: dict[str, str] = {
    "a float in base 60 that is a string": TEXT + "  executor: {cores: 1:30}\n",
    "no as a name": TEXT + "  queryName: no\n",
    "a number as a name": TEXT + "  queryName: 123\n",
    "infinity": TEXT + "  executor: {cores: .inf}\n",
    "a huge integer": TEXT + f"  executor: {{cores: {'9' * 5000}}}\n",
    "a huge float": TEXT + "  executor: {cores: 1e400}\n",
    "a null key": TEXT + "  sparkConf: {~: a}\n",
    "a list as a key": TEXT + "  sparkConf: {[a]: b}\n",
    "an unknown alias": TEXT + "  executor: *e\n",
    "an alias in its own anchor": TEXT + "  executor: &e {a: *e}\n",
    "a merge of a number": TEXT + "  executor: {<<: 5}\n",
    "a tag that contradicts": TEXT + "  executor: {cores: !!int two}\n",
    "a tab": TEXT + "  executor:\n\t  cores: 1\n",
    "an open quote": TEXT + "  queryName: 'a\n",
    "an open bracket": TEXT + "  executor: {cores: 1\n",
    "a control character": TEXT + "  queryName: a\x07\n",
    "a directive": f"%YAML 1.2\n---\n{TEXT}",
    "an empty text": "",
    "a text": "hello",
    "a text behind a stream": f"{TEXT}---\nhello\n",
    "a list behind a stream": f"{TEXT}---\n- a\n",
    "an object without a kind behind a stream": f"{TEXT}---\na: b\n",
    "garbage behind JSON": json.dumps(manifest("a", GOOD)) + " x",
    "a list": "- a\n",
    "wrong indentation": TEXT.replace("  sink:", " sink:"),
}  # fmt: skip


def resource(row: Row) -> dict[str, Any]:
    """The manifest of a row."""
    found = manifest("row", GOOD)
    for path, value in row:
        found = changed(found, path, value)
    return found


def label(row: Row) -> str:
    """The row in one line."""
    return ", ".join(f"{path}={'absent' if value is ... else json.dumps(value)[:70]}"
                     for path, value in row)  # fmt: skip
