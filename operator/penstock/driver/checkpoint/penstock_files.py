"""Penstock's own files beside the checkpoint: JSON with a checksum, written durably."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from penstock.driver.checkpoint import durable_files
from penstock.driver.failures import DriverError, Failure

_VALUE, _CHECKSUM = "value", "crc32"


def save(checkpoint: Path, name: Path, value: Any) -> None:
    """Replaces the file atomically; it survives a power cut."""
    target = checkpoint / name
    plain = json.loads(json.dumps(value))  # numbers as keys become text
    document = {_CHECKSUM: _checksum(plain), _VALUE: plain}
    with durable_files.volume_errors(checkpoint):
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True)
            durable_files.sync(checkpoint)
        durable_files.write(target, json.dumps(document).encode())
        durable_files.sync(target.parent)


def load(checkpoint: Path, name: Path, advice: str) -> Any:
    """The file's value; None if there is no file.

    Raises CheckpointDamaged with the advice if the file is not as Penstock wrote it.
    """
    try:
        with durable_files.volume_errors(checkpoint):
            document = json.loads((checkpoint / name).read_bytes())
        value = document[_VALUE]
        if document[_CHECKSUM] == _checksum(value):
            return value
    except DriverError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    except (ValueError, KeyError, TypeError):  # torn, or not JSON
        pass
    raise DriverError(
        Failure(
            "CheckpointDamaged",
            f"{name} is damaged: it is not as Penstock wrote it. {advice} The driver looks again "
            "every half minute.",
            permanent=True,
            recoverable=True,
        )
    )


def _checksum(value: Any) -> int:
    return zlib.crc32(json.dumps(value, sort_keys=True).encode())
