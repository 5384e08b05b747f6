"""Which versions of a query's state Spark can load. Pure functions over what the files show.

Batch N leaves version N + 1 in each store of each partition: its changes (`9.delta`, or with
RocksDB `9.changelog`), and now and then all of it (`9.snapshot`, `9.zip`). A version is loaded from
the newest whole one and the changes after it (HDFSBackedStateStoreProvider, RocksDB.load, Spark
4.2). The files are LZ4 streams, which end with an empty block, and ZIP archives, which end with a
directory: so a file that was cut shows at its end.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

_FILE = re.compile(r"([0-9]+)\.(delta|changelog|snapshot|zip)")
_OTHER_FORMAT = re.compile(r"[0-9]+_[^.]+\.(delta|changelog|snapshot|zip)")
# LZ4BlockOutputStream.finish: a header with lengths and checksum of zero.
_LZ4 = b"LZ4Block"
_LZ4_END = re.compile(rb"LZ4Block.\0{12}", re.DOTALL)
_LZ4_END_BYTES = 21
_ZIP_END = b"PK\x05\x06"
END_BYTES = 22
"""So many bytes at the end of a file show whether it was cut: the end of an archive."""


@dataclass(frozen=True)
class Store:
    """One store of one partition."""

    path: str
    """Relative to the checkpoint, such as state/0/1."""
    files: Mapping[str, bool]
    """By name, whether the file is whole."""

    @property
    def partition(self) -> int:
        return int(self.path.split("/")[2])

    def can_load(self, version: int) -> bool:
        """Whether Spark can load this version.

        >>> store = Store("state/0/0", {"3.snapshot": True, "4.delta": True, "6.delta": True})
        >>> [store.can_load(version) for version in (0, 2, 3, 4, 5, 6)]
        [True, False, True, True, False, False]
        """
        while version > 0 and not self._has(version, "snapshot", "zip"):
            if not self._has(version, "delta", "changelog"):
                return False
            version -= 1
        return True

    def _has(self, version: int, *kinds: str) -> bool:
        return any(self.files.get(f"{version}.{kind}", False) for kind in kinds)

    def after(self, version: int) -> list[str]:
        """The paths of files of later versions, each before its checksum, if it has one."""
        later = [name for name in self.files if (version_of(name) or 0) > version]
        return [f"{self.path}/{name}" for of in later for name in (of, f".{of}.crc")]


def not_loadable(stores: Iterable[Store], batch: int, partitions: int | None) -> list[Store]:
    """The stores whose state after this batch is lost.

    `partitions`: of the state in this batch, if that is known. Those of stores beyond them are of
    batches with another number.
    """
    return [
        store
        for store in stores
        if not (partitions is not None and store.partition >= partitions)
        and not store.can_load(batch + 1)
    ]


def newest_loadable(stores: Collection[Store], batches: Mapping[int, int | None]) -> int | None:
    """The newest of these batches, with their partitions, whose state can be loaded."""
    ordered = sorted(batches, reverse=True)
    return next((n for n in ordered if not not_loadable(stores, n, batches[n])), None)


def version_of(name: str) -> int | None:
    """The version that a file holds a part of; None for another file."""
    found = _FILE.fullmatch(name)
    return None if found is None else int(found[1])


def is_other_version(name: str) -> bool:
    """Whether a file holds a version in the format that names each attempt
    (spark.sql.streaming.stateStore.checkpointFormatVersion 2).
    """
    return _OTHER_FORMAT.fullmatch(name) is not None


def is_whole(name: str, head: bytes, end: bytes) -> bool:
    """Whether a file that begins and ends so was not cut; an unknown codec counts as whole."""
    if name.endswith(".zip"):
        return end.startswith(_ZIP_END)
    if not head.startswith(_LZ4):
        return bool(head)
    return _LZ4_END.fullmatch(end[-_LZ4_END_BYTES:]) is not None
