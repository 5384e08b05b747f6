"""What is wrong with a resource by its schema: pydantic's errors in our words, and nulls."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from penstock.api.problem import FieldPath, Problem, dotted
from penstock.api.v1alpha1.base import PATTERN_WORDS
from penstock.api.v1alpha1.stream import ContinuousStream

# Our words for pydantic's types of errors.
_TYPE_ERRORS = {
    **dict.fromkeys(
        ("model_type", "model_attributes_type", "dict_type", "dataclass_type"),
        "should be an object",
    ),
    "list_type": "should be a list",
    "string_type": "should be a string",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "should be an integer"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "should be true or false"),
    **dict.fromkeys(("extra_forbidden", "unexpected_keyword_argument"), "there is no such field"),
    "missing": "this field is required",
}
# Maps whose values may be credentials, so messages never repeat them.
_SENSITIVE = {"options", "sparkConf", "secretOptions", "secretSparkConf"}
_MAX_VALUE_LENGTH = 80
_MAX_NAME_LENGTH = 64
_MOST_ERRORS = 50


# Kubernetes keeps what is in there as it is, nulls too.
_KEPT = "podTemplate"


def describe_error(error: ValidationError, model: type = ContinuousStream) -> list[Problem]:
    """Why a resource is not a valid one of the model: its first problems, and the number of all."""
    errors = error.errors(include_url=False, include_context=True)
    problems = [
        Problem("InvalidSpec", _message(each, model), path=_path(each))
        for each in errors[:_MOST_ERRORS]
    ]
    if len(errors) > _MOST_ERRORS:
        problems.append(Problem("InvalidSpec", f"and {len(errors) - _MOST_ERRORS} more problems"))
    return problems


def find_nulls(value: Any, path: FieldPath) -> Iterator[Problem]:
    """Warnings: the API server drops a null, and who writes `microBatch:` means `microBatch: {}`.

    A Helm value that is not set leaves one.
    """
    entries = enumerate(value) if isinstance(value, list) else ()
    for name, entry in value.items() if isinstance(value, dict) else entries:
        if entry is None and isinstance(value, dict):
            text = "null is as good as no field: remove it, or write a value, such as {} for an"
            message = f"{dotted((*path, name))}: {text} object"
            yield Problem("NullField", message, "warning", (*path, name))
        elif name != _KEPT:
            yield from find_nulls(entry, (*path, name))


def _path(error: ErrorDetails) -> FieldPath:
    """The path of the field. A key of a map that is wrong itself stands for its entry."""
    return tuple(each for each in error["loc"] if each != "[key]")


def _message(error: ErrorDetails, model: type) -> str:
    """One sentence about one field."""
    path, value = _path(error), error["input"]
    where = dotted(path) or "the resource"
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{where}: there is no such field{_suggestion(path, model)}"
    text = _text(error)
    if (
        error["type"] == "missing"
        or _SENSITIVE & set(path)
        or not isinstance(value, str | int | float)
        or len(repr(value)) > _MAX_VALUE_LENGTH
    ):
        return f"{where}: {text}"
    if text.startswith("not "):
        return f"{where}: {_as_yaml(value)} is {text}"
    return f"{where}: {text} (not {_as_yaml(value)})"


def _as_yaml(value: str | float) -> str:
    """The value as it is written in a manifest."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _text(error: ErrorDetails) -> str:
    if error["type"] == "string_pattern_mismatch":
        pattern = error["ctx"]["pattern"]
        return PATTERN_WORDS.get(pattern, f"should match {pattern}")
    return _TYPE_ERRORS.get(error["type"]) or _own_words(error["msg"])


def _own_words(text: str) -> str:
    """The message of a rule or of pydantic, without pydantic's own phrases."""
    text = text.removeprefix("Value error, ").partition(" after validation, not")[0]
    text = re.sub(r"^[A-Z][a-z]+ should ", "should ", text)
    return text.removeprefix("Input should ")


def _suggestion(path: FieldPath, model: type) -> str:
    """The field that was probably meant: one with a similar name, or of the same name elsewhere."""
    *parents, last = path
    name = str(last)
    if len(name) > _MAX_NAME_LENGTH:
        return ""
    here = _fields(tuple(parents), _schema(model))
    lower = {each.lower(): each for each in here}
    as_camel = re.sub(r"[_-]", "", name.lower())
    near = difflib.get_close_matches(as_camel, list(lower), n=1, cutoff=0.7)
    if near:
        return f": did you mean {lower[near[0]]}?"
    return f": write one of {', '.join(sorted(here))}" if 0 < len(here) <= 8 else ""


@cache
def _schema(model: type) -> dict[str, Any]:
    return TypeAdapter(model).json_schema()


def _fields(path: FieldPath, schema: dict[str, Any]) -> list[str]:
    """The fields of the object at a path."""
    node = _resolved(schema, schema)
    for step in path:
        if isinstance(step, int):
            node = _resolved(node.get("items", {}), schema)
        else:
            properties = node.get("properties", {})
            node = _resolved(properties.get(step) or node.get("additionalProperties") or {}, schema)
    return list(node.get("properties", {}))


def _resolved(node: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without its reference and without `or null`."""
    while isinstance(node, dict):
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]
        elif "anyOf" in node:
            node = node["anyOf"][0]
        else:
            return node
    return {}
