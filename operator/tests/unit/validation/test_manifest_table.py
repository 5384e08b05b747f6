"""`penstock validate` on every row of the table, without a cluster."""

from __future__ import annotations

import json

import pytest

from penstock.validation.file_check import check
from penstock.validation.reading.documents import load
from penstock.validation.report import ValidationReport
from testkit.streams import manifest_table as table


def report(text: str) -> ValidationReport:
    """What `penstock validate` says about a text."""
    return check(load(text.encode(), "row"))


@pytest.mark.parametrize("row", table.ACCEPTED, ids=table.label)
def test_a_good_manifest_is_accepted(row: table.Row) -> None:
    found = report(json.dumps(table.resource(row)))
    assert found.passed, found.findings


@pytest.mark.parametrize(
    "row", [*table.REFUSED, *table.REFUSED_LATER, *table.REFUSED_FOR_SAFETY], ids=table.label
)
def test_a_bad_manifest_is_refused(row: table.Row) -> None:
    assert not report(json.dumps(table.resource(row))).passed


@pytest.mark.parametrize("text", table.ACCEPTED_TEXTS.values(), ids=table.ACCEPTED_TEXTS)
def test_a_good_text_is_accepted(text: str) -> None:
    found = report(text)
    assert found.passed, found.findings


BAD_TEXTS = table.REFUSED_TEXTS | table.REFUSED_BY_VALIDATE


@pytest.mark.parametrize("text", BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_a_bad_text_is_refused(text: str) -> None:
    assert not report(text).passed
