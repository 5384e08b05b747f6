"""Something wrong with a resource: the one value for it, from the rules to status and output."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "notice"]
"""`error`: it cannot run. `warning`: it runs, but probably not as intended. `notice`: nothing is
known against it, but only Spark or the cluster can judge it (reason NotJudged)."""

NOT_JUDGED = "NotJudged"
FieldPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """Something that keeps a stream from running, or that its owner should know."""

    reason: str
    message: str
    severity: Severity = "error"
    path: FieldPath | None = None
    """The field, from the resource's root: ("spec", "transform", "functions", 0, "expression").
    None: the one that the message begins with, if it begins with one."""
    text_line: int = 0
    """The place in the field's text, such as its SQL, from 1; 0 for the whole field."""
    text_column: int = 0
    transient: bool = False
    """Whether another try may say something else: the process that judges texts gave no answer."""

    def __post_init__(self) -> None:
        """Who leaves a text to Spark has nothing against it, whatever a test would like."""
        if self.reason == NOT_JUDGED and self.severity != "notice":
            raise ValueError(f"{NOT_JUDGED} is a notice")

    def __str__(self) -> str:
        return self.message

    @property
    def field(self) -> FieldPath:
        """The path of the field; empty if none is known."""
        if self.path is not None:
            return self.path
        match = _PATH.match(self.message)
        return () if match is None else _steps(match[0])


def sentence(text: str) -> str:
    """A message that ends, so that another sentence can follow.

    >>> [sentence(text) for text in ("it broke", "it broke.", "did you mean upper?")]
    ['it broke.', 'it broke.', 'did you mean upper?']
    """
    return text if text.endswith((".", "?", "!")) else f"{text}."


def dotted(path: FieldPath) -> str:
    """A path as messages begin with it, long names cut."""
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}"[:65] for step in path)
    return where.removeprefix(".")


_PATH = re.compile(r"(spec|metadata)((\.\w+)|(\[\d+\]))*")


def _steps(path: str) -> FieldPath:
    return tuple(
        int(each[1:-1]) if each.startswith("[") else each.removeprefix(".")
        for each in re.findall(r"\.?\w+|\[\d+\]", path)
    )
