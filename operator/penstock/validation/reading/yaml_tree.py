"""Reads one YAML document into plain values and the place of each, within bounds.

PyYAML's events, not its loaders: they are read one by one, so that depth, aliases and size are
bounded before anything is built, and each has a mark. A loader of ruamel.yaml has neither bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from penstock.validation.reading import yaml_scalars

# A spec that uses every field has depth 8 and fewer than 300 values.
MAX_DEPTH = 64
MAX_VALUES = 50_000

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one without C takes ten times as long
_MERGE = "<<"
_MOST_WARNINGS = 20


@dataclass(frozen=True)
class Place:
    """Where a value stands in its file, and the places of the values in it."""

    line: int
    """From 1."""
    column: int
    """From 1: of the key, or of an item of a list."""
    inside: Mapping[str | int, Place] = field(default_factory=dict)
    text_line: int = 0
    """Of a text: the line where the text itself begins, without quotes and indicators; else 0."""
    style: str = ""
    """Of a text: "|" and ">" for blocks, quotes, or nothing."""


class InvalidYaml(Exception):
    """Why a text is not a document that kubectl would take, and where."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(reason)
        self.reason, self.line, self.column = reason, line, column


@dataclass(frozen=True)
class Tree:
    """A document."""

    content: Any
    place: Place
    warnings: tuple[InvalidYaml, ...]
    """What kubectl ignores, and a writer may have meant."""
    size: int
    """How many values it holds, with each alias counted as what it stands for."""


@dataclass
class _Node:
    """A value under construction; `kind` is "map", "list" or "scalar"."""

    kind: str
    mark: Any
    content: Any
    inside: dict[str | int, Place]
    size: int = 1
    is_merge_key: bool = False
    style: str = ""
    pending: _Node | None = None
    """The key of a map that waits for its value."""
    merged: set[str] = field(default_factory=set)
    complete: bool = True


def compose(text: str, first_line: int = 1, most: int = MAX_VALUES) -> Tree | None:
    """The only document of the text, which begins at this line of its file; None if it is empty.

    Raises InvalidYaml. Takes a time in proportion to the text, and to at most `most` values.
    """
    return _Composer(first_line, most).compose(text)


