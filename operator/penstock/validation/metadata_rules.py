"""The rules of an object's metadata, and the nulls that the API server refuses."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from penstock.api.group_version import MAX_NAME
from penstock.validation.problems import FieldPath, Problem

# metav1.ObjectMeta, with the types of its fields in JSON.
_FIELDS: dict[str, type] = {
    "name": str, "generateName": str, "namespace": str, "labels": dict, "annotations": dict,
    "finalizers": list, "ownerReferences": list, "managedFields": list, "uid": str,
    "resourceVersion": str, "generation": int, "creationTimestamp": str, "selfLink": str,
    "deletionTimestamp": str, "deletionGracePeriodSeconds": int,
}  # fmt: skip
_WORDS = {str: "a string", dict: "an object", list: "a list", int: "an integer"}
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_SUBDOMAIN = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(rf"(?=.{{1,{MAX_NAME}}}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MOST_ANNOTATION_BYTES = 256 * 2**10
# What the API server keeps of these, nobody but their owner knows.
_UNCHECKED = "podTemplate"


def find_problems(content: dict[str, Any]) -> Iterator[Problem]:
    """What the API server refuses and the models of the spec do not see."""
    yield from _nulls(content.get("spec"), ("spec",))
    metadata = content.get("metadata")
    if metadata is None:
        yield _invalid(("metadata",), "this field is required")
    elif not isinstance(metadata, dict):
        yield _invalid(("metadata",), "should be an object")
    else:
        yield from _metadata(metadata)


def _metadata(metadata: dict[str, Any]) -> Iterator[Problem]:
    for name, value in metadata.items():
        path = ("metadata", name)
        wanted = _FIELDS.get(name)
        if wanted is None:
            near = difflib.get_close_matches(name[:64], _FIELDS, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            yield _invalid(path, f"there is no such field{hint}")
        elif value is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
            yield _invalid(path, f"should be {_WORDS[wanted]}")
        elif name in ("labels", "annotations") and isinstance(value, dict):
            yield from _map(name, value)
    yield from _name(metadata)


def _name(metadata: dict[str, Any]) -> Iterator[Problem]:
    name = metadata.get("name")
    if not name:
        if not metadata.get("generateName"):
            yield _invalid(("metadata", "name"), "this field is required")
    elif isinstance(name, str) and _NAME.fullmatch(name) is None:
        yield _invalid(
            ("metadata", "name"),
            f"takes at most {MAX_NAME} characters of a-z, 0-9 and -, and begins and ends with a "
            "letter or a digit: pods are named after it",
        )
    namespace = metadata.get("namespace")
    if namespace and isinstance(namespace, str) and _LABEL.fullmatch(namespace) is None:
        yield _invalid(("metadata", "namespace"), "takes at most 63 characters of a-z, 0-9 and -")


def _map(field: str, entries: dict[str, Any]) -> Iterator[Problem]:
    for name, value in entries.items():
        path = ("metadata", field, name)
        prefix, slash, short = name.rpartition("/")
        if (
            not short
            or _LABEL_VALUE.fullmatch(short) is None
            or (
                slash
                and _SUBDOMAIN.fullmatch(prefix.lower() if field == "annotations" else prefix)
                is None
            )
        ):
            yield _invalid(
                path, "not a key that Kubernetes takes: write for example example.com/team"
            )
        elif value is None and field == "annotations":
            continue
        elif not isinstance(value, str):
            yield _invalid(path, "should be a string: put it in quotes")
        elif field == "labels" and _LABEL_VALUE.fullmatch(value) is None:
            yield _invalid(path, "takes at most 63 characters of A-Z, a-z, 0-9, '-', '_' and '.'")
    if field == "annotations":
        total = sum(len(k.encode()) + len(str(v).encode()) for k, v in entries.items())
        if total > _MOST_ANNOTATION_BYTES:
            yield _invalid(("metadata", field), "more than 256 KiB together")


def _nulls(value: Any, path: FieldPath) -> Iterator[Problem]:
    """Fields that are null: a Helm value that is not set leaves one, and it is no empty object."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name == _UNCHECKED:
                continue
            if each is None:
                yield _invalid((*path, name), "null is no value: remove the field, or write one")
            else:
                yield from _nulls(each, (*path, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            if each is None:
                yield _invalid((*path, number), "null is no value: remove the item, or write one")
            else:
                yield from _nulls(each, (*path, number))


def _invalid(path: FieldPath, text: str) -> Problem:
    where = "".join(f"[{each}]" if isinstance(each, int) else f".{each}"[:65] for each in path)
    return Problem("InvalidSpec", f"{where.removeprefix('.')}: {text}", path=path)
