"""Finds the ContinuousStreams in the bytes of a file, and says what else is there.

A file is cut at its `---` lines before anything is parsed, as kubectl does. So one broken document
does not hide the others.
"""

from __future__ import annotations

import codecs
import difflib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.api.group_version import API_VERSION, GROUP, KIND
from penstock.validation.reading.yaml_tree import MAX_VALUES, InvalidYaml, Place, compose

MAX_FILE_BYTES = 8 * 2**20
MAX_FILE_VALUES = MAX_VALUES + 10_000
MAX_DOCUMENTS = 2_000
MAX_DOCUMENT_BYTES = 3 * 2**20 // 2  # etcd's --max-request-bytes
# Above this size a document of another kind is skipped by its first lines, such as a CRD.
_LONG = 256 * 2**10
_SEPARATOR = "---"
_LEAST_RATIO = 0.75
_HEAD = re.compile(r"^(apiVersion|kind): *([\w./]+) *$", re.MULTILINE)
_FIRST_LINE_OF_BLOCK = re.compile(r"(?: *\r?\n)*( *)")
_BOUNDARY = re.compile(r"^---", re.MULTILINE)
_SPACE = re.compile(r"\s*")
_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab]..)\\u(d[c-f]..)", re.IGNORECASE)


class UnreadableFile(Exception):
    """A file that cannot be opened; the message is the system's reason."""


@dataclass(frozen=True)
class Document:
    """One ContinuousStream of a file, not validated yet."""

    content: dict[str, Any]
    place: Place
    text: str = field(default="", repr=False)
    """The document as it is written, for the places inside of texts."""
    first_line: int = 1
    """The line of its file where the text begins."""

    @property
    def line(self) -> int:
        """The line where it starts, from 1."""
        return self.place.line

    @property
    def name(self) -> str:
        """The stream's name; "?" if it has none."""
        metadata = self.content.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return str(name)[:253] if name is not None else "?"

    def locate(
        self, path: Sequence[str | int], text_line: int = 0, text_column: int = 0
    ) -> tuple[int, int]:
        """Line and column of a field, or of the nearest one around it that is there.

        `text_line` and `text_column`, from 1, are a place in the field's text. In a block it has a
        place in the file; in other styles the beginning of the field stands for it.
        """
        place = self.place
        for step in path:
            inside = place.inside.get(step)
            if inside is None:
                return place.line, place.column
            place = inside
        if text_line < 1 or place.style not in ("|", ">"):
            return place.line, place.column
        indentation = _indentation(self.text, place.text_line - self.first_line)
        return place.text_line + text_line - 1, indentation + max(text_column, 1)


@dataclass(frozen=True)
class Defect:
    """Why a document cannot be judged, and where."""

    reason: str
    message: str
    line: int
    column: int


@dataclass(frozen=True)
class Loaded:
    """What a file holds."""

    streams: tuple[Document, ...] = ()
    defects: tuple[Defect, ...] = ()
    warnings: tuple[Defect, ...] = ()
    skipped: int = 0
    """Documents of other kinds."""


def read_file(path: Path | None) -> bytes:
    """The bytes of a file, or of stdin: at most one more than is taken. Raises UnreadableFile."""
    try:
        # A descriptor of our own, since sys.stdin is None if nothing is connected to it.
        with open(0 if path is None else path, "rb", closefd=path is not None) as file:
            return file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise UnreadableFile(getattr(error, "strerror", None) or str(error)) from error


def load(data: bytes) -> Loaded:
    """The streams in the bytes of a file. Never raises."""
    if len(data) > MAX_FILE_BYTES:
        limit = (
            f"larger than {MAX_FILE_BYTES // 2**20} MiB: put the streams into files of their own"
        )
        return Loaded(defects=(Defect("TooLarge", limit, 1, 1),))
    text, warnings = _decode(data)
    reader = _Reader()
    for first_line, chunk in _documents(text):
        if not reader.read(first_line, chunk):
            break
    # A folder may hold files that are not for kubectl, but a file with a stream is.
    strangers = reader.strangers if reader.streams else []
    return Loaded(
        tuple(reader.streams),
        (*reader.defects, *strangers),
        (*warnings, *reader.warnings),
        reader.skipped + len(reader.strangers) - len(strangers),
    )


