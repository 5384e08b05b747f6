"""What the API server refuses of an object's metadata and status (metav1.ObjectMeta)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, model_validator

from penstock.api.group_version import MAX_NAME
from penstock.api.problem import Problem
from penstock.api.v1alpha1.base import WITHOUT_NULLS, SpecObject, checked_by, text_like
from penstock.api.v1alpha1.status import StreamStatus
from penstock.validation.schema_errors import describe_error

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SHORT = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = rf"((?=.{{1,253}}/){_SUBDOMAIN}/)?{_SHORT}"
_KEY = re.compile(_LABEL_KEY)
_VALUE = rf"({_SHORT})?"
_MOST_ANNOTATION_BYTES = 256 * 2**10
_A_NAME = "characters of a-z, 0-9 and -, and begins and ends with a letter or a digit"


def _check_key(key: str) -> None:
    if _KEY.fullmatch(key) is None:
        raise ValueError("not a key that Kubernetes takes: write for example example.com/team")


def _check_size(annotations: dict[str, str]) -> None:
    if sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items()) > (
        _MOST_ANNOTATION_BYTES
    ):
        raise ValueError("more than 256 KiB together")


Key = Annotated[str, checked_by(_check_key)]
LabelValue = Annotated[
    str,
    text_like(
        rf"^{_VALUE}$",
        "takes at most 63 characters of A-Z, a-z, 0-9, '-', '_' and '.'",
    ),
]
Required = Annotated[str, Field(min_length=1)]
Time = Annotated[
    str,
    text_like(
        r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$",
        "takes a time such as 2026-01-31T12:00:00Z",
    ),
    checked_by(datetime.fromisoformat),
]
Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class _OwnerReference(SpecObject):
    api_version: Annotated[
        str, text_like(r"^[^/]+(/[^/]*)?$", "takes a version, or a group, a slash and a version")
    ]
    kind: Required
    name: Required
    uid: Required
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _ManagedFields(SpecObject):
    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: Time | None = None
    fields_type: str = ""
    fields_v1: Any = Field(None, alias="fieldsV1")
    subresource: str = ""


class ObjectMeta(SpecObject):
    """The metadata of a stream as a person writes it, or as the API server returns it."""

    name: Annotated[
        str,
        text_like(
            rf"^([a-z0-9]([-a-z0-9]{{0,{MAX_NAME - 2}}}[a-z0-9])?)?$",
            f"takes at most {MAX_NAME} {_A_NAME}: pods are named after it",
        ),
    ] = ""
    generate_name: str = ""
    namespace: Annotated[
        str,
        text_like(r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$", f"takes at most 63 {_A_NAME}"),
    ] = ""
    labels: Annotated[dict[Key, LabelValue], WITHOUT_NULLS] = Field({})
    annotations: Annotated[
        dict[Annotated[str, AfterValidator(str.lower), checked_by(_check_key)], str],
        WITHOUT_NULLS,
        checked_by(_check_size),
    ] = Field({})
    finalizers: list[Key] = Field([])
    owner_references: list[_OwnerReference] = Field([])
    managed_fields: list[_ManagedFields | None] = Field([])
    uid: str = ""
    resource_version: str = ""
    generation: Integer = 0
    self_link: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Integer = 0

    @model_validator(mode="after")
    def _has_a_name(self) -> ObjectMeta:
        """Its own, or one that the API server makes by appending five characters to a prefix."""
        prefix = self.generate_name
        if not self.name and not prefix:
            raise ValueError("name is required")
        if not self.name and not re.fullmatch(rf"[a-z0-9][-a-z0-9]{{0,{MAX_NAME - 6}}}", prefix):
            raise ValueError(
                f"generateName takes at most {MAX_NAME - 5} characters of a-z, 0-9 and -, and "
                "begins with a letter or a digit: pods are named after it, with five more "
                "characters"
            )
        if prefix and not re.fullmatch(rf"(?=.{{1,253}}$){_SUBDOMAIN}", re.sub("-$", "a", prefix)):
            raise ValueError(f"generateName takes at most 253 {_A_NAME}")
        return self


class _WithMetadata(SpecObject):
    metadata: ObjectMeta


def find_problems(content: dict[str, Any]) -> Iterator[Problem]:
    """What the API server refuses and the models of the spec do not see."""
    try:
        _WithMetadata.model_validate({"metadata": content.get("metadata")})
    except ValidationError as error:
        yield from describe_error(error, _WithMetadata)
    yield from _unknown_status(content.get("status"))


def _unknown_status(status: Any) -> Iterator[Problem]:
    """Fields that are not there. The API server drops the rest, which the operator writes anew."""
    if not isinstance(status, dict):
        return
    try:
        StreamStatus.model_validate(status, extra="forbid", by_alias=True, by_name=False)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_context=False, include_input=False):
            if each["type"] == "extra_forbidden":
                path = ("status", *each["loc"])
                said = ".".join(map(str, path)) + ": there is no such field: remove status"
                yield Problem("InvalidSpec", said, path=path)
