"""One file of Spark's checkpoint: whether it is whole, and what it says. Pure.

Each file has a checksum beside it, `.N.crc` (Hadoop's ChecksumFileSystem). Spark writes in this
order (measured with strace, Spark 4.2): `.N.<uuid>.tmp`, its checksum, then both are renamed, the
file first; nothing is synced. So a crash of the process leaves whole files, some of them under
temporary names; only a crash of the machine, or damage, leaves part of one.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Mapping

from penstock.driver.kafka.offsets import Offsets

# Paths relative to the checkpoint -> contents. Small files, about two hundred of them.
Files = Mapping[str, bytes]

_CHECKSUM = re.compile(r"\.(?P<of>.+)\.crc")
_CHECKSUM_MAGIC = b"crc\x00"


def is_commit(content: bytes) -> bool:
    """A version and one line of JSON."""
    lines = _lines(content)
    return len(lines) == 2 and _is_version(lines[0]) and is_object(lines[1])


def is_offsets(content: bytes) -> bool:
    """A version, a line of metadata that continuous mode leaves empty, and a line a source.

    A source's line is JSON, in micro-batches often a bare number, or a dash where it has begun
    nothing yet (OffsetSeqLog).
    """
    lines = _lines(content)
    if len(lines) < 3 or not _is_version(lines[0]):
        return False
    return (lines[1] == "" or is_object(lines[1])) and all(map(_is_offset, lines[2:]))


def is_initial_offsets(content: bytes) -> bool:
    """Where a Kafka source began (KafkaSourceInitialOffsetWriter): a zero byte, then as above."""
    lines = _lines(content.removeprefix(b"\0"))
    return len(lines) == 2 and _is_version(lines[0]) and is_object(lines[1])


def is_metadata(content: bytes) -> bool:
    """The query's id, as JSON."""
    return any(is_object(line) and "id" in json.loads(line) for line in _lines(content))


def is_continuous(offsets: bytes) -> bool:
    """Whether the continuous engine wrote these offsets: it leaves the line of metadata empty."""
    return _lines(offsets)[1] == ""


def kafka_offsets(entry: bytes) -> Offsets:
    """The offsets in an `offsets/N` of a Kafka source: the next record of each partition."""
    return {
        topic: {int(partition): int(offset) for partition, offset in of_topic.items()}
        for topic, of_topic in json.loads(entry.decode().splitlines()[-1]).items()
    }


def moves_backward(before: bytes, after: bytes) -> bool:
    """Whether a partition of Kafka ends earlier in `after`; False where the source is another."""
    try:
        earlier, later = kafka_offsets(before), kafka_offsets(after)
    except (ValueError, AttributeError, TypeError):
        return False
    return any(
        later.get(topic, {}).get(partition, offset) < offset
        for topic, partitions in earlier.items()
        for partition, offset in partitions.items()
    )


def is_object(line: str) -> bool:
    """Whether a line is a JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def checksum_path(path: str) -> str:
    """Where Hadoop keeps the checksum of a file."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


def checked_file(path: str) -> str | None:
    """The file that a checksum is for; None of a temporary file, and of a temporary one's."""
    folder, slash, name = path.rpartition("/")
    match = _CHECKSUM.fullmatch(name)
    return None if match is None or match["of"].startswith(".") else f"{folder}{slash}{match['of']}"


def checksum_differs(files: Files, path: str) -> bool:
    """Whether a whole checksum says that the contents are not what was written."""
    checksum = files.get(checksum_path(path))
    return (
        checksum is not None
        and _is_whole(checksum, files[path])
        and not _agrees(checksum, files[path])
    )


def checksum_matches(checksum: bytes, content: bytes) -> bool:
    """Whether a checksum is whole and fits."""
    return _is_whole(checksum, content) and _agrees(checksum, content)


def _lines(content: bytes) -> list[str]:
    return content.decode(errors="replace").split("\n")


def _is_version(line: str) -> bool:
    return re.fullmatch(r"v[0-9]+", line) is not None


def _is_offset(line: str) -> bool:
    try:
        return line == "-" or json.loads(line) is not None
    except ValueError:
        return False


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
