"""Writes the lists of docs/testing.md: which tests show which claim of the documentation.

A test says so itself: `@pytest.mark.proves(7, "failures.md#a-task-is-stuck", "recipes.md")` names a
guarantee by its number, a heading as a link does, and a page. `pytestmark` says it of a whole file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts.codegen import marked
from testkit.driver import checkpoint_damage

Claim = int | str

FAILURES = "failures.md"
_GUARANTEE = re.compile(r"^- \*\*(\d+)\.\*\*", re.MULTILINE)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_CODE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


def with_lists(document: str, root: Path) -> str:
    """Raises ValueError for a claim that nothing shows, and for a mark that names no claim."""
    pages = {
        path.relative_to(root / "docs").as_posix(): path.read_text()
        for path in sorted(root.glob("docs/**/*.md"))
    }
    files = [*root.glob("operator/tests/**/test_*.py"), *root.glob("e2e/**/test_*.py")]
    proofs = proofs_of({path.relative_to(root).as_posix(): path.read_text() for path in files})
    return marked.filled(document, lists(pages, proofs) | {"damages": checkpoint_damage.table()})


def proofs_of(tests: dict[str, str]) -> dict[Claim, set[str]]:
    """The tests of each claim, as the document names them, from the texts of the tests' files."""
    proofs: dict[Claim, set[str]] = {}
    for path, text in tests.items():
        where = " (real cluster)" if path.startswith("e2e/") else ""
        for name, claim in _marks(path, text) if "mark.proves" in text else ():
            proofs.setdefault(claim, set()).add(f"`{name}`{where}")
    return proofs


def lists(pages: dict[str, str], proofs: dict[Claim, set[str]]) -> dict[str, str]:
    """The lists of guarantees, of failures, and of what other headings and pages say."""
    numbers = [int(number) for number in _GUARANTEE.findall(pages["guarantees.md"])]
    links = {claim: link for page, text in pages.items() for claim, link in _links(page, text)}
    failures = _sections(pages[FAILURES])
    unknown = {claim: proofs[claim] for claim in proofs if claim not in {*numbers, *links}}
    unproven = [claim for claim in (*numbers, *failures) if claim not in proofs]
    if unknown or unproven:
        raise ValueError(f"marks of tests name no claim: {unknown}; no test shows: {unproven}")
    others = [claim for claim in links if claim in proofs and claim not in failures]
    return {
        "guarantees": _entries((f"**{number}**", proofs[number]) for number in numbers),
        "failures": _entries((links[claim], proofs[claim]) for claim in failures),
        "others": _entries((links[claim], proofs[claim]) for claim in others),
    }


def _marks(path: str, text: str) -> Iterator[tuple[str, Claim]]:
    """Each test, or the file, with what its mark names."""
    for node in ast.parse(text).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield from ((name, claim) for mark in node.decorator_list for claim in _named(mark))
            case ast.Assign(targets=[ast.Name("pytestmark")]):
                yield from ((Path(path).name, claim) for claim in _named(node.value))


def _named(mark: ast.expr) -> Iterator[Claim]:
    for node in ast.walk(mark):
        match node:
            case ast.Call(func=ast.Attribute(attr="proves")):
                yield from (ast.literal_eval(argument) for argument in node.args)


def _links(page: str, text: str) -> Iterator[tuple[str, str]]:
    """The page and each of its headings, as a mark names them, and as a link of docs/testing.md."""
    (_, title), *headings = _headings(text)
    yield page, f"[{title}]({page})"
    for _, heading in headings:
        address = f"{page}#{_anchor(heading)}"
        yield address, f"[{heading if page == FAILURES else f'{title}: {heading}'}]({address})"


def _sections(failures: str) -> list[str]:
    """The headings below which something is said, and not only further headings."""
    headings = _headings(failures)
    return [
        f"{FAILURES}#{_anchor(heading)}"
        for (level, heading), (following, _) in zip(headings, [*headings[1:], (0, "")], strict=True)
        if following <= level
    ]


def _headings(text: str) -> list[tuple[int, str]]:
    return [(len(marks), heading) for marks, heading in _HEADING.findall(_CODE.sub("", text))]


def _anchor(heading: str) -> str:
    """As the site and GitHub make it."""
    return re.sub(r"[^\w\s-]", "", heading.lower()).replace(" ", "-")


def _entries(entries: Iterable[tuple[str, set[str]]]) -> str:
    return "".join(f"- {claim}: {', '.join(sorted(tests))}\n" for claim, tests in entries)
