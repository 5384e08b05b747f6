"""Rules across fields. Each is written once and feeds the CRD's CEL, the models and the docs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_snake
from pydantic.config import JsonDict


@dataclass(frozen=True)
class Rule:
    """A statement about one object of the spec.

    `cel` is what the API server checks; `holds` is the same statement about the model, and None
    for a rule about an update (`oldSelf`), which only the API server can see. Where the message
    must name what was found, `message_cel` is a CEL expression and `words` the same for the models;
    `message` then is what the API server falls back to, and what the reference says.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None = None
    message_cel: str | None = None
    words: Callable[[Any], str] | None = None

    def as_schema(self) -> JsonDict:
        """An entry of x-kubernetes-validations."""
        schema: JsonDict = {"rule": self.cel, "message": self.message}
        return (
            schema
            if self.message_cel is None
            else {**schema, "messageExpression": self.message_cel}
        )

    def refusal(self, model: Any) -> str | None:
        """Why the model breaks the rule; None if it holds, or if only an update could tell."""
        if self.holds is None or self.holds(model):
            return None
        return self.message if self.words is None else self.words(model)


def rules_of_scalar(*rules: Rule) -> JsonDict:
    """What a field that is no object adds to its schema."""
    return {"x-kubernetes-validations": [rule.as_schema() for rule in rules]}


def exactly_one_of(what: str, **fields: str) -> Rule:
    """Exactly one of the fields is set; keys are attributes, values the names people write."""
    names = list(fields.values())
    return Rule(
        cel=f"[{', '.join(f'has(self.{name})' for name in names)}].filter(x, x).size() == 1",
        message=f"{what} takes exactly one of: {', '.join(names)}",
        holds=lambda model: sum(getattr(model, field) is not None for field in fields) == 1,
    )


def not_among(field: str, names: Mapping[str, str], why: str = "a field says it") -> Rule:
    """A map that may not hold some keys, each with what to do instead.

    `field` is `self` for a rule on the map itself.
    """
    attribute = to_snake(field)
    at = "self" if field == "self" else f"self.{field}"

    def found(model: Any) -> str | None:
        options = model if field == "self" else getattr(model, attribute)
        return next((name for name in names if name in options), None)

    def sentence(name: str) -> str:
        return f"{name} cannot be set here, {why}: {names[name]}"

    # Over our keys and not theirs, whose length has no bound, and without a concatenation: the API
    # server's estimate of the cost would be beyond its budget.
    chain = "".join(f"{cel_string(k)} in {at} ? {cel_string(sentence(k))} : " for k in names)
    keys = ", ".join(cel_string(name) for name in names)
    return Rule(
        cel=("" if at == "self" else f"!has({at}) || ") + f"![{keys}].exists(k, k in {at})",
        message=f"keys that cannot be set here, {why}: {', '.join(names)}",
        holds=lambda model: found(model) is None,
        message_cel=f"{chain}''",
        words=lambda model: sentence(found(model) or ""),
    )


def cel_string(text: str) -> str:
    """A CEL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def immutable(what: str, remedy: str) -> Rule:
    """A scalar that no update may change."""
    return Rule(cel="self == oldSelf", message=f"{what} cannot be changed: {remedy}")
