"""What is wrong with a spec, in words that name the field and the remedy."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from penstock.stream.sizing import Size, size
from penstock.stream.spec import StreamSpec
from penstock.stream.sql import refusals


@dataclass(frozen=True)
class Problem:
    """One thing that keeps a stream from running."""

    reason: str
    message: str

    def __str__(self) -> str:
        return self.message


def of_error(error: ValidationError) -> list[Problem]:
    """Why a resource could not be read as a ContinuousStream."""
    return [Problem("InvalidSpec", _in_words(each)) for each in error.errors()]


def of_spec(spec: StreamSpec) -> list[Problem]:
    """Why a spec that could be read cannot run."""
    return [*(Problem(each.reason, each.message) for each in refusals(spec)), *_of_size(spec)]


def _of_size(spec: StreamSpec) -> list[Problem]:
    """A source that states its partitions can be sized without asking it; Kafka cannot."""
    if spec.source.rate is None:
        return []
    sized = size(spec.source.rate.num_partitions, spec)
    if isinstance(sized, Size):
        return []
    return [Problem("TooFewExecutorsAllowed", str(sized))]


def _in_words(error: ErrorDetails) -> str:
    path = ".".join(str(step) for step in error["loc"]) or "the resource"
    if error["type"] == "extra_forbidden":
        return f"{path}: there is no such field"
    if error["type"] == "missing":
        return f"{path}: this field is required"
    text = error["msg"].removeprefix("Value error, ")
    value = error["input"]
    given = f" (not {value!r})" if isinstance(value, str | int | float) else ""
    return f"{path}: {text}{given}"
