"""The shipped examples, with the brokers, topics and servers of a test."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.api.v1alpha1.stream import ContinuousStream
from testkit.commands import run
from testkit.paths import CHECKOUT

FOLDER = CHECKOUT / "examples"

ANY_PARTITION = -1  # to librdkafka


def example(
    name: str, source: dict[str, Any], sink: dict[str, Any], bootstrap: str | None = None
) -> ContinuousStream:
    """An example with some fields of its source and its sink, and its shared brokers, replaced."""
    document = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    if bootstrap is not None:
        document["spec"]["kafka"]["bootstrapServers"] = bootstrap
    for part, given in (("source", source), ("sink", sink)):
        (fields,) = document["spec"][part].values()
        fields.update(given)
    return ContinuousStream.model_validate(document)


def compiled(folder: Path, example: str, **classes: str) -> Path:
    """A jar with the Java class of an example, built as its Dockerfile does, and these classes."""
    import pyspark

    for name, text in classes.items():
        (folder / f"{name}.java").write_text(text)
    files = [*folder.glob("*.java"), *(FOLDER / example).glob("*.java")]
    jars, jar = f"{Path(pyspark.__file__).parent}/jars/*", folder / f"{example}.jar"
    run(["javac", "-nowarn", "-cp", jars, "-d", folder / "classes", *files])
    run(["jar", "--create", "--file", jar, "-C", folder / "classes", "."])
    return jar


def produce(bootstrap: str, topic: str, values: list[str], *partitions: int) -> None:
    """Records without a key, acknowledged, to these partitions in turn, or else to any.

    All have one time, and so are in one window.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    now = int(time.time() * 1000)
    for value, partition in zip(values, cycle(partitions or [ANY_PARTITION]), strict=False):
        producer.produce(topic, value.encode(), timestamp=now, partition=partition)
    assert producer.flush(30) == 0


def consume(bootstrap: str, topic: str) -> list[tuple[str | None, str]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "examples"})
    found: list[tuple[str | None, str]] = []
    try:
        for number in consumer.list_topics(topic, 30).topics[topic].partitions:
            partition = TopicPartition(topic, number, 0)
            end = consumer.get_watermark_offsets(partition, 30)[1]
            consumer.assign([partition])
            for _ in range(end):
                message = consumer.poll(30)
                assert message is not None
                key = message.key()
                found.append((None if key is None else key.decode(), message.value().decode()))
    finally:
        consumer.close()
    return found


@contextlib.contextmanager
def lines(*texts: str) -> Iterator[int]:
    """Sends these lines to each client, as `nc -lk` does; yields the port."""
    server = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def serve() -> None:
        with contextlib.suppress(OSError):  # closed: the end
            while True:
                connection, _ = server.accept()
                connections.append(connection)
                connection.sendall("".join(f"{text}\n" for text in texts).encode())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(10)
        for connection in connections:
            connection.close()
