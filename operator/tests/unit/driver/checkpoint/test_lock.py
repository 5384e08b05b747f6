"""The lock of a checkpoint within one process; between processes: test_driver_process.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.driver.checkpoint import lock
from penstock.driver.failures import DriverError


def test_a_second_driver_cannot_acquire_the_lock(tmp_path: Path) -> None:
    first = lock.acquire(tmp_path, 0)
    assert first is not None
    with pytest.raises(DriverError) as raised:
        lock.acquire(tmp_path, 0)
    assert raised.value.failure.reason == "CheckpointInUse"
    assert not raised.value.failure.permanent
    lock.release(first)
    second = lock.acquire(tmp_path, 0)
    assert second is not None
    lock.release(second)


def test_a_volume_that_cannot_be_locked_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert lock.acquire(tmp_path / "file", 0) is None
