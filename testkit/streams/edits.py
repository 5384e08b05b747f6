"""Edits that together change each field of the spec; where `Walk.runs`, of a stream that runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testkit.streams.streams import (
    ASYNC,
    CONTINUOUS,
    COUNTS,
    MICRO_BATCH,
    RATE,
    REAL_TIME,
    kafka_sink,
    kafka_source,
    kafka_to_kafka,
)

Spec = dict[str, Any]

# What the edits name besides topics, for tests that make them.
SECRETS = ("credentials", "others")
SECRET_KEYS = ("one", "two")
SERVICE_ACCOUNT = "own"
STORAGE_CLASS = "growing"
"""One whose volumes can grow."""
CONFIG_MAPS = ("python", "more-python")
MODULE_KEYS = ("a.py", "b.py")
PYTHON = """\
def same(source):
    return source


def write(rows, batch):
    rows.collect()
"""
JAR = "edits.jar"
"""Its ConfigMap and its key. It holds the classes below, and those of the example."""
EXAMPLE = "java-transform"
_UDF = """
package dev.penstock.tests;

public class %s implements org.apache.spark.sql.api.java.UDF1<String, String> {
  public String call(String text) {
    return text + "!";
  }
}
"""
CLASSES = {
    "Shout": _UDF % "Shout",
    "Cry": _UDF % "Cry",
    "Same": """
package dev.penstock.tests;

import java.util.function.Function;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