def _decode(data: bytes) -> tuple[str, tuple[Defect, ...]]:
    """The text as kubectl reads it: UTF-8, or UTF-16 with its mark."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors="replace"), ()
    try:
        return data.decode(), ()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        said = "not UTF-8: kubectl replaces this byte by U+FFFD; save the file as UTF-8"
        return data.decode(errors="replace"), (Defect("Encoding", said, line, column),)


def _documents(text: str) -> Iterator[tuple[int, str]]:
    """The documents of a file with their first lines, from 1. A separator begins its document.

    As kubectl: values of JSON need no separator, and YAML may follow them.
    """
    at, line, decoder = 0, 1, json.JSONDecoder(parse_int=str, parse_float=str)
    while True:
        start = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches anywhere
        line += text.count("\n", at, start)
        at = start
        if not text.startswith("{", start):
            break
        try:
            _, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        yield line, _PAIR.sub(_character, _in_its_column(text, start, at))
        line += text.count("\n", start, at)
    rest = _in_its_column(text, at, len(text))
    begin = 0
    for boundary in _BOUNDARY.finditer(rest):
        yield line, rest[begin : boundary.start()]
        line += rest.count("\n", begin, boundary.start())
        begin = boundary.start()
    yield line, rest[begin:]


def _in_its_column(text: str, start: int, end: int) -> str:
    """A part of the text, with spaces in place of what stands before it in its line."""
    return " " * (start - text.rfind("\n", 0, start) - 1) + text[start:end]


def _character(pair: re.Match[str]) -> str:
    """JSON's two escapes for one character, which YAML does not know, as the character."""
    try:
        high, low = int(pair[2], 16), int(pair[3], 16)
    except ValueError:
        return pair[0]
    return pair[1] + chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


