"""The parts that every object of the spec is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
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
from penstock.api.predicates import (
    Predicate,
    ValidationRule,
    cel_string,
    in_cel_only,
    not_together,
)
from penstock.api.quantities import DURATION_PATTERN, NOT_A_DURATION, NOT_A_SIZE, NOT_CPU

_LONGEST_DURATION = 64
_LONGEST_QUANTITY = 32


def checked_by(check: Callable[[Any], object]) -> AfterValidator:
    """A check that raises ValueError."""

    def checked(value: Any) -> Any:
        check(value)
        return value

    return AfterValidator(checked)


def _integer_as_text(value: Any) -> Any:
    """Int-or-string: the API server accepts `cpu: 2` and `cpu: 2.0`, but not `cpu: 0.5`."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, float):
        raise ValueError("put a number with a fraction in quotes")
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


# The CEL rules below replace the schema's `pattern`, whose message would be the pattern itself.
DURATION_RULE = ValidationRule(
    in_cel_only(f"self.matches({cel_string(DURATION_PATTERN)})"),
    NOT_A_DURATION,
)
Duration = Annotated[
    str,
    StringConstraints(max_length=_LONGEST_DURATION),
    checked_by(quantities.milliseconds),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": _LONGEST_DURATION,
            "x-kubernetes-validations": [DURATION_RULE.as_schema()],
        }
    ),
]


def _quantity(rule: ValidationRule, check: Callable[[str], object]) -> Any:
    """An integer or a string, which the models keep as a string."""
    schema = {
        "x-kubernetes-int-or-string": True,
        "maxLength": _LONGEST_QUANTITY,
        "x-kubernetes-validations": [rule.as_schema()],
    }
    return (
        BeforeValidator(_integer_as_text),
        StringConstraints(max_length=_LONGEST_QUANTITY),
        checked_by(check),
        WithJsonSchema(schema),
    )


_SIZE_RULE = ValidationRule(
    in_cel_only(
        "isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0"
    ),
    NOT_A_SIZE,
)
_CPU_RULE = ValidationRule(
    in_cel_only("isQuantity(string(self)) && !quantity(string(self)).isLessThan(quantity('0'))"),
    NOT_CPU,
)
ByteQuantity = Annotated[str, *_quantity(_SIZE_RULE, quantities.in_bytes)]
CpuQuantity = Annotated[str, *_quantity(_CPU_RULE, quantities.in_cores)]
PATTERN_WORDS: dict[str, str] = {}
"""What each regular expression of the resource asks for, in words."""


def text_like(pattern: str, words: str, max_length: int | None = None) -> StringConstraints:
    """Texts that match a regular expression; `words` complete the sentence "the field ..."."""
    PATTERN_WORDS[pattern] = words
    return StringConstraints(pattern=pattern, max_length=max_length)


Identifier = Annotated[
    str,
    text_like(
        r"^[A-Za-z_][A-Za-z0-9_]{0,127}$",
        "takes at most 128 letters, digits and _, and does not begin with a digit",
    ),
]
ObjectName = Annotated[
    str,
    text_like(
        r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        "takes a-z, 0-9, '-' and '.', and begins and ends with a letter or a digit",
        max_length=253,
    ),
]
# A class of Java or Scala, fully qualified.
ClassName = Annotated[
    str,
    text_like(
        r"^[A-Za-z_$][A-Za-z0-9_.$]{0,511}$",
        "takes the full name of a class: write for example com.example.Payments",
    ),
]
DataKey = Annotated[
    str,
    text_like(r"^[-._a-zA-Z0-9]{1,253}$", "takes at most 253 letters, digits, '-', '_' and '.'"),
]
Option = Annotated[str, StringConstraints(max_length=4096)]


def _without_nulls(entries: Any) -> Any:
    if not isinstance(entries, dict):
        return entries
    return {name: value for name, value in entries.items() if value is not None}


# A map drops what is null, as a SpecObject does. Behind the map's bounds, which pydantic would
# otherwise take for those of a string.
WITHOUT_NULLS = BeforeValidator(_without_nulls)
Options = Annotated[dict[str, Option], Field(max_length=128), WITHOUT_NULLS]


class SpecObject(BaseModel):
    """One object of the spec: immutable, its rules checked on construction.

    As strict as the API server: no unknown fields, no other spelling of a field than its own, no
    value of another type. And no stricter: it drops a field that is null, before it looks for what
    is required ("Defaulting and Nullable" in Kubernetes' documentation of CRDs).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)
    rules: ClassVar[tuple[ValidationRule, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or None not in fields.values():
            return fields
        known = {field.alias for field in cls.model_fields.values()}
        return {
            name: value for name, value in fields.items() if value is not None or name not in known
        }

    @model_validator(mode="after")
    def _rules_hold(self) -> SpecObject:
        for rule in self.rules:
            rule.check(self)
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


FunctionName = Annotated[
    str,
    text_like(
        r"^[A-Za-z_][A-Za-z0-9_.]{0,253}:[A-Za-z_][A-Za-z0-9_]{0,127}$",
        "takes a module and a function with : between them: write for example payments:clean",
    ),
]


class PythonFunction(SpecObject):
    """A function of a Python module."""

    rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            not_together("inline", "configMap"),
            "inline and configMap exclude each other: keep one",
        ),
    )
    function: FunctionName = Field(
        description="module:function. The module is in the image, unless inline or configMap gives "
        "its text.",
        examples=["payments:clean"],
    )
    inline: str | None = Field(
        None, min_length=1, max_length=65536, description="The module's Python text."
    )
    config_map: KeyRef | None = Field(
        None, description="The ConfigMap's key that holds the module's Python text."
    )


MAX_SECRET_OPTIONS = 32
SecretOptions = Annotated[dict[str, KeyRef], Field(max_length=MAX_SECRET_OPTIONS), WITHOUT_NULLS]
NO_OPTION_TWICE = ValidationRule(
    Predicate(
        "!has(self.options) || !has(self.secretOptions) || "
        "!self.options.exists(k, k in self.secretOptions)",
        lambda it: not set(it.options) & set(it.secret_options),
    ),
    "an option is in options and in secretOptions: keep the one in secretOptions",
)
