"""Checks manifests without a cluster, in three rings: what `penstock validate` does.

Rings 1 and 2 are the models and the rules. They include everything that the API server's CEL
checks, except rules about updates. Ring 3 is Spark's own analyzer on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from penstock.api.problem import NOT_JUDGED, Problem
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.operator_settings import PodSecurity
from penstock.validation.reading.documents import Document, LoadedFile, load
from penstock.validation.reading.files import STDIN, UnreadableFile, expand, read_file
from penstock.validation.report import FileFinding, ValidationReport
from penstock.validation.rules import metadata, spec_size
from penstock.validation.schema_errors import describe_error, find_nulls
from penstock.validation.spec_check import judge
from penstock.validation.text_sandbox import JUDGED_FIELDS, judge_texts

# What Spark's analyzer says about a spec.
Analyzer = Callable[[StreamSpec], Iterable[Problem]]
# The fields that it judges.
_JUDGED_BY_SPARK = (("spec", "transform"), ("spec", "source"))
_ANY_SOURCE = {"custom": {"format": "unknown"}}
_ANY_KAFKA = {"kafka": {"bootstrapServers": "k:9092", "topics": ["t"], "includeHeaders": True}}
_ANY_SINK: dict[str, Any] = {"console": {}}


def check_paths(
    arguments: Iterable[str], check: Callable[[LoadedFile], ValidationReport]
) -> tuple[ValidationReport, bool]:
    """What was found in all files that the arguments stand for, and whether all could be read."""
    report, all_read = ValidationReport(), True
    for argument, path in expand(arguments):
        try:
            if isinstance(path, UnreadableFile):
                raise path
            data = read_file(None if argument == STDIN else path)
        except UnreadableFile as error:
            finding = FileFinding(
                argument, 1, 1, "", "error", "Unreadable", f"cannot be read: {error}"
            )
            report, all_read = report + ValidationReport((finding,), unreadable=1), False
        else:
            file = "<stdin>" if argument == STDIN else str(path)
            report += check(load(data, file))
    return report, all_read


def check(
    loaded: LoadedFile,
    analyzer: Analyzer | None = None,
    allowed: PodSecurity = PodSecurity.RESTRICTED,
) -> ValidationReport:
    """What is wrong in a file, and how much of it was judged."""
    findings, invalid, left_to_spark = [*loaded.findings], 0, 0
    for document in loaded.streams:
        of_stream = list(check_document(document, analyzer, allowed=allowed))
        invalid += any(finding.severity == "error" for finding in of_stream)
        left_to_spark += analyzer is None and _has_sql(document.content)
        findings += of_stream
    findings.sort(key=lambda finding: (finding.line, finding.column))
    valid, unreadable = len(loaded.streams) - invalid, len(loaded.findings)
    return ValidationReport(
        tuple(findings), valid, invalid, loaded.skipped, unreadable, left_to_spark
    )


def _has_sql(content: dict[str, Any]) -> bool:
    spec = content.get("spec")
    transform = spec.get("transform") if isinstance(spec, dict) else None
    return isinstance(transform, dict) and "sql" in transform


def check_document(
    document: Document,
    analyzer: Analyzer | None = None,
    *,
    local: bool = False,
    allowed: PodSecurity = PodSecurity.RESTRICTED,
) -> Iterator[FileFinding]:
    """The findings about one stream; with `local`, only those that matter to `penstock run`."""

    def judged(spec: StreamSpec) -> list[Problem]:
        return judge(spec, local=local, allowed=allowed)

    for problem in _problems(document.content, judged, analyzer):
        yield document.finding(problem)


def _problems(
    content: dict[str, Any],
    judged: Callable[[StreamSpec], list[Problem]],
    analyzer: Analyzer | None,
) -> Iterator[Problem]:
    yield from metadata.find_problems(content.get("metadata"))
    yield from find_nulls(content.get("spec"), ("spec",))
    too_large = spec_size.refusal(spec_size.measure(content.get("spec")))
    if too_large is not None:
        yield too_large
        return
    try:
        # Its metadata is judged already, and may have a generateName in place of a name.
        stream = ContinuousStream.model_validate({**content, "metadata": {"name": "judged"}})
    except ValidationError as error:
        yield from describe_error(error)
        yield from _problems_of_texts(content.get("spec"))
        return
    problems = judged(stream.spec)
    if analyzer is not None and all(problem.severity != "error" for problem in problems):
        of_spark = list(analyzer(stream.spec))
        if all(problem.reason != NOT_JUDGED for problem in of_spark):  # Spark has judged them now
            problems = [problem for problem in problems if not _is_left_to_spark(problem)]
        problems += of_spark
    yield from problems


def _problems_of_texts(spec: Any) -> list[Problem]:
    """Errors in the query of an invalid spec, as far as they do not depend on what is wrong.

    A source or a sink that may be the cause is replaced by one that refuses nothing.
    """
    if not isinstance(spec, dict):
        return []
    ends = [end for end in map(spec.get, ("transform", "sink")) if isinstance(end, dict)]
    if not any(end.keys() & {"sql", "python"} for end in ends):
        return []
    names = {StreamSpec.model_fields[field].alias for field in JUDGED_FIELDS}
    judged = {name: value for name, value in spec.items() if name in names}
    source = spec.get("source")
    is_kafka = isinstance(source, dict) and "kafka" in source
    any_source = _ANY_KAFKA if is_kafka else _ANY_SOURCE
    replaced: tuple[dict[str, Any], ...] = (
        {},
        {"sink": _ANY_SINK},
        {"source": any_source, "sink": _ANY_SINK},
    )
    for fields in replaced:
        try:
            valid = StreamSpec.model_validate({**judged, **fields})
        except ValidationError:
            continue
        return [problem for problem in judge_texts(valid) if problem.severity == "error"]
    return []


def _is_left_to_spark(problem: Problem) -> bool:
    return problem.reason == NOT_JUDGED and problem.field[:2] in _JUDGED_BY_SPARK
