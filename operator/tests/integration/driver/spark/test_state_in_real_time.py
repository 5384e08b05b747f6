"""State in real-time mode: all stages run at once, and the engines share one checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.jvm import Jvm
from penstock.driver.kubernetes.api import Api
from testkit.driver.fake_kubelet import POLLING, Kubelet, driver_pod
from testkit.driver.in_process_driver import InProcessDriver, running
from testkit.kafka.topics import Topics
from testkit.streams.streams import MICRO_BATCH, REAL_TIME, kafka_sink, kafka_source, stream
from testkit.wait import wait_for

pytestmark = pytest.mark.timeout(300)

_DIGIT = "CAST(CAST(CAST(value AS STRING) AS BIGINT) % 10 AS STRING)"
_COUNT = (
    f"SELECT key, CAST(count(*) AS STRING) AS value FROM (SELECT {_DIGIT} AS key FROM source) "
    "GROUP BY key"
)


class Counted:
    """A count of records by key, between two topics, in one checkpoint."""

    def __init__(self, topics: Topics) -> None:
        self.topics, self.sent = topics, 0
        self.source, self.sink = topics.make(2), topics.make(1)

    def stream(self, trigger: dict[str, Any], **fields: Any) -> ContinuousStream:
        bootstrap = self.topics.bootstrap
        return stream(
            kafka_source(bootstrap, topics=[self.source], startingOffsets="earliest"),
            kafka_sink(bootstrap, topic=self.sink),
            trigger=trigger,
            outputMode="update",
            **{"transform": {"sql": _COUNT}, **fields},
        )

    def send_and_wait(self) -> None:
        """Ten more records of each key, until each has its whole count."""
        self.topics.send(self.source, range(self.sent, self.sent + 100))
        self.sent += 100
        counts = dict.fromkeys(range(10), self.sent // 10)
        wait_for("the counts", lambda: self.topics.last_values(self.sink) == counts)


@pytest.mark.proves(14, 15, "checkpoints.md#from-one-trigger-to-another")
@pytest.mark.parametrize(
    ("modes", "of_state"),
    [([REAL_TIME, MICRO_BATCH, REAL_TIME], 2), ([MICRO_BATCH, REAL_TIME], 4)],
    ids=["from real-time", "from micro-batches"],
)
def test_counts_are_exact_through_a_failure_and_switches_of_the_mode(
    modes: list[dict[str, Any]], of_state: int, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    counted = Counted(topics)
    for trigger in modes:
        with running(counted.stream(trigger), jvm, tmp_path) as driver:
            report = driver.wait_ready()
            # Beside two partitions of the source; in micro-batches all tasks take turns.
            cores = 2 + of_state if trigger is REAL_TIME else 2
            assert (report.cores, report.state_partitions) == (cores, of_state)
            counted.send_and_wait()
            driver.wait_committed(counted.sent)
            if trigger is REAL_TIME:
                counted.send_and_wait()
                _fail(driver)
                counted.send_and_wait()
                driver.wait_committed(counted.sent)


@pytest.mark.proves(15)
@pytest.mark.parametrize(
    ("sql", "cores"),
    [
        ("SELECT key, value FROM source DISTRIBUTE BY key", 4),
        ("SELECT /*+ REPARTITION(3) */ key, value FROM source", 5),
        ("SELECT CAST(count(*) AS STRING) AS value FROM source", 3),
    ],
)
def test_each_shuffle_has_its_cores(
    sql: str, cores: int, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """With fewer Spark would run no batch."""
    flow = Counted(topics).stream(REAL_TIME, transform={"sql": sql})
    with running(flow, jvm, tmp_path) as driver:
        assert driver.wait_ready().cores == cores
        assert driver.wait("a commit", lambda report: report.committed).query_restarts == 0


@pytest.mark.proves(16)
def test_new_partitions_are_read_once_they_have_cores(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark would fail the next batch if it found them first."""
    counted = Counted(topics)
    with running(counted.stream(REAL_TIME), jvm, tmp_path) as driver:
        driver.wait_ready()
        counted.send_and_wait()
        topics.grow(counted.source, 3)
        driver.wait("five cores", lambda report: report.cores == 5)
        driver.wait_ready()
        topics.send(counted.source, range(0, 1000, 10), partition=2)
        wait_for("the counts", lambda: topics.last_values(counted.sink)[0] == 110)
        assert driver.last.last_failure is None


@pytest.mark.proves("checkpoints.md#state")
@pytest.mark.parametrize("partitions", [3, 2])
def test_the_state_is_divided_for_the_cores_that_it_will_have(
    partitions: int, kubelet: Kubelet, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Also where the limit has no room for the partitions of before."""
    where, api = driver_pod(kubelet, tmp_path), Api(kubelet.url, "payments")
    counted = Counted(topics)
    with running(counted.stream(MICRO_BATCH), jvm, where.generation(0)) as driver:
        driver.wait_ready()
        counted.send_and_wait()
        driver.wait_committed(counted.sent)
    fields = {
        "checkpoint": {"statePartitions": partitions},
        "executor": {"cores": 2 + partitions, "maxInstances": 1},
        "sparkConf": POLLING,
    }
    with running(counted.stream(REAL_TIME, **fields), jvm, where, api=api) as driver:
        report = driver.wait_ready()
        assert (report.cores, report.state_partitions) == (2 + partitions, partitions)
        counted.send_and_wait()


def _fail(driver: InProcessDriver) -> None:
    session = driver.runtime.session
    assert session is not None
    session.sparkContext.cancelAllJobs()
    driver.wait("a restart", lambda report: report.query_restarts == 1)


@pytest.mark.proves(15)
def test_a_limit_that_leaves_no_core_for_the_state_is_said(
    kubelet: Kubelet, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark would run no batch."""
    flow = Counted(topics).stream(REAL_TIME, executor={"maxInstances": 3}, sparkConf=POLLING)
    where, api = driver_pod(kubelet, tmp_path), Api(kubelet.url, "payments")
    with running(flow, jvm, where, api=api) as driver:
        failure = driver.wait_failure("TooFewExecutorsAllowed").last_failure
        assert failure is not None
        assert failure.permanent
        assert "2 partitions and 2 tasks with state need 4 executors" in failure.message
