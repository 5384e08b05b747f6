"""Which files the arguments of `penstock validate` stand for, and their bytes."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

STDIN = "-"
_SUFFIXES = (".yaml", ".yml", ".json")
_WILDCARDS = "*?["


class UnreadableFile(Exception):
    """A file that cannot be opened, or an argument that stands for none; the message says why."""


def read_file(path: Path | None) -> bytes:
    """The bytes of a file; of stdin for None. Raises UnreadableFile."""
    try:
        # A descriptor of our own, since sys.stdin is None if nothing is connected to it.
        with open(0 if path is None else path, "rb", closefd=path is not None) as file:
            return file.read()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise UnreadableFile(getattr(error, "strerror", None) or str(error)) from error


def expand(arguments: Iterable[str]) -> Iterator[tuple[str, Path | UnreadableFile]]:
    """The files by name, once each: all manifests below a folder, all matches of a pattern."""
    seen = set()
    for argument in arguments:
        for name, file in _expand(argument):
            if isinstance(file, UnreadableFile) or file not in seen:
                yield name, file
                seen.add(file)


def _expand(argument: str) -> Iterator[tuple[str, Path | UnreadableFile]]:
    path = Path(argument)
    try:
        path.lstat()
    except (OSError, ValueError) as error:
        if argument == STDIN:
            yield argument, path
        elif any(wildcard in argument for wildcard in _WILDCARDS):
            matches = sorted(glob.glob(argument, recursive=True))  # noqa: PTH207  may be absolute
            for match in matches:
                yield from _existing(Path(match))
            if not matches:
                yield argument, UnreadableFile("no file matches it")
        else:
            yield argument, UnreadableFile(getattr(error, "strerror", None) or str(error))
        return
    yield from _existing(path)


def _existing(path: Path) -> Iterator[tuple[str, Path | UnreadableFile]]:
    files = list(_manifests(path)) if path.is_dir() else [(str(path), path)]
    yield from files
    if not files:
        yield str(path), UnreadableFile(f"no file in it ends with {', '.join(_SUFFIXES)}")


def _manifests(folder: Path) -> Iterator[tuple[str, Path | UnreadableFile]]:
    """The manifests of a folder, without what is hidden; links to folders are not followed."""
    unreadable: list[OSError] = []
    for parent, folders, names in os.walk(folder, onerror=unreadable.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            is_file = path.is_file() or path.is_symlink()  # a broken link is said to be one
            if name.endswith(_SUFFIXES) and not name.startswith(".") and is_file:
                yield str(path), path
    for error in unreadable:
        yield str(error.filename), UnreadableFile(error.strerror or str(error))
