"""Imports a checkpoint that plain Spark has written. Pure functions.

Spark's own file managers sync nothing, and rename a checksum after each file, `.N.crc` (Hadoop's
ChecksumFileSystem; measured with strace, Spark 4.2): a crash of the machine may leave a part of a
file. What is torn is emptied: an empty file counts as written, and nothing of it as read, so that a
sink never gets its number for other records. The checksums go last, because they show what is torn:
a start that is interrupted leaves them, or a checkpoint as Penstock writes it. None may stay: with
a leftover `commits/.N.crc` the commit of N fails in an endpoint that swallows the error, and the
continuous engine runs on and never commits again (measured, Spark 4.2).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator

from penstock.driver.checkpoint.file_formats import Files
from penstock.driver.checkpoint.logs import LOG_FILE, METADATA, Logs, Step, files_after, numbers

_CHECKSUM = re.compile(r"\.(?P<of>.+)\.crc")
_CHECKSUM_MAGIC = b"crc\x00"


def import_steps(files: Files, *, is_kafka: bool = True) -> tuple[Step, ...]:
    """The steps after which a checkpoint is as Penstock would have written it; none if it is."""
    if not any(path.endswith(".crc") for path in files):
        return ()
    checksums = [path for path in files if checked_file(path) is not None]
    emptied = dict.fromkeys(sorted(_torn_files(files, is_kafka=is_kafka)), b"")
    emptied |= {f"offsets/{n}": b"" for n in _lost_numbers(files, checksums)}
    return (*emptied.items(), *((path, None) for path in sorted(checksums)))


def imported(files: Files) -> Files:
    """These files after the import, with a Kafka source."""
    return files_after(files, import_steps(files))


def _torn_files(files: Files, *, is_kafka: bool) -> Iterator[str]:
    """The files of the logs that are not whole, and commits without offsets that are."""
    fitting = {
        path: content
        for path, content in files.items()
        if fits(files.get(checksum_path(path), b""), content) is not False
        # Whatever its checksum says: with another id a sink such as Delta's would take a batch that
        # runs again for another one.
        or path == METADATA
    }
    parsed = Logs.read(fitting, is_kafka=is_kafka)
    whole = parsed.files.keys() - parsed.commits_alone
    for path in files:
        if LOG_FILE.fullmatch(path) and path not in whole:
            yield path


def _lost_numbers(files: Files, checksums: list[str]) -> Iterator[int]:
    """The numbers that only a checksum shows; one further ahead is not Spark's."""
    used = numbers(files, "offsets") | numbers(files, "commits")
    alone = {checked_file(path) for path in checksums}
    number = max(used, default=-1) + 1
    while not alone.isdisjoint((f"offsets/{number}", f"commits/{number}")):
        yield number
        number += 1


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


def fits(checksum: bytes, content: bytes) -> bool | None:
    """Whether a checksum is that of the content; None if it is not whole."""
    if checksum[:4] != _CHECKSUM_MAGIC or len(checksum) < 8 or len(checksum) % 4:
        return None
    chunk: int = struct.unpack_from("!i", checksum, 4)[0]
    if chunk <= 0:
        return None
    starts = range(0, len(content), chunk)
    sums = (struct.pack("!I", zlib.crc32(content[at : at + chunk])) for at in starts)
    return checksum[8:] == b"".join(sums)
