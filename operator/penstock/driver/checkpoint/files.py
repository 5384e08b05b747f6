"""The formats of the files in Spark's checkpoint, and whether a file is whole. Pure functions.

A file is written as `.N.<uuid>.tmp`, then renamed. With Spark's own file managers each has a
checksum file, `.N.crc` (Hadoop's ChecksumFileSystem), which is renamed after it, and nothing is
synced (measured with strace, Spark 4.2). So a crash of the process leaves whole files, some of them
under temporary names. Only a crash of the machine, or damage, leaves a part of a file. Those of
connector/ are synced, and have no checksum.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Mapping

from penstock.driver.kafka.offsets import Offsets

# Path relative to the checkpoint -> contents. About two hundred small files.
Files = Mapping[str, bytes]

_CHECKSUM = re.compile(r"\.(?P<of>.+)\.crc")
_CHECKSUM_MAGIC = b"crc\x00"


def is_commit(content: bytes) -> bool:
    """Whether this is a whole commit: a version and one line of JSON."""
    lines = _lines(content)
    return len(lines) == 2 and _is_version(lines[0]) and is_object(lines[1])


def is_offsets(content: bytes) -> bool:
    """Whether these are whole offsets: a version, a line of metadata, and a line for each source.

    Continuous mode leaves the line of metadata empty. A source's line is JSON, in micro-batches
    often a plain number, or a dash for a source without offsets yet (OffsetSeqLog).
    """
    lines = _lines(content)
    if len(lines) < 3 or not _is_version(lines[0]):
        return False
    return (lines[1] == "" or is_object(lines[1])) and all(map(_is_offset, lines[2:]))


def is_initial_offsets(content: bytes) -> bool:
    """Whether this is a whole initial offsets file of a Kafka source.

    Its format is that of a commit after a zero byte (KafkaSourceInitialOffsetWriter).
    """
    lines = _lines(content.removeprefix(b"\0"))
    return len(lines) == 2 and _is_version(lines[0]) and is_object(lines[1])


def is_metadata(content: bytes) -> bool:
    """Whether this is whole metadata: the query's id, as JSON."""
    return any(is_object(line) and "id" in json.loads(line) for line in _lines(content))


def is_continuous(offsets: bytes) -> bool:
    """Whether the continuous engine wrote these offsets: their line of metadata is empty."""
    return _lines(offsets)[1] == ""


def kafka_offsets(entry: bytes) -> Offsets:
    """The offsets in an `offsets/N` of a Kafka source: that of each partition's next record.

    A query that reads the source twice, such as a self-join, has a line for each read. These may
    differ by what arrived between them: the smaller offset counts. For another source it raises
    ValueError, whatever the offsets of that source look like.

    >>> kafka_offsets(b'v1\\n{}\\n{"in":{"0":7,"1":4}}\\n{"in":{"0":9,"1":4}}')
    {'in': {0: 7, 1: 4}}
    """
    offsets: dict[str, dict[int, int]] = {}
    try:
        for line in _source_lines(entry):
            for topic, of_topic in json.loads(line).items():
                known = offsets.setdefault(topic, {})
                for partition, offset in of_topic.items():
                    known[int(partition)] = min(int(offset), known.get(int(partition), int(offset)))
    except (AttributeError, TypeError) as error:
        raise ValueError("these are no offsets of a Kafka source") from error
    return offsets


def source_count(entry: bytes) -> int:
    """How many sources an `offsets/N` has; a source that is read twice counts twice."""
    return len(_source_lines(entry))


def shuffle_partitions(entry: bytes) -> int | None:
    """The partitions of a shuffle, and so of state, that an `offsets/N` keeps; None if none.

    Spark takes them from there at each start, whatever the session says (OffsetSeqMetadata, 4.2).
    """
    lines = entry.decode().splitlines()
    try:
        return int(json.loads(lines[1])["conf"]["spark.sql.shuffle.partitions"])
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def with_offsets(entry: bytes, offsets: Offsets) -> bytes:
    """An `offsets/N` of a Kafka source with these offsets, for each time that it is read."""
    line = json.dumps(
        {topic: {str(p): offset for p, offset in of.items()} for topic, of in offsets.items()}
    )
    version, metadata, *sources = entry.decode().splitlines()
    return "\n".join([version, metadata, *[line] * len(sources)]).encode()


def _source_lines(entry: bytes) -> list[str]:
    _, _, *sources = entry.decode().splitlines() or ["", ""]
    if not sources:
        raise ValueError("these are no offsets")
    return sources


def moves_backward(before: bytes, after: bytes) -> bool:
    """Whether a Kafka partition ends earlier in `after` than in `before`; else False."""
    try:
        earlier, later = kafka_offsets(before), kafka_offsets(after)
    except ValueError:
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
    """The path of a file's checksum."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


def checked_file(path: str) -> str | None:
    """The file that a checksum belongs to.

    None for a temporary file, and for the checksum of one.
    """
    folder, slash, name = path.rpartition("/")
    match = _CHECKSUM.fullmatch(name)
    return None if match is None or match["of"].startswith(".") else f"{folder}{slash}{match['of']}"


def checksum_differs(files: Files, path: str) -> bool:
    """Whether a file has a whole checksum that does not match its contents."""
    checksum = files.get(checksum_path(path))
    return (
        checksum is not None
        and _is_complete_checksum(checksum, files[path])
        and not _checksum_matches(checksum, files[path])
    )


def checksum_matches(checksum: bytes, content: bytes) -> bool:
    """Whether a checksum is whole and matches."""
    return _is_complete_checksum(checksum, content) and _checksum_matches(checksum, content)


def _lines(content: bytes) -> list[str]:
    return content.decode(errors="replace").split("\n")


def _is_version(line: str) -> bool:
    return re.fullmatch(r"v[0-9]+", line) is not None


def _is_offset(line: str) -> bool:
    try:
        return line == "-" or json.loads(line) is not None
    except ValueError:
        return False


def _is_complete_checksum(checksum: bytes, content: bytes) -> bool:
    if checksum[:4] != _CHECKSUM_MAGIC or len(checksum) < 8:
        return False
    chunk: int = struct.unpack_from("!i", checksum, 4)[0]
    return chunk > 0 and len(checksum) == 8 + 4 * -(-len(content) // chunk)


def _checksum_matches(checksum: bytes, content: bytes) -> bool:
    chunk: int = struct.unpack_from("!i", checksum, 4)[0]
    sums = b"".join(
        struct.pack("!I", zlib.crc32(content[start : start + chunk]))
        for start in range(0, len(content), chunk)
    )
    return bool(checksum[8:] == sums)