public class Same implements Function<Dataset<Row>, Dataset<Row>> {
  public Dataset<Row> apply(Dataset<Row> source) {
    return source.select("key", "value");
  }
}
""",
}
_JARS = "/opt/edits"
# A stream that needs nothing.
_RATE_TO_NOOP: Spec = {"source": RATE, "sink": {"noop": {}}, "trigger": CONTINUOUS}
# What cannot run stays as it was edited.
_STAYS: Spec = {"rollout": {"rollback": "Never"}}
NO_BROKER = "nowhere.example:9092"
"""Of streams whose connection is edited: their drivers start, and find no broker."""


def _secret(number: int) -> dict[str, str]:
    return {"name": SECRETS[number], "key": SECRET_KEYS[number]}


@dataclass(frozen=True)
class Walk:
    """A spec, and edits of it, one after the other, each of them a merge patch."""

    name: str
    spec: Spec
    edits: list[Spec]
    runs: bool = True
    """Whether a query runs throughout."""

    def steps(self) -> Iterator[tuple[Spec, Spec, Spec]]:
        """Each edit, with the spec before it and after it."""
        before = self.spec
        for edit in self.edits:
            after = merged(before, edit)
            yield edit, before, after
            before = after


def merged(value: Mapping[str, Any], patch: Mapping[str, Any]) -> Spec:
    """What a merge patch (RFC 7396) makes of a value.

    >>> merged({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": [3]}})
    {'a': {'c': 2, 'd': [3]}}
    """
    result = dict(value)
    for name, new in patch.items():
        if new is None:
            result.pop(name, None)
        elif isinstance(new, Mapping):
            inner = result.get(name)
            result[name] = merged(inner if isinstance(inner, Mapping) else {}, new)
        else:
            result[name] = new
    return result


def walks(bootstrap: str, topic: str) -> list[Walk]:
    """All of them. Topics that they need: see `topics`."""
    return [
        _of_continuous_mode(bootstrap, topic),
        _of_where_it_begins(bootstrap, topic),
        *_of_other_modes(bootstrap, topic),
        *_of_other_sources_and_sinks(),
        *_of_java(bootstrap, topic),
        _of_the_pod(),
        _of_connections(),
        _of_an_object_store(),
    ]


def topics(topic: str) -> list[str]:
    """The topics of the edits, each with one partition."""
    return [f"{topic}-{way}" for way in ("in", "in2", "out", "out2", "bad", "bad2")]


def _function(**changed: Any) -> Spec:
    function = {
        "name": "f",
        "parameters": [{"name": "x", "type": "BINARY"}],
        "returns": "BINARY",
        "expression": "x",
    }
    return {"transform": {"functions": [{**function, **changed}]}}


def _of_continuous_mode(bootstrap: str, topic: str) -> Walk:
    spec = {
        **kafka_to_kafka(bootstrap, f"{topic}-in", f"{topic}-out", CONTINUOUS),
        "transform": {
            **_function()["transform"],
            "sql": "SELECT key, f(value) AS value FROM source",
        },
        "checkpoint": {"volume": {"storageClassName": STORAGE_CLASS}},
    }
    parameter = {"name": "y", "type": "BINARY"}
    return Walk(
        "continuous mode",
        spec,
        [
            {"queryName": "renamed"},
            {"transform": {"sql": "SELECT key, f(value) AS value FROM source WHERE offset >= 0"}},
            _function(parameters=[parameter], expression="y"),
            _function(expression="coalesce(x, x)"),
            _function(parameters=[{**parameter, "type": "STRING"}], expression="binary(y)"),
            _function(returns="STRING", expression="string(x)"),
            {"transform": {
                **_function(name="g")["transform"],
                "sql": "SELECT key, g(value) AS value FROM source",
            }},
            {"transform": {"deterministic": True}},
            {"source": {"kafka": {"options": {"kafka.fetch.min.bytes": "1"}}}},
            {"source": {"kafka": {"failOnDataLoss": False}}},
            {"source": {"kafka": {"consumerGroup": f"{topic}-group"}}},
            {"source": {"kafka": {"deadLetters": {"topic": f"{topic}-bad"}}}},
            {"source": {"kafka": {"deadLetters": {"topic": f"{topic}-bad2"}}}},
            {"source": {"kafka": {"deadLetters": {"maxPerMinute": 9}}}},
            {"source": {"kafka": {"includeHeaders": True}}},
            {"sink": {"kafka": {"options": {"kafka.linger.ms": "1"}}}},
            {"sink": {"kafka": {"topic": f"{topic}-out2"}}},
            {"sink": {"kafka": {"delivery": "ExactlyOnce"}}},
            {"sink": {"kafka": {"transactionInterval": "50ms"}}},
            {"trigger": {"continuous": {"checkpointInterval": "2s"}}},
            {"outputMode": "append"},
            {"source": {"kafka": {"topics": [f"{topic}-in", f"{topic}-in2"]}}},
            {"source": {"kafka": {"topics": None, "topicPattern": f"{topic}-in.*"}}},
            # These restart nothing.
            {"restart": {"maxAttempts": 9}},
            {"restart": {"stableAfter": "2m"}},
            {"rollout": {"deadline": "9m"}},
            {"rollout": {"rollback": "Never"}},
            {"ttlSecondsAfterFinished": 3600},
            {"observability": {"logLevel": "INFO"}},
            {"checkpoint": {"volume": {"size": "2Gi"}}},
            {"checkpoint": {"volume": {"reclaimPolicy": "Retain"}}},
            {"checkpoint": {"volume": {"adopt": True}}},
            # These are refused.
            {"className": "another"},
            {"checkpoint": {"volume": {"storageClassName": "another"}}},
            {"suspend": True},
            {"suspend": False},
        ],
    )  # fmt: skip


def _of_where_it_begins(bootstrap: str, topic: str) -> Walk:
    """Each start is that of a generation of its own."""
    source = f"{topic}-in"
    spec = kafka_to_kafka(
        bootstrap, source, f"{topic}-out", MICRO_BATCH, {"consumerGroup": f"{topic}-follows"}
    )
    starts: list[Spec] = [
        {"offsets": "earliest"},
        {"offsets": "latest"},
        {"timestamp": "2026-11-26T08:00:00Z"},
        {"timestamp": "2026-11-26T09:00:00Z"},
        {"offsetsByPartition": {source: {"0": 0}}},
        {"offsetsByPartition": {source: {"0": -2}}},
        {"consumerGroup": f"{topic}-follows"},
        {"generation": 3},
        {"generation": 4},
    ]
    none = dict.fromkeys(key for start in starts for key in start)
    edits: list[Spec] = [
        {"checkpoint": {"generation": number, "startFrom": {**none, **start}}}
        for number, start in enumerate(starts, start=1)
    ]
    begins = {"startingOffsets": None, "startingOffsetsByPartition": {source: {"0": -2}}}
    more = [
        {"startingOffsets": "latest"},
        begins,
        {"startingOffsetsByPartition": {source: {"0": 0}}},
        {"topics": None, "assign": {source: [0]}},
    ]
    edits += [{"source": {"kafka": each}} for each in more]
    return Walk("where it begins", spec, edits)


def _of_other_modes(bootstrap: str, topic: str) -> Iterator[Walk]:
    in_mode = (bootstrap, f"{topic}-in", f"{topic}-out")
    yield Walk(
        "state",
        kafka_to_kafka(*in_mode, MICRO_BATCH, transform=COUNTS, outputMode="update"),
        [
            {"checkpoint": {"statePartitions": 3}},
            {"checkpoint": {"statePartitions": 5}},
            {"trigger": {"microBatch": {"interval": "1s"}}},
            {"outputMode": "complete"},
        ],
    )
    yield Walk(
        "asynchronous progress",
        kafka_to_kafka(*in_mode, ASYNC),
        [{"trigger": {"microBatch": {"asyncProgress": {"checkpointInterval": "2s"}}}}],
    )
    yield Walk(
        "real-time mode",
        kafka_to_kafka(*in_mode, REAL_TIME),
        [{"trigger": {"realTime": {"batchDuration": "6s"}}}],
    )


def _of_other_sources_and_sinks() -> Iterator[Walk]:
    yield Walk(
        "rate",
        {
            "source": {"rate": {"rowsPerSecond": 1, "numPartitions": 1}},
            "sink": {"console": {}},
            "trigger": MICRO_BATCH,
            "transform": {"python": {"function": "m:same", "inline": PYTHON}},
        },
        [
            {"source": {"rate": {"rowsPerSecond": 2}}},
            {"source": {"rate": {"numPartitions": 2}}},
            {"source": {"rate": {"rampUpTime": "1s"}}},
            {"sink": {"console": {"numRows": 5}}},
            {"sink": {"console": {"truncate": False}}},
            {"transform": {"python": {"inline": f"# Edited.\n{PYTHON}"}}},
            {"transform": {"python": {"function": "n:same"}}},
            {"transform": {"watermark": {"column": "timestamp", "delay": "5s"}}},
            {"transform": {"watermark": {"delay": "6s"}}},
            {"transform": {"python": {
                "inline": None,
                "configMap": {"name": CONFIG_MAPS[0], "key": MODULE_KEYS[0]},
            }}},
            {"transform": {"python": {"configMap": {"key": MODULE_KEYS[1]}}}},
            {"transform": {"python": {"configMap": {"name": CONFIG_MAPS[1]}}}},
        ],
    )  # fmt: skip
    yield Walk(
        "custom source and sink",
        {
            "source": {
                "custom": {
                    "format": "json",
                    "options": {"path": "/tmp"},
                    "schema": "a INT",
                    "numPartitions": 1,
                }
            },
            "sink": {"custom": {"format": "console", "options": {"numRows": "1"}}},
            "trigger": MICRO_BATCH,
        },
        [
            {"source": {"custom": {"options": {"path": "/tmp", "maxFilesPerTrigger": "1"}}}},
            {"sink": {"custom": {"options": {"numRows": "2"}}}},
            {"sink": {"custom": {"partitionBy": ["a"]}}},
            {"source": {"custom": {"schema": "a BIGINT"}}},
            {"source": {"custom": {"numPartitions": 2}}},
            {"sink": {"custom": {"format": "noop"}}},
            {"source": {"custom": {"format": "csv"}}},
        ],
    )
    yield Walk(
        "a function as sink",
        {
            "source": RATE,
            "sink": {
                "python": {
                    "function": "m:write",
                    "inline": PYTHON,
                    "options": {"a": "b"},
                    "secretOptions": {"c": _secret(0)},
                }
            },
            "trigger": MICRO_BATCH,
        },
        [
            {"sink": {"python": {"inline": f"# Edited.\n{PYTHON}"}}},
            {"sink": {"python": {"function": "n:write"}}},
            {"sink": {"python": {"options": {"a": "c"}}}},
            *(
                {"sink": {"python": {"secretOptions": {"c": edit}}}}
                for edit in _references(_secret(0))[1:]
            ),
            {"sink": {"python": {"secretOptions": {"d": _secret(1)}}}},
            {"sink": {"python": {
                "inline": None,
                "configMap": {"name": CONFIG_MAPS[0], "key": MODULE_KEYS[0]},
            }}},
            {"sink": {"python": {"configMap": {"key": MODULE_KEYS[1]}}}},
            {"sink": {"python": {"configMap": {"name": CONFIG_MAPS[1]}}}},
        ],
    )  # fmt: skip
    yield Walk(
        "secret options",
        {
            "source": {"custom": {"format": "rate", "secretOptions": {"a": _secret(0)}}},
            "sink": {"custom": {"format": "console", "secretOptions": {"a": _secret(0)}}},
            "secretSparkConf": {"spark.a": _secret(0)},
            "trigger": MICRO_BATCH,
        },
        [
            *(
                {end: {"custom": {"secretOptions": {"a": edit}}}}
                for end in ("source", "sink")
                for edit in ({"name": SECRETS[1]}, {"key": SECRET_KEYS[1]})
            ),
            {"sink": {"custom": {"secretOptions": {"b": _secret(1)}}}},
            {"secretSparkConf": {"spark.a": {"name": SECRETS[1]}}},
            {"secretSparkConf": {"spark.a": {"key": SECRET_KEYS[1]}}},
        ],
    )
    yield Walk(
        "table",
        {
            **_RATE_TO_NOOP,
            "sink": {"jdbc": {"url": "jdbc:postgresql://nowhere.example/shop", "table": "a"}},
            "trigger": MICRO_BATCH,
        },
        [
            {"sink": {"jdbc": {"table": "b"}}},
            {"sink": {"jdbc": {"write": "Upsert", "keys": ["value"]}}},
            {"sink": {"jdbc": {"latestBy": "timestamp"}}},
            {"sink": {"jdbc": {"deleteWhen": "value < 0"}}},
            {"sink": {"jdbc": {"url": "jdbc:postgresql://nowhere.example/other"}}},
            {"sink": {"jdbc": {"ledgerSchema": "own"}}},
            {"sink": {"jdbc": {"credentialsSecret": {"name": "login"}}}},
            {"sink": {"jdbc": {"credentialsSecret": {"usernameKey": "user"}}}},
            {"sink": {"jdbc": {"credentialsSecret": {"passwordKey": "pass"}}}},
            {"sink": {"jdbc": {"tls": {"caSecret": {"name": "ca", "key": "ca.crt"}}}}},
        ],
    )
    yield Walk(
        "socket",
        {
            **_RATE_TO_NOOP,
            **_STAYS,
            "source": {"socket": {"host": "nowhere.example", "port": 9999}},
        },
        [
            {"source": {"socket": {"port": 9998}}},
            {"source": {"socket": {"host": "elsewhere.example"}}},
            {"source": {"socket": {"includeTimestamp": True}}},
        ],
        runs=False,
    )


def _of_java(bootstrap: str, topic: str) -> Iterator[Walk]:
    jar: Spec = {
        "dependencies": {"jars": [f"local://{_JARS}/{JAR}"]},
        "driver": _with_jar("driver"),
        "executor": _with_jar("executor"),
    }
    in_mode = (bootstrap, f"{topic}-in", f"{topic}-out", CONTINUOUS)
    java = {"java": {"className": "dev.penstock.examples.Bookings"}}
    yield Walk(
        "Java",
        kafka_to_kafka(*in_mode, transform=java, **jar),
        [{"transform": {"java": {"className": "dev.penstock.tests.Same"}}}],
    )
    function = {"name": "shout", "className": "dev.penstock.tests.Shout"}
    sql = "SELECT {}(string(value)) AS value FROM source"
    yield Walk(
        "Java functions",
        {
            **_RATE_TO_NOOP,
            "transform": {"javaFunctions": [function], "sql": sql.format("shout")},
            **jar,
        },
        [
            {"transform": {"javaFunctions": [{**function, "returns": "STRING"}]}},
            {"transform": {"javaFunctions": [{**function, "className": "dev.penstock.tests.Cry"}]}},
            {"transform": {
                "javaFunctions": [{**function, "name": "cry"}],
                "sql": sql.format("cry"),
            }},
        ],
    )  # fmt: skip


def _with_jar(container: str) -> Spec:
    """A pod with the jar, which no image has."""
    mount = {"name": "edits", "mountPath": _JARS}
    return {
        "podTemplate": {
            "spec": {
                "containers": [{"name": container, "volumeMounts": [mount]}],
                "volumes": [{"name": "edits", "configMap": {"name": JAR}}],
            }
        }
    }


def _of_the_pod() -> Walk:
    """Each edit replaces the pod, so the stream is a cheap one."""
    edits: list[Spec] = [{"restartedAt": "2026-11-27T07:00:00Z"}]
    for role in ("driver", "executor"):
        edits += [
            {role: each}
            for each in (
                {"resources": {"requests": {"cpu": "110m"}}},
                {"resources": {"requests": {"memory": "1100Mi"}}},
                {"resources": {"limits": {"cpu": "2"}}},
                {"resources": {"limits": {"memory": "1100Mi"}}},
                {"memoryOverhead": "500Mi"},
                {"javaOptions": ["-XX:+UseSerialGC"]},
                {"podTemplate": {"metadata": {"labels": {"team": "payments"}}}},
            )
        ]
    edits += [
        {"executor": {"cores": 3}},
        {"executor": {"maxInstances": 2}},
        {"executor": {"minInstances": 1}},
        {"executor": {"mode": "Auto"}},
        {"observability": {"ui": True}},
        {"observability": {"eventLog": "file:///tmp"}},
        {"sparkConf": {"spark.sql.session.timeZone": "UTC"}},
        {"serviceAccountName": SERVICE_ACCOUNT},
        {"imagePullSecrets": [{"name": "registry"}]},
        # No query runs from here on.
        {"dependencies": {"jars": ["local:///opt/jars/none.jar"]}},
        {"dependencies": {"packages": ["org.example:none:1"]}},
        {"image": "localhost/penstock/none:0"},
    ]
    return Walk("the pod", {**_RATE_TO_NOOP, **_STAYS}, edits, runs=False)


def _of_connections() -> Walk:
    """Of source, sink and both, to a broker that is not there."""
    password = {"name": SECRETS[0], "key": SECRET_KEYS[0]}
    to_secret = {"username": None, "passwordSecret": None, "jaasConfigSecret": password}
    no_secret = dict.fromkeys((
        "jaasConfigSecret", "kerberosServiceName", "loginCallbackHandlerClass",
        "clientCallbackHandlerClass",
    ))  # fmt: skip
    text = "com.example.Module required{};"
    connection: list[Spec] = [
        {"bootstrapServers": f"more.{NO_BROKER}"},
        *({"tls": {"caSecret": each}} for each in _references(password)),
        *({"tls": {"clientSecret": {"name": each}}} for each in SECRETS),
        {"tls": {"clientSecret": {"certKey": "user.crt"}}},
        {"tls": {"clientSecret": {"keyKey": "user.key"}}},
        {"sasl": {"mechanism": "SCRAM-SHA-512", "username": "u", "passwordSecret": password}},
        {"sasl": {"mechanism": "SCRAM-SHA-256"}},
        {"sasl": {"username": "v"}},
        *({"sasl": {"passwordSecret": each}} for each in _references(password)[1:]),
        {"sasl": {"mechanism": "GSSAPI", **to_secret}},
        *({"sasl": {"jaasConfigSecret": each}} for each in _references(password)[1:]),
        {"sasl": {"kerberosServiceName": "kafka"}},
        {"sasl": {"loginCallbackHandlerClass": "com.example.Login"}},
        {"sasl": {"clientCallbackHandlerClass": "com.example.Client"}},
        {"sasl": {"mechanism": "AWS_MSK_IAM", **no_secret, "jaasConfig": text.format("")}},
        {"sasl": {"jaasConfig": text.format(" a=b")}},
        *({"secretOptions": {"kafka.client.rack": each}} for each in _references(password)),
    ]
    edits: list[Spec] = [{"kafka": {"options": {"kafka.client.dns.lookup": "use_all_dns_ips"}}}]
    edits += [{"kafka": each} for each in connection]
    edits += [{"source": {"kafka": each}} for each in connection]
    edits += [{"sink": {"kafka": each}} for each in connection]
    spec = {
        "kafka": {"bootstrapServers": NO_BROKER},
        "source": kafka_source(NO_BROKER),
        "sink": kafka_sink(NO_BROKER),
        "trigger": CONTINUOUS,
        **_STAYS,
    }
    return Walk("connections", spec, edits, runs=False)


def _references(first: Mapping[str, str]) -> list[dict[str, str]]:
    """A reference to a Secret, with another key, and with another name."""
    return [dict(first), {"key": SECRET_KEYS[1]}, {"name": SECRETS[1]}]


def _of_an_object_store() -> Walk:
    """The store is not there."""
    first = {"name": SECRETS[0], "key": SECRET_KEYS[0]}
    store: list[Spec] = [
        {"region": "eu-central-1"},
        {"pathStyleAccess": True},
        {"endpoint": "https://elsewhere.example:9000"},
        {"accessKeyIdSecret": first, "secretAccessKeySecret": first},
        *({"accessKeyIdSecret": each} for each in _references(first)[1:]),
        *({"secretAccessKeySecret": each} for each in _references(first)[1:]),
        {"location": "s3a://checkpoints/elsewhere"},
    ]
    spec = {
        **_RATE_TO_NOOP,
        **_STAYS,
        "checkpoint": {
            "objectStore": {
                "location": "s3a://checkpoints/production",
                "endpoint": "https://nowhere.example:9000",
            }
        },
    }
    edits: list[Spec] = [{"checkpoint": {"objectStore": each}} for each in store]
    return Walk("object store", spec, edits, runs=False)
