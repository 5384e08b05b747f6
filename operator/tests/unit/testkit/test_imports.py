"""The directions of imports between the test kit, the tests and the end-to-end tests."""

import re

import pytest

from testkit.paths import CHECKOUT


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [("testkit", "tests|e2e"), ("operator/tests", "tests|e2e"), ("e2e", "tests")],
)
def test_helpers_come_from_the_test_kit_alone(folder: str, forbidden: str) -> None:
    """A test imports no other test, so that each helper is in one place."""
    imports = re.compile(rf"^\s*(from|import) ({forbidden})\b.*", re.MULTILINE)
    found = [
        f"{path.relative_to(CHECKOUT)}: {each[0].strip()}"
        for path in (CHECKOUT / folder).rglob("*.py")
        for each in imports.finditer(path.read_text())
    ]
    assert found == []
