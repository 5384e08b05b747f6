"""Spark's checkpoint on disk: read, judged, and put right in the direction that replays.

Layout, as Spark 4.2 writes it (measured): `metadata`; `offsets/N`, written when every partition has
reported the end of epoch N; `commits/N`, written when every partition's writer has flushed it. Each
file has a checksum beside it, `.N.crc` (Hadoop's ChecksumFileSystem).

Two facts about ContinuousExecution make repairs necessary before each start. A start goes on from
the newest commit, and an `offsets/N` without a commit is left in place and never overwritten, so
the next run would commit its own epoch N under offsets that it has not reached: records lost. And a
leftover `commits/.N.crc` makes the commit of N fail inside an endpoint that swallows the error: the
query runs on and never commits again.

Micro-batches write `offsets/N` before batch N runs, and a restart runs N again with those very
offsets: they are kept. What the engines leave for one another is in checkpointmodes.py.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.driver.failures import DriverError, Trouble
from penstock.driver.kafka import Offsets
from penstock.driver.triggers import Mode

# Paths relative to the checkpoint -> contents. Small files, about two hundred of them.
Files = Mapping[str, bytes]

LOGS = ("commits", "offsets")
METADATA = "metadata"

_ENTRY = re.compile(r"[0-9]+")
_CHECKSUM = re.compile(r"\.(?P<of>.+)\.crc")
_CHECKSUM_MAGIC = b"crc\x00"


@dataclass(frozen=True)
class Repair:
    """What to delete, in this order: a crash in between leaves what the next start mends."""

    delete: tuple[str, ...]
    epoch: int | None
    """The committed epoch that the query will go on from; None begins at the first."""
    write: Mapping[str, bytes] = field(default_factory=dict)
    """What to write after that, each file at once or not at all."""


def plan_repair(files: Files, mode: Mode = Mode.CONTINUOUS) -> Repair:
    """The repair a start needs; raises if it could only begin silently anew."""
    commits, offsets = _entries(files, "commits"), _entries(files, "offsets")
    sound = [n for n in commits if _is_sound(files, n)]
    if not sound and any(n > 0 for n in commits):
        raise DriverError(
            Trouble(
                "CheckpointDamaged",
                f"the checkpoint has commits up to {max(commits)} and none of them can be read: "
                "restore its volume, or start the stream anew under another name",
                permanent=True,
            )
        )
    epoch = max(sound, default=None)
    last = -1 if epoch is None else epoch
    doomed = [f"commits/{n}" for n in sorted(commits, reverse=True) if n > last]
    kept = _planned(files, offsets, last) if mode is Mode.MICRO_BATCH else last
    doomed += [f"offsets/{n}" for n in sorted(offsets, reverse=True) if n > kept]
    if METADATA in files and not _is_metadata(files[METADATA]):
        doomed.append(METADATA)
    return Repair(tuple(_with_checksums(files, doomed)), epoch)


def _planned(files: Files, offsets: set[int], last: int) -> int:
    """The last batch that was planned in good order and not committed, or the last commit.

    Batch N runs when N - 1 is committed, and async progress tracking skips numbers: so in rising
    order up to the first file that is damaged, or that the continuous engine left.
    """
    kept = last
    for n in sorted(n for n in offsets if n > last):
        path = f"offsets/{n}"
        if not _is_offsets(files[path]) or _is_contradicted(files, path):
            break
        if is_continuous(files[path]):
            break
        kept = n
    return kept


def is_continuous(offsets: bytes) -> bool:
    """Whether the continuous engine wrote these offsets: it leaves the line of metadata empty."""
    return _lines(offsets)[1] == ""


def committed_epoch(names: Iterator[str] | list[str]) -> int | None:
    """The newest committed epoch, from the names in `commits`."""
    return max((int(name) for name in names if _ENTRY.fullmatch(name)), default=None)


def kafka_offsets(entry: bytes) -> Offsets:
    """The offsets in an `offsets/N` of a Kafka source: the next record of each partition."""
    document = json.loads(entry.decode().splitlines()[-1])
    return {
        topic: {int(partition): int(offset) for partition, offset in of_topic.items()}
        for topic, of_topic in document.items()
    }


def _entries(files: Files, log: str) -> set[int]:
    names = (path.removeprefix(f"{log}/") for path in files if path.startswith(f"{log}/"))
    return {int(name) for name in names if _ENTRY.fullmatch(name)}


def _is_sound(files: Files, epoch: int) -> bool:
    """Whether an epoch can be gone on from: its commit and its offsets are whole."""
    commit, offsets = f"commits/{epoch}", f"offsets/{epoch}"
    return (
        offsets in files
        and _is_commit(files[commit])
        and _is_offsets(files[offsets])
        and not _is_contradicted(files, commit)
        and not _is_contradicted(files, offsets)
    )


def _is_commit(content: bytes) -> bool:
    lines = _lines(content)
    return len(lines) == 2 and _is_version(lines[0]) and _is_object(lines[1])


def _is_offsets(content: bytes) -> bool:
    """A version, a line of metadata that continuous mode leaves empty, and a line a source.

    A source's line is JSON, in micro-batches often a bare number, or a dash where it has begun
    nothing yet (OffsetSeqLog).
    """
    lines = _lines(content)
    if len(lines) < 3 or not _is_version(lines[0]):
        return False
    return (lines[1] == "" or _is_object(lines[1])) and all(map(_is_offset, lines[2:]))


def _is_metadata(content: bytes) -> bool:
    return any(_is_object(line) and "id" in json.loads(line) for line in _lines(content))


def _lines(content: bytes) -> list[str]:
    return content.decode(errors="replace").split("\n")


def _is_version(line: str) -> bool:
    return re.fullmatch(r"v[0-9]+", line) is not None


def _is_offset(line: str) -> bool:
    try:
        return line == "-" or json.loads(line) is not None
    except ValueError:
        return False


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def checksum_path(path: str) -> str:
    """Where Hadoop keeps the checksum of a file."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


