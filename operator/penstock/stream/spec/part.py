"""What every object of the spec is made of."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema

from penstock.stream.quantities import DURATION_PATTERN, MEMORY_PATTERN
from penstock.stream.rules import Rule

Duration = Annotated[str, StringConstraints(pattern=DURATION_PATTERN, max_length=24)]
Memory = Annotated[str, StringConstraints(pattern=MEMORY_PATTERN, max_length=16)]
# Kubernetes' CPU quantity: whole cores or thousandths.
Cpu = Annotated[str, StringConstraints(pattern=r"^([0-9]{1,4}m|[0-9]{1,3}(\.[0-9]{1,3})?)$")]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
ObjectName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)
]
DataKey = Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]{1,253}$")]
Option = Annotated[str, StringConstraints(max_length=4096)]
Options = Annotated[dict[str, Option], Field(max_length=128)]


class Part(BaseModel):
    """One object of the spec: immutable, no unknown fields, its rules checked on construction."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _rules_hold(self) -> Part:
        for rule in self.rules:
            refusal = rule.refusal(self)
            if refusal is not None:
                raise ValueError(refusal)
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        resolved = handler.resolve_ref_schema(schema)
        if cls.rules:
            resolved["x-kubernetes-validations"] = [rule.as_schema() for rule in cls.rules]
        return schema


class KeyRef(Part):
    """One key of a Secret or ConfigMap in the stream's namespace."""

    name: ObjectName = Field(description="Name of the object.")
    key: DataKey = Field(description="The key in its data.")
