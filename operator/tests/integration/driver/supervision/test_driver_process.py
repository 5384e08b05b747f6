"""The driver as the pod runs it: a process, its signals, its exit codes, its log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from pydantic import ValidationError

from penstock.api.quantities import in_bytes, mebibytes
from penstock.api.v1alpha1.driver_and_executor import DRIVER_OVERHEAD, LEAST_HEAP
from penstock.api.v1alpha1.status import LastFailure
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.checkpoint.storage import lock
from penstock.driver.failures import DriverError
from penstock.driver.jvm import ENV_JAVA_OPTIONS, Jvm
from testkit.driver.checkpoints import folder_at
from testkit.driver.driver_process import driver, traffic
from testkit.kafka.deliveries import commits_of
from testkit.kafka.jars import CONNECTOR_JAR
from testkit.kafka.topics import Topics, number_flow
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import kafka_sink, kafka_source, stream
from testkit.wait import wait_for

pytestmark = pytest.mark.timeout(240)


@pytest.mark.proves(1)
def test_a_killed_jvm_loses_nothing_and_a_stop_is_clean(
    topics: Topics, class_path: str, tmp_path: Path, record_figure: RecordFigure
) -> None:
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink)
    with commits_of(tmp_path / "checkpoint") as commits, ExitStack() as sending:
        sent = sending.enter_context(traffic(topics, source))
        with driver(flow, tmp_path, class_path) as first:
            first.wait_ready()
            assert first.probe("/livez") == 200
            os.kill(first.jvm, signal.SIGKILL)
            assert first.process.wait(30) == 1
        failure = LastFailure.model_validate_json(first.termination_log.read_text())
        assert failure.reason == "DriverKilled"
        assert "137" in failure.message
        with driver(flow, tmp_path, class_path) as second:
            second.wait_ready()
            sending.close()
            numbers = range(sent[0])
            received = topics.wait_received(sink, numbers)
            assert second.stop(30) == 0
    duplicates = sum(received.values()) - len(received)
    record_figure("records sent", len(numbers))
    record_figure("duplicates after the kill", duplicates)
    assert topics.replays_of_committed(commits, source, sink) == []
    # No warning for each record, and none for each task that a stop ends.
    assert second.warnings() == []
    lines = second.log.read_text().splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    # Lines with a logger are the JVM's.
    steps = [line["message"] for line in logged if "logger" not in line]
    assert steps[-2:] == ["stopping", "stopped"]


@pytest.mark.proves("capacity.md#a-stream-of-12-partitions")
def test_the_smallest_driver_runs(topics: Topics, class_path: str, tmp_path: Path) -> None:
    """The smallest that validation accepts: with a few MiB less Spark does not start."""
    source, sink = topics.make(), topics.make()
    least = mebibytes(in_bytes(LEAST_HEAP) + in_bytes(DRIVER_OVERHEAD))
    flow = number_flow(
        topics, source, sink, driver={"resources": {"limits": {"memory": f"{least}Mi"}}}
    )
    too_small = flow.model_dump(mode="json", by_alias=True, exclude_unset=True)
    too_small["spec"]["driver"]["resources"]["limits"]["memory"] = f"{least - 1}Mi"
    with pytest.raises(ValidationError, match="heap must be at least"):
        ContinuousStream.model_validate(too_small)
    topics.send(source, range(100))
    with driver(flow, tmp_path, class_path) as process:
        process.wait_ready()
        topics.wait_received(sink, range(100))
        assert process.stop(30) == 0


EATS_ALL = """
SELECT key, CASE WHEN text = '13' AND java_method('java.lang.System', 'getProperty', 'eats') = 'yes'
    THEN CAST(length(repeat(text, 500000000)) AS STRING) ELSE text END AS value
