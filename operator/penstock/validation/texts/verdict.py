"""Judges the SQL and the Python of a spec, in this process."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.api.v1alpha1 import StreamSpec
from penstock.sql.refusals import Refusal, judge_sql
from penstock.validation.texts.python_text import judge_python


@dataclass(frozen=True)
class TextVerdict:
    """What was found in a spec's texts."""

    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[Refusal, ...] = ()
    """What runs, but probably not as intended, and what only the driver can judge."""


def verdict_on(spec: StreamSpec) -> TextVerdict:
    """Judges the texts of a spec. Raises only MemoryError."""
    sql, python = judge_sql(spec), judge_python(spec)
    return TextVerdict((*sql.refusals, *python.refusals), (*sql.not_judged, *python.warnings))
