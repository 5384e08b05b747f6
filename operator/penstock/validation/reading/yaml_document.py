"""Reads one YAML document as kubectl does, into plain values with the place of each.

kubectl reads YAML by goyaml.v2, and PyYAML's own loaders differ from it in ways that change what a
manifest means. So PyYAML parses (its events have marks), and only the differences are ours:

    interval: 1:30           PyYAML: the integer 90     here: a string
    topics: [2024-01-01]     PyYAML: a date             here: a string
    failOnDataLoss: n        PyYAML: a string           here: false, as are no and off
    cores: 0o17, 1e1, 08     PyYAML: strings            here: 15, 10, 8
    cores: 2.0               PyYAML: a float            here: 2, since JSON has no other
    cores: 1, cores: 2       PyYAML: the last one       here: refused (kubectl takes one silently)
    {1: a}                   PyYAML: an integer key     here: "1", since JSON has no other
    {a: 1, <<: *b}           PyYAML: a stays 1          here: what is merged overwrites it

integration/validation/test_verdicts.py compares them with kubectl. The events are read one by one,
because PyYAML's composer overflows the C stack on text that nests deep.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NoReturn

import yaml

# A spec that uses every field has depth 8 and fewer than 300 values.
MAX_DEPTH = 64
MAX_VALUES = 50_000

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one without C takes ten times as long

Scalar = str | int | float | Decimal | bool | None
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE"), True),
    **dict.fromkeys(("on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE"), False),
    **dict.fromkeys(("off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF"), math.nan),
    **dict.fromkeys(("+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF"), math.nan),
}  # fmt: skip
_WORDS_OF_YAML_1_2 = {
    word: value
    for word, value in _WORDS.items()
    if not isinstance(value, bool) or word.lower() in ("true", "false")
}
# With the prefixes of Go's ParseInt: 0b11, 0o17, 017, 0x1F.
_INTEGER = re.compile(r"([-+]?)(?:0[bB]([01]+)|0[oO]?([0-7]+)|0[xX]([0-9a-fA-F]+)|(0|[1-9][0-9]*))")
_BASES = (2, 8, 16, 10)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LONGEST_NUMBER = 400  # no longer number has a value in 64 bits
_EXACT_INTEGERS = range(-(2**63), 2**64)
# Go writes a float below this as digits, so that JSON readers take it for an integer.
_LONGEST_PLAIN_FLOAT = 1e21
_TAG = "tag:yaml.org,2002:"
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),),
}  # fmt: skip


@dataclass(frozen=True)
class YamlPlace:
    """Where a value stands in its file, and the places of the values in it."""

    line: int
    """From 1."""
    column: int
    """From 1: of the key, or of an item of a list."""
    inside: Mapping[str | int, YamlPlace] = field(default_factory=dict)
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
class YamlNode:
    """A value, where it stands, and how many values it holds with aliases resolved."""

    content: Any
    place: YamlPlace
    size: int = 1


def compose(text: str, first_line: int = 1, *, for_kubectl: bool = True) -> YamlNode | None:
    """The only document of the text, which begins at this line of its file; None if it is empty.

    Raises InvalidYaml. If it is not `for_kubectl`, yes, no, on, off, y and n are texts, as in YAML
    1.2, and a number with a fraction is a Decimal, with all its digits.
    """
    return _Composer(text, first_line, for_kubectl=for_kubectl).compose()


class _Composer:
    def __init__(self, text: str, first_line: int, *, for_kubectl: bool) -> None:
        self._for_kubectl = for_kubectl
        self._events = yaml.parse(text, Loader=_Loader)
        self._first_line = first_line
        self._size = 0
        self._anchors: dict[str, YamlNode] = {}

    def compose(self) -> YamlNode | None:
        root, documents = None, 0
        try:
            for event in self._events:
                if isinstance(event, yaml.DocumentStartEvent):
                    documents += 1
                    if event.version is not None or event.tags:
                        self._refuse("kubectl takes no % directives: remove them", event.start_mark)
                    if documents > 1 and not self._for_kubectl:
                        self._refuse("a second document: write a file for each", event.start_mark)
                    if documents > 1:
                        message = "kubectl reads nothing after `...`: write ---"
                        self._refuse(message, event.start_mark)
                elif isinstance(event, yaml.NodeEvent):
                    root = self._node(event, 1)
        except yaml.MarkedYAMLError as error:
            reason = ": ".join(filter(None, (error.context, error.problem)))
            self._refuse(f"not YAML: {reason}", error.problem_mark or error.context_mark)
        except (yaml.YAMLError, UnicodeError) as error:
            self._refuse(f"not YAML: {' '.join(str(error).split())[:200]}", None)
        return root

    def _node(self, event: Any, depth: int) -> YamlNode:
        place = self._place(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            target = self._anchors.get(event.anchor or "")
            if target is None:
                message = f"there is no anchor &{event.anchor} before this alias"
                self._refuse(message, event.start_mark)
            self._count(target.size, event)
            return replace(target, place=replace(place, inside=target.place.inside))
        self._count(1, event)
        if depth > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} levels deep", event.start_mark)
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event, place)
        elif isinstance(event, yaml.MappingStartEvent):
            node = self._map(event, place, depth)
        else:
            node = self._list(place, depth)
        self._check_tag(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _scalar(self, event: yaml.ScalarEvent, place: YamlPlace) -> YamlNode:
        is_plain = event.style is None or event.style == ""
        try:
            content = _resolve(event.value, event.tag, is_plain, for_kubectl=self._for_kubectl)
        except ValueError as error:
            self._refuse(str(error), event.start_mark)
        if isinstance(content, str):
            style = event.style or ""
            place = replace(place, text_line=place.line + (style in ("|", ">")), style=style)
        return YamlNode(content, place)

    def _list(self, place: YamlPlace, depth: int) -> YamlNode:
        size, items = self._size, list[YamlNode]()
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        inside: dict[str | int, YamlPlace] = {n: item.place for n, item in enumerate(items)}
        content = [_as_json(item.content) for item in items]
        return YamlNode(content, replace(place, inside=inside), self._size - size + 1)

    def _map(self, start: yaml.MappingStartEvent, place: YamlPlace, depth: int) -> YamlNode:
        size, content, inside = self._size, dict[str, Any](), dict[str | int, YamlPlace]()
        merged = set[str]()
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, value = self._node(event, depth + 1), self._node(next(self._events), depth + 1)
            if getattr(event, "value", "") == "<<" and key.place.style == "":
                for entries, places in self._merged(value, event):
                    content.update(entries)
                    inside.update(places)
                    merged.update(entries)
                continue
            name = self._key(key.content, event)
            if name in content and name not in merged:
                message = (
                    f"the key {name[:60]} stands here and in line {inside[name].line}: keep one"
                )
                self._refuse(message, event.start_mark)
            merged.discard(name)
            content[name] = _as_json(value.content)
            inside[name] = replace(value.place, line=key.place.line, column=key.place.column)
        return YamlNode(content, replace(place, inside=inside), self._size - size + 1)

    def _key(self, content: Any, event: yaml.Event) -> str:
        if isinstance(content, bool):
            return "true" if content else "false"
        if not isinstance(content, str | int):
            kind = "a number with a fraction" if isinstance(content, float) else "null, list or map"
            self._refuse(f"a key cannot be {kind}: put it in quotes", event.start_mark)
        return str(content)

    def _merged(
        self, value: YamlNode, event: yaml.Event
    ) -> list[tuple[dict[str, Any], Mapping[str | int, YamlPlace]]]:
        """The maps that << merges, the first last: as in kubectl, the last one overwrites."""
        maps = [(value.content, value.place.inside)]
        if isinstance(value.content, list):
            places = [value.place.inside[number].inside for number in range(len(value.content))]
            maps = list(zip(value.content, places, strict=True))[::-1]
        if not all(isinstance(entries, dict) for entries, _ in maps):
            self._refuse("<< takes a map or a list of maps", event.start_mark)
        return maps

    def _check_tag(self, event: Any) -> None:
        known = {f"{_TAG}{name}" for name in (*_TYPES, "str", "map", "seq")}
        if event.tag not in (None, "!", *known):
            message = f"kubectl ignores the tag {event.tag[:60]}, or decodes it: remove it"
            self._refuse(message, event.start_mark)

    def _count(self, values: int, event: yaml.Event) -> None:
        self._size += values
        if self._size > MAX_VALUES:
            message = f"more than {MAX_VALUES} values, with aliases resolved"
            self._refuse(message, event.start_mark)

    def _place(self, mark: Any) -> YamlPlace:
        return YamlPlace(mark.line + self._first_line, mark.column + 1)

    def _refuse(self, reason: str, mark: Any) -> NoReturn:
        place = YamlPlace(self._first_line, 1) if mark is None else self._place(mark)
        raise InvalidYaml(reason, place.line, place.column)


def _resolve(text: str, tag: str | None, plain: bool, *, for_kubectl: bool) -> Scalar:
    """What a scalar is for Go; ValueError if its tag contradicts it or JSON has no such number."""
    kind = (tag or "").removeprefix(_TAG)
    if kind not in _TYPES and (kind not in ("", "!") or not plain):
        return text
    value = _plain(text, _WORDS if for_kubectl else _WORDS_OF_YAML_1_2)
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{text} is not a number that JSON has")
    expected = _TYPES.get(kind, (object,))
    if not isinstance(value, expected) or (isinstance(value, bool) and expected[0] is int):
        raise ValueError(f"{text!r} does not have the type of its tag !!{kind}")
    is_exact = isinstance(value, float) and not for_kubectl
    return Decimal(text.replace("_", "")) if is_exact else value


def _plain(text: str, words: Mapping[str, Scalar]) -> Scalar:
    if text in words:
        return words[text]
    if text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    match = _INTEGER.fullmatch(digits)
    if match is not None:
        group = match.lastindex or 0
        value = int(match[1] + match[group], _BASES[group - 2])
        if value in _EXACT_INTEGERS:
            return value
    is_float = _FLOAT.fullmatch(digits) is not None and math.isfinite(float(digits))
    return float(digits) if is_float else text


def _as_json(content: Any) -> Any:
    """A value as Go writes it into JSON: without a fraction where there is none."""
    if isinstance(content, float) and content.is_integer() and abs(content) < _LONGEST_PLAIN_FLOAT:
        return int(content)
    return content
