"""The versions of a query's state, by the names of their files. Pure functions.

Batch N leaves version N + 1 in each store of each partition: its changes (`9.delta`, or with
RocksDB `9.changelog`), and now and then all of it (`9.snapshot`, `9.zip`) (HDFSBackedStateStore-
Provider, RocksDB.load, Spark 4.2).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_FILE = re.compile(r"([0-9]+)\.(delta|changelog|snapshot|zip)")
_OTHER_FORMAT = re.compile(r"[0-9]+_[^.]+\.(delta|changelog|snapshot|zip)")


@dataclass(frozen=True)
class StateStore:
    """One store of one partition."""

    path: str
    """Relative to the checkpoint, such as state/0/1."""
    files: Collection[str]
    """Their names."""

    def files_later_than(self, version: int) -> list[str]:
        """The paths of files of later versions, each before its checksum, if it has one.

        >>> StateStore("state/0/1", ["7.zip", "8.changelog", "_metadata"]).files_later_than(7)
        ['state/0/1/8.changelog', 'state/0/1/.8.changelog.crc']
        """
        later = [name for name in self.files if (_version_of(name) or 0) > version]
        return [f"{self.path}/{name}" for of in later for name in (of, f".{of}.crc")]


def _version_of(name: str) -> int | None:
    """The version that a file holds a part of; None for another file."""
    match = _FILE.fullmatch(name)
    return None if match is None else int(match[1])


def is_other_version(name: str) -> bool:
    """Whether a file holds a version in the format that names each attempt
    (spark.sql.streaming.stateStore.checkpointFormatVersion 2).
    """
    return _OTHER_FORMAT.fullmatch(name) is not None
