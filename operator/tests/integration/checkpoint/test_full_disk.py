"""A checkpoint on a volume that is really full: nothing is lost, and the reason is reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.checkpoint.storage import lock
from penstock.driver.failures import DriverError
from penstock.driver.jvm import Jvm
from penstock.driver.supervision.history import History, NotedHistory
from testkit.driver.checkpoints import checkpoint, folder_at, note, read, write
from testkit.driver.in_process_driver import impatient, running
from testkit.kafka.topics import Topics, number_flow
from testkit.small_disk import SmallDisk, small_disk
from testkit.streams.streams import (
    MICRO_BATCH,
    MOSTLY_CONTINUOUS,
    kafka_sink,
    kafka_source,
    stream,
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "volume") as mounted:
        yield mounted


def test_penstocks_own_files_on_a_full_volume(disk: SmallDisk, tmp_path: Path) -> None:
    """Each says what is wrong, and none is left in part."""
    path = disk.path / "generation-0"
    folder, stored = folder_at(path), NotedHistory(folder_at(path).notes, "spec")
    lock.release(lock.acquire(path, 0))
    note(folder, first_offsets={"in": {0: 5}})
    known = History(proved=True, attempts=2)
    stored.write(known)
    disk.fill()
    for act in (
        lambda: folder.repair(stream().spec),
        lambda: note(folder, first_offsets={"in": {0: 6}}),
        lambda: note(folder, topic_ids={"in": "id"}),
    ):
        with pytest.raises(DriverError) as raised:
            act()
        failure = raised.value.failure
        assert (failure.reason, failure.recoverable) == ("CheckpointFull", True)
    with pytest.raises(DriverError):  # the loop logs it and goes on
        stored.write(History(proved=True, attempts=3))
    notes = folder.notes.read()
    assert (notes.first_offsets, notes.topic_ids) == ({"in": {0: 5}}, {})
    assert stored.read() == known
    # The lock of an earlier start needs no space.
    lock.release(lock.acquire(path, 0))
    disk.free()
    note(folder, topic_ids={"in": "id"})
    assert folder.notes.read().topic_ids == {"in": "id"}


def test_a_repair_that_runs_out_of_space_is_completed_later(
    disk: SmallDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The volume fills up right after the repair has found it writable."""
    spec = stream(kafka_source(), kafka_sink(), trigger=MICRO_BATCH).spec
    damaged = checkpoint(range(5), [], range(5))
    for path in ("metadata", "offsets/3"):
        del damaged[path]  # so the repair deletes nothing, which would make space
    write(damaged, tmp_path / "whole")
    folder_at(tmp_path / "whole").repair(spec)
    write(damaged, disk.path)
    disk.fill()
    with monkeypatch.context() as late:
        late.setattr(
            "penstock.driver.checkpoint.storage.durable_files.check_writable", lambda _: None
        )
        with pytest.raises(DriverError, match="CheckpointFull"):
            folder_at(disk.path).repair(spec)
    disk.free()
    folder_at(disk.path).repair(spec)
    assert read(disk.path) == read(tmp_path / "whole")


def _committed(report: DriverReport) -> int:
    return sum(committed.offset for committed in report.committed_offsets or ())


@pytest.mark.proves("failures.md#the-checkpoints-volume-is-full")
@pytest.mark.parametrize("trigger", MOSTLY_CONTINUOUS)
def test_a_volume_that_fills_up_under_a_query(
    trigger: dict[str, Any], disk: SmallDisk, topics: Topics, jvm: Jvm
) -> None:
    """The query cannot commit; the stream says why, and continues when there is space again."""
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink, trigger)
    policy = impatient(flow)
    path = disk.path / "generation-0"
    with running(flow, jvm, path, policy) as driver:
        driver.wait_ready()
        # The loop sees a commit before the one with records, which proves the spec.
        topics.send(source, range(20))
        topics.wait_received(sink, range(20))
        driver.wait("20 committed", lambda report: _committed(report) == 20)
        disk.fill()
        topics.send(source, range(20, 40))
        report = driver.wait_failure("CheckpointFull")
        assert report.state is QueryState.RESTARTING  # the spec has proved itself
        disk.free()
        topics.send(source, range(40, 60))
        received = topics.wait_received(sink, range(60))
        driver.wait("running", lambda report: report.state is QueryState.RUNNING)
    assert set(received) == set(range(60))