class _Reader:
    """Collects what the documents of one file hold."""

    def __init__(self) -> None:
        self._values_left = MAX_FILE_VALUES
        self._documents_left = MAX_DOCUMENTS
        self.streams: list[Document] = []
        self.defects: list[Defect] = []
        self.warnings: list[Defect] = []
        self.strangers: list[Defect] = []
        """What is no resource at all."""
        self.skipped = 0

    def read(self, first_line: int, chunk: str) -> bool:
        """Reads one document; False if the file holds more than is taken."""
        if self._values_left <= 0 or self._documents_left <= 0:
            said = "what follows was not read, since the file holds too much: split it"
            self._add_defect("TooLarge", said, first_line, 1)
            return False
        self._values_left -= 1
        if chunk.startswith(_SEPARATOR):
            head, _, rest = chunk.partition("\n")
            after = head[len(_SEPARATOR) :].strip()
            if after and not after.startswith("#"):
                said = "kubectl takes nothing but a comment after ---"
                self._add_defect("InvalidYaml", said, first_line, 4)
                return True
            first_line, chunk = first_line + 1, rest
        if chunk and not chunk.isspace():
            self._documents_left -= 1
            self._read(first_line, chunk)
        return True

    def _read(self, first_line: int, chunk: str) -> None:
        if len(chunk) > _LONG and _is_other_by_its_head(chunk):
            self.skipped += 1
            return
        if len(chunk) > MAX_DOCUMENT_BYTES:
            said = "larger than 1.5 MiB, the most that etcd stores"
            self._add_defect("TooLarge", said, first_line, 1)
            return
        try:
            tree = compose(chunk, first_line)
        except InvalidYaml as error:
            self._values_left -= len(chunk) // 10  # it may have been read to its end
            self._add_defect("InvalidYaml", error.reason, error.line, error.column)
            return
        if tree is None:
            return
        self._values_left -= tree.size
        streams_before = len(self.streams)
        self._sort(tree.content, tree.place, chunk, first_line)
        if len(self.streams) > streams_before:
            self.warnings += [
                Defect("IgnoredTag", each.reason, each.line, each.column) for each in tree.warnings
            ]

    def _sort(
        self, content: Any, place: Place, text: str, first_line: int, in_list: bool = False
    ) -> None:
        """One document or item of a list: a stream, a near miss, or something else."""
        if not isinstance(content, dict):
            if content is not None:
                self._add_stranger(place)
            return
        items = content.get("items")
        if isinstance(items, list) and str(content.get("kind")).endswith("List"):
            if in_list:
                self._add_defect(
                    "NestedList",
                    "kubectl refuses a List inside of a List",
                    place.line,
                    place.column,
                )
                return
            inside = place.inside["items"].inside
            for number, item in enumerate(items):
                self._sort(item, inside[number], text, first_line, in_list=True)
            return
        near = near_miss(content)
        if near is not None:
            at = place.inside.get(near.partition(":")[0], place)
            self._add_defect("NearMiss", near, at.line, at.column)
        elif content.get("kind") == KIND and _group(content) == GROUP:
            self.streams.append(Document(content, place, text, first_line))
        elif content.get("apiVersion") and content.get("kind"):
            self.skipped += 1
        else:
            self._add_stranger(place)

    def _add_stranger(self, place: Place) -> None:
        said = "kubectl refuses what has no apiVersion and kind: remove it, or write both"
        self.strangers.append(Defect("NotAResource", said, place.line, place.column))

    def _add_defect(self, reason: str, message: str, line: int, column: int) -> None:
        self.defects.append(Defect(reason, message, line, column))


def _indentation(text: str, lines_before: int) -> int:
    """How far a block is indented that begins after so many lines."""
    at = 0
    for _ in range(lines_before):
        at = text.find("\n", at) + 1
    first = _FIRST_LINE_OF_BLOCK.match(text, at)
    return 0 if first is None else len(first[1])


def near_miss(content: dict[str, Any]) -> str | None:
    """Why an object that is probably meant as a stream is none; None for any other object."""
    version, kind, group = content.get("apiVersion"), content.get("kind"), _group(content)
    if group == GROUP:
        said = (
            "this field is required" if kind is None else f"there is no {_short(kind)} in {GROUP}"
        )
        return None if kind == KIND else f"kind: {said}: write {KIND}"
    ours = _alike(kind, KIND) or (kind is None and _has_our_parts(content.get("spec")))
    if version is None and ours:
        return f"apiVersion: this field is required: write {API_VERSION}"
    if ours and (_alike(group, GROUP) or "/" not in str(version)):
        return f"apiVersion: there is no {_short(version)}: did you mean {API_VERSION}?"
    return None


def _group(content: dict[str, Any]) -> str:
    return str(content.get("apiVersion", "")).partition("/")[0]


def _has_our_parts(spec: Any) -> bool:
    return isinstance(spec, dict) and {"source", "sink"} <= set(spec)


def _alike(text: Any, wanted: str) -> bool:
    if not isinstance(text, str) or len(text) > 2 * len(wanted):
        return False
    matcher = difflib.SequenceMatcher(a=text.lower(), b=wanted.lower())
    return matcher.ratio() >= _LEAST_RATIO


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_other_by_its_head(chunk: str) -> bool:
    """Whether the first lines say that a document is neither a stream nor a list."""
    found = dict(_HEAD.findall(chunk[:_LONG]))
    return (
        len(found) == 2
        and not found["kind"].endswith("List")
        and not _alike(found["kind"], KIND)
        and found["apiVersion"].partition("/")[0] != GROUP
    )
