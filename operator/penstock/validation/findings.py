"""Checks manifests without a cluster, in three rings.

Rings 1 and 2 are the models and the rules. They include everything that the API server's CEL
checks, except rules about updates. Ring 3 is Spark's own analyzer on this machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.sql.refusals import NOT_JUDGED
from penstock.sql.statement import MAX_TOKENS
from penstock.validation.pod_security import PodSecurity
from penstock.validation.problem import Problem, Severity
from penstock.validation.reading.loading import Defect, Document, Loaded
from penstock.validation.rules import metadata, nulls
from penstock.validation.spec_problems import describe_error, judge

# What is parsed of a file's texts, so that many of them cannot take minutes: about 2 s of a
# processor, twice the largest query. A short text takes as long as this many words more.
_MOST_WORDS = 2 * MAX_TOKENS
_WORDS_A_TEXT = 15
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Finding:
    """A problem of one stream or of one file, with its place."""

    file: str
    line: int
    """From 1, as is the column."""
    column: int
    stream: str
    """Its name; empty for what is not a stream."""
    severity: Severity
    reason: str
    message: str


@dataclass(frozen=True)
class Report:
    """What was judged, and what was found."""

    findings: tuple[Finding, ...] = ()
    valid: int = 0
    """Streams without an error."""
    invalid: int = 0
    skipped: int = 0
    """Documents of other kinds, which nobody looked at."""
    unread: int = 0
    """Files and documents that could not be read, and near misses."""

    @property
    def passed(self) -> bool:
        """Whether there is a stream and no error."""
        return self.valid > 0 and all(each.severity != "error" for each in self.findings)

    def __add__(self, other: Report) -> Report:
        return Report(
            self.findings + other.findings,
            self.valid + other.valid,
            self.invalid + other.invalid,
            self.skipped + other.skipped,
            self.unread + other.unread,
        )


# What Spark's analyzer says about a spec.
Analyzer = Callable[[StreamSpec], Iterable[Problem]]
# The fields that it judges.
_JUDGED_BY_SPARK = (("spec", "transform"), ("spec", "source"))


def check(
    file: str,
    loaded: Loaded,
    analyzer: Analyzer | None = None,
    allowed: PodSecurity = PodSecurity.RESTRICTED,
) -> Report:
    """What is wrong in a file, and how much of it was judged."""
    findings = [
        *(_of_file(file, each, "error") for each in loaded.defects),
        *(_of_file(file, each, "warning") for each in loaded.warnings),
    ]
    invalid, words = 0, 0
    for document in loaded.streams:
        words += _words(document)
        found = list(
            check_document(
                file, document, analyzer, allowed=allowed, with_texts=words <= _MOST_WORDS
            )
        )
        invalid += any(each.severity == "error" for each in found)
        findings += found
    findings.sort(key=lambda each: (each.line, each.column))
    valid, unread = len(loaded.streams) - invalid, len(loaded.defects)
    return Report(tuple(findings), valid, invalid, loaded.skipped, unread)


def check_document(
    file: str,
    document: Document,
    analyzer: Analyzer | None = None,
    *,
    local: bool = False,
    allowed: PodSecurity = PodSecurity.RESTRICTED,
    with_texts: bool = True,
) -> Iterator[Finding]:
    """The findings about one stream; with `local`, only those that matter to `penstock run`."""

    def judged(spec: StreamSpec) -> list[Problem]:
        return judge(spec, local=local, allowed=allowed, with_texts=with_texts)

    for each in _problems(document.content, judged, analyzer):
        line, column = document.locate(each.field, each.text_line, each.text_column)
        yield Finding(file, line, column, document.name, each.severity, each.reason, each.message)


def _problems(
    content: dict[str, Any],
    judged: Callable[[StreamSpec], list[Problem]],
    analyzer: Analyzer | None,
) -> Iterator[Problem]:
    found = list(metadata.find_problems(content))
    yield from found
    said = {each.path for each in found}
    yield from nulls.find_problems(content.get("spec"), ("spec",))
    try:
        # Its metadata is judged already, and may have a generateName in place of a name.
        stream = ContinuousStream.model_validate({**content, "metadata": {"name": "judged"}})
    except ValidationError as error:
        yield from (each for each in describe_error(error) if each.path not in said)
        return
    found = judged(stream.spec)
    if analyzer is None or any(each.severity == "error" for each in found):
        yield from found
        return
    of_spark = list(analyzer(stream.spec))
    if all(each.reason != NOT_JUDGED for each in of_spark):  # Spark has judged them now
        found = [each for each in found if not _is_left_to_spark(each)]
    yield from [*found, *of_spark]


def _words(document: Document) -> int:
    """How many words and signs are in a stream's texts."""
    spec = document.content.get("spec")
    if not isinstance(spec, dict):
        return 0
    pending, words = [spec.get("transform"), spec.get("source")], 0
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            words += len(_WORD.findall(value))
        elif isinstance(value, dict | list):
            pending += value.values() if isinstance(value, dict) else value
    return words + _WORDS_A_TEXT


def _is_left_to_spark(problem: Problem) -> bool:
    return problem.reason == NOT_JUDGED and problem.field[:2] in _JUDGED_BY_SPARK


def _of_file(file: str, defect: Defect, severity: Severity) -> Finding:
    return Finding(file, defect.line, defect.column, "", severity, defect.reason, defect.message)
