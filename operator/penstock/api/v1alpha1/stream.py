"""The whole resource, as `kubectl apply` sends it and the driver reads it."""

from typing import Annotated, Any, Literal

import yaml
from pydantic import ConfigDict, Field, StringConstraints

from penstock.api.group_version import API_VERSION, KIND, MAX_NAME
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.base import SpecObject


class Metadata(SpecObject):
    """The part of an object's metadata that Penstock reads."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[
        str,
        StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=MAX_NAME),
    ]
    namespace: str = "default"


class ContinuousStream(SpecObject):
    """A ContinuousStream, without its status."""

    api_version: Literal["penstock.dev/v1alpha1"] = API_VERSION
    kind: Literal["ContinuousStream"] = KIND
    metadata: Metadata
    spec: StreamSpec

    status: Annotated[Any, Field(exclude=True)] = None

    def to_yaml(self) -> str:
        """The resource with every connection written out and no default, in a stable order."""
        given = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
        return yaml.safe_dump({"apiVersion": API_VERSION, "kind": KIND, **given}, sort_keys=True)

    @classmethod
    def from_yaml(cls, text: str) -> "ContinuousStream":
        """Parses one document. Raises pydantic's ValidationError, which names the wrong field."""
        return cls.model_validate(yaml.safe_load(text))
