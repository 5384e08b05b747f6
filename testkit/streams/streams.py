"""Streams for tests: parts of a spec, whole specs, manifests and parsed resources."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from penstock.api import group_version
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream

RATE: dict[str, Any] = {"rate": {"rowsPerSecond": 10, "numPartitions": 2}}
CONSOLE: dict[str, Any] = {"console": {}}
CONTINUOUS: dict[str, Any] = {"continuous": {"checkpointInterval": "1s"}}
MICRO_BATCH: dict[str, Any] = {"microBatch": {}}
ASYNC: dict[str, Any] = {"microBatch": {"asyncProgress": {"checkpointInterval": "300ms"}}}
REAL_TIME: dict[str, Any] = {"realTime": {"batchDuration": "5s"}}
AVAILABLE_NOW: dict[str, Any] = {"availableNow": {}}
# State that is kept as Spark keeps it by default, and not in RocksDB.
STATE_IN_FILES: dict[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming."
    "state.HDFSBackedStateStoreProvider"
}
# How often each value has come.
COUNTS: dict[str, Any] = {
    "sql": "SELECT CAST(value AS STRING) AS key, CAST(count(*) AS STRING) AS value FROM source "
    "GROUP BY CAST(value AS STRING)"
}
# The same by a processor in Python, with a state of each kind: Spark keeps each in a column family
# of its own. A value is one number as long as they agree.
OWN_COUNTS: dict[str, Any] = {
    "python": {
        "function": "own:counts",
        "inline": """
import pandas
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

class Counts(StatefulProcessor):
    def init(self, handle):
        self.number = handle.getValueState("number", "n INT")
        self.copies = handle.getListState("copies", "value STRING")
        self.kinds = handle.getMapState("kinds", "kind STRING", "n INT")

    def handleInputRows(self, key, batches, timers):
        came = [value for batch in batches for value in batch["value"]]
        before = self.number.get()
        number = len(came) + (before[0] if before else 0)
        self.number.update((number,))
        for value in came:
            self.copies.appendValue((value,))
        self.kinds.updateValue(("all",), (number,))
        counts = {number, len(list(self.copies.get())), self.kinds.getValue(("all",))[0]}
        yield pandas.DataFrame({"key": [key[0]], "value": [" ".join(map(str, counts))]})

def counts(source):
    return (
        source.selectExpr("CAST(value AS STRING) AS key", "CAST(value AS STRING) AS value")
        .groupBy("key")
        .transformWithStateInPandas(Counts(), "key STRING, value STRING", "Update", "None")
    )