FROM (SELECT key, CAST(value AS STRING) AS text FROM source)
"""


@pytest.mark.proves("failures.md#a-task-takes-all-memory")
def test_a_task_that_takes_all_memory_ends_the_process_and_loses_nothing(
    topics: Topics, class_path: str, tmp_path: Path
) -> None:
    """The next process is what the kubelet would start; in this one the record is harmless."""
    source, sink = topics.make(1), topics.make()

    def flow(eats: str) -> ContinuousStream:
        java = {"javaOptions": [f"-Deats={eats}"]}
        return number_flow(topics, source, sink, transform={"sql": EATS_ALL}, driver=java)

    with driver(flow("yes"), tmp_path, class_path) as process:
        topics.send(source, range(10))
        topics.wait_received(sink, range(10))
        topics.send(source, range(10, 20))
        assert process.process.wait(60) == 1
    ended = LastFailure.model_validate_json(process.termination_log.read_text())
    assert ended.reason == "DriverOutOfMemory"
    assert "spec.driver.resources.limits.memory" in ended.message
    with driver(flow("no"), tmp_path, class_path) as process:
        topics.wait_received(sink, range(20))
        assert process.stop(30) == 0


@pytest.mark.proves("failures.md#the-image-does-not-fit-the-transform")
@pytest.mark.parametrize("image", ["no jar", "no connector", "another Spark"])
def test_an_image_that_cannot_read_kafka_is_refused_before_anything_else(
    image: str, class_path: str, tmp_path: Path
) -> None:
    """Neither Kafka is asked, nor Spark started; and the driver can still be stopped."""
    jars = {path.name: path for path in Path(class_path).parent.iterdir()}
    ours = jars.pop(CONNECTOR_JAR)
    match image:
        case "no connector":
            jars, said = {CONNECTOR_JAR: ours}, "NoClassDefFoundError"
        case "another Spark":
            jars = {"another": version_of_another_spark(tmp_path), CONNECTOR_JAR: ours, **jars}
            said = "it is for Spark 4.1.0"
        case _:
            said = "ClassNotFoundException"
    of_image = os.pathsep.join(map(str, jars.values()))
    plain = {ENV_JAVA_OPTIONS: ""}  # no session starts with these jars, and so none for an archive
    flow = stream(kafka_source(), kafka_sink())
    with driver(flow, tmp_path, of_image, environment=plain) as process:
        wait_for("the refusal", lambda: "ImageNotUsable" in process.log.read_text())
        log = process.log.read_text()
        assert said in log
        assert "/opt/spark/jars" in log
        assert process.probe("/livez") == 200
        assert process.stop(30) == 0
    assert "start_session" not in process.log.read_text()


def version_of_another_spark(folder: Path) -> Path:
    """Classes before those of the jar, which say that it was compiled for another version."""
    source = folder / "SparkVersion.java"
    constant = 'public static final String COMPILED_FOR = "4.1.0";'
    source.write_text(f"package dev.penstock.spark; public class SparkVersion {{ {constant} }}")
    subprocess.run(["javac", "-d", folder / "classes", source], check=True, timeout=120)
    return folder / "classes"


def test_a_process_that_the_driver_starts_does_not_get_its_jvm(jvm: Jvm) -> None:
    """pyspark in it would take these variables for an order to connect to this JVM."""
    assert jvm.gateway is not None
    assert not [name for name in os.environ if name.startswith("PYSPARK_GATEWAY_")]


def test_a_stop_during_the_start_is_clean(class_path: str, tmp_path: Path) -> None:
    """During the imports of Python, the start of the JVM, and that of Spark. It does not count for
    restart.maxAttempts, although the JVM may be ended in the middle of a step.
    """
    with_import_log = ("-X", "importtime", "-m", "penstock.driver")
    with driver(stream(), tmp_path, class_path, *with_import_log) as importing:
        wait_for("importing", lambda: "pydantic" in importing.log.read_text())
        assert importing.stop(30) == 0
    with driver(stream(), tmp_path, class_path) as starting:
        starting.wait_alive()
        assert starting.stop(30) == 0
    with driver(stream(), tmp_path, class_path) as drained:
        wait_for("the start of Spark", lambda: "start_session" in drained.log.read_text())
        assert drained.stop(30) == 0
    history = folder_at(tmp_path / "checkpoint").notes.read().history
    assert history is not None
    assert history["attempts"] == 0


@pytest.mark.proves(25, "failures.md#the-drivers-pod-is-force-deleted-and-its-process-still-runs")
def test_a_driver_waits_until_the_previous_one_is_gone(class_path: str, tmp_path: Path) -> None:
    """As after the forced deletion of a pod. The JVM inherits the lock, because it writes."""
    with driver(stream(), tmp_path, class_path) as first:
        first.wait_ready()
        jvm = first.jvm
        with driver(stream(), tmp_path, class_path) as second:
            wait_for(
                "waiting",
                lambda: "waiting for the lock of the checkpoint" in second.log.read_text(),
            )
            assert second.probe("/livez") == 200
            os.kill(jvm, signal.SIGSTOP)
            first.process.kill()
            first.process.wait()
            with pytest.raises(DriverError, match="Another driver"):
                lock.acquire(tmp_path / "checkpoint", 0)
            assert second.children == []
            os.kill(jvm, signal.SIGKILL)
            second.wait_ready()


@pytest.mark.proves(22)
def test_max_attempts_holds_across_processes(class_path: str, tmp_path: Path) -> None:
    """The kubelet restarts a container whose JVM crashes without limit."""
    once = stream(restart={"maxAttempts": 1})
    with driver(once, tmp_path, class_path) as first:
        first.wait_ready()
        os.kill(first.jvm, signal.SIGKILL)
        assert first.process.wait(30) == 1
    with driver(once, tmp_path, class_path) as second:
        wait_for("failed", lambda: 'state{state="Failed"} 1.0' in second.page("/metrics"))
        assert second.probe("/readyz") == 503
        second.process.send_signal(signal.SIGTERM)
        assert second.process.wait(30) == 0
    assert "restart.maxAttempts is 1" in second.log.read_text()
    with driver(once, tmp_path, class_path) as third:
        third.wait_ready()


def test_an_unreadable_spec_ends_the_process(tmp_path: Path) -> None:
    (tmp_path / "stream.yaml").write_text("kind: ContinuousStream\n")
    done = subprocess.run(
        [sys.executable, "-m", "penstock.driver", tmp_path / "stream.yaml", "--checkpoint", "x"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "metadata" in done.stderr