def _is_contradicted(files: Files, path: str) -> bool:
    """Whether a whole checksum says that the contents are not what was written."""
    checksum = files.get(checksum_path(path))
    return (
        checksum is not None
        and _is_whole(checksum, files[path])
        and not _agrees(checksum, files[path])
    )


def _is_whole(checksum: bytes, content: bytes) -> bool:
    if checksum[:4] != _CHECKSUM_MAGIC or len(checksum) < 8:
        return False
    chunk: int = struct.unpack_from("!i", checksum, 4)[0]
    return chunk > 0 and len(checksum) == 8 + 4 * -(-len(content) // chunk)


def _agrees(checksum: bytes, content: bytes) -> bool:
    chunk: int = struct.unpack_from("!i", checksum, 4)[0]
    sums = b"".join(
        struct.pack("!I", zlib.crc32(content[start : start + chunk]))
        for start in range(0, len(content), chunk)
    )
    return bool(checksum[8:] == sums)


def _with_checksums(files: Files, doomed: list[str]) -> Iterator[str]:
    """What is deleted: the doomed, their checksums, temporary files and checksums of nothing.

    A checksum goes before its file: alone it would do the harm described above.
    """
    for path in doomed:
        if checksum_path(path) in files:
            yield checksum_path(path)
        yield path
    gone = set(doomed)
    for path in sorted(files):
        if path.rpartition("/")[2].startswith("."):
            of = _checked_file(path)
            if of not in gone and not (of in files and _confirms(files[path], files[of])):
                yield path


def _checked_file(path: str) -> str:
    """The file that a checksum is for; of a temporary file, a name that no file has."""
    folder, slash, name = path.rpartition("/")
    match = _CHECKSUM.fullmatch(name)
    return f"{folder}{slash}{match['of']}" if match else ""


def _confirms(checksum: bytes, content: bytes) -> bool:
    return _is_whole(checksum, content) and _agrees(checksum, content)
