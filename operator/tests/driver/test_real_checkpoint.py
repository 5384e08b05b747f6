"""That Spark really does what checkpoint.py says it does, and goes on from what was mended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.driver.checkpointdir import CheckpointFolder
from penstock.driver.jvm import Jvm
from tests.driver.running import Topics, running
from tests.driver.streams import kafka_sink, kafka_source, stream

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]


def test_offsets_that_were_never_committed_are_not_believed(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """Left alone, Spark commits its next epoch under them: ten records would never be read."""
    source, sink = topics.make(1), topics.make()
    flow = stream(
        kafka_source(topics.bootstrap, topics=[source], startingOffsets="earliest"),
        kafka_sink(topics.bootstrap, topic=sink),
    )
    topics.send(source, range(10))
    folder = CheckpointFolder(tmp_path)
    with running(flow, jvm, tmp_path) as driver:
        driver.wait("ten committed", lambda _: folder.committed_offsets() == {source: {0: 10}})
    epoch = folder.epoch()
    assert epoch is not None
    planted = tmp_path / "offsets" / str(epoch + 1)
    planted.write_text(f"v1\n\n{json.dumps({source: {'0': 20}})}")
    with running(flow, jvm, tmp_path) as driver:
        driver.wait("a commit", lambda report: report.committed)
        assert json.loads(planted.read_text().splitlines()[-1]) == {source: {"0": 10}}


@pytest.mark.parametrize("damage", ["leftover checksum", "empty commit", "truncated offsets"])
def test_a_torn_tail_is_mended(topics: Topics, jvm: Jvm, tmp_path: Path, damage: str) -> None:
    """Left alone: the query runs on and never commits again, or does not start."""
    source, sink = topics.make(1), topics.make()
    flow = stream(
        kafka_source(topics.bootstrap, topics=[source], startingOffsets="earliest"),
        kafka_sink(topics.bootstrap, topic=sink),
        interval="200ms",
    )
    topics.send(source, range(10))
    folder = CheckpointFolder(tmp_path)
    with running(flow, jvm, tmp_path) as driver:
        driver.wait("ten committed", lambda _: folder.committed_offsets() == {source: {0: 10}})
    epoch = folder.epoch()
    assert epoch is not None
    if damage == "leftover checksum":
        checksum = (tmp_path / "commits" / f".{epoch}.crc").read_bytes()
        (tmp_path / "commits" / f".{epoch + 1}.crc").write_bytes(checksum)
    elif damage == "empty commit":
        (tmp_path / "commits" / str(epoch)).write_bytes(b"")
    else:
        offsets = tmp_path / "offsets" / str(epoch)
        offsets.write_bytes(offsets.read_bytes()[:-3])
    topics.send(source, range(10, 20))
    with running(flow, jvm, tmp_path) as driver:
        driver.wait("twenty committed", lambda _: folder.committed_offsets() == {source: {0: 20}})
        assert driver.last.query_restarts == 0
    assert set(topics.received(sink)) == set(range(20))
