"""Checkpoints as values: made as Spark makes them, and mended as the folder would be."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from penstock.driver.checkpoint.files import Files, checksum_path
from penstock.driver.checkpoint.repair import RepairPlan

METADATA = b'{"id":"88eb3c42-51b1-4cc2-89bb-8fe485045c84"}'
COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'
BATCH_LINE = b'{"batchWatermarkMs":0,"batchTimestampMs":7,"conf":{}}'
BEGINNING = b'\0v1\n{"in":{"0":0,"1":0}}'


def offsets(epoch: int, line: bytes = b"") -> bytes:
    """As the continuous engine writes them; with a line of metadata, as the others do."""
    return b"v1\n" + line + f'\n{{"in":{{"0":{epoch * 10},"1":{epoch * 7}}}}}'.encode()


def checksum(content: bytes) -> bytes:
    """As Hadoop writes it: a header, the chunk size, a CRC32 for each chunk."""
    sums = [zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512)]
    return b"crc\x00" + struct.pack("!i", 512) + b"".join(struct.pack("!I", s) for s in sums)


def with_checksums(files: Files) -> dict[str, bytes]:
    return {**files} | {checksum_path(path): checksum(content) for path, content in files.items()}


def checkpoint(
    commits: Iterable[int], continuous: Iterable[int], batches: Iterable[int] = ()
) -> dict[str, bytes]:
    """One in good order, with these commits, and offsets that either engine wrote."""
    files = {"metadata": METADATA}
    files |= {f"commits/{n}": COMMIT for n in commits}
    files |= {f"offsets/{n}": offsets(n) for n in continuous}
    files |= {f"offsets/{n}": offsets(n, BATCH_LINE) for n in batches}
    return with_checksums(files)


def apply_plan(files: Files, repair: RepairPlan) -> dict[str, bytes]:
    """What a repair leaves."""
    left = {path: content for path, content in files.items() if path not in repair.delete}
    return {**left, **repair.write}


def names(files: Files) -> set[str]:
    """All but what is hidden."""
    return {path for path in files if not path.rpartition("/")[2].startswith(".")}


def kinds(repair: RepairPlan) -> list[str]:
    """What was put right, in a word each."""
    return [each.kind.value for each in repair.repairs]


def write(files: Files, folder: Path) -> None:
    """Lays files out in a folder."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def read(folder: Path) -> dict[str, bytes]:
    """Everything of Spark's in a folder, commits before offsets, as a query may be running."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.startswith("penstock/"):
            with suppress(FileNotFoundError):  # renamed, or purged, meanwhile
                found[name] = path.read_bytes()
    return found
