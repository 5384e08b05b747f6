"""Rules across fields, each written once: a condition makes the CRD's CEL and the models' check.

>>> rule = ValidationRule(~is_set("a.minCount") | at_most("a.minCount", "a.maxCount"), "too large")
>>> rule.as_schema()["rule"]
'!(has(self.a) && has(self.a.minCount)) || self.a.minCount <= self.a.maxCount'
>>> from types import SimpleNamespace as Model
>>> rule.refusal(Model(a=Model(min_count=3, max_count=2)))
'too large'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_snake
from pydantic.config import JsonDict


@dataclass(frozen=True)
class Predicate:
    """A condition on an object of the spec: `cel` in the API server, `holds` in the models."""

    cel: str
    holds: Callable[[Any], bool]

    def __or__(self, other: Predicate) -> Predicate:
        return Predicate(
            f"{self.cel} || {other.cel}", lambda model: self.holds(model) or other.holds(model)
        )

    def __and__(self, other: Predicate) -> Predicate:
        parts = [
            f"({predicate.cel})" if " || " in predicate.cel else predicate.cel
            for predicate in (self, other)
        ]
        return Predicate(" && ".join(parts), lambda model: self.holds(model) and other.holds(model))

    def __invert__(self) -> Predicate:
        is_call = re.fullmatch(r"[\w.]+\([^()]*\)", self.cel) is not None
        cel = f"!{self.cel}" if is_call else f"!({self.cel})"
        return Predicate(cel, lambda model: not self.holds(model))


def in_cel_only(cel: str) -> Predicate:
    """About an update (`oldSelf`), or about a field that has a Python check of its own."""
    return Predicate(cel, lambda _: True)


def value_at(model: Any, path: str) -> Any:
    """The value at a dotted path of the schema's names; None if it or a parent is not set."""
    for step in () if path == "self" else path.split("."):
        model = None if model is None else getattr(model, to_snake(step))
    return model


def is_set(path: str) -> Predicate:
    """The field is there. In a parsed model, where every field is: it is not empty."""
    return Predicate(
        cel_has(f"self.{path}"), lambda model: value_at(model, path) not in (None, "", {}, [])
    )


def is_one_of(path: str, *values: str, any_case: bool = False) -> Predicate:
    """The text is one of these."""
    at = f"self.{path}" + (".lowerAscii()" if any_case else "")

    def holds(model: Any) -> bool:
        value = value_at(model, path)
        return (value.lower() if any_case else value) in values

    return Predicate(f"{at} in [{', '.join(cel_string(value) for value in values)}]", holds)


def at_most(lower: str, upper: str) -> Predicate:
    """A number is at most another one. Both are set, or have a default in the models."""
    return Predicate(
        f"self.{lower} <= self.{upper}",
        lambda model: value_at(model, lower) <= value_at(model, upper),
    )


def matches(path: str, pattern: str) -> Predicate:
    """The text, in lower case, holds what the regular expression describes."""
    return Predicate(
        f"self.{path}.lowerAscii().matches({cel_string(pattern)})",
        lambda model: re.search(pattern, value_at(model, path).lower()) is not None,
    )


def some(path: str, pattern: str, *, any_case: bool = False) -> Predicate:
    """An item of a list, or a key of a map, matches the regular expression."""
    lower = ".lowerAscii()" if any_case else ""
    return Predicate(
        f"self.{path}.exists(k, k{lower}.matches({cel_string(pattern)}))",
        lambda model: bool(matching(value_at(model, path), pattern, any_case=any_case)),
    )


def every(path: str, pattern: str) -> Predicate:
    """Every item of a list, or key of a map, matches the regular expression."""
    return Predicate(
        f"self.{path}.all(k, k.matches({cel_string(pattern)}))",
        lambda model: all(re.search(pattern, name) for name in value_at(model, path)),
    )


def matching(names: Any, pattern: str, *, any_case: bool = False) -> list[str]:
    """The names that match the regular expression."""
    return [n for n in names if re.search(pattern, n.lower() if any_case else n) is not None]


def exactly_one(*names: str) -> Predicate:
    """One of these fields is set, and no other of them."""
    return _counted(names, "== 1", lambda count: count == 1)


def not_together(*names: str) -> Predicate:
    """At most one of these fields is set."""
    return _counted(names, "<= 1", lambda count: count <= 1)


def both_or_neither(one: str, other: str) -> Predicate:
    """Two fields need each other."""
    first, second = is_set(one), is_set(other)
    return Predicate(
        f"{first.cel} == {second.cel}", lambda model: first.holds(model) == second.holds(model)
    )


