"""A case made of one record: what `penstock replay --save` writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from penstock.local.cases.comparison import KafkaRecord


class _Text(str):
    """A text of a record, which is none of YAML's numbers and words, whatever it is."""


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(
    _Text, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)
_HEAD = "# {at}, as the query handled it on {day}. Correct what must come, and then the query.\n"


def case_of(
    record: KafkaRecord,
    timestamp_ms: int,
    manifest: Path,
    file: Path,
    *,
    rows: Sequence[Mapping[str, Any]],
    reason: str | None,
    names_topic: bool,
) -> str:
    """The text of a file with the case. `rows` came out, for a topic, or the query failed with
    `reason`.

    `names_topic`: the stream reads several.
    """
    at = f"{record.topic}/{record.partition}@{record.offset}"
    when = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    sent: dict[str, Any] = {"topic": record.topic} if names_topic else {}
    sent |= _content("key", record.key) if record.key is not None else {}
    sent |= _content("value", record.value)
    if record.headers:
        sent["headers"] = {name: _text(value) for name, value in record.headers.items()}
    sent["time"] = when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    case: dict[str, Any] = {"name": f"the record {at}", "in": [sent]}
    if reason is not None:
        case["fails"] = {"reason": reason}
    else:
        case["out"] = [_row(row) for row in rows]
    content = {"stream": os.path.relpath(manifest, file.parent), "cases": [case]}
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return _HEAD.format(at=at, day=datetime.now(UTC).date()) + text


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row for a topic of Kafka; its other columns say where to."""
    out: dict[str, Any] = {}
    for part in ("key", "value"):
        if row.get(part) is not None or part == "value":
            out |= _content(part, _bytes(row.get(part)), parsed=True)
    if row.get("topic") is not None:
        out["topic"] = row["topic"]
    return out


def _content(part: str, content: bytes | None, *, parsed: bool = False) -> dict[str, Any]:
    """The field of a key or value. What is `parsed` is compared as JSON, if it is an object."""
    if content is None:
        return {part: None}
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return {f"{part}Hex": content.hex()}
    try:
        value = json.loads(text) if parsed else text
    except ValueError:
        value = text
    return {part: value if isinstance(value, dict) else _Text(text)}


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes | bytearray):
        return None if value is None else bytes(value)
    return str(value).encode()


def _text(value: bytes | None) -> str | None:
    return None if value is None else _Text(value.decode(errors="replace"))
