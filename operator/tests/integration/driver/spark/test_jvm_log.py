"""No text of a record is in the log of a JVM, at the level that it has by itself; nor is noise."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.jvm import Jvm
from testkit.driver.bare_query import bare_session
from testkit.streams.streams import stream
from testkit.wait import wait_for

pytestmark = pytest.mark.proves("failures.md#what-is-shown-of-records")

_SECRET = "card 4111222333"
_STATE = "org.apache.spark.sql.execution.streaming.operators.stateful"


def test_a_task_that_fails_while_its_session_stops(jvm: Jvm, jvm_log: Path, tmp_path: Path) -> None:
    """Spark then logs the message of its exception, without the exception (SPARK-19147)."""
    before = jvm_log.stat().st_size

    def run(rows: Any) -> None:
        with contextlib.suppress(Exception):  # of the session that stops
            rows.write.format("noop").mode("overwrite").save()

    pause = "java_method('java.lang.Thread', 'sleep', 3000L + length(value))"
    with bare_session(jvm, stream(), tmp_path) as spark:
        one = spark.createDataFrame([(_SECRET,)], "value STRING")
        late = one.selectExpr(f"raise_error(concat(value, {pause})) AS n")
        running = threading.Thread(target=run, args=[late])
        running.start()
        wait_for("the task to sleep", lambda: "sleep" in _calls_of_tasks(jvm))
    running.join(60)
    wait_for("the task's end", lambda: not _calls_of_tasks(jvm))
    logged = jvm_log.read_bytes()[before:].decode()
    assert "Aborting task" in logged
    assert "4111222333" not in logged


def _calls_of_tasks(jvm: Jvm) -> set[str]:
    """The methods that the threads of tasks are in, as far as their first frames."""
    calls: set[str] = set()
    for thread in jvm.gateway.jvm.java.lang.Thread.getAllStackTraces().keySet():
        if thread.getName().startswith("Executor task launch worker for task"):
            calls.update(frame.getMethodName() for frame in list(thread.getStackTrace())[:5])
    return calls


@pytest.mark.parametrize(
    ("logger", "level", "message"),
    [
        # Each as Spark 4.2 and Kafka's client 3.9 write it; a text may have several lines.
        ("org.apache.spark.executor.Executor", "error", "Exception in task 0.0 in stage 7.0: {}"),
        ("org.apache.spark.util.Utils", "warn", "Suppressing exception in catch: {}"),
        ("org.apache.spark.util.Utils", "warn", "Suppressing exception in finally: {}"),
        ("org.apache.spark.storage.BlockManager", "warn",
         "Putting block rdd_1_0 failed due to exception java.lang.X: {}."),
        (f"{_STATE}.join.SymmetricHashJoinStateManagerV1", "warn",
         "Null value detected in stream-stream join state: joinSide=left, key={}, index=0"),
        (f"{_STATE}.transformwithstate.timers.TimerStateImpl", "warn",
         "Failed to register timer for key={} and timestamp=5 ms since it already exists"),
        ("org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer",
         "warn", "Map state seen doesn't contain key {}."),
        ("org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer",
         "error", "Error reading message: {}"),
        ("org.apache.spark.scheduler.TaskSetManager", "warn", "Lost task 0.0 in stage 1.0: {}"),
        ("org.apache.kafka.clients.NetworkClient", "warn",
         "[Producer clientId=producer-1] The metadata response from the cluster reported a "
         "recoverable issue with correlation id 5 : {{{}=INVALID_TOPIC_EXCEPTION}}"),
        ("org.apache.kafka.clients.Metadata", "error", "Topic {} does not exist"),
    ],
)  # fmt: skip
def test_what_spark_and_kafka_say_with_the_text_of_a_record(
    logger: str, level: str, message: str, jvm: Jvm, jvm_log: Path
) -> None:
    before = jvm_log.stat().st_size
    manager = jvm.gateway.jvm.org.apache.logging.log4j.LogManager
    for text in (_SECRET, f"\n{_SECRET}", f"{_SECRET}\nat line 4111222333"):
        getattr(manager.getLogger(logger), level)(message.format(text))
    manager.getLogger("dev.penstock.tests").warn("written")
    wait_for("the log", lambda: b"written" in jvm_log.read_bytes()[before:])
    assert b"4111222333" not in jvm_log.read_bytes()[before:]


@pytest.mark.parametrize(
    ("logger", "message"),
    [
        ("org.apache.spark.executor.Executor", "Exception in task 0.0 in stage 7.0 (TID 10)"),
        ("org.apache.spark.util.Utils", "Aborting task"),
        ("org.apache.spark.storage.BlockManager", "Block rdd_1_0 could not be removed"),
    ],
)
def test_what_they_say_without_one_stays(
    logger: str, message: str, jvm: Jvm, jvm_log: Path
) -> None:
    before = jvm_log.stat().st_size
    jvm.gateway.jvm.org.apache.logging.log4j.LogManager.getLogger(logger).error(message)
    wait_for("the log", lambda: message.encode() in jvm_log.read_bytes()[before:])


CALL = """
import socket
import struct
import threading

from py4j.java_gateway import GatewayParameters, JavaGateway

from penstock.driver.logs import leave_out_noise


def reset():
    connection, _ = server.accept()
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


leave_out_noise()
with socket.create_server(("127.0.0.1", 0)) as server:
    threading.Thread(target=reset).start()
    port = server.getsockname()[1]
    try:
        JavaGateway(gateway_parameters=GatewayParameters(port=port)).jvm.System.nanoTime()
    except Exception:
        print("raised")
"""


def test_a_call_into_a_jvm_that_ends_logs_nothing() -> None:
    """Such as a finalizer's, at the end of `penstock replay`. Py4J would log a traceback."""
    ended = subprocess.run(
        [sys.executable, "-c", CALL], capture_output=True, text=True, timeout=120
    )
    assert (ended.stdout, ended.stderr) == ("raised\n", "")
