"""Writes what the chart repeats: its values, in README.md, and the version of this release."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

_TABLE = re.compile(r"(<!-- generated: values -->\n).*?(<!-- end -->)", re.DOTALL)
_TRAILING = re.compile(r"  # (.*)$")
# The chart's version, that of the operator's image, and the tag of the Spark image.
_VERSION = re.compile(r"^(version: |appVersion: |sparkImage: [^:]+:).*$", re.MULTILINE)


@dataclass(frozen=True)
class Value:
    name: str
    default: object
    meaning: str


def with_values(document: str, values: str) -> str:
    """The document, with the table between its marks written anew."""
    rows = ["| value | default | meaning |", "|---|---|---|"]
    for value in parse(values):
        default = json.dumps(value.default)
        rows.append(f"| `{value.name}` | `{default}` | {value.meaning} |")
    table = "\n".join(rows)
    made, count = _TABLE.subn(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", document)
    if count != 1:
        raise ValueError("charts/penstock/README.md must mark one place for the values")
    return made


def with_version(document: str, version: str) -> str:
    """Chart.yaml or values.yaml, with this version wherever it names one of this release."""
    return _VERSION.sub(lambda found: f"{found[1]}{version}", document)


def parse(values: str) -> Iterator[Value]:
    """The values with their comments: those above a value, else behind it, else of its group.

    A map in block style is a group of values, and one in flow style, such as {a: b}, is a value.
    """
    root = yaml.compose(values)
    assert isinstance(root, yaml.MappingNode)
    yield from _leaves(root, "", "", values.splitlines())


def _leaves(
    group: yaml.MappingNode, prefix: str, of_group: str, lines: list[str]
) -> Iterator[Value]:
    for key, node in group.value:
        name = f"{prefix}{key.value}"
        meaning = _comment(lines, key.start_mark.line) or of_group
        if isinstance(node, yaml.MappingNode) and not node.flow_style:
            yield from _leaves(node, f"{name}.", meaning, lines)
            continue
        if not meaning:
            raise ValueError(f"values.yaml: {name} has no comment")
        default = yaml.SafeLoader("").construct_object(node, deep=True)
        yield Value(name, default, meaning)


def _comment(lines: list[str], at: int) -> str:
    above: list[str] = []
    while at > len(above) and (line := lines[at - 1 - len(above)].strip()).startswith("# "):
        above.append(line[2:])
    trailing = _TRAILING.search(lines[at])
    return " ".join(reversed(above)) or (trailing[1] if trailing else "")