class _Composer:
    def __init__(self, first_line: int, most: int) -> None:
        self._offset = first_line
        self._most = most
        self._size = 0
        self._open: list[_Node] = []
        self._anchors: dict[str, _Node] = {}
        self._root: _Node | None = None
        self._warnings: list[InvalidYaml] = []

    def compose(self, text: str) -> Tree | None:
        documents = 0
        try:
            for event in yaml.parse(text, Loader=_Loader):
                if isinstance(event, yaml.DocumentStartEvent):
                    documents += 1
                    if event.version is not None or event.tags:
                        raise self._error("kubectl takes no % directives: remove them", event)
                    if documents > 1:
                        raise self._error("kubectl reads nothing after `...`: write ---", event)
                elif isinstance(event, yaml.NodeEvent):
                    self._start(event)
                elif isinstance(event, yaml.CollectionEndEvent):
                    self._finish(self._open.pop())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            reason = ": ".join(filter(None, (error.context, error.problem)))
            raise self._invalid(f"not YAML: {reason}", mark) from error
        except (yaml.YAMLError, UnicodeError) as error:
            raise InvalidYaml(f"not YAML: {_one_line(error)}", self._offset, 1) from error
        root = self._root
        if root is None:
            return None
        return Tree(root.content, self._place(root, root.mark), tuple(self._warnings), self._size)

    def _start(self, event: yaml.NodeEvent) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._finish(self._alias(event))
            return
        self._check_tag(event)
        if isinstance(event, yaml.ScalarEvent):
            self._finish(self._scalar(event))
            return
        if len(self._open) >= MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} levels deep", event)
        is_map = isinstance(event, yaml.MappingStartEvent)
        node = _Node("map", event.start_mark, {}, {}) if is_map else _Node("list", None, [], {})
        node.mark, node.complete = event.start_mark, False
        self._count(1, node.mark)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        self._open.append(node)

    def _scalar(self, event: yaml.ScalarEvent) -> _Node:
        is_plain = event.style is None or event.style == ""
        try:
            value = yaml_scalars.resolve(event.value, _tag(event), is_plain)
        except ValueError as error:
            raise self._error(str(error), event) from error
        around = self._open[-1] if self._open else None
        is_key = around is not None and around.kind == "map" and around.pending is None
        content = value if is_key else yaml_scalars.value(value)
        node = _Node("scalar", event.start_mark, content, {}, style=event.style or "")
        node.is_merge_key = is_plain and event.value == _MERGE and event.tag is None
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: yaml.AliasEvent) -> _Node:
        target = self._anchors.get(event.anchor or "")
        if target is None:
            raise self._error(f"there is no anchor &{event.anchor} before this alias", event)
        if not target.complete:
            raise self._error(f"the alias *{event.anchor} stands inside of its own anchor", event)
        return _Node(target.kind, event.start_mark, target.content, target.inside, target.size)

    def _finish(self, node: _Node) -> None:
        """Puts a complete value into the one around it."""
        if node.complete:  # a scalar or an alias; those with an end were counted at their start
            self._count(node.size, node.mark)
        node.complete = True
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        if parent.kind == "map" and parent.pending is None:
            parent.pending = node
            return
        parent.size += node.size
        if parent.kind == "list":
            parent.inside[len(parent.content)] = self._place(node, node.mark)
            parent.content.append(node.content)
            return
        name, parent.pending = parent.pending, None
        assert name is not None
        if name.is_merge_key:
            self._merge(parent, node)
        else:
            self._put(parent, name, node)

    def _count(self, values: int, mark: Any) -> None:
        self._size += values
        if self._size > self._most:
            raise self._invalid(f"more than {self._most} values, with aliases resolved", mark)

    def _put(self, parent: _Node, name: _Node, node: _Node) -> None:
        if name.kind != "scalar":
            raise self._invalid(f"a key cannot be a {name.kind}", name.mark)
        try:
            text = yaml_scalars.key(name.content)
        except ValueError as error:
            raise self._invalid(str(error), name.mark) from error
        if text in parent.content and text not in parent.merged:
            first = parent.inside[text].line
            raise self._invalid(
                f"the key {_short(text)} stands here and in line {first}: keep one", name.mark
            )
        parent.merged.discard(text)
        parent.content[text] = node.content
        parent.inside[text] = self._place(node, name.mark)

    def _merge(self, parent: _Node, node: _Node) -> None:
        """As kubectl: what is merged overwrites the keys before it, unlike in YAML's own rule."""
        maps = [node.content] if node.kind == "map" else node.content
        if node.kind == "scalar" or not all(isinstance(each, dict) for each in maps):
            raise self._invalid("<< takes a map or a list of maps", node.mark)
        places = (
            [node.inside]
            if node.kind == "map"
            else [each.inside for each in (node.inside[i] for i in range(len(maps)))]
        )
        for each, where in zip(reversed(maps), reversed(places), strict=True):
            parent.content.update(each)
            parent.inside.update(where)
            parent.merged.update(each)

    def _check_tag(self, event: yaml.NodeEvent) -> None:
        if len(self._warnings) >= _MOST_WARNINGS:
            return
        tag = event.tag  # type: ignore[attr-defined]
        if tag not in (None, "!") and not str(tag).startswith("tag:yaml.org,2002:"):
            self._warnings.append(self._error(f"kubectl ignores the tag {_short(tag)}", event))
        elif str(tag).startswith("tag:yaml.org,2002:python"):
            self._warnings.append(self._error("kubectl ignores tags of Python", event))

    def _place(self, node: _Node, mark: Any) -> Place:
        text_line = 0
        if node.kind == "scalar" and isinstance(node.content, str):
            text_line = node.mark.line + self._offset + (node.style in ("|", ">"))
        return Place(mark.line + self._offset, mark.column + 1, node.inside, text_line, node.style)

    def _error(self, reason: str, event: yaml.Event) -> InvalidYaml:
        return self._invalid(reason, event.start_mark)

    def _invalid(self, reason: str, mark: Any) -> InvalidYaml:
        if mark is None:
            return InvalidYaml(reason, self._offset, 1)
        return InvalidYaml(reason, mark.line + self._offset, mark.column + 1)


def _tag(event: yaml.ScalarEvent) -> str | None:
    return None if event.tag in (None, "!") else event.tag


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
