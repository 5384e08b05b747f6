"""A stalled query and a hung JVM, which no exception reports, are found and restarted."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from penstock.api.v1alpha1.status import LastFailure
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.jvm import Jvm
from penstock.driver.supervision.stall_detection import COMMITS_STUCK
from testkit.driver.driver_process import driver
from testkit.driver.in_process_driver import running
from testkit.kafka.topics import Topics, number_flow
from testkit.streams.streams import RATE, stream

pytestmark = pytest.mark.timeout(180)


def test_a_swallowed_commit_failure_restarts_the_query(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Without a restart the query keeps planning epochs and never commits again."""
    source, sink = topics.make(1), topics.make()
    flow = number_flow(topics, source, sink, {"continuous": {"checkpointInterval": "200ms"}})
    folder = CheckpointFolder(tmp_path)
    with running(flow, jvm, tmp_path) as it:
        epoch = it.wait_ready().epoch
        assert epoch is not None
        planted = tmp_path / "commits" / f".{epoch + 10}.crc"
        planted.write_bytes(b"crc\0")
        topics.send(source, range(50))
        report = it.wait("a restart", lambda report: report.query_restarts == 1)
        assert report.last_failure is not None
        assert report.last_failure.reason == COMMITS_STUCK
        topics.send(source, range(50, 100))
        it.wait("all", lambda _: folder.progress.committed_offsets() == {source: {0: 100}})
        assert it.runtime.has_session
    assert set(topics.received(sink)) == set(range(100))
    assert json.dumps(COMMITS_STUCK) in report.model_dump_json()


# A driver with a step timeout of five seconds.
SHORT_TIMEOUT = """
import sys
from dataclasses import replace
from penstock.driver import main
from_spec = main.RestartPolicy.from_spec
main.RestartPolicy.from_spec = lambda spec: replace(from_spec(spec), step_timeout=5.0)
sys.exit(main.main())
"""


def test_a_jvm_that_does_not_answer_is_killed(class_path: str, tmp_path: Path) -> None:
    """A call into it never returns. The termination message gives the reason."""
    with driver(stream(RATE), tmp_path, class_path, "-c", SHORT_TIMEOUT) as process:
        process.wait_ready()
        os.kill(process.jvm, signal.SIGSTOP)
        assert process.process.wait(60) == 1
    failure = LastFailure.model_validate_json(process.termination_log.read_text())
    assert failure.reason == "DriverHung"
