"""Fields that are null, which the API server drops: a Helm value that is not set leaves one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.validation.problem import FieldPath, Problem, dotted

# Kubernetes keeps what is in there as it is.
_KEPT = "podTemplate"


def find_problems(value: Any, path: FieldPath) -> Iterator[Problem]:
    """Warnings: whoever writes `microBatch:` probably means `microBatch: {}`."""
    if isinstance(value, dict):
        for name, each in value.items():
            if each is None:
                yield _dropped((*path, name))
            elif name != _KEPT:
                yield from find_problems(each, (*path, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from find_problems(each, (*path, number))


def _dropped(path: FieldPath) -> Problem:
    text = "null is as good as no field: remove it, or write a value, such as {} for an object"
    return Problem("NullField", f"{dotted(path)}: {text}", "warning", path)
