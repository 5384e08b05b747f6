"""Formats findings for people, for programs and for GitHub Actions."""

from __future__ import annotations

import json
from collections.abc import Iterable

from penstock.validation.findings import Finding


def as_text(finding: Finding) -> str:
    """One line for people; editors recognise the place at its start."""
    return f"{finding.file}:{finding.line}: {finding.severity}: {finding.stream}: {finding.message}"


def as_github(finding: Finding) -> str:
    """A workflow command of GitHub Actions, which shows the finding next to the line."""
    title = f"{finding.stream}: {finding.reason}"
    return (
        f"::{finding.severity} file={_escape_property(finding.file)},line={finding.line},"
        f"title={_escape_property(title)}::{_escape_data(finding.message)}"
    )


def as_json(findings: Iterable[Finding]) -> str:
    """One JSON list with the findings of all files."""
    return json.dumps([vars(each) for each in findings], indent=2)


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
