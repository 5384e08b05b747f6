"""What Penstock wants of an object's metadata, and what a person often gets wrong in it.

The grammar of labels, annotations and references is the API server's to judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from penstock.api.group_version import MAX_NAME
from penstock.api.problem import Problem
from penstock.api.v1alpha1.base import WITHOUT_NULLS, SpecObject, text_like
from penstock.validation.schema_errors import describe_error

_A_NAME = "characters of a-z, 0-9 and -, and begins and ends with a letter or a digit"


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
    labels: Annotated[dict[str, str], WITHOUT_NULLS] = Field({})
    annotations: Annotated[dict[str, str], WITHOUT_NULLS] = Field({})
    finalizers: Any = None
    owner_references: Any = None
    managed_fields: Any = None
    uid: Any = None
    resource_version: Any = None
    generation: Any = None
    self_link: Any = None
    creation_timestamp: Any = None
    deletion_timestamp: Any = None
    deletion_grace_period_seconds: Any = None

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
        return self


class _WithMetadata(SpecObject):
    metadata: ObjectMeta


def find_problems(metadata: Any) -> Iterator[Problem]:
    """What the models of the spec do not see."""
    try:
        _WithMetadata.model_validate({"metadata": metadata})
    except ValidationError as error:
        yield from describe_error(error, _WithMetadata)
