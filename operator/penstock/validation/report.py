"""What was found in files, and how people, programs, GitHub Actions and code scanners read it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import quote

from penstock import __version__
from penstock.api.problem import Severity

_SARIF_LEVELS = {"error": "error", "warning": "warning", "notice": "note"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True)
class FileFinding:
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
class ValidationReport:
    """What was judged, and what was found."""

    findings: tuple[FileFinding, ...] = ()
    valid: int = 0
    """Streams without an error."""
    invalid: int = 0
    skipped: int = 0
    """Documents of other kinds, which nobody looked at."""
    unreadable: int = 0
    """Files and documents that could not be read, and near misses."""
    left_to_spark: int = 0
    """Streams of whose SQL nobody has judged the names and types."""

    @property
    def passed(self) -> bool:
        """Whether there is a stream and no error."""
        return self.valid > 0 and all(finding.severity != "error" for finding in self.findings)

    def __add__(self, other: ValidationReport) -> ValidationReport:
        return ValidationReport(
            self.findings + other.findings,
            self.valid + other.valid,
            self.invalid + other.invalid,
            self.skipped + other.skipped,
            self.unreadable + other.unreadable,
            self.left_to_spark + other.left_to_spark,
        )


def rendered(report: ValidationReport, output: str) -> str:
    """The report as text, json, sarif or github."""
    if output == "json":
        return as_json(report)
    if output == "sarif":
        return as_sarif(report)
    as_line = as_github if output == "github" else as_text
    return "\n".join([*map(as_line, report.findings), *scope(report), summary(report)])


def as_text(finding: FileFinding) -> str:
    """One line for people; editors recognise the place at its start."""
    place = f"{finding.file}:{finding.line}:{finding.column}"
    stream = f"{finding.stream}: " if finding.stream else ""
    return f"{place}: {finding.severity}: {_printable(stream + finding.message)}"


def scope(report: ValidationReport) -> list[str]:
    """What was judged of SQL and what was not, in one line; none where Spark has judged it."""
    if not report.left_to_spark:
        return []
    return [
        f"SQL of {_count(report.left_to_spark, 'stream')}: operations and the sink's columns are "
        "judged; names of columns, fields and functions, and types, are left to Spark (--spark, or "
        "the driver)"
    ]


def summary(report: ValidationReport) -> str:
    """How much was judged, in one line."""
    streams = report.valid + report.invalid
    if streams == 0:
        counts = "no stream found"
    else:
        counts = f"{_count(report.valid, 'stream')} valid"
        if report.invalid:
            counts += f", {report.invalid} invalid"
    if report.unreadable:
        counts += f", {_count(report.unreadable, 'document')} not read"
    if report.skipped:
        counts += f", {_count(report.skipped, 'other document')} skipped"
    return counts


def as_github(finding: FileFinding) -> str:
    """A workflow command of GitHub Actions, which shows the finding next to the line."""
    title = f"{finding.stream}: {finding.reason}" if finding.stream else finding.reason
    return (
        f"::{finding.severity} file={_escape_property(finding.file)},line={finding.line},"
        f"col={finding.column},title={_escape_property(title)}::{_escape_data(finding.message)}"
    )


def as_json(report: ValidationReport) -> str:
    """One JSON object: the findings of all files, and how many streams were judged."""
    content = {
        "valid": report.valid,
        "invalid": report.invalid,
        "unread": report.unreadable,
        "skipped": report.skipped,
        "leftToSpark": report.left_to_spark,
        "findings": [vars(finding) for finding in report.findings],
    }
    return json.dumps(content, indent=2)


def as_sarif(report: ValidationReport) -> str:
    """A SARIF 2.1.0 log, which code scanners and editors read."""
    rules = sorted({finding.reason for finding in report.findings})
    run = {
        "tool": {
            "driver": {
                "name": "penstock validate",
                "version": __version__,
                "rules": [{"id": rule} for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding) for finding in report.findings],
    }
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _sarif_result(finding: FileFinding) -> dict[str, object]:
    stream = f"{finding.stream}: " if finding.stream else ""
    return {
        "ruleId": finding.reason,
        "level": _SARIF_LEVELS[finding.severity],
        "message": {"text": f"{stream}{finding.message}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(PurePath(finding.file).as_posix())},
                    "region": {"startLine": finding.line, "startColumn": finding.column},
                }
            }
        ],
    }


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _printable(text: str) -> str:
    """The text without characters that would move a terminal's cursor or change its colours."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
