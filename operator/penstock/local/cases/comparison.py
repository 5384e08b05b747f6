"""What came of a case beside what must come: pure, over values."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

from penstock.local.cases.case_file import OutputRecord

REASON_HEADER = "__penstock.errors.reason"
"""The header with a dead letter's reason (driver/kafka/dead_letters.py)."""
_MOST_SHOWN = 200
_MOST_DIFFERENCES = 5


@dataclass(frozen=True)
class KafkaRecord:
    """A record that came."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None] = field(default_factory=dict)
    """The last one of each name."""

    @property
    def content(self) -> Hashable:
        """What a copy of it has too."""
        return self.topic, self.key, self.value, tuple(sorted(self.headers.items()))

    def __str__(self) -> str:
        key = "" if self.key is None else f" key {shown(self.key)},"
        reason = f" ({shown(self.headers[REASON_HEADER])})" if REASON_HEADER in self.headers else ""
        return f"{self.topic}/{self.partition}@{self.offset}{key} value {shown(self.value)}{reason}"


@dataclass(frozen=True)
class Expected:
    """A record that must come, and its place in the case."""

    place: str
    """As in the file: out[0]."""
    record: OutputRecord
    key: bytes | None = None
    """Of the key's file, if it has one."""
    value: bytes | None = None


@dataclass(frozen=True)
class Match:
    """The result for one list of records."""

    differences: tuple[str, ...]
    copies: int = 0
    """Records that came again, where they may."""


def compare(
    expected: Sequence[Expected],
    came: Sequence[KafkaRecord],
    *,
    by_key: bool = False,
    may_come_again: Sequence[KafkaRecord] = (),
    repeats: bool = False,
) -> Match:
    """What differs, in words; nothing if each record came that must, and no other.

    `by_key`: the records of one key come in this order. `may_come_again`: what came before, each
    record once more. `repeats`: any record that must come may come again.
    """
    pairs = _assign_in_order(expected, came) if by_key else _assign(expected, came)
    taken = set(pairs.values())
    extra, copies = [], Counter(it.content for it in may_come_again)
    repeated = {came[n].content for n in taken} if repeats else set()
    count = 0
    for n, it in enumerate(came):
        if n in taken:
            continue
        if copies[it.content] > 0:
            copies[it.content] -= 1
        elif it.content not in repeated:
            extra.append(it)
            continue
        count += 1
    differences = []
    for at, wanted in enumerate(expected):
        if at in pairs:
            continue
        near = min(extra, key=lambda record: len(_differences(wanted, record)), default=None)
        if near is None or len(_differences(wanted, near)) > _MOST_DIFFERENCES:
            differences.append(f"{wanted.place}: did not come: {_text(wanted)}")
            continue
        extra.remove(near)
        wrong = "; ".join(_differences(wanted, near))
        differences.append(f"{wanted.place}: {wrong}\n  came: {near}")
    differences += [f"came, and nobody expected it: {it}" for it in extra]
    if by_key and not differences:
        differences += _out_of_order(expected, came, pairs)
    return Match(tuple(differences), count)


def _assign(expected: Sequence[Expected], came: Sequence[KafkaRecord]) -> dict[int, int]:
    """Which record is which expected one: as many as can be, the first ones first."""
    fitting = [[n for n, it in enumerate(came) if _fits(e, it)] for e in expected]
    owner: dict[int, int] = {}

    def place(at: int, tried: set[int]) -> bool:
        for record in fitting[at]:
            if record in tried:
                continue
            tried.add(record)
            if record not in owner or place(owner[record], tried):
                owner[record] = at
                return True
        return False

    unplaced = []
    for at, records in enumerate(fitting):
        free = next((record for record in records if record not in owner), None)
        if free is None:
            unplaced.append(at)
        else:
            owner[free] = at
    for at in unplaced:  # one that took its record may take another
        place(at, set())
    return {at: record for record, at in owner.items()}


def _assign_in_order(expected: Sequence[Expected], came: Sequence[KafkaRecord]) -> dict[int, int]:
    """The same, where each record is the first that fits and is left."""
    pairs: dict[int, int] = {}
    left = list(range(len(came)))
    for at, wanted in enumerate(expected):
        record = next((n for n in left if _fits(wanted, came[n])), None)
        if record is not None:
            pairs[at] = record
            left.remove(record)
    return pairs


def _out_of_order(
    expected: Sequence[Expected], came: Sequence[KafkaRecord], pairs: Mapping[int, int]
) -> list[str]:
    """Kafka keeps the order of one partition only, and records without a key have none."""
    last: dict[tuple[str, int, bytes], tuple[int, str]] = {}
    wrong = []
    for at, it in enumerate(expected):
        record = came[pairs[at]]
        if record.key is None:
            continue
        place = record.topic, record.partition, record.key
        before = last.get(place)
        if before is not None and record.offset < before[0]:
            wrong.append(f"{it.place}: came before {before[1]}, which has the same key")
        last[place] = record.offset, it.place
    return wrong


def _fits(expected: Expected, record: KafkaRecord) -> bool:
    return not _differences(expected, record)


