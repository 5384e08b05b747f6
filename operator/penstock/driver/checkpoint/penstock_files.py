"""Penstock's own files beside the checkpoint: JSON with a checksum, written durably."""

from __future__ import annotations

import json
import zlib
from typing import Any

from penstock.driver.checkpoint.storage.files import CheckpointFiles
from penstock.driver.failures import DriverError, Failure

FOLDER = "penstock"
"""Where they are, below the checkpoint."""
_VALUE, _CHECKSUM = "value", "crc32"


def save(files: CheckpointFiles, name: str, value: Any) -> None:
    """Replaces the file atomically; it survives a power cut."""
    plain = json.loads(json.dumps(value))  # numbers as keys become text
    document = {_CHECKSUM: _checksum(plain), _VALUE: plain}
    with files.errors():
        files.write(name, json.dumps(document).encode())
        files.sync(FOLDER)


def load(files: CheckpointFiles, name: str, advice: str) -> Any:
    """The file's value; None if there is no file.

    Raises CheckpointDamaged with the advice if the file is not as Penstock wrote it.
    """
    with files.errors():
        content = files.read([name]).get(name)
    if content is None:
        return None
    try:
        document = json.loads(content)
        value = document[_VALUE]
        if document[_CHECKSUM] == _checksum(value):
            return value
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
