"""What the API server refuses of an object's metadata and status."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from penstock.api.group_version import MAX_NAME
from penstock.api.problem import FieldPath, Problem, dotted
from penstock.api.v1alpha1.status import StreamStatus

_STRING, _OBJECT, _LIST = "a string", "an object", "a list"
_INTEGER, _BOOLEAN, _TIME = "an integer", "true or false", "a time such as 2026-01-31T12:00:00Z"
# metav1.ObjectMeta, OwnerReference and ManagedFieldsEntry.
_FIELDS: dict[str, str] = {
    "name": _STRING, "generateName": _STRING, "namespace": _STRING, "labels": _OBJECT,
    "annotations": _OBJECT, "finalizers": _LIST, "ownerReferences": _LIST, "managedFields": _LIST,
    "uid": _STRING, "resourceVersion": _STRING, "generation": _INTEGER, "selfLink": _STRING,
    "creationTimestamp": _TIME, "deletionTimestamp": _TIME, "deletionGracePeriodSeconds": _INTEGER,
}  # fmt: skip
_OWNED_BY = ("apiVersion", "kind", "name", "uid")
_OWNER = {
    **dict.fromkeys(_OWNED_BY, _STRING), "controller": _BOOLEAN, "blockOwnerDeletion": _BOOLEAN,
}  # fmt: skip
_MANAGER = {
    "manager": _STRING, "operation": _STRING, "apiVersion": _STRING, "time": _TIME,
    "fieldsType": _STRING, "fieldsV1": "anything", "subresource": _STRING,
}  # fmt: skip
_INT64 = range(-(2**63), 2**63)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_SUBDOMAIN = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(rf"(?=.{{1,{MAX_NAME}}}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# The API server appends five characters.
_PREFIX = re.compile(rf"[a-z0-9][-a-z0-9]{{0,{MAX_NAME - 6}}}")
_MOST_ANNOTATION_BYTES = 256 * 2**10
_NOT_A_KEY = "not a key that Kubernetes takes: write for example example.com/team"


def find_problems(content: dict[str, Any]) -> Iterator[Problem]:
    """What the API server refuses and the models of the spec do not see."""
    metadata = content.get("metadata")
    if metadata is None:
        yield _invalid(("metadata",), "this field is required")
    elif not isinstance(metadata, dict):
        yield _invalid(("metadata",), f"should be {_OBJECT}")
    else:
        yield from _metadata(metadata)
    yield from _status(content.get("status"))


def _metadata(metadata: dict[str, Any]) -> Iterator[Problem]:
    path: FieldPath = ("metadata",)
    found = list(_fields(metadata, _FIELDS, path))
    yield from found
    if found:
        return
    yield from _names(metadata)
    for field in ("labels", "annotations"):
        yield from _map(field, metadata.get(field) or {})
    for number, each in enumerate(metadata.get("finalizers") or ()):
        if not isinstance(each, str) or not _is_qualified(each):
            yield _invalid((*path, "finalizers", number), _NOT_A_KEY)
    for number, each in enumerate(metadata.get("ownerReferences") or ()):
        yield from _owner(each, (*path, "ownerReferences", number))
    for number, each in enumerate(metadata.get("managedFields") or ()):
        yield from _fields(each or {}, _MANAGER, (*path, "managedFields", number))


def _fields(value: Any, fields: Mapping[str, str], path: FieldPath) -> Iterator[Problem]:
    """Fields that are not there, and values of other types than theirs."""
    if not isinstance(value, dict):
        yield _invalid(path, f"should be {_OBJECT}")
        return
    for name, each in value.items():
        if name not in fields:
            near = difflib.get_close_matches(name[:64], fields, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            yield _invalid((*path, name), f"there is no such field{hint}")
        elif each is not None and not _IS[fields[name]](each):
            yield _invalid((*path, name), f"should be {fields[name]}")


def _is_time(value: Any) -> bool:
    if not isinstance(value, str) or _RFC3339.fullmatch(value) is None:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


_IS: dict[str, Callable[[Any], bool]] = {
    _STRING: lambda value: isinstance(value, str),
    _OBJECT: lambda value: isinstance(value, dict),
    _LIST: lambda value: isinstance(value, list),
    _INTEGER: lambda value: type(value) is int and value in _INT64,
    _BOOLEAN: lambda value: isinstance(value, bool),
    _TIME: _is_time,
    "anything": lambda _: True,
}


def _names(metadata: dict[str, Any]) -> Iterator[Problem]:
    name, prefix = metadata.get("name") or "", metadata.get("generateName") or ""
    rule = "characters of a-z, 0-9 and -, and begins and ends with a letter or a digit"
    if not name and not prefix:
        yield _invalid(("metadata", "name"), "this field is required")
    elif name and _NAME.fullmatch(name) is None:
        yield _invalid(
            ("metadata", "name"), f"takes at most {MAX_NAME} {rule}: pods are named after it"
        )
    elif not name and _PREFIX.fullmatch(prefix) is None:
        yield _invalid(
            ("metadata", "generateName"),
            f"takes at most {MAX_NAME - 5} characters of a-z, 0-9 and -, and begins with a letter "
            "or a digit: pods are named after it, with five more characters",
        )
    elif prefix and _SUBDOMAIN.fullmatch(re.sub("-$", "a", prefix)) is None:
        yield _invalid(("metadata", "generateName"), f"takes at most 253 {rule}")
    namespace = metadata.get("namespace")
    if namespace and _LABEL.fullmatch(namespace) is None:
        yield _invalid(("metadata", "namespace"), "takes at most 63 characters of a-z, 0-9 and -")


def _is_qualified(name: str) -> bool:
    prefix, slash, short = name.rpartition("/")
    if slash and _SUBDOMAIN.fullmatch(prefix) is None:
        return False
    return bool(short) and _LABEL_VALUE.fullmatch(short) is not None


def _map(field: str, entries: dict[str, Any]) -> Iterator[Problem]:
    for name, value in entries.items():
        path = ("metadata", field, name)
        if not _is_qualified(name.lower() if field == "annotations" else name):
            yield _invalid(path, _NOT_A_KEY)
        elif not isinstance(value, str | None):
            yield _invalid(path, "should be a string: put it in quotes")
        elif field == "labels" and _LABEL_VALUE.fullmatch(value or "") is None:
            yield _invalid(path, "takes at most 63 characters of A-Z, a-z, 0-9, '-', '_' and '.'")
    if field == "annotations":
        total = sum(len(k.encode()) + len(str(v or "").encode()) for k, v in entries.items())
        if total > _MOST_ANNOTATION_BYTES:
            yield _invalid(("metadata", field), "more than 256 KiB together")


def _owner(owner: Any, path: FieldPath) -> Iterator[Problem]:
    found = list(_fields(owner, _OWNER, path))
    yield from found
    if found:
        return
    for name in _OWNED_BY:
        if not owner.get(name):
            yield _invalid((*path, name), "this field is required")
    if (owner.get("apiVersion") or "").count("/") > 1:
        yield _invalid((*path, "apiVersion"), "takes a version, or a group, a slash and a version")


def _status(status: Any) -> Iterator[Problem]:
    """Fields that are not there. The API server drops the rest, which the operator writes anew."""
    if not isinstance(status, dict):
        return
    try:
        StreamStatus.model_validate(status, extra="forbid", by_alias=True, by_name=False)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_context=False, include_input=False):
            if each["type"] == "extra_forbidden":
                yield _invalid(("status", *each["loc"]), "there is no such field: remove status")


def _invalid(path: FieldPath, text: str) -> Problem:
    return Problem("InvalidSpec", f"{dotted(path)}: {text}", path=path)