def _differences(expected: Expected, record: KafkaRecord) -> list[str]:
    given, wrong = expected.record, list[str]()
    if given.topic is not None and given.topic != record.topic:
        wrong.append(f"topic: expected {given.topic}, came {record.topic}")
    if given.partition is not None and given.partition != record.partition:
        wrong.append(f"partition: expected {given.partition}, came {record.partition}")
    wrong += _of_part("key", given, expected.key, record.key)
    wrong += _of_part("value", given, expected.value, record.value)
    if given.value_includes:
        wrong += _of_json("value", given.value_includes, record.value, includes=True)
    for name, text in given.headers.items():
        if name not in record.headers:
            wrong.append(f"{_of_header(name)}: did not come")
        elif _bytes(text) != record.headers[name]:
            wrong.append(
                f"{_of_header(name)}: expected {_quoted(_bytes(text))}, came "
                f"{_quoted(record.headers[name])}"
            )
    return wrong


def _of_part(
    name: str, given: OutputRecord, of_file: bytes | None, came: bytes | None
) -> list[str]:
    """What differs of key or value."""
    exact = of_file
    if given.has(f"{name}_hex"):
        exact = bytes.fromhex(getattr(given, f"{name}_hex"))
    elif given.has(name):
        value = getattr(given, name)
        if value is not None and not isinstance(value, str):
            return _of_json(name, value, came)
        exact = _bytes(value)
    elif exact is None:
        return []
    if exact == came:
        return []
    return [f"{name}: expected {_quoted(exact)}, came {_quoted(came)}"]


def _of_json(name: str, value: Any, came: bytes | None, *, includes: bool = False) -> list[str]:
    if came is None:
        return [f"{name}: expected {_as_json(value)}, came null"]
    try:
        found = _read_json(came)
    except (ValueError, RecursionError) as error:
        why = error if isinstance(error, TwiceError) else "which is not JSON"
        return [f"{name}: expected {_as_json(value)}, came {shown(came)}, {why}"]
    return list(_walk(name, value, found, includes))


class TwiceError(ValueError):
    """An object of JSON has a field twice."""


def _once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in fields]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise TwiceError(f"which has {twice} twice")
    return dict(fields)


@lru_cache(maxsize=4096)
def _read_json(text: bytes) -> Any:
    """With the digits of its numbers. Raises ValueError."""
    return json.loads(text.decode(), parse_float=Decimal, object_pairs_hook=_once)


def _walk(path: str, expected: Any, came: Any, includes: bool) -> Iterable[str]:
    """The places at which two values of JSON differ. 1 and 1.0 are one number, 1 and true two."""
    if isinstance(expected, dict) and isinstance(came, dict):
        for name, value in expected.items():
            if name in came:
                yield from _walk(f"{path}.{name}", value, came[name], False)
            elif value is not None:
                yield f"{path}.{name}: expected {_as_json(value)}, did not come"
        if not includes:
            for name in came.keys() - expected.keys():
                if came[name] is not None:
                    yield f"{path}.{name}: came {_as_json(came[name])}, and nobody expected it"
    elif isinstance(expected, list) and isinstance(came, list) and len(expected) == len(came):
        for n, value in enumerate(expected):
            yield from _walk(f"{path}[{n}]", value, came[n], False)
    elif isinstance(expected, bool) is not isinstance(came, bool) or expected != came:
        yield f"{path}: expected {_as_json(expected)}, came {_as_json(came)}"


def _of_header(name: str) -> str:
    return "reason" if name == REASON_HEADER else f"headers.{name}"


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def json_of(value: Any, **options: Any) -> str:
    """A value as JSON, numbers with all their digits."""
    mark = uuid.uuid4().hex  # no text has it
    text = json.dumps(
        value, ensure_ascii=False, default=lambda number: f"{mark}{number}{mark}", **options
    )
    return text.replace(f'"{mark}', "").replace(f'{mark}"', "")  # digits without quotes


def _as_json(value: Any) -> str:
    return _cut(json_of(value))


def _text(expected: Expected) -> str:
    record = expected.record
    parts = {
        name: getattr(record, name)
        for name in ("topic", "partition", "key", "value", "value_includes", "headers")
        if record.has(name)
    }
    words = [f"{name.replace('_', ' ')} {_as_json(value)}" for name, value in parts.items()]
    of_files = [
        f"{n} {shown(v)}" for n, v in (("key", expected.key), ("value", expected.value)) if v
    ]
    of_hex = [f"{n} 0x{getattr(record, n)}" for n in ("key_hex", "value_hex") if record.has(n)]
    return ", ".join([*words, *of_files, *of_hex])


def shown(content: bytes | None) -> str:
    """Bytes as a person reads them: text, or hexadecimal."""
    if content is None:
        return "null"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _cut(f"0x{content.hex()}")
    return _cut("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text))


def _quoted(content: bytes | None) -> str:
    """With quotes around a text, whose blanks would not be seen."""
    text = shown(content)
    return text if content is None or text == f"0x{content.hex()}" else f'"{text}"'


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}... ({len(text)} characters)"
