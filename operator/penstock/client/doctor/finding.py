"""What a check of `penstock doctor` found. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is, the worst first."""

    PROBLEM = "problem"
    WARNING = "warning"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Finding:
    """What is wrong, why, and what to do about it."""

    severity: Severity
    subject: str
    """What it is about: a stream as NAMESPACE/NAME, or a part of the cluster."""
    reason: str
    """In CamelCase, as in docs/reasons.md where the status has it too."""
    message: str
    """What was found, and why it is so; with the words of Kubernetes or of the driver."""
    action: str = ""
    command: str = ""
    """The next command to run."""
    explains: frozenset[str] = frozenset()
    """The reasons in the status that follow from this."""
