"""Checks manifests without a cluster, in three rings.

Rings 1 and 2 are the models and the rules. They include everything that the API server's CEL
checks, except rules about updates. Ring 3 is Spark's own analyzer on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.validation.loading import Document, load_documents
from penstock.validation.problems import Problem, describe_error, find_problems, find_warnings

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """A problem of one stream, with its place."""

    file: str
    line: int
    stream: str
    severity: Severity
    reason: str
    message: str


@dataclass(frozen=True)
class Verdict:
    """A complaint of Spark's analyzer about a spec."""

    severity: Severity
    problem: Problem


# Returns None if Spark accepts the spec.
Analyzer = Callable[[StreamSpec], Verdict | None]


def check_file(path: Path, analyzer: Analyzer | None = None) -> Iterator[Finding]:
    """The findings about all streams of a file; raises UnreadableFile."""
    for document in load_documents(path):
        yield from check_document(str(path), document, analyzer)


def check_document(
    file: str, document: Document, analyzer: Analyzer | None = None, *, local: bool = False
) -> Iterator[Finding]:
    """The findings about one stream; with `local`, only those that matter to `penstock run`."""
    for severity, problem in _check(document.content, analyzer, local):
        yield Finding(file, document.line, document.name, severity, problem.reason, problem.message)


def _check(
    content: dict[str, Any], analyzer: Analyzer | None, local: bool
) -> Iterator[tuple[Severity, Problem]]:
    try:
        stream = ContinuousStream.model_validate(content)
    except ValidationError as error:
        yield from (("error", each) for each in describe_error(error))
        return
    found = find_problems(stream.spec, local=local)
    yield from (("error", each) for each in found)
    yield from (("warning", each) for each in find_warnings(stream.spec))
    if analyzer is not None and not found:
        verdict = analyzer(stream.spec)
        if verdict is not None:
            yield verdict.severity, verdict.problem
