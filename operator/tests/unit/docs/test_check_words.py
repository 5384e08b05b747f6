"""The check for retired words, and the glossary that it reads."""

import re

import pytest

from scripts import check_words
from scripts.check_words import Finding, findings_in, retired_words
from testkit.paths import CHECKOUT

TABLE = """
| `flub, flubbed` | error | everywhere |
| `in apple pie order` | cleanly | everywhere |
| `wibble` | sound | names, except small wibble |
"""


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.md", "It flubbed.\n", [(1, "flubbed")]),
        ("a.md", "one\nFlub_count, flubCount, FLUB\n", [(2, "flub")]),
        ("a.md", "Left in apple-pie order.\n", [(1, "in apple pie order")]),
        ("a.md", "A wibble is fine in prose, and so is flubber.\n", []),
        ("a.yaml", "wibbleSize: 1\n", [(1, "wibble")]),
        ("a.yaml", "the_wibble-count: 1\n", [(1, "wibble")]),
        ("a.yaml", "smallWibbleName: the SmallWibble\n", []),
        ("a.yaml", "smallWibbleOfWibble: 1\n", [(1, "wibble")]),
        ("a.py", "wibble = 1  # a wibble\n", [(1, "wibble")]),
        ("a.py", "# a wibble\nTEXT = 'the wibble'\n", []),
        ("a.py", "def is_wibble(): ...\n", [(1, "wibble")]),
        ("tests/test_wibble.md", "", [(0, "wibble")]),
    ],
)
def test_where_a_retired_word_is_found(
    path: str, text: str, expected: list[tuple[int, str]]
) -> None:
    """In prose and names, or in names only, as the row says."""
    found = findings_in(path, text, retired_words(TABLE))
    assert [(each.line, each.word) for each in found] == expected


def test_a_finding_names_the_place_and_the_replacement() -> None:
    """One line for each, as compilers print it."""
    assert str(Finding("a.md", 3, "flub", "error")) == "a.md:3: 'flub' is retired: use error"


def test_a_glossary_without_the_table_is_an_error() -> None:
    """Else a changed table would switch the check off silently."""
    with pytest.raises(ValueError, match="no table"):
        retired_words("# Glossary\n")


def test_every_row_of_the_glossary_is_read() -> None:
    """A row with a typing error would not be checked."""
    text = (CHECKOUT / check_words.GLOSSARY).read_text()
    section = text.split("## Retired words")[1]
    rows = re.findall(r"^\| `.*$", section, re.MULTILINE)
    assert len(retired_words(text)) == len(rows)
