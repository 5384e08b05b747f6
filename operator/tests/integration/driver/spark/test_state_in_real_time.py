"""State in real-time mode: all stages run at once, and the engines share one checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.jvm import Jvm
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
            transform={"sql": _COUNT},
            **fields,
        )

    def send_and_wait(self) -> None:
        """Ten more records of each key, until each has its whole count."""
        self.topics.send(self.source, range(self.sent, self.sent + 100))
        self.sent += 100
        counts = dict.fromkeys(range(10), self.sent // 10)
        wait_for("the counts", lambda: self.topics.last_values(self.sink) == counts)


@pytest.mark.proves(14, 15, "checkpoints.md#from-one-trigger-to-another")
def test_counts_are_exact_through_a_failure_and_two_switches_of_the_mode(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    counted = Counted(topics)
    for trigger in (REAL_TIME, MICRO_BATCH, REAL_TIME):
        with running(counted.stream(trigger), jvm, tmp_path) as driver:
            report = driver.wait_ready()
            # Two partitions of the source and two of the state; in micro-batches these take turns.
            assert (report.cores, report.state_partitions) == (4 if trigger is REAL_TIME else 2, 2)
            counted.send_and_wait()
            driver.wait_committed(counted.sent)
            if trigger is REAL_TIME:
                counted.send_and_wait()
                _fail(driver)
                counted.send_and_wait()
                driver.wait_committed(counted.sent)


def _fail(driver: InProcessDriver) -> None:
    session = driver.runtime.session
    assert session is not None
    session.sparkContext.cancelAllJobs()
    driver.wait("a restart", lambda report: report.query_restarts == 1)


@pytest.mark.proves(15)
def test_a_limit_that_leaves_no_core_for_the_state_is_said(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark would run no batch."""
    flow = Counted(topics).stream(REAL_TIME, executor={"maxInstances": 3})
    with running(flow, jvm, tmp_path) as driver:
        failure = driver.wait_failure("TooFewExecutorsAllowed").last_failure
        assert failure is not None
        assert failure.permanent
        assert "2 partitions and 2 tasks with state need 4 executors" in failure.message
