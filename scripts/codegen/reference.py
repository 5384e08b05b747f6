"""Generates docs/reference.md from the schema and docs/modes.md from the table of operations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.api.kafka_options import COMMON_OPTIONS, SINK_OPTIONS, SOURCE_OPTIONS
from penstock.api.modes import Execution, Mode
from penstock.api.reserved_spark_conf import RESERVED_CONFS
from penstock.api.v1alpha1.status import StreamStatus
from penstock.sql.supported_operations import COMPLETE_WITHOUT_AGGREGATE, OPERATIONS, Operation
from scripts.codegen import crd

# Longer validation errors are left out of table cells.
_MAX_ERROR_LENGTH = 200
_GENERATED = "<!-- Generated from operator/penstock; run `make generate` to update. -->\n"

_REFERENCE_HEAD = """\
# API reference: ContinuousStream

All fields of the resource. In a cluster, `kubectl explain cstream.spec --recursive` shows the same.

- Fields in **bold** are required.
- Defaults are part of the descriptions. They are not written into the resource.
- A change of a field replaces the driver's pod, unless its description says otherwise
  ([what an edit restarts](operate.md#edit)).
- "Validation errors" are those of the API server at `kubectl apply`. The operator checks what needs
  more than the schema (SQL, pod templates) before it creates anything. `penstock validate` checks
  both without a cluster.
"""

_MODES_HEAD = """\
# Modes: what each accepts

The operator and `penstock validate` check SQL against this table before a driver starts. Each cell
is the verdict of Spark 4.3, and [tested](testing.md#other-claims) against it. If the SQL text is
not enough to tell, Spark's analyzer in the driver decides, and a refused stream is `Stalled` with
Spark's message.

**A stream has one source.** So a join of two streams is a join of that source with itself, such as
two of its topics. **A table** is a file or a list in the query
([recipe](recipes.md#join-with-a-table)).

- **yes**: supported.
- **no**: refused. The message names the operation, its place, the reason and the remedy.
- **event time**: supported in `outputMode` append if there is a watermark (`transform.watermark`,
  or a [WATERMARK clause](recipes.md#count-in-windows-of-time)) and the keys (of GROUP BY, DISTINCT
  or the join) contain its column or a time window over it.
- **append**, **update**, **complete**: supported in that `outputMode`. `complete` requires an
  aggregate in the query.

`trigger.availableNow` supports the same as `trigger.microBatch`.
"""

_MODES_TAIL = """
Supported in all modes: projections, filters, casts, `CASE`, all scalar SQL functions, functions
over arrays and maps with lambdas, `from_json` and similar functions, tumbling `window()` values,
scalar and `IN` subqueries over tables (not over the stream), `transform.functions` and
`transform.javaFunctions`.

## Python in continuous mode

Continuous mode accepts a Python or pandas UDF, and the stream gets the condition `Warning`: the
engine forwards the results only at the end of the epoch. Measured latency: 526 ms with epochs of
1 s and 160 ms with epochs of 200 ms, against a few milliseconds for native expressions. Neither
Arrow's batch size nor turning Arrow off changes that. Real-time mode refuses Python and
pandas UDFs.

A Python *transform* that only combines Spark's own expressions is native and not slowed down.
Native alternatives to a UDF: an expression in `transform.sql`, a SQL function
(`transform.functions`) or a Java function (`transform.javaFunctions`).

## Exactly once

`sink.kafka.delivery: ExactlyOnce` is for a query from Kafka to Kafka in one cluster, with state in
micro-batches ([its terms](guarantees.md#exactly-once)). In continuous and real-time mode a
transaction is committed every `transactionInterval`; with a Python or pandas UDF, and in
micro-batches, at the end of the epoch or batch. A custom sink may have transactions of its own.
"""


def reference() -> str:
    """docs/reference.md."""
    parts = [_GENERATED, _REFERENCE_HEAD]
    parts += _sections("spec", crd.spec())
    parts += [
        _keys("Keys that `spec.sparkConf` cannot contain", RESERVED_CONFS),
        _keys(
            "Keys that `options` of Kafka's source, sink and connection cannot contain",
            COMMON_OPTIONS,
        ),
        _keys("Further keys that `spec.source.kafka.options` cannot contain", SOURCE_OPTIONS),
        _keys("Further keys that `spec.sink.kafka.options` cannot contain", SINK_OPTIONS),
    ]
    parts += _sections("status", crd.structural(StreamStatus))
    return "\n".join(parts)


def modes() -> str:
    """docs/modes.md."""
    lines = [
        "| Operation | Spark's name | continuous | realTime | microBatch | asyncProgress |",
        "|---|---|---|---|---|---|",
        *(_operation_row(each) for each in OPERATIONS if each is not COMPLETE_WITHOUT_AGGREGATE),
    ]
    return "\n".join([_GENERATED, _MODES_HEAD, *lines, _MODES_TAIL])


def _operation_row(operation: Operation) -> str:
    def cell(execution: Execution) -> str:
        return "yes" if operation.supported_by(execution) else "no"

    return (
        f"| {operation.description} | {operation.name} | {cell(Execution(Mode.CONTINUOUS))} | "
        f"{cell(Execution(Mode.REAL_TIME, 'update'))} | {_in_batches(operation)} | "
        f"{cell(Execution(Mode.ASYNC))} |"
    )


def _in_batches(operation: Operation) -> str:
    """The cell of micro-batch mode: yes, no, or what it depends on."""

    def supports(output: str, watermark: bool = False) -> bool:
        return operation.supported_by(Execution(Mode.MICRO_BATCH, output, watermark))

    names = [name for name in ("append", "update", "complete") if supports(name)]
    if names[:1] != ["append"] and supports("append", watermark=True):
        names.insert(0, "event time")
    if "update" not in names and supports("update", watermark=True):
        names.append("update with event time")
    if not names:
        return "no"
    # Whether complete is supported depends on aggregates, not on this operation.
    return "yes" if names[:2] == ["append", "update"] else ", ".join(names)


def _sections(root: str, schema: dict[str, Any]) -> Iterator[str]:
    """A section for each object with fields; objects with the same fields share one."""
    nodes: dict[str, dict[str, Any]] = {}
    paths: dict[str, list[str]] = {}
    for path, node in _objects(root, schema):
        if node["properties"]:
            nodes.setdefault(_key(node), node)
            paths.setdefault(_key(node), []).append(path)
    headings = {key: same[0] for key, same in paths.items()}
    for key, node in nodes.items():
        yield _section(paths[key], node, headings)


def _key(node: dict[str, Any]) -> str:
    """Equal for objects that differ in their description only."""
    return json.dumps({**node, "description": ""}, sort_keys=True)


def _objects(path: str, node: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object with named fields and its path; parents come first."""
    if "properties" in node:
        yield path, node
        for name, each in node["properties"].items():
            yield from _objects(f"{path}.{name}", each)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(node.get(key), dict):
            yield from _objects(f"{path}{mark}", node[key])


def _section(paths: list[str], node: dict[str, Any], headings: Mapping[str, str]) -> str:
    lines = [f"## {paths[0]}", "", *filter(None, [node.get("description")])]
    if len(paths) > 1:
        lines += ["", f"Also the type of {', '.join(f'`{each}`' for each in paths[1:])}."]
    rows = [
        _field_row(name, each, name in node.get("required", ()), headings)
        for name, each in node["properties"].items()
    ]
    lines += ["", "| Field | Type | Description |", "|---|---|---|", *rows]
    errors = [rule["message"] for rule in node.get("x-kubernetes-validations", ())]
    if errors:
        lines += ["", "Validation errors:", "", *(f"- {message}" for message in errors)]
    return "\n".join([*lines, ""])


def _field_row(name: str, node: dict[str, Any], required: bool, headings: Mapping[str, str]) -> str:
    shown = f"**`{name}`**" if required else f"`{name}`"
    text = node.get("description", "")
    if "enum" in node:
        text += f" One of: {', '.join(f'`{each}`' for each in node['enum'])}."
    if "example" in node:
        text += f" Example: `{_plain(node['example'])}`."
    for rule in node.get("x-kubernetes-validations", ()) if "properties" not in node else ():
        if len(rule["message"]) < _MAX_ERROR_LENGTH:
            text += f" Validation error: {rule['message']}."
    return f"| {shown} | {_type(node, headings)} | {text.replace('|', chr(92) + '|')} |"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_plain(each) for each in value) + "]"
    return str(value)


def _type(node: dict[str, Any], headings: Mapping[str, str]) -> str:
    if (heading := headings.get(_key(node))) is not None:
        anchor = re.sub(r"[^\w-]", "", heading.lower())  # as GitHub makes it from the heading
        return f"[object](#{anchor})"
    if node.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = node.get("type", "any")
    if kind == "array":
        return f"list of {_type(node['items'], headings)}"
    if kind == "object" and isinstance(node.get("additionalProperties"), dict):
        return f"map of {_type(node['additionalProperties'], headings)}"
    bounds = [str(node[each]) for each in ("minimum", "maximum") if each in node]
    return f"{kind} ({'..'.join(bounds)})" if len(bounds) == 2 else str(kind)


def _keys(heading: str, names: Mapping[str, str]) -> str:
    rows = [f"| `{name}` | {instead} |" for name, instead in names.items()]
    return "\n".join(
        [
            f"## {heading}",
            "",
            "| Key | What to use instead, or the reason |",
            "|---|---|",
            *rows,
            "",
        ]
    )
