"""The documents' claims are judged by the outcomes of the tests that they name."""

from __future__ import annotations

import pytest

from testkit.plugins.proofs import Named, named_tests, unproven

FOUND = ["a/test_one.py::test_x[1]", "a/test_one.py::test_x[2]", "e2e/test_two.py::test_y"]
PASSED = dict.fromkeys(FOUND, "passed")


def test_a_document_names_functions_files_and_what_needs_the_cluster() -> None:
    text = "| `test_x`, `test_one.py` | `test_y` (real cluster), `penstock_test_metric` |"
    assert named_tests([text]) == {Named("test_x"), Named("test_one"), Named("test_y", True)}


@pytest.mark.parametrize(
    ("named", "outcomes", "expected"),
    [
        (Named("test_x"), PASSED, []),
        (Named("test_one"), PASSED, []),
        (Named("test_y", True), PASSED, []),
        (Named("test_x"), {**PASSED, FOUND[1]: "failed"}, [f"{FOUND[1]}: failed"]),
        (Named("test_x"), {**PASSED, FOUND[1]: "later"}, []),
        (Named("test_y"), {**PASSED, FOUND[2]: "skipped"}, [f"{FOUND[2]}: skipped"]),
        (Named("test_y"), {}, [f"{FOUND[2]}: did not run"]),
        (Named("test_y"), None, []),  # only a part was chosen
        (Named("test_z"), None, ["test_z: there is no such test"]),
        (Named("test_x", True), PASSED, ["test_x: there is no such test in e2e"]),
    ],
)
def test_a_named_test_must_have_passed(
    named: Named, outcomes: dict[str, str] | None, expected: list[str]
) -> None:
    assert unproven([named], FOUND, outcomes) == expected
