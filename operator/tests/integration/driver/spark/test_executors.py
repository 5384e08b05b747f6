"""Executors in their own processes, on a fake Kubernetes: awaited, lost, added, released."""

from __future__ import annotations

import itertools
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.api.quantities import amount, in_bytes, mebibytes
from penstock.api.v1alpha1.driver_and_executor import EXECUTOR_LEAST_OVERHEAD, LEAST_HEAP
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster import kinds
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.contract.naming import stream_labels
from penstock.driver.jvm import Jvm
from penstock.driver.kubernetes.api import Api
from penstock.driver.supervision.restart_policy import RestartPolicy
from testkit.driver.fake_kubelet import POD_IP, POLLING, Kubelet, driver_pod
from testkit.driver.hosts_file import HostsFile
from testkit.driver.in_process_driver import InProcessDriver, running
from testkit.driver.metric_samples import numbers
from testkit.kafka.topics import Topics, number_flow, total
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import MICRO_BATCH, kafka_to_kafka, stream
from testkit.wait import wait_for

pytestmark = pytest.mark.timeout(300)


# Spark splits the memory into heap and overhead, and requests their sum.
SMALL: dict[str, Any] = {
    "resources": {
        "requests": {"cpu": "100m", "memory": "900Mi"},
        "limits": {"cpu": 2, "memory": "900Mi"},
    }
}


def amounts(resources: dict[str, Any]) -> dict[tuple[str, str], Decimal]:
    """Requests and limits as numbers, because Spark has its own spelling of a quantity."""
    return {
        (kind, name): amount(each)
        for kind, quantities in resources.items()
        for name, each in quantities.items()
    }


@pytest.mark.proves(15, "failures.md#there-are-fewer-cores-than-partitions")
def test_a_missing_core_is_reported_and_waited_for(
    kubelet: Kubelet, topics: Topics, jvm: Jvm, tmp_path: Path, record_figure: RecordFigure
) -> None:
    """Spark itself would run one partition and silently ignore the other. With its web UI, and its
    event log."""
    source, sink = topics.make(2), topics.make()
    topics.send(source, range(100))
    events = tmp_path / "events"
    events.mkdir()
    kubelet.room = 1
    start = time.monotonic()
    api = Api(kubelet.url, "payments")
    with running(
        number_flow(
            topics,
            source,
            sink,
            sparkConf={**POLLING, "spark.ui.port": "0"},
            observability={"ui": True, "eventLog": events.as_uri()},
        ),
        jvm,
        driver_pod(kubelet, tmp_path),
        api=api,
    ) as driver:
        report = driver.wait("one of two cores", lambda report: report.registered_cores == 1)
        assert report.state is QueryState.WAITING_FOR_CORES
        assert report.message == "1 of 2 cores"
        record_figure("seconds until the missing core is reported", time.monotonic() - start)
        assert not driver.runtime.has_query
        kubelet.make_room()
        driver.wait("both cores", lambda report: report.registered_cores == 2)
        complete = time.monotonic()
        topics.wait_received(sink, range(100))
        driver.wait_ready()
        record_figure("seconds from the second core to the commit", time.monotonic() - complete)
        states = {report.state for report in driver.reports if report.registered_cores == 1}
        assert states == {QueryState.WAITING_FOR_CORES}
        assert driver.last.query_restarts == 0
        assert "Streaming Query" in web_page(driver, "127.0.0.1", "/StreamingQuery/")
        with pytest.raises(urllib.error.URLError):
            web_page(driver, POD_IP, "/")
    assert [path.name for path in events.glob("*/events_1_*")]


