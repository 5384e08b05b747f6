"""Which files the arguments of `penstock validate` stand for."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

STDIN = "-"
_SUFFIXES = (".yaml", ".yml", ".json")
_WILDCARDS = "*?["


@dataclass(frozen=True)
class Missing:
    """An argument that stands for no file, and why."""

    name: str
    reason: str


def expand(arguments: Iterable[str]) -> Iterator[Path | Missing]:
    """The files, once each: of a folder all manifests below it, of a pattern all matches."""
    seen = set()
    for argument in arguments:
        for found in _expand(argument):
            if isinstance(found, Missing) or found not in seen:
                yield found
                seen.add(found)


def _expand(argument: str) -> Iterator[Path | Missing]:
    path = Path(argument)
    try:
        path.lstat()
    except (OSError, ValueError) as error:
        if argument == STDIN:
            yield path
        elif any(each in argument for each in _WILDCARDS):
            matches = sorted(glob.glob(argument, recursive=True))  # noqa: PTH207  may be absolute
            for match in matches:
                yield from _existing(Path(match))
            if not matches:
                yield Missing(argument, "no file matches it")
        else:
            yield Missing(argument, getattr(error, "strerror", None) or str(error))
        return
    yield from _existing(path)


def _existing(path: Path) -> Iterator[Path | Missing]:
    if not path.is_dir():
        yield path
        return
    found = list(_manifests(path))
    yield from found
    if not found:
        yield Missing(str(path), f"no file in it ends with {', '.join(_SUFFIXES)}")


def _manifests(folder: Path) -> Iterator[Path | Missing]:
    """The manifests of a folder, without what is hidden; links to folders are not followed."""
    unreadable: list[Missing] = []

    def note(error: OSError) -> None:
        unreadable.append(Missing(str(error.filename), error.strerror or str(error)))

    for parent, folders, names in os.walk(folder, onerror=note):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(names):
            if name.endswith(_SUFFIXES) and not name.startswith("."):
                path = Path(parent, name)
                if path.is_file() or path.is_symlink():  # a broken link is said to be one
                    yield path
    yield from unreadable
