"""Every example does what its comment says, with real Spark, a real broker and real records."""

from __future__ import annotations

import functools
import os
import struct
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.jvm import Jvm
from testkit.driver.driver_process import driver
from testkit.driver.in_process_driver import running
from testkit.kafka.jars import maven_jars
from testkit.kafka.topics import Topics
from testkit.paths import CHECKOUT
from testkit.streams.examples import compiled, consume, example, lines, produce
from testkit.streams.streams import kafka_sink, stream
from testkit.wait import wait_for

pytestmark = pytest.mark.proves("recipes.md")

CARS = [
    '{"carId": 7, "speed": 120.5}',
    '{"carId": 8, "speed": 80.0}',
    '{"carId": 7, "speed": 60.5}',
]
PAYMENTS = [f'{{"paymentId": {number}, "amount": {number * 10}}}' for number in range(200)]
FLAGGED = {value for number, value in enumerate(PAYMENTS) if number % 10 == 3}
LARGE = set(PAYMENTS[101:])


def kafka(topics: Topics, name: str) -> tuple[ContinuousStream, str, str]:
    source, sink = topics.make(), topics.make()
    made = example(name, {"topics": [source]}, {"topic": sink}, topics.bootstrap)
    return made, source, sink


def test_fast_cars_continuous(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    stream, source, sink = kafka(topics, "fast-cars-continuous")
    with running(stream, jvm, tmp_path):
        produce(topics.bootstrap, source, CARS)
        wait_for("speeds", lambda: len(consume(topics.bootstrap, sink)) >= 3)
    speeds = {("7", "120.5"), ("8", "80.0"), ("7", "60.5")}
    assert set(consume(topics.bootstrap, sink)) == speeds


def test_fast_cars_aggregated(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    stream, source, sink = kafka(topics, "fast-cars-aggregated")
    produce(topics.bootstrap, source, CARS)  # one batch, and one window
    with running(stream, jvm, tmp_path):
        wait_for("means", lambda: {"7", "8"} <= {key for key, _ in consume(topics.bootstrap, sink)})
    assert sorted(consume(topics.bootstrap, sink)) == [("7", "90.5"), ("8", "80.0")]


@pytest.mark.parametrize("mode", ["", "-micro-batch", "-real-time"])
def test_fraud_flags(mode: str, topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    stream, source, sink = kafka(topics, f"fraud-flags{mode}")
    produce(topics.bootstrap, source, PAYMENTS)
    with running(stream, jvm, tmp_path):
        wait_for(
            "flags", lambda: {value for _, value in consume(topics.bootstrap, sink)} == FLAGGED
        )


def test_python_transform(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    stream, source, sink = kafka(topics, "python-transform")
    produce(topics.bootstrap, source, PAYMENTS)
    with running(stream, jvm, tmp_path):
        wait_for(
            "payments", lambda: {value for _, value in consume(topics.bootstrap, sink)} == LARGE
        )


def test_json_fields(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """What is not JSON, and a large amount in quotes, are set aside; a missing field is none."""
    source, sink, letters = topics.make(1), topics.make(), topics.make()
    made = example(
        "json-fields",
        {"topics": [source], "deadLetters": {"topic": letters}},
        {"topic": sink},
        topics.bootstrap,
    )
    large = '{"paymentId": 1, "customer": {"country": "DE"}, "amount": 2000}'
    quoted = large.replace("2000", '"2000"')
    small, without = '{"paymentId": 2, "amount": 20}', '{"paymentId": 3}'
    produce(topics.bootstrap, source, ["not JSON", small, quoted, without, large])
    with running(made, jvm, tmp_path):
        wait_for("payments", lambda: consume(topics.bootstrap, sink))
    assert set(consume(topics.bootstrap, sink)) == {("1", '{"country":"DE","amount":2000.0}')}
    assert {value for _, value in consume(topics.bootstrap, letters)} == {"not JSON", quoted}


def paid(number: int, time: str) -> str:
    return f'{{"paymentId": {number}, "shop": "Oslo", "paidAt": "2026-11-25T{time}Z"}}'


def test_windowed_count(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """By the time in the JSON; a record that is later than the watermark allows is dropped."""
    stream, source, sink = kafka(topics, "windowed-count")
    produce(
        topics.bootstrap, source, [paid(1, "10:00:01"), paid(2, "10:00:59"), paid(3, "10:05:00")]
    )
    with running(stream, jvm, tmp_path):
        wait_for("a window", lambda: consume(topics.bootstrap, sink))
        produce(topics.bootstrap, source, [paid(4, "10:00:30"), paid(5, "10:09:00")])
        wait_for("a second window", lambda: len(consume(topics.bootstrap, sink)) > 1)
    assert sorted(consume(topics.bootstrap, sink)) == [
        ("Oslo", f'{{"minute":"2026-11-25T10:0{minute}:00.000Z","payments":{payments}}}')
        for minute, payments in ((0, 2), (5, 1))
    ]


def test_deduplicate(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """Also across two batches."""
    stream, source, sink = kafka(topics, "deduplicate")
    one, two, three = (paid(number, "10:00:00") for number in (1, 2, 3))
    produce(topics.bootstrap, source, [one, one, two])
    with running(stream, jvm, tmp_path):
        wait_for("two payments", lambda: len(consume(topics.bootstrap, sink)) >= 2)
        produce(topics.bootstrap, source, [two, three])
        wait_for(
            "a third", lambda: three in {value for _, value in consume(topics.bootstrap, sink)}
        )
    assert sorted(value for _, value in consume(topics.bootstrap, sink)) == [one, two, three]


def test_join_table(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """With the file of the ConfigMap in another folder."""
    made, source, sink = kafka(topics, "join-table")
    document = made.model_dump(mode="json", by_alias=True, exclude_unset=True)
    sql = document["spec"]["transform"]["sql"]
    document["spec"]["transform"]["sql"] = sql.replace("/etc/shops", str(tmp_path))
    (tmp_path / "shops.jsonl").write_text('{"id": 7, "name": "Oslo"}\n{"id": 8, "name": "Rome"}\n')
    payments = [f'{{"paymentId": {number}, "shopId": {number}}}' for number in (7, 9)]
    produce(topics.bootstrap, source, payments)
    with running(ContinuousStream.model_validate(document), jvm, tmp_path / "driver"):
        wait_for("payments", lambda: len(consume(topics.bootstrap, sink)) >= 2)
    assert {value for _, value in consume(topics.bootstrap, sink)} == {
        '{"paymentId":7,"shop":"Oslo"}',
        '{"paymentId":9}',
    }


def test_avro_to_json(topics: Topics, class_path: str, tmp_path: Path) -> None:
    """With the jar on the class path instead of from Maven Central."""
    made, source, sink = kafka(topics, "avro-to-json")
    document = made.model_dump(mode="json", by_alias=True, exclude_unset=True)
    del document["spec"]["dependencies"]
    (jar,) = maven_jars("spark-avro", CHECKOUT / "testkit/streams/avro/pom.xml").glob("*.jar")
    producer = Producer({"bootstrap.servers": topics.bootstrap, "acks": "all"})
    # A long is a variable-length zigzag number, a double eight bytes.
    producer.produce(source, b"\x0e" + struct.pack("<d", 9.5))
    assert producer.flush(30) == 0
    with driver(ContinuousStream.model_validate(document), tmp_path, f"{class_path}:{jar}"):
        wait_for("a payment", lambda: consume(topics.bootstrap, sink))
    assert consume(topics.bootstrap, sink) == [(None, '{"paymentId":7,"amount":9.5}')]


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
