"""The examples that read no topic; the others have cases (examples/tests)."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.jvm import Jvm
from testkit.driver.driver_process import driver
from testkit.driver.in_process_driver import running
from testkit.kafka.topics import Topics
from testkit.streams.examples import compiled, consume, example, lines
from testkit.streams.streams import kafka_sink, stream
from testkit.wait import wait_for

pytestmark = pytest.mark.proves("recipes.md")


@pytest.mark.timeout(400)
def test_socket_to_kafka(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """Each try begins anew: Spark's socket source recovers from no restart of its query.

    (TextSocketContinuousStream.commit then fails for ever. A query that shows no epoch for 15 s, on
    a machine that is overloaded, is restarted.)
    """
    tries = (_socket_to_kafka(topics, jvm, tmp_path / str(number)) for number in range(3))
    assert any(tries), "the query was restarted in each of three tries"


def _socket_to_kafka(topics: Topics, jvm: Jvm, folder: Path) -> bool:
    """Runs the example; False if its query was restarted before the lines arrived."""
    sink = topics.make(1)
    with lines("one", "two") as port:
        stream = example(
            "socket-to-kafka",
            {"host": "127.0.0.1", "port": port},
            {"bootstrapServers": topics.bootstrap, "topic": sink},
        )
        with running(stream, jvm, folder) as it:
            wait_for(
                "lines, or a restart",
                lambda: len(consume(topics.bootstrap, sink)) >= 2 or it.last.query_restarts,
            )
            if it.last.query_restarts:
                return False
            assert it.wait_ready().partitions == 1
    assert {value for _, value in consume(topics.bootstrap, sink)} == {"ONE", "TWO"}
    return True


def test_rate_to_console(jvm: Jvm, tmp_path: Path) -> None:
    with running(example("rate-to-console", {}, {}), jvm, tmp_path) as it:
        assert it.wait_ready().partitions == 2


UDF = """
package dev.penstock.examples;

public class Shout implements org.apache.spark.sql.api.java.UDF1<String, String> {
  public String call(String line) {
    return line + "!";
  }
}
"""


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's class, and a Java function."""
    return compiled(tmp_path_factory.mktemp("jar"), "custom-source", Shout=UDF)


@pytest.fixture
def url(jar: Path) -> Iterator[str]:
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(jar.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{jar.name}"
        server.shutdown()
        thread.join()


@pytest.fixture
def netcat(topics: Topics, url: str) -> Iterator[tuple[ContinuousStream, str]]:
    """The custom source example with a server for it to read, and the topic of its sink."""
    sink = topics.make(1)
    with lines("one", "two") as port:
        made = example(
            "custom-source",
            {"options": {"host": "127.0.0.1", "port": str(port)}},
            {"bootstrapServers": topics.bootstrap, "topic": sink},
        )
        document = made.model_dump(mode="json", by_alias=True, exclude_unset=True)
        document["spec"]["dependencies"]["jars"] = [url]
        document["spec"]["transform"] = {
            "sql": "SELECT shout(line) AS value FROM source",
            "javaFunctions": [{"name": "shout", "className": "dev.penstock.examples.Shout"}],
        }
        yield ContinuousStream.model_validate(document), sink


def test_a_data_source_and_a_function_in_java(
    netcat: tuple[ContinuousStream, str], topics: Topics, class_path: str, tmp_path: Path
) -> None:
    """In its own process: the JVM must know the dependencies when it starts."""
    stream, sink = netcat
    with driver(stream, tmp_path, class_path) as process:
        process.wait_ready()
        wait_for("lines", lambda: len(consume(topics.bootstrap, sink)) == 2)
    assert {value for _, value in consume(topics.bootstrap, sink)} == {"one!", "two!"}


COUNTER = """
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

class Counter(DataSource):
    def schema(self):
        return "value STRING"

    def simpleStreamReader(self, schema):
        return Reader(int(self.options["upTo"]))

class Reader(SimpleDataSourceStreamReader):
    def __init__(self, up_to):
        self.up_to = up_to

    def initialOffset(self):
        return {"next": 0}

    def read(self, start):
        end = min(start["next"] + 2, self.up_to)
        return self.readBetweenOffsets(start, {"next": end}), {"next": end}

    def readBetweenOffsets(self, start, end):
        return iter([(str(number),) for number in range(start["next"], end["next"])])
"""


def test_a_data_source_in_python(
    topics: Topics, class_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a module in the image, in micro-batches: Spark supports no other mode for it.

    It runs in the driver's own Python, even if the first python3 of the path is another one.
    """
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent), prepend=os.pathsep)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    (tmp_path / "counter.py").write_text(COUNTER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    sink = topics.make(1)
    counting = stream(
        {"custom": {"format": "counter:Counter", "options": {"upTo": "5"}}},
        kafka_sink(topics.bootstrap, topic=sink),
        trigger={"microBatch": {}},
    )
    with driver(counting, tmp_path, class_path):
        wait_for("numbers", lambda: len(consume(topics.bootstrap, sink)) >= 5)
    assert [value for _, value in consume(topics.bootstrap, sink)] == ["0", "1", "2", "3", "4"]
