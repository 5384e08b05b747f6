"""Spark's behaviour on unrepaired checkpoints, and its continuation from repaired ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from penstock.contract.driver_report import QueryState
from penstock.driver.jvm import Jvm
from testkit.driver.checkpoints import folder_at
from testkit.driver.in_process_driver import running
from testkit.kafka.topics import Topics, number_flow


@pytest.mark.proves(7)
def test_uncommitted_offsets_lose_no_records(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """Without the repair Spark commits its next epoch under them, and skips ten records."""
    source, sink = topics.make(1), topics.make()
    flow = number_flow(topics, source, sink)
    topics.send(source, range(10))
    folder = folder_at(tmp_path)
    with running(flow, jvm, tmp_path) as driver:
        driver.wait(
            "ten committed", lambda _: folder.progress.committed_offsets() == {source: {0: 10}}
        )
    epoch = folder.progress.committed_epoch()
    assert epoch is not None
    planted = tmp_path / "offsets" / str(epoch + 1)
    planted.write_text(f"v1\n\n{json.dumps({source: {'0': 20}})}")
    with running(flow, jvm, tmp_path) as driver:
        driver.wait("a commit", lambda report: report.committed)
        assert json.loads(planted.read_text().splitlines()[-1]) == {source: {"0": 10}}


@pytest.mark.proves(12)
def test_torn_offsets_stop_the_stream_until_they_are_restored(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """A disk has done it, or a person. Nothing is written until then, and nothing is skipped."""
    source, sink = topics.make(1), topics.make()
    flow = number_flow(topics, source, sink, {"continuous": {"checkpointInterval": "200ms"}})
    topics.send(source, range(10))
    folder = folder_at(tmp_path)
    with running(flow, jvm, tmp_path) as driver:
        driver.wait(
            "ten committed", lambda _: folder.progress.committed_offsets() == {source: {0: 10}}
        )
        assert driver.last.last_repair is None
    epoch = folder.progress.committed_epoch()
    assert epoch is not None
    offsets = tmp_path / "offsets" / str(epoch)
    whole = offsets.read_bytes()
    offsets.write_bytes(whole[:-3])
    topics.send(source, range(10, 20))
    with running(flow, jvm, tmp_path) as driver:
        report = driver.wait_failure("CheckpointDamaged")
        assert report.last_failure is not None
        assert f"offsets/{epoch}" in report.last_failure.message
        assert report.state is QueryState.FAILED
        offsets.write_bytes(whole)
        driver.wait(
            "twenty committed", lambda _: folder.progress.committed_offsets() == {source: {0: 20}}
        )
    assert topics.received(sink) == Counter(range(20))


@pytest.mark.proves("checkpoints.md#repairs")
def test_a_query_that_never_committed_comes_back_by_itself(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Spark swallows a commit that fails, so offsets are all that such a query leaves."""
    source, sink = topics.make(1), topics.make()
    flow = number_flow(topics, source, sink, {"continuous": {"checkpointInterval": "200ms"}})
    topics.send(source, range(10))
    folder = folder_at(tmp_path)
    with running(flow, jvm, tmp_path) as driver:
        topics.wait_received(sink, range(10))
        driver.wait("epochs", lambda _: (folder.progress.planned_epoch() or 0) > 3)
    for commit in (tmp_path / "commits").iterdir():
        commit.unlink()
    topics.send(source, range(10, 20))
    with running(flow, jvm, tmp_path) as driver:
        topics.wait_received(sink, range(20))
        report = driver.wait_ready()
        assert (report.last_failure, report.query_restarts) == (None, 0)
    assert topics.received(sink) == Counter([*range(10), *range(20)])