""",
    }
}
# The modes whose queries never end, for tests that run in each of them.
EACH_MODE = [
    pytest.param(CONTINUOUS, id="continuous"),
    pytest.param(MICRO_BATCH, id="micro-batch"),
    pytest.param(ASYNC, id="async"),
    pytest.param(REAL_TIME, id="real-time"),
]
# For what both engines show with code of their own.
BOTH_ENGINES = EACH_MODE[:2]
# Likewise, and in `make test-all` in the modes that are micro-batches with other logs and moments.
MOSTLY_BOTH_ENGINES = [
    *BOTH_ENGINES,
    *(pytest.param(*mode.values, id=mode.id, marks=pytest.mark.full) for mode in EACH_MODE[2:]),
]
# For what is Penstock's, and the same for both: continuous with each change.
MOSTLY_CONTINUOUS = [
    EACH_MODE[0],
    pytest.param(MICRO_BATCH, id="micro-batch", marks=pytest.mark.full),
]

RATE_TO_CONSOLE: dict[str, Any] = {
    "source": {"rate": {}},
    "sink": {"console": {}},
    "trigger": {"continuous": {"checkpointInterval": "1s"}},
}

KAFKA_TO_KAFKA: dict[str, Any] = {
    "source": {"kafka": {"bootstrapServers": "kafka.kafka:9092", "topics": ["payments"]}},
    "transform": {
        "functions": [
            {
                "name": "isPaymentFlagged",
                "parameters": [{"name": "paymentId", "type": "BIGINT"}],
                "returns": "BOOLEAN",
                "expression": "paymentId % 100 = 7",
            }
        ],
        "sql": "SELECT key, value FROM source "
        "WHERE isPaymentFlagged(CAST(CAST(key AS STRING) AS BIGINT))",
    },
    "sink": {"kafka": {"bootstrapServers": "kafka.kafka:9092", "topic": "flags"}},
    "trigger": {"continuous": {"checkpointInterval": "1 second"}},
}

# With Penstock's own 2 ms a broker and the readers of idle partitions need a quarter of a core.
_FEWER_FETCHES: dict[str, Any] = {"options": {"kafka.fetch.max.wait.ms": "20"}}

# The letters of `queries.EXECUTIONS`.
_BY_LETTER: dict[str, dict[str, Any]] = {
    "C": {"trigger": CONTINUOUS},
    "A": {"trigger": MICRO_BATCH},
    "U": {"trigger": MICRO_BATCH, "outputMode": "update"},
    "M": {"trigger": MICRO_BATCH, "outputMode": "complete"},
    "S": {"trigger": ASYNC},
    "R": {"trigger": REAL_TIME},
}


def query_stream(sql: str, letter: str, watermark: bool = False) -> dict[str, Any]:
    """A spec that runs a query over a topic in the execution of a letter.

    The watermark is on the column `timestamp`, and the sink takes any columns.
    """
    transform: dict[str, Any] = {"sql": sql}
    if watermark:
        transform["watermark"] = {"column": "timestamp", "delay": "5 seconds"}
    fields = {"sink": {"memory": {}}, "transform": transform, **_BY_LETTER[letter]}
    return {**KAFKA_TO_KAFKA, **fields}


def kafka_source(bootstrap: str = "kafka:9092", **more: Any) -> dict[str, Any]:
    """A Kafka source, by default of the topic `in`."""
    return {"kafka": {"bootstrapServers": bootstrap, "topics": ["in"], **more}}


def kafka_sink(bootstrap: str = "kafka:9092", **more: Any) -> dict[str, Any]:
    """A Kafka sink, by default the topic `out`."""
    return {"kafka": {"bootstrapServers": bootstrap, "topic": "out", **more}}


def kafka_to_kafka(
    bootstrap: str,
    topic: str,
    to: str,
    trigger: dict[str, Any] = CONTINUOUS,
    of_source: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A spec that copies all records of one topic to another.

    `of_source` holds more fields of the Kafka source, `spec` more fields of the spec.
    """
    more = {"topics": [topic], "startingOffsets": "earliest", **_FEWER_FETCHES, **(of_source or {})}
    return {
        "source": kafka_source(bootstrap, **more),
        "sink": kafka_sink(bootstrap, topic=to),
        "trigger": trigger,
        **spec,
    }


def manifest(name: str, spec: dict[str, Any], namespace: str | None = None) -> dict[str, Any]:
    """A ContinuousStream as users write it."""
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {
        "apiVersion": group_version.API_VERSION,
        "kind": group_version.KIND,
        "metadata": metadata,
        "spec": spec,
    }


def stream(
    source: dict[str, Any] = RATE,
    sink: dict[str, Any] = CONSOLE,
    interval: str = "1s",
    **spec: Any,
) -> ContinuousStream:
    """A continuous stream named `numbers` in the namespace `payments`."""
    fields = {
        "image": "penstock/spark:test",
        "source": source,
        "sink": sink,
        "trigger": {"continuous": {"checkpointInterval": interval}},
        **spec,
    }
    return ContinuousStream.model_validate(manifest("numbers", fields, "payments"))


def changed(spec: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with the field at the dotted path set, or removed if the value is `...`."""
    result = copy.deepcopy(spec)
    *parents, last = path.split(".")
    at = result
    for step in parents:
        at = at.setdefault(step, {})
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return result


def spec(**fields: Any) -> StreamSpec:
    """The rate-to-console spec with some top-level fields set."""
    return StreamSpec.model_validate({**RATE_TO_CONSOLE, **fields})
