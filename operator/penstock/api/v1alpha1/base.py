"""What every object of the spec is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema

from penstock.api import quantities
from penstock.api.quantities import CPU_PATTERN, DURATION_PATTERN, MEMORY_PATTERN
from penstock.api.rules import Rule, cel_string


def _spelled(pattern: str, longest: int, remedy: str, check: Callable[[str], object]) -> Any:
    """A string of one spelling, refused in words: a schema's pattern would answer with itself."""

    def checked(text: str) -> str:
        check(text)
        return text

    rule = Rule(cel=f"self.matches({cel_string(pattern)})", message=remedy)
    schema = {
        "type": "string",
        "maxLength": longest,
        "x-kubernetes-validations": [rule.as_schema()],
    }
    return (AfterValidator(checked), WithJsonSchema(schema))


DURATION_RULE = Rule(
    cel=f"self.matches({cel_string(DURATION_PATTERN)})",
    message="not a duration: write for example 500ms, 1s or 5m",
)
Duration = Annotated[
    str, *_spelled(DURATION_PATTERN, 24, DURATION_RULE.message, quantities.milliseconds)
]
Memory = Annotated[
    str,
    *_spelled(
        MEMORY_PATTERN,
        16,
        "not a memory size: write for example 512Mi or 2Gi",
        quantities.mebibytes,
    ),
]
Cpu = Annotated[
    str,
    *_spelled(CPU_PATTERN, 8, "not an amount of CPU: write for example 500m or 2", quantities.cpu),
]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
ObjectName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)
]
# A class of Java or Scala, fully qualified.
ClassName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_$][A-Za-z0-9_.$]{0,511}$")]
DataKey = Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]{1,253}$")]
Option = Annotated[str, StringConstraints(max_length=4096)]
Options = Annotated[dict[str, Option], Field(max_length=128)]


class SpecObject(BaseModel):
    """One object of the spec: immutable, no unknown fields, its rules checked on construction."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _rules_hold(self) -> SpecObject:
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


class KeyRef(SpecObject):
    """One key of a Secret or ConfigMap in the stream's namespace."""

    name: ObjectName = Field(description="Name of the object.")
    key: DataKey = Field(description="The key in its data.")
