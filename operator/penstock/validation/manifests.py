"""`penstock validate`: manifests judged without a cluster, told where a CI shows it.

Rings 1 and 2 are the models and the rules; they hold everything that the API server's CEL says, but
for rules about updates. Ring 3 is Spark's own analyser, on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import ValidationError

from penstock.api.group_version import API_VERSION, KIND
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.validation import problems

Severity = Literal["error", "warning"]
# What Spark says of a spec, and whether that is a refusal; nothing, if it takes it.
Analyser = Callable[[StreamSpec], tuple[bool, problems.Problem] | None]


class Unreadable(Exception):
    """A file that is no YAML, or cannot be opened."""


@dataclass(frozen=True)
class Finding:
    """One thing to tell about one resource."""

    file: str
    line: int
    stream: str
    severity: Severity
    reason: str
    message: str

    def as_text(self) -> str:
        """For people: a place that editors understand, then what is wrong."""
        return f"{self.file}:{self.line}: {self.severity}: {self.stream}: {self.message}"

    def as_github(self) -> str:
        """A workflow command of GitHub Actions, which shows it beside the line."""
        title = f"{self.stream}: {self.reason}"
        return (
            f"::{self.severity} file={_property(self.file)},line={self.line},"
            f"title={_property(title)}::{_data(self.message)}"
        )


def findings(path: Path, analyser: Analyser | None = None) -> Iterator[Finding]:
    """Everything to tell about the streams of one file; other kinds are passed over."""
    for line, document in documents(path):
        yield from findings_of(str(path), line, document, analyser)


def findings_of(
    file: str,
    line: int,
    document: dict[str, Any],
    analyser: Analyser | None = None,
    *,
    local: bool = False,
) -> Iterator[Finding]:
    """The same about one document; `local` is for `penstock run`, which takes what a cluster
    does not."""
    metadata = document.get("metadata")
    name = str(metadata.get("name", "?")) if isinstance(metadata, dict) else "?"
    for severity, problem in _judged(document, analyser, local):
        yield Finding(file, line, name, severity, problem.reason, problem.message)


def as_json(found: list[Finding]) -> str:
    """One document for all files."""
    return json.dumps([vars(each) for each in found], indent=2)


def _judged(
    document: dict[str, Any], analyser: Analyser | None, local: bool
) -> Iterator[tuple[Severity, problems.Problem]]:
    try:
        stream = ContinuousStream.model_validate(document)
    except ValidationError as error:
        yield from (("error", each) for each in problems.of_error(error))
        return
    refused = problems.of_spec(stream.spec, local=local)
    yield from (("error", each) for each in refused)
    yield from (("warning", each) for each in problems.warnings_of(stream.spec))
    if analyser is not None and not refused:
        said = analyser(stream.spec)
        if said is not None:
            is_refusal, problem = said
            yield ("error" if is_refusal else "warning"), problem


def documents(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The streams of a file, each with the line it begins at; Unreadable if it is no YAML."""
    try:
        text = path.read_text()
        nodes = [node for node in yaml.compose_all(text, yaml.SafeLoader) if node is not None]
        loaded = [each for each in yaml.safe_load_all(text) if each is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Unreadable(f"{path}: {' '.join(str(error).split())}") from error
    for node, document in zip(nodes, loaded, strict=False):
        if isinstance(document, dict) and _is_stream(document):
            yield node.start_mark.line + 1, document


def _is_stream(document: dict[str, Any]) -> bool:
    group = API_VERSION.partition("/")[0]
    return document.get("kind") == KIND and str(document.get("apiVersion", "")).startswith(group)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
