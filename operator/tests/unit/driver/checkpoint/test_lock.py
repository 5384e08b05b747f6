"""The lock of a checkpoint within one process; between processes: test_driver_process.py."""

from __future__ import annotations

import errno
import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.driver.checkpoint.storage import lock
from penstock.driver.failures import DriverError
from testkit.wait import wait_for


def test_a_second_driver_cannot_acquire_the_lock(tmp_path: Path) -> None:
    first = lock.acquire(tmp_path, 0)
    with pytest.raises(DriverError) as raised:
        lock.acquire(tmp_path, 0)
    assert raised.value.failure.reason == "CheckpointInUse"
    assert not raised.value.failure.permanent
    lock.release(first)
    lock.release(lock.acquire(tmp_path, 0))


@pytest.mark.proves(25)
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_volume_without_locks_is_refused_at_once(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two drivers could write there. No file system here lacks locks, so the answer is made."""

    def flock(_: int, __: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(DriverError, match="has no file locks") as raised:
        lock.acquire(tmp_path, 60)
    assert raised.value.failure.reason == "CheckpointNotAccessible"


@pytest.mark.proves(25)
def test_a_lock_that_cannot_be_written_is_waited_for(tmp_path: Path) -> None:
    """A driver never goes on without it. As root every folder is writable: a file stands in."""
    checkpoint = tmp_path / "file"
    checkpoint.touch()
    with pytest.raises(DriverError) as raised:
        lock.acquire(checkpoint, 0)
    assert raised.value.failure.reason == "CheckpointNotAccessible"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lock.acquire, checkpoint, 60)
        checkpoint.unlink()
        lock.release(waiting.result(60))


def test_a_driver_sees_that_another_one_waits_for_its_lock(tmp_path: Path) -> None:
    first = lock.acquire(tmp_path, 0)
    assert not lock.is_awaited(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(lock.acquire, tmp_path, 60), pool.submit(lock.acquire, tmp_path, 0.3)
        wait_for("the waiting driver seen", lambda: lock.is_awaited(tmp_path))
        with pytest.raises(DriverError):
            waiting[1].result(60)
        wait_for("the one that still waits seen", lambda: lock.is_awaited(tmp_path))
        lock.release(first)
        lock.release(waiting[0].result(60))
    assert not lock.is_awaited(tmp_path)
    assert not lock.is_awaited(tmp_path / "penstock" / "lock")
