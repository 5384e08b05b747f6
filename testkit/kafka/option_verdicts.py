"""What Spark's Kafka source and sink say about options, and their names, as JSON on the standard
output.

Runs as a process of its own, and needs no broker: Spark judges options when it builds the stream
and the writer, and those of a real-time source when it plans a batch. The standard input is a
JSON list of [end, options], with "source", "real-time source" or "sink" as end.
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

from penstock.driver.jvm import Jvm, fast_start_options
from penstock.driver.spark import session
from testkit.kafka.jars import connector_jars

_CONF = {
    "spark.app.name": "options",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
}
_BROKER = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def main() -> None:
    """Writes {"refusals": [text or null, ...], "texts": {constant: value}}.

    The refusals are in the order of the questions. The constants are those of KafkaSourceProvider
    whose values are texts: among them is the name of each option that it reads.
    """
    questions = json.load(sys.stdin)
    options = fast_start_options([], 512, cores=0)
    jvm = Jvm.launch(512, f"{connector_jars()}/*", "127.0.0.1", options)
    try:
        spark = session.start(jvm.gateway, _CONF)
        spark.sparkContext.setLogLevel("OFF")
        with tempfile.TemporaryDirectory() as folder:
            refusals = [_refusal(spark._jvm, end, options, folder) for end, options in questions]
            texts = _texts(spark._jvm)
        spark.stop()
    finally:
        jvm.end()
    sys.stdout.write(json.dumps({"refusals": refusals, "texts": texts}))


def _refusal(jvm: Any, end: str, options: dict[str, str], folder: str) -> str | None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        _ENDS[end](jvm, options, folder)
    except (PySparkException, Py4JJavaError) as error:
        return " ".join(str(error).split())[:300]
    return None


def _read(jvm: Any, options: dict[str, str], folder: str) -> None:
    _stream(jvm, options, folder).stop()


def _read_in_real_time(jvm: Any, options: dict[str, str], folder: str) -> None:
    """Plans a batch from no offset, which fails after the options were judged."""
    from py4j.protocol import Py4JJavaError

    stream = _stream(jvm, options, folder)
    try:
        stream.prepareForRealTimeMode()
        stream.planInputPartitions(None)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != "java.lang.NullPointerException":
            raise
    finally:
        stream.stop()


def _stream(jvm: Any, options: dict[str, str], folder: str) -> Any:
    given = _java_map(jvm, {**_BROKER, "subscribe": "a", **options})
    ignoring_case = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(given)
    table = jvm.org.apache.spark.sql.kafka010.KafkaSourceProvider().getTable(ignoring_case)
    return table.newScanBuilder(ignoring_case).build().toMicroBatchStream(folder)


def _write(jvm: Any, options: dict[str, str], folder: str) -> None:
    del folder
    given = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(
        _java_map(jvm, {**_BROKER, **options})
    )
    sql = jvm.org.apache.spark.sql
    ignoring_case = _companion(sql.catalyst.util, "CaseInsensitiveMap").apply(given)
    _companion(sql.kafka010, "KafkaSourceProvider").kafkaParamsForProducer(ignoring_case)


def _texts(jvm: Any) -> dict[str, str]:
    provider = _companion(jvm.org.apache.spark.sql.kafka010, "KafkaSourceProvider")
    texts = {}
    for constant in provider.getClass().getDeclaredFields():
        if constant.getType().getSimpleName() == "String":
            constant.setAccessible(True)
            texts[constant.getName().rpartition("$")[2]] = constant.get(provider)
    return texts


def _companion(package: Any, name: str) -> Any:
    """The object of a class in Scala."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def _java_map(jvm: Any, options: dict[str, str]) -> Any:
    found = jvm.java.util.HashMap()
    for name, value in options.items():
        found.put(name, value)
    return found


_ENDS = {"source": _read, "real-time source": _read_in_real_time, "sink": _write}

if __name__ == "__main__":
    main()
