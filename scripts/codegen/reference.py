"""The reference documents, written from the schema and from the table of operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.api.modes import Execution, Mode
from penstock.api.reserved_spark_conf import OWNED_CONFS
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.status import StreamStatus
from penstock.sql.operations import NOT_GROUPED, OPERATIONS, Operation
from scripts.codegen import crd

# What does not fit into a table's cell has a table of its own.
_LONGEST = 200
_GENERATED = "<!-- Generated from operator/penstock/api; `make generate` renews it. -->\n"

_REFERENCE_HEAD = """\
# Reference: every field of a ContinuousStream

`kubectl explain cstream.spec --recursive` says the same in a cluster. A field in **bold** is
required. Defaults are not written into what you applied: they stand in the descriptions. Under
"refused", what the API server refuses at `kubectl apply`; what needs more than the schema (SQL, pod
templates) is refused by the operator before anything is created, and by `penstock validate`.
"""

_MODES_HEAD = """\
# What each mode takes

SQL is judged by this table before a driver is started, in the operator and in `penstock validate`;
each cell is the verdict of Spark 4.2, held by a test that asks Spark (`test_spark_verdicts.py`).
What only Spark's analyser can tell is left to it, and stalls the stream with Spark's own words.

- **yes**: taken. **no**: refused, naming the operation, its place, the reason and the remedy.
- **event time**: taken with `transform.watermark`, where the watermark's column or a window of it
  is among the keys. **update**, **complete**: taken in that `outputMode`. `complete` is for
  queries with an aggregate only.
- `trigger.availableNow` takes what `trigger.microBatch` takes.
"""

_MODES_TAIL = """
Native everywhere: projections, filters, casts, CASE, every scalar SQL function, functions over
arrays and maps with lambdas, `from_json` and its kin, tumbling `window()` as a value, scalar and IN
subqueries over tables (not over the stream), `transform.functions` and `transform.javaFunctions`.

## Python in continuous mode

A Python or pandas UDF is accepted in continuous mode, and the stream carries a condition of type
`Warning`: the engine hands its results on when the epoch ends. Measured: 526 ms at epochs of 1 s
and 160 ms at epochs of 200 ms, against 16 ms for native expressions; Arrow's batch size and Arrow
off change nothing. Real-time mode refuses Python functions. What a Python *transform* builds of
Spark's own expressions is native and not slowed. Native ways to the same: an expression in
`transform.sql`, a SQL function (`transform.functions`), a Java function
(`transform.javaFunctions`).
"""


def reference() -> str:
    """docs/reference.md."""
    parts = [_GENERATED, _REFERENCE_HEAD]
    for path, node in _objects("spec", crd.structural(StreamSpec)):
        parts.append(_section(path, node))
    parts.append(_owned())
    for path, node in _objects("status", crd.structural(StreamStatus)):
        parts.append(_section(path, node))
    return "\n".join(parts)


def modes() -> str:
    """docs/modes.md."""
    lines = [
        "| Operation | Spark's name | continuous | realTime | microBatch | asyncProgress |",
        "|---|---|---|---|---|---|",
        *(_operation_row(each) for each in OPERATIONS if each is not NOT_GROUPED),
    ]
    return "\n".join([_GENERATED, _MODES_HEAD, *lines, _MODES_TAIL])


def _operation_row(operation: Operation) -> str:
    def cell(execution: Execution) -> str:
        return "yes" if operation.taken_by(execution) else "no"

    return (
        f"| {operation.what} | {operation.name} | {cell(Execution(Mode.CONTINUOUS))} | "
        f"{cell(Execution(Mode.REAL_TIME, 'update'))} | {_in_batches(operation)} | "
        f"{cell(Execution(Mode.ASYNC))} |"
    )


def _in_batches(operation: Operation) -> str:
    """The output modes that take it, in a word or two."""

    def takes(output: str, watermark: bool = False) -> bool:
        return operation.taken_by(Execution(Mode.MICRO_BATCH, output, watermark))

    names = [name for name in ("append", "update", "complete") if takes(name)]
    if names[:1] != ["append"] and takes("append", watermark=True):
        names.insert(0, "event time")
    if not names:
        return "no"
    # Complete is for aggregates, whatever else the query does.
    return "yes" if names[:2] == ["append", "update"] else ", ".join(names)


def _objects(path: str, node: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object with named fields, outer ones first."""
    if "properties" in node:
        yield path, node
        for name, each in node["properties"].items():
            yield from _objects(f"{path}.{name}", each)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(node.get(key), dict):
            yield from _objects(f"{path}{mark}", node[key])


def _section(path: str, node: dict[str, Any]) -> str:
    lines = [f"## {path}", "", *filter(None, [node.get("description")])]
    rows = [
        _field_row(name, each, name in node.get("required", ()))
        for name, each in node["properties"].items()
    ]
    if rows:
        lines += ["", "| Field | Type | Meaning |", "|---|---|---|", *rows]
    refused = [rule["message"] for rule in node.get("x-kubernetes-validations", ())]
    if refused:
        lines += ["", "Refused:", "", *(f"- {message}" for message in refused)]
    return "\n".join([*lines, ""])


def _field_row(name: str, node: dict[str, Any], required: bool) -> str:
    shown = f"**`{name}`**" if required else f"`{name}`"
    meaning = node.get("description", "")
    if "enum" in node:
        meaning += f" One of: {', '.join(f'`{each}`' for each in node['enum'])}."
    if "example" in node:
        meaning += f" Example: `{_plain(node['example'])}`."
    for rule in node.get("x-kubernetes-validations", ()) if "properties" not in node else ():
        if len(rule["message"]) < _LONGEST:
            meaning += f" Refused: {rule['message']}."
    return f"| {shown} | {_type(node)} | {meaning.replace('|', chr(92) + '|')} |"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_plain(each) for each in value) + "]"
    return str(value)


def _type(node: dict[str, Any]) -> str:
    kind = node.get("type", "any")
    if kind == "array":
        return f"list of {_type(node['items'])}"
    if kind == "object" and isinstance(node.get("additionalProperties"), dict):
        return f"map of {_type(node['additionalProperties'])}"
    bounds = [str(node[each]) for each in ("minimum", "maximum") if each in node]
    return f"{kind} ({'..'.join(bounds)})" if len(bounds) == 2 else str(kind)


def _owned() -> str:
    rows = [f"| `{name}` | {instead} |" for name, instead in OWNED_CONFS.items()]
    return "\n".join(
        [
            "## What `spec.sparkConf` cannot hold",
            "",
            "| Conf | Instead, or why |",
            "|---|---|",
            *rows,
            "",
        ]
    )