@pytest.mark.proves("capacity.md#a-stream-of-12-partitions")
def test_the_smallest_executor_runs(
    kubelet: Kubelet, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """The smallest that validation accepts, with the collector that Java chooses in such a pod."""
    source, sink = topics.make(1), topics.make()
    topics.send(source, range(100))
    least = {
        "resources": {"limits": {"memory": _with_least_heap(EXECUTOR_LEAST_OVERHEAD)}},
        "javaOptions": ["-XX:+UseSerialGC"],
    }
    flow = number_flow(topics, source, sink, sparkConf=POLLING, executor=least)
    with running(
        flow, jvm, driver_pod(kubelet, tmp_path), api=Api(kubelet.url, "payments")
    ) as driver:
        topics.wait_received(sink, range(100))
        driver.wait_ready()
        assert len(kubelet.made) == 1


def _with_least_heap(overhead: str) -> str:
    return f"{mebibytes(in_bytes(LEAST_HEAP) + in_bytes(overhead))}Mi"


def web_page(driver: InProcessDriver, address: str, path: str) -> str:
    """A page of Spark's web UI, asked for at an address of this machine."""
    session = driver.runtime.session
    assert session is not None
    port = urllib.parse.urlsplit(session.sparkContext.uiWebUrl or "").port
    with urllib.request.urlopen(f"http://{address}:{port}{path}", timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.proves(15, 16, "failures.md#an-executor-is-lost", "failures.md#partitions-are-added")
def test_executors_are_waited_for_lost_added_and_released(
    kubelet: Kubelet, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink = topics.make(2), topics.make()
    # An executor of an earlier driver process.
    kubelet.add("numbers-exec-1", stream_labels("numbers", "executor"))
    kubelet.room = 0
    with running(
        number_flow(topics, source, sink, sparkConf=POLLING, executor=SMALL),
        jvm,
        driver_pod(kubelet, tmp_path),
        api=Api(kubelet.url, "payments"),
    ) as driver:
        # Without cores nothing starts, and the state shows it.
        report = driver.wait(
            "short of cores",
            lambda report: report.state is QueryState.WAITING_FOR_CORES and len(kubelet.made) == 2,
        )
        assert report.message == "0 of 2 cores"
        assert not driver.runtime.has_query
        kubelet.make_room()
        driver.wait_ready()
        topics.send(source, range(100))
        topics.wait_received(sink, range(100))

        # A process with another secret does not become an executor.
        assert kubelet.run_intruder() != 0
        assert driver.runtime.observe(frozenset()).registered_executors == 2
        (log,) = tmp_path.glob("intruder*.log")
        assert "Exception while bootstrapping client" in log.read_text()

        # One executor is lost: the query fails, the executor is replaced, the query restarts.
        kubelet.kill(kubelet.executors()[0])
        topics.send(source, range(100, 200))
        driver.wait("a restart", lambda report: report.query_restarts >= 1 and report.committed)
        assert driver.last.registered_executors == 2
        assert driver.last.last_failure is not None
        assert driver.last.last_failure.reason == "ExecutorLost"
        topics.wait_received(sink, range(200))

        # One more partition: first an executor for it, then the query restarts.
        restarts = driver.last.query_restarts
        topics.grow(source, 3)
        driver.wait(
            "three executors",
            lambda report: report.registered_executors == 3 and report.state is QueryState.RUNNING,
        )
        topics.send(source, range(200, 210), partition=2)
        topics.wait_received(sink, range(210))
        assert driver.last.query_restarts == restarts
        last = kubelet.made[-1]
    wait_for("no executor", lambda: not kubelet.executors())

    # So the driver needs no other rights.
    assert kubelet.used == {"pods", "secrets", kinds.STREAM.plural}
    spec = last["spec"]
    (container,) = spec["containers"]
    labels = last["metadata"]["labels"]
    assert stream_labels("numbers", "executor").items() <= labels.items()
    assert last["metadata"]["name"].startswith("numbers-exec-")
    assert last["metadata"]["ownerReferences"][0]["uid"] == "numbers-driver-0"
    assert amounts(container["resources"]) == amounts(SMALL["resources"])
    assert spec["serviceAccountName"] == "numbers-driver"
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert sorted(mounts) == ["/etc/penstock-rpc", "/opt/spark/work-dir", "/tmp"]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    # Everyone who may read pods could read it there.
    assert "_SPARK_AUTH_SECRET" not in environment
    assert environment["SPARK_LOCAL_DIRS"] == "/tmp"
    logs = "".join(path.read_text() for path in tmp_path.glob("numbers-exec-*.log"))
    assert "UninterruptibleThread" not in logs


BROKER = "broker.example"
# Nothing listens there.
NOWHERE = "127.0.0.9"


@pytest.mark.proves("metrics.md#how-latency-and-lag-are-measured")
@pytest.mark.timeout(600)
def test_a_long_batch_has_handled_what_it_has_passed_on(
    kubelet: Kubelet, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Real-time mode, in whose batches nothing is committed for minutes: the status' lag falls to 0
    while the batch runs, and the lag in the metrics, that of commits, does not. The ends of
    transactions, which no record has, are none of what is left to do.
    """
    source, sink = topics.make(2), topics.make()
    topics.send(source, range(100))

    def flow(duration: str) -> ContinuousStream:
        trigger = {"realTime": {"batchDuration": duration}}
        return number_flow(topics, source, sink, trigger, sparkConf=POLLING, executor=SMALL)

    where, api = driver_pod(kubelet, tmp_path), Api(kubelet.url, "payments")
    with running(flow("5s"), jvm, where, api=api) as driver:
        driver.wait_committed(100)
    with running(flow("10m"), jvm, where, api=api) as driver:
        # The first batch of a run takes a second.
        first = driver.wait_ready().epoch
        driver.wait("a long batch", lambda report: report.epoch != first)
        topics.send(source, range(100, 400))
        topics.wait_received(sink, range(100, 400))
        driver.wait("all handled", lambda report: report.lag == 0)

        def committed() -> int:
            return total(driver.runtime.progress.committed_offsets())

        def wait_seen(written: int) -> None:
            def seen(_: DriverReport) -> bool:
                before, lag = committed(), numbers(driver.metrics).get("lag_records")
                return before == committed() and lag == written - before

            driver.wait(f"{written} seen", seen)

        topics.send_in_transactions(source, range(400, 500), each=1)
        # A record, a marker, an aborted record and its marker, for each of a hundred. The broker
        # writes a marker some time after the producer is told; here before the next record, as
        # what lies after the last one is counted by none.
        wait_seen(400 + 400)
        topics.send(source, range(500, 800))
        topics.wait_received(sink, range(400, 800))
        wait_seen(written := 400 + 400 + 300)
        # On a busy machine a task may have been behind for a second, which ends a batch.
        for number in range(800, 900):
            if committed() < written:
                break
            topics.send(source, range(number, number + 1))
            wait_seen(written := written + 1)
        driver.wait("all handled again", lambda report: report.lag == 0)
        before, found = committed(), numbers(driver.metrics)
        assert (found["lag_records"], found["unhandled_records"]) == (written - before, 0)
        assert before < written
    # The stop has ended the batch of ten minutes, in another JVM.
    assert committed() == written


@pytest.mark.proves("failures.md#one-executor-cannot-reach-the-broker-of-a-partition")
def test_an_executor_that_cannot_reach_the_broker_is_replaced(
    kubelet: Kubelet,
    topics: Topics,
    jvm: Jvm,
    jvm_hosts: HostsFile,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """Spark commits its epochs on time, without the records of its partition."""
    source, sink = topics.make(2), topics.make()
    jvm_hosts.set(BROKER)
    lost = HostsFile(tmp_path / "hosts", NOWHERE)
    lost.set(BROKER)
    kubelet.options = [jvm_hosts.java_option]
    kubelet.options_of_first = [lost.java_option]
    flow = stream(**kafka_to_kafka(topics.bootstrap_as(BROKER), source, sink), sparkConf=POLLING)
    policy = replace(RestartPolicy.from_spec(flow.spec), unread_patience=5.0)
    with running(
        flow,
        jvm,
        driver_pod(kubelet, tmp_path),
        policy,
        Api(kubelet.url, "payments"),
        sample_seconds=1.0,
    ) as driver:
        driver.wait_ready()
        began = time.monotonic()
        for partition in (0, 1):
            topics.send(source, range(100 * partition, 100 * partition + 100), partition=partition)
        driver.wait_failure("PartitionsNotRead")
        record_figure("seconds until it is reported", time.monotonic() - began)
        assert not driver.health.ready
        assert driver.last.last_failure is not None
        assert f" of {source} from offset " in driver.last.last_failure.message
        received = topics.wait_received(sink, range(200))
        driver.wait("ready again", lambda report: driver.health.ready)
        assert driver.last.query_restarts == 1
    assert max(received.values()) == 1
    assert len(kubelet.made) >= 4  # on a busy machine Spark replaces some that are slow to start


def test_an_executor_without_heap_ends_and_says_so(
    kubelet: Kubelet, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Otherwise its threads would die one by one. With more memory, the record passes."""
    source, sink = topics.make(1), topics.make(1)
    kubelet.options_of_first, kubelet.options = ["-Xmx600m"], ["-Xmx1500m"]
    # 700 MB for one record.
    value = "CAST(value AS STRING)"
    large = f"IF({value} = '50', octet_length(repeat({value}, 350000000)), 0)"
    sql = f"SELECT key, {value} AS value FROM source WHERE {large} >= 0"
    flow = number_flow(topics, source, sink, sparkConf=POLLING, transform={"sql": sql})
    with running(
        flow, jvm, driver_pod(kubelet, tmp_path), api=Api(kubelet.url, "payments")
    ) as driver:
        driver.wait_ready()
        topics.send(source, range(100))
        topics.wait_received(sink, range(100))
        failures = [it.last_failure for it in driver.reports if it.last_failure is not None]
    said = {it.message for it in failures if it.reason == "ExecutorOutOfMemory"}
    words = "The executor 1 ran out of heap. Raise spec.executor.resources.limits.memory."
    assert said == {words}, failures


# Where executors may run.

ONE_PARTITION = {"rate": {"rowsPerSecond": 10, "numPartitions": 1}}
WATERMARK = {"watermark": {"column": "timestamp", "delay": "3s"}}
COUNT = "SELECT count(*) FROM source"
EXCEPT = "SELECT value FROM source EXCEPT SELECT id FROM range(3)"
PASSES_ON = "def passes(source):\n    return source.select('value')\n"
COUNTS = "def passes(source):\n    return source.groupBy('value').count()\n"


def python(text: str) -> dict[str, Any]:
    return {"python": {"function": "flows:passes", "inline": text}}


def changes(executors: list[dict[str, Any]]) -> list[bool]:
    """Whether they could write state, and each change. On a busy machine Spark replaces some."""
    return [state for state, _ in itertools.groupby(map(writes_state, executors))]


def writes_state(executor: dict[str, Any]) -> bool:
    """Whether an executor mounts the checkpoint; if so, it must run where the driver does."""
    spec = executor["spec"]
    mounts = "checkpoint" in {volume["name"] for volume in spec["volumes"]}
    assert ("podAffinity" in spec.get("affinity", {})) is mounts
    return mounts


# The driver asks for Spark's plan in one way, whatever the query.
FULL = pytest.mark.full


@pytest.mark.proves("failures.md#there-are-fewer-cores-than-partitions")
@pytest.mark.parametrize(
    ("trigger", "transform", "keeps_state"),
    [
        pytest.param(MICRO_BATCH, python(PASSES_ON), False, id="python", marks=FULL),
        pytest.param(MICRO_BATCH, WATERMARK, False, id="watermark"),
        pytest.param(MICRO_BATCH, python(COUNTS), True, id="python-count"),
        pytest.param({"availableNow": {}}, {"sql": COUNT}, True, id="sql-count", marks=FULL),
        pytest.param(MICRO_BATCH, {"sql": EXCEPT}, True, id="except", marks=FULL),
    ],
)
def test_the_plan_says_whether_executors_write_state(
    kubelet: Kubelet,
    jvm: Jvm,
    tmp_path: Path,
    trigger: dict[str, Any],
    transform: dict[str, Any],
    keeps_state: bool,
) -> None:
    """At the first start the plan does; at later ones the checkpoint, so that none waits for it."""
    flow = stream(
        ONE_PARTITION, {"noop": {}}, trigger=trigger, transform=transform, sparkConf=POLLING,
        outputMode="update" if keeps_state else "append",
    )  # fmt: skip
    pods, count = driver_pod(kubelet, tmp_path), 0
    for is_first in (True, False):
        with running(flow, jvm, pods, api=Api(kubelet.url, "payments")) as driver:
            driver.wait("a commit", lambda report: report.committed)
            session = driver.runtime.session
            if session is not None:
                adaptive = session.conf.get("spark.sql.adaptive.enabled")
                assert adaptive == str(not keeps_state).lower()
            up = [report for report in driver.reports if report.cores is not None]
        assert (up[0].executors is None) is is_first
        made, count = kubelet.made[count:], len(kubelet.made)
        assert changes(made) == [keeps_state]


# Not a sum over the range itself, which Spark 4.3 calculates without a job.
JOB = "    assert source.sparkSession.range(3).repartition(2).count() == 3\n"


@pytest.mark.proves("failures.md#planning-the-query-takes-long")
@pytest.mark.parametrize(
    ("text", "executors"), [(PASSES_ON, [False]), (COUNTS, [False, True])], ids=["none", "state"]
)
def test_a_job_of_the_plan_gets_an_executor(
    kubelet: Kubelet, jvm: Jvm, tmp_path: Path, text: str, executors: list[bool]
) -> None:
    """At a first start none is asked for before the plan. One for a job cannot write state."""
    define, *rest = text.splitlines(keepends=True)
    transform = python("".join([define, JOB, *rest]))
    flow = stream(
        ONE_PARTITION, {"noop": {}}, trigger=MICRO_BATCH, transform=transform,
        sparkConf=POLLING, outputMode="update",
    )  # fmt: skip
    with running(
        flow, jvm, driver_pod(kubelet, tmp_path), api=Api(kubelet.url, "payments")
    ) as driver:
        driver.wait("a commit", lambda report: report.committed)
        assert driver.last.last_failure is None
    assert changes(kubelet.made) == executors
