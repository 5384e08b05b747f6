"""Formats findings for people, for programs, for GitHub Actions and for code scanners."""

from __future__ import annotations

import json
from pathlib import PurePath
from urllib.parse import quote

from penstock import __version__
from penstock.validation.findings import Finding, Report

_SARIF_LEVELS = {"error": "error", "warning": "warning", "notice": "note"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_text(finding: Finding) -> str:
    """One line for people; editors recognise the place at its start."""
    place = f"{finding.file}:{finding.line}:{finding.column}"
    stream = f"{finding.stream}: " if finding.stream else ""
    return f"{place}: {finding.severity}: {stream}{_printable(finding.message)}"


def summary(report: Report) -> str:
    """How much was judged, in one line."""
    streams = report.valid + report.invalid
    if streams == 0:
        said = "no stream found"
    else:
        said = f"{_count(report.valid, 'stream')} valid"
        if report.invalid:
            said += f", {report.invalid} invalid"
    if report.unread:
        said += f", {_count(report.unread, 'document')} not read"
    if report.skipped:
        said += f", {_count(report.skipped, 'other document')} skipped"
    return said


def as_github(finding: Finding) -> str:
    """A workflow command of GitHub Actions, which shows the finding next to the line."""
    title = f"{finding.stream}: {finding.reason}" if finding.stream else finding.reason
    return (
        f"::{finding.severity} file={_escape_property(finding.file)},line={finding.line},"
        f"col={finding.column},title={_escape_property(title)}::{_escape_data(finding.message)}"
    )


def as_json(report: Report) -> str:
    """One JSON object: the findings of all files, and how many streams were judged."""
    content = {
        "valid": report.valid,
        "invalid": report.invalid,
        "unread": report.unread,
        "skipped": report.skipped,
        "findings": [vars(each) for each in report.findings],
    }
    return json.dumps(content, indent=2)


def as_sarif(report: Report) -> str:
    """A SARIF 2.1.0 log, which code scanners and editors read."""
    rules = sorted({each.reason for each in report.findings})
    run = {
        "tool": {
            "driver": {
                "name": "penstock validate",
                "version": __version__,
                "rules": [{"id": each} for each in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(each) for each in report.findings],
    }
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _sarif_result(finding: Finding) -> dict[str, object]:
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
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
