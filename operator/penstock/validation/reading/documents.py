"""Finds the ContinuousStreams in the bytes of a file, and says what else is there.

A file is cut at its `---` lines before anything is parsed, as kubectl does. So one broken document
does not hide the others.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.api.group_version import API_VERSION, GROUP, KIND
from penstock.api.problem import Problem
from penstock.validation.reading.yaml_document import InvalidYaml, YamlPlace, compose
from penstock.validation.report import FileFinding

# Above this size a document of another kind, such as a CRD, is skipped by its first lines.
_LONG = 256 * 2**10
_LEAST_RATIO = 0.75
_HEAD = re.compile(r"^(apiVersion|kind): *([\w./]+) *$", re.MULTILINE)
_FIRST_LINE_OF_BLOCK = re.compile(r"(?: *\r?\n)*( *)")
_SEPARATOR = re.compile(r"^---(.*)\n?", re.MULTILINE)


@dataclass(frozen=True)
class Document:
    """One ContinuousStream of a file, not validated yet."""

    content: dict[str, Any]
    place: YamlPlace
    file: str = ""
    text: str = field(default="", repr=False)
    """The document as it is written, for the places inside of texts."""
    first_line: int = 1
    """The line of its file where the text begins."""

    @property
    def name(self) -> str:
        """The stream's name; "?" if it has none."""
        metadata = self.content.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return str(name)[:253] if name is not None else "?"

    def finding(self, problem: Problem) -> FileFinding:
        """The problem at its place in the file."""
        line, column = self.locate(problem)
        return FileFinding(
            self.file, line, column, self.name, problem.severity, problem.reason, problem.message
        )

    def locate(self, problem: Problem) -> tuple[int, int]:
        """Line and column of a problem's field, or of the nearest one around it that is there.

        A place in the field's text has a place in the file if the text is a block; in other styles
        the beginning of the field stands for it.
        """
        place = self.place
        for step in problem.field:
            inside = place.inside.get(step)
            if inside is None:
                return place.line, place.column
            place = inside
        if problem.text_line < 1 or place.style not in ("|", ">"):
            return place.line, place.column
        indentation = _indentation(self.text, place.text_line - self.first_line)
        column = indentation + max(problem.text_column, 1)
        return place.text_line + problem.text_line - 1, column


@dataclass(frozen=True)
class LoadedFile:
    """What a file holds."""

    streams: tuple[Document, ...] = ()
    findings: tuple[FileFinding, ...] = ()
    """Why other documents cannot be judged."""
    skipped: int = 0
    """Documents of other kinds."""


def load(data: bytes, file: str) -> LoadedFile:
    """The streams in the bytes of a file. Never raises."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        message = "not UTF-8: save the file as UTF-8"  # kubectl puts U+FFFD there without a word
        return LoadedFile(
            findings=(FileFinding(file, line, column, "", "error", "Encoding", message),)
        )
    reader = _DocumentReader(file)
    for first_line, chunk in _documents(text):
        reader.read(first_line, chunk)
    # A folder may hold files that are not for kubectl, but a file with a stream is.
    strangers = reader.strangers if reader.streams else []
    skipped = reader.skipped + len(reader.strangers) - len(strangers)
    return LoadedFile(tuple(reader.streams), (*reader.findings, *strangers), skipped)


def _documents(text: str) -> Iterator[tuple[int, str]]:
    """The documents of a file with their first lines, from 1. A separator begins its document."""
    begin, line = 0, 1
    for separator in [*_SEPARATOR.finditer(text), None]:
        end = len(text) if separator is None else separator.start()
        yield line, text[begin:end]
        line += text.count("\n", begin, end)
        begin = end


class _DocumentReader:
    """Collects what the documents of one file hold."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.streams: list[Document] = []
        self.findings: list[FileFinding] = []
        self.strangers: list[FileFinding] = []
        """What is no resource at all."""
        self.skipped = 0

    def read(self, first_line: int, chunk: str) -> None:
        """Reads one document."""
        separator = _SEPARATOR.match(chunk)
        if separator is not None:
            after = separator[1].strip()
            if after and not after.startswith("#"):
                message = "kubectl accepts only a comment after ---"
                self.findings.append(
                    self._finding("InvalidYaml", message, YamlPlace(first_line, 4))
                )
                return
            first_line, chunk = first_line + 1, chunk[separator.end() :]
        if len(chunk) > _LONG and _is_other_by_its_head(chunk):
            self.skipped += 1
            return
        try:
            root = compose(chunk, first_line)
        except InvalidYaml as error:
            place = YamlPlace(error.line, error.column)
            self.findings.append(self._finding("InvalidYaml", error.reason, place))
            return
        if root is not None:
            self._sort(root.content, root.place, chunk, first_line)

    def _sort(
        self, content: Any, place: YamlPlace, text: str, first_line: int, in_list: bool = False
    ) -> None:
        """One document or item of a list: a stream, a near miss, or something else."""
        if not isinstance(content, dict):
            if content is not None:
                self._add_stranger(place)
            return
        items = content.get("items")
        if isinstance(items, list) and str(content.get("kind")).endswith("List"):
            if in_list:
                message = "kubectl refuses a List inside of a List"
                self.findings.append(self._finding("NestedList", message, place))
                return
            inside = place.inside["items"].inside
            for number, item in enumerate(items):
                self._sort(item, inside[number], text, first_line, in_list=True)
            return
        near = near_miss(content)
        if near is not None:
            at = place.inside.get(near.partition(":")[0], place)
            self.findings.append(self._finding("NearMiss", near, at))
        elif content.get("kind") == KIND and _group(content) == GROUP:
            self.streams.append(Document(content, place, self._file, text, first_line))
        elif content.get("apiVersion") and content.get("kind"):
            self.skipped += 1
        else:
            self._add_stranger(place)

    def _add_stranger(self, place: YamlPlace) -> None:
        message = "kubectl refuses what has no apiVersion and kind: remove it, or write both"
        self.strangers.append(self._finding("NotAResource", message, place))

    def _finding(self, reason: str, message: str, place: YamlPlace) -> FileFinding:
        return FileFinding(self._file, place.line, place.column, "", "error", reason, message)


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
        message = (
            "this field is required" if kind is None else f"there is no {_short(kind)} in {GROUP}"
        )
        return None if kind == KIND else f"kind: {message}: write {KIND}"
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


def _alike(text: Any, expected: str) -> bool:
    if not isinstance(text, str) or len(text) > 2 * len(expected):
        return False
    matcher = difflib.SequenceMatcher(a=text.lower(), b=expected.lower())
    return matcher.ratio() >= _LEAST_RATIO


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_other_by_its_head(chunk: str) -> bool:
    """Whether the first lines say that a document is neither a stream nor a list."""
    head = dict(_HEAD.findall(chunk[:_LONG]))
    return (
        len(head) == 2
        and not head["kind"].endswith("List")
        and not _alike(head["kind"], KIND)
        and head["apiVersion"].partition("/")[0] != GROUP
    )
