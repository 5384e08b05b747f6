"""Writes what the chart repeats: the operator's settings, its values, this release's version."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import TypeAdapter

from penstock.contract.operator_settings import OperatorSettings

_TABLE = re.compile(r"(<!-- generated: values -->\n).*?(<!-- end -->)", re.DOTALL)
_TRAILING = re.compile(r"  # (.*)$")
# The chart's version, that of the operator's image, and the tag of the Spark image.
_VERSION = re.compile(r"^(version: |appVersion: |sparkImage: [^:]+:).*$", re.MULTILINE)
_SETTINGS = re.compile(r"^(# generated: settings\n).*?^(# end)$", re.DOTALL | re.MULTILINE)
_WIDTH = 110
_SCHEMA_WIDTH = 100
_IN_WORDS = ("title", "description", "default")


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


def with_settings(values: str) -> str:
    """values.yaml, with the settings and their defaults and comments between its marks.

    The one without a default is written by hand.
    """
    wanted = {name: each for name, each in _schema()["properties"].items() if "default" in each}
    text = "\n".join(_commented(wanted))
    made, count = _SETTINGS.subn(lambda found: f"{found[1]}{text}\n{found[2]}", values)
    if count != 1:
        raise ValueError("charts/penstock/values.yaml must mark one place for the settings")
    return made


def with_schema(values_schema: str) -> str:
    """values.schema.json, with the settings as they are now."""
    schema = json.loads(values_schema)
    schema["properties"].update(_rules(_schema()["properties"]))
    return _compact(schema) + "\n"


def settings_template() -> str:
    """The chart's template of the file: which of its values are settings."""
    names = " ".join(json.dumps(name) for name in _schema()["properties"])
    return (
        "{{- /* Generated from penstock/contract/operator_settings.py: make generate. */}}\n"
        '{{- define "penstock.settings" -}}\n'
        f"{{{{ pick .Values {names} | toYaml }}}}\n"
        "{{- end -}}\n"
    )


def _schema() -> dict[str, Any]:
    schema = TypeAdapter(OperatorSettings).json_schema()
    resolved: dict[str, Any] = _resolved(schema, schema.pop("$defs"))
    return resolved


def _resolved(node: Any, definitions: dict[str, Any]) -> Any:
    """With what a reference means in its place; the description is that of the field."""
    if isinstance(node, list):
        return [_resolved(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        node = {**definitions[node["$ref"].rsplit("/", 1)[-1]], **node}
        del node["$ref"]
    return {name: _resolved(each, definitions) for name, each in node.items()}


def _rules(node: Any) -> Any:
    """A schema without words, in which a map has the keys that match only."""
    if isinstance(node, list):
        return [_rules(each) for each in node]
    if not isinstance(node, dict):
        return node
    closed = {"additionalProperties": False} if "patternProperties" in node else {}
    return closed | {name: _rules(each) for name, each in node.items() if name not in _IN_WORDS}


def _commented(fields: dict[str, Any], indent: str = "") -> Iterator[str]:
    for name, field in fields.items():
        for line in textwrap.wrap(field["description"], _WIDTH - len(indent)):
            yield f"{indent}# {line}"
        group = field.get("properties", {})
        if group and all("default" in each for each in group.values()):
            yield f"{indent}{name}:"
            yield from _commented(group, f"{indent}  ")
        else:
            default = {} if field.get("type") == "object" else field["default"]
            yield f"{indent}{name}: {json.dumps(default)}"
        if not indent:
            yield ""


def _compact(node: Any, indent: str = "") -> str:
    """JSON in which what fits into a line is one."""
    line = json.dumps(node)
    if not node or not isinstance(node, dict | list) or len(indent) + len(line) <= _SCHEMA_WIDTH:
        return line
    deeper = f"{indent}  "
    if isinstance(node, list):
        return "[\n" + ",\n".join(deeper + _compact(it, deeper) for it in node) + f"\n{indent}]"
    entries = (f"{deeper}{json.dumps(name)}: {_compact(it, deeper)}" for name, it in node.items())
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


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
