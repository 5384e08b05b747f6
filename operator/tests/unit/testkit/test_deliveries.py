"""Copies in a sink are judged by the commits of the checkpoint."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from testkit.kafka.deliveries import CommitLog, Copy

PLACES = {number: (number % 2, number // 2) for number in range(40)}
"""Even numbers are in partition 0, odd ones in partition 1."""


def commit(checkpoint: Path, epoch: int, at: float, *ends: int) -> None:
    """Commits an epoch with these ends of the partitions of topic `in`."""
    offsets = {"in": {str(partition): end for partition, end in enumerate(ends)}}
    lines = ["v1", json.dumps({"batchWatermarkMs": 0, "conf": {}}), json.dumps(offsets)]
    for log, text in (("offsets", "\n".join(lines)), ("commits", 'v1\n{"nextBatchWatermarkMs":0}')):
        (checkpoint / log).mkdir(exist_ok=True)
        (checkpoint / log / str(epoch)).write_text(text)
    os.utime(checkpoint / "commits" / str(epoch), (at, at))


@pytest.fixture
def log(tmp_path: Path) -> CommitLog:
    """Commits at 100 s (two records of each partition) and 110 s (ten, and twelve)."""
    log = CommitLog(tmp_path)
    log.look()
    commit(tmp_path, 0, 100, 2, 2)
    log.look()
    commit(tmp_path, 1, 110, 10, 12)
    log.look()
    return log


@pytest.mark.parametrize(
    ("number", "at", "allowed"),
    [
        (2, 99.0, True),  # offset 1 of partition 0: before its commit
        (2, 101.0, False),
        (4, 101.0, True),  # offset 2: in the second commit
        (4, 111.0, False),
        (21, 111.0, False),  # offset 10 of partition 1: committed there
        (20, 111.0, True),  # offset 10 of partition 0: not yet
    ],
)
def test_a_copy_after_the_commit_of_its_record_breaks_the_guarantee(
    number: int, at: float, allowed: bool, log: CommitLog
) -> None:
    copy = Copy(number, at)
    assert log.replays_of_committed("in", PLACES, [copy]) == ([] if allowed else [copy])


def test_what_was_in_doubt_is_what_the_next_commit_adds(log: CommitLog) -> None:
    assert log.most_in_doubt(105, 115) == 18
    assert log.most_in_doubt(111, 115) == 0
