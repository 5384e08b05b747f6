"""Finds retired words in the tracked files: `python -m scripts.check_words [--report]`.

docs/glossary.md lists the words that Penstock no longer uses, with their replacements. A word is
checked `everywhere` (prose and names) or in `names` only: the name of a file, a Python identifier,
and every compound such as `look_at`, `lookAt`, `LookAt` or `look-at.py` in any file. Compounds are
split at `_` and at changes of case.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = "docs/glossary.md"
# These two name the old words on purpose.
NOT_CHECKED = frozenset({GLOSSARY, "CHANGELOG.md"})

_ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| (everywhere|names)(?:, except ([^|]+?))? \|$")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_COMPOUND = re.compile(r"[A-Za-z0-9]+(?:_+[A-Za-z0-9]+)+|[A-Za-z]*[a-z0-9][A-Z]\w*")
_NOT_TEXT = frozenset({".jar", ".png", ".gif", ".ico", ".svg"})

Words = tuple[str, ...]


@dataclass(frozen=True)
class Retired:
    """One row of the glossary's table of retired words."""

    phrases: frozenset[Words]
    """Each spelling, as lower-case words: ("good", "order")."""
    instead: str
    names_only: bool
    allowed: frozenset[Words] = frozenset()
    """Phrases that contain a retired word and may stay: ("service", "account")."""


@dataclass(frozen=True, order=True)
class Finding:
    """One retired word in one line."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.word}' is retired: use {self.instead}"


class _ByFirstWord:
    """Rows by the words with which their phrases begin: most lines have none of these words."""

    def __init__(self, rows: Iterable[Retired]) -> None:
        self.all = list(rows)
        self._rows: dict[str, list[Retired]] = {}
        for row in self.all:
            for phrase in row.phrases:
                self._rows.setdefault(phrase[0], []).append(row)

    def possible(self, words: Words) -> Iterator[Retired]:
        """The rows that may apply to these words."""
        for word in self._rows.keys() & set(words):
            yield from self._rows[word]


def retired_words(glossary: str) -> list[Retired]:
    """The rows of the table of retired words. ValueError if there is none."""
    rows = [match.groups() for line in glossary.splitlines() if (match := _ROW.match(line))]
    if not rows:
        raise ValueError(f"{GLOSSARY} has no table of retired words")
    return [
        Retired(_phrases(words), instead.strip(), scope == "names", _phrases(allowed or ""))
        for words, instead, scope, allowed in rows
    ]


def findings_in(path: str, text: str, retired: Iterable[Retired]) -> list[Finding]:
    """The retired words in the name and the text of one file. Line 0 is the file's name."""
    rows = _ByFirstWord(retired)
    prose = _ByFirstWord(row for row in rows.all if not row.names_only)
    found = set(_findings(path, 0, _words(path), rows))
    for number, line in enumerate(text.splitlines(), 1):
        found |= set(_findings(path, number, _words(line), prose))
        for name in _COMPOUND.findall(line):
            found |= set(_findings(path, number, _words(name), rows))
    if path.endswith(".py"):
        for number, name in _identifiers(text):
            found |= set(_findings(path, number, _words(name), rows))
    return sorted(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 if a retired word is found; with --report always 0."""
    parser = argparse.ArgumentParser(prog="scripts.check_words", description=__doc__)
    parser.add_argument("--report", action="store_true", help="print only, and exit with 0")
    parser.add_argument("paths", nargs="*", help="check these files only, not all tracked ones")
    given = parser.parse_args(arguments)
    retired = retired_words((ROOT / GLOSSARY).read_text())
    found = [
        finding
        for path in given.paths or _tracked()
        if path not in NOT_CHECKED and Path(path).suffix not in _NOT_TEXT
        for finding in findings_in(path, (ROOT / path).read_text(), retired)
    ]
    for finding in sorted(found):
        sys.stderr.write(f"{finding}\n")
    if found:
        sys.stderr.write(f"{len(found)} retired words; {GLOSSARY} lists them\n")
    return 1 if found and not given.report else 0


def _tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True)
    names = listed.stdout.decode().splitlines()
    # A file that is deleted and not committed yet is still listed.
    return [name for name in names if (ROOT / name).is_file()]


def _words(text: str) -> Words:
    return tuple(word.lower() for word in _WORD.findall(text))


def _phrases(listed: str) -> frozenset[Words]:
    return frozenset(words for each in listed.split(",") if (words := _words(each)))


def _findings(path: str, line: int, words: Words, rows: _ByFirstWord) -> Iterator[Finding]:
    for row in rows.possible(words):
        free = _positions(words, row.allowed)
        for phrase in row.phrases:
            if _positions(words, [phrase]) - free:
                yield Finding(path, line, " ".join(phrase), row.instead)


def _positions(words: Words, phrases: Iterable[Words]) -> set[int]:
    """The indexes of all words that belong to one of the phrases."""
    return {
        start + offset
        for phrase in phrases
        for start in range(len(words) - len(phrase) + 1)
        if words[start : start + len(phrase)] == phrase
        for offset in range(len(phrase))
    }


def _identifiers(source: str) -> Iterator[tuple[int, str]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME:
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError):  # ruff reports a file that is not Python
        return


if __name__ == "__main__":
    sys.exit(main())