def _counted(names: tuple[str, ...], test: str, passes: Callable[[int], bool]) -> Predicate:
    fields = [is_set(name) for name in names]
    return Predicate(
        f"[{', '.join(field.cel for field in fields)}].filter(x, x).size() {test}",
        lambda model: passes(sum(field.holds(model) for field in fields)),
    )


@dataclass(frozen=True)
class ValidationRule:
    """A condition that must hold, and what a person reads if it does not.

    Where the message must name what was found, `message_cel` is a CEL expression for it and `words`
    the same for the models; the API server then uses `message` only if that expression fails or is
    empty, and the reference shows it.
    """

    predicate: Predicate
    message: str
    message_cel: str | None = None
    words: Callable[[Any], str] | None = None

    def as_schema(self) -> JsonDict:
        """An entry of x-kubernetes-validations."""
        schema: JsonDict = {"rule": self.predicate.cel, "message": self.message}
        if self.message_cel is not None:
            schema["messageExpression"] = self.message_cel
        return schema

    def refusal(self, model: Any) -> str | None:
        """Why the model breaks the rule; None if it does not."""
        if self.predicate.holds(model):
            return None
        return self.message if self.words is None else self.words(model)

    def check(self, value: Any) -> Any:
        """The value itself; raises ValueError if it breaks the rule."""
        refusal = self.refusal(value)
        if refusal is not None:
            raise ValueError(refusal)
        return value


def rules_of_scalar(*rules: ValidationRule) -> JsonDict:
    """The schema's entry for the rules of a field that is not an object."""
    return {"x-kubernetes-validations": [rule.as_schema() for rule in rules]}


def takes_exactly_one(what: str, *names: str) -> ValidationRule:
    """The rule about an object that is a choice."""
    return ValidationRule(exactly_one(*names), f"{what} takes exactly one of: {', '.join(names)}")


def not_among(
    field: str, names: Mapping[str, str], message: str | None = None, *, any_case: bool = False
) -> ValidationRule:
    """A map must not hold some keys; `names` says for each what to do instead.

    `field` is `self` for a rule on the map itself. `message` is for the reference; by default it
    lists the keys. With `any_case`, for maps of Spark's options, which ignore case, `k` and `K` are
    the same key.
    """
    as_key = str.lower if any_case else str
    at = "self" if field == "self" else f"self.{field}"
    known = {as_key(name): name for name in names}

    def forbidden(model: Any) -> list[str]:
        return [name for name in value_at(model, field) if as_key(name) in known]

    def words(model: Any) -> str:
        name = forbidden(model)[0]
        return f"{name} cannot be set here: {names[known[as_key(name)]]}"

    # Short sentences, since the CRD has a hundred of them. Over our keys, because the number of
    # theirs has no bound, and without a concatenation: the API server's estimate of the cost would
    # exceed its budget.
    chain = "".join(
        f"{cel_string(name)} in {at} ? {cel_string(f'{name}: {instead}')} : "
        for name, instead in names.items()
    )
    keys = ", ".join(cel_string(name) for name in known)
    test = f"{at}.exists(k, k.lowerAscii() in [{keys}])"
    cel = ("" if at == "self" else f"!has({at}) || ") + (
        "!" + test if any_case else f"![{keys}].exists(k, k in {at})"
    )
    return ValidationRule(
        Predicate(cel, lambda model: not forbidden(model)),
        message or f"these keys cannot be set here: {', '.join(names)}",
        message_cel=f"{chain}''",
        words=words,
    )


def cel_string(text: str) -> str:
    """A CEL string literal. In double quotes: YAML would double each single one."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def cel_has(path: str) -> str:
    """CEL: whether the field at a dotted path is set, with all of its parents."""
    steps = path.split(".")
    return " && ".join(f"has({'.'.join(steps[: n + 1])})" for n in range(1, len(steps)))


def cel_unchanged(path: str) -> str:
    """CEL: whether an update leaves the field at a dotted path as it is, set or not.

    Not `a == b` of what cel_text gives: the API server then overestimates the cost.
    """
    new, old = f"self.{path}", f"oldSelf.{path}"
    both = f"({cel_has(new)}) == ({cel_has(old)})"
    return f"{both} && (!({cel_has(new)}) || {new} == {old})"


def cel_text(path: str, default: str) -> str:
    """CEL: the int-or-string field at a dotted path as a string; else `default`, also CEL.

    Not with optionals (`self.?a.orValue(x)`): the API server then cannot estimate the cost.
    """
    return f"({cel_has(path)} ? string({path}) : {default})"
