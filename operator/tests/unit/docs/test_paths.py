"""The documents name files and pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testkit.paths import CHECKOUT

PACKAGE = CHECKOUT / "operator" / "penstock"
DOCUMENTS = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md")])
_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w.-]+/)`")
_ROOMS = {path.name for path in [*CHECKOUT.iterdir(), *PACKAGE.iterdir()] if path.is_dir()}
_ROOMS -= {"build", ".penstock"}  # what commands make, and not each all of it
_LINK = re.compile(r"\]\(([^)#:\s]+)?(#[^)\s]+)?\)")


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
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


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """A page that nobody finds might as well not be there."""
    listed = set(re.findall(r"[\w/-]+\.md", (CHECKOUT / "mkdocs.yml").read_text()))
    docs = CHECKOUT / "docs"
    assert {str(page.relative_to(docs)) for page in docs.glob("**/*.md")} == listed


@pytest.mark.parametrize("picture", sorted(CHECKOUT.glob("docs/**/*.svg")), ids=lambda it: it.stem)
def test_a_picture_has_a_text_and_asks_no_other_host(picture: Path) -> None:
    text = picture.read_text()
    assert not re.search(r"(?:href|src)=\"https?:|url\(https?:|@import", text)
    named = [document.read_text() for document in DOCUMENTS if picture.name in document.read_text()]
    assert any(re.search(rf"!\[[^\]]+\]\([^)]*{picture.name}\)", page) for page in named)
