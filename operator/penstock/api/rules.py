"""Rules across fields. Each is written once, for the CRD's CEL, the models and the reference."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_snake
from pydantic.config import JsonDict


@dataclass(frozen=True)
class Rule:
    """A condition on one object of the spec.

    The API server checks `cel`; the models check `holds`, the same condition in Python. It is None
    for a rule about an update (`oldSelf`), which only the API server can check. Where the message
    must name what was found, `message_cel` is a CEL expression for it and `words` the same for the
    models; the API server then uses `message` only if that expression fails or is empty, and the
    reference shows it.
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
        """Why the model breaks the rule; None if it does not, or if the rule is about an update."""
        if self.holds is None or self.holds(model):
            return None
        return self.message if self.words is None else self.words(model)


def rules_of_scalar(*rules: Rule) -> JsonDict:
    """The schema's entry for the rules of a field that is not an object."""
    return {"x-kubernetes-validations": [rule.as_schema() for rule in rules]}


def exactly_one_of(what: str, **fields: str) -> Rule:
    """Exactly one of the fields is set. Keys are attributes; values are the fields' names."""
    names = list(fields.values())
    return Rule(
        cel=f"[{', '.join(f'has(self.{name})' for name in names)}].filter(x, x).size() == 1",
        message=f"{what} takes exactly one of: {', '.join(names)}",
        holds=lambda model: sum(getattr(model, field) is not None for field in fields) == 1,
    )


def not_among(
    field: str, names: Mapping[str, str], message: str | None = None, *, any_case: bool = False
) -> Rule:
    """A map must not hold some keys; `names` says for each what to do instead.

    `field` is `self` for a rule on the map itself. `message` is for the reference; by default it
    lists the keys. With `any_case`, for maps of Spark's options,
    which ignore case, `k` and `K` are the same key.
    """
    attribute = to_snake(field)
    as_key = str.lower if any_case else str
    at = "self" if field == "self" else f"self.{field}"
    known = {as_key(name): name for name in names}

    def found(model: Any) -> str | None:
        options = model if field == "self" else getattr(model, attribute)
        return next((each for each in options if as_key(each) in known), None)

    def sentence(name: str) -> str:
        return f"{name} cannot be set here: {names[known[as_key(name)]]}"

    def words(model: Any) -> str:
        name = found(model)
        return "" if name is None else sentence(name)

    # Short sentences, since the CRD has a hundred of them. Over our keys, because the number of
    # theirs has no bound, and without a concatenation: the API server's estimate of the cost would
    # exceed its budget.
    chain = "".join(
        f"{cel_string(name)} in {at} ? {cel_string(f'{name}: {instead}')} : "
        for name, instead in names.items()
    )
    keys = ", ".join(cel_string(name) for name in known)
    test = f"{at}.exists(k, k.lowerAscii() in [{keys}])"
    return Rule(
        cel=("" if at == "self" else f"!has({at}) || ")
        + ("!" + test if any_case else f"![{keys}].exists(k, k in {at})"),
        message=message or f"these keys cannot be set here: {', '.join(names)}",
        holds=lambda model: found(model) is None,
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
