"""The documents name files and pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testkit.paths import CHECKOUT

PACKAGE = CHECKOUT / "operator" / "penstock"
DOCUMENTS = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md")])
# The changelog names what there was.
CURRENT = [path for path in DOCUMENTS if path.name != "CHANGELOG.md"]
_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w.-]+/)`")
_ROOMS = {path.name for path in [*CHECKOUT.iterdir(), *PACKAGE.iterdir()] if path.is_dir()}
_ROOMS -= {"build"}  # what a command makes, and not every command makes all of it
_LINK = re.compile(r"\]\(([^)#:\s]+)?(#[^)\s]+)?\)")


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", CURRENT, ids=lambda path: path.name)
def test_every_path_in_a_document_exists(document: Path) -> None:
    """Those in backticks whose first folder is one of ours; from the root or from the package."""
    named = [path for path in _PATH.findall(document.read_text()) if path.split("/")[0] in _ROOMS]
    missing = [
        path
        for path in named
        if not any((root / path).exists() for root in (CHECKOUT, PACKAGE, document.parent))
    ]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_in_a_document_leads_somewhere(document: Path) -> None:
    """To a file of the checkout, and to one of its headings."""
    for target, anchor in _LINK.findall(document.read_text()):
        page = (document.parent / target).resolve() if target else document
        assert page.exists(), target
        if anchor:
            assert anchor[1:] in _anchors(page), f"{target}{anchor}"


def test_every_row_of_the_map_is_checked() -> None:
    """The table of CONTRIBUTING.md names a path that exists in each of its rows."""
    text = (CHECKOUT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| .* \|$", text.split("### Where do I change")[1].split("\n## ")[0], re.M)
    for row in rows[1:]:
        named = re.findall(r"`([\w./-]+)`", row.split("|")[2])
        places = [name for name in named if "/" in name or "." in name]
        assert places, row
        assert all((CHECKOUT / place).exists() or (PACKAGE / place).exists() for place in places), (
            row
        )
