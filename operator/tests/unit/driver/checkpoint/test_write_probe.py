"""Whether a checkpoint's logs can be written: found without a trace, and within a bounded time."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from penstock.driver.checkpoint.storage import durable_files
from penstock.driver.checkpoint.storage.volume import VolumeFiles
from penstock.driver.checkpoint.storage.write_probe import LOGS, WriteProbe
from penstock.driver.failures import DriverError
from testkit.driver.checkpoints import checkpoint, read, write


def test_a_probe_leaves_nothing(tmp_path: Path) -> None:
    """Nor does one that a crash has interrupted, once there is another."""
    WriteProbe(VolumeFiles(tmp_path)).check()
    assert list(tmp_path.iterdir()) == [], "Spark makes its folders"
    files = checkpoint(range(3), [], range(3))
    write(files, tmp_path)
    for log in LOGS:
        (tmp_path / log / "..penstock-probe.tmp").touch()
        (tmp_path / log / ".penstock-probe").touch()
    WriteProbe(VolumeFiles(tmp_path)).check()
    assert read(tmp_path) == files


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize(
    ("error", "reason", "why"),
    [
        (errno.EROFS, "CheckpointNotAccessible", "Read-only file system"),
        (errno.EACCES, "CheckpointNotAccessible", "Permission denied"),
        (errno.ENOSPC, "CheckpointFull", "No space left on device"),
    ],
)
def test_a_log_that_cannot_be_written_is_named(
    error: int, reason: str, why: str, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        if path.parent.name == log:
            raise OSError(error, why)

    monkeypatch.setattr(durable_files, "check_writable", refuse)
    write(checkpoint(range(3), [], range(3)), tmp_path)
    with pytest.raises(DriverError) as raised:
        WriteProbe(VolumeFiles(tmp_path)).check()
    failure = raised.value.failure
    assert (failure.reason, failure.recoverable) == (reason, True)
    assert f"({tmp_path / log}: {why})" in failure.message


def test_a_volume_that_does_not_answer_blocks_one_thread_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = threading.Event(), []

    def block(path: Path) -> None:
        asked.append(path)
        answers.wait()

    monkeypatch.setattr(durable_files, "check_writable", block)
    (tmp_path / "commits").mkdir()
    probe = WriteProbe(VolumeFiles(tmp_path))
    for _ in range(3):
        with pytest.raises(DriverError, match=r"CheckpointNotAccessible.*not answered"):
            probe.check(0.01)
    assert len(asked) == 1
    answers.set()
    probe.check()
    probe.check()
    assert len(asked) == 2
