"""A run of the whole suite fails if a test that a document names did not pass in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.plugins.child_session import run_pytest
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


@pytest.mark.parametrize(
    ("claim", "options", "code", "printed"),
    [
        ("`test_good`", [], 0, "1 passed, 1 skipped"),
        ("`test_skipped`", [], 1, "test_it.py::test_skipped: skipped"),
        ("`test_skipped`", ["-k", "good"], 0, "1 passed, 1 deselected"),
        ("`test_removed`", ["-k", "good"], 1, "test_removed: there is no such test"),
        ("`test_removed`", ["tests/test_it.py"], 0, "1 passed, 1 skipped"),
        ("`test_good`", ["-n", "1"], 0, "1 passed, 1 skipped"),
        ("`test_skipped`", ["-n", "1"], 1, "test_it.py::test_skipped: skipped"),
        ("`test_skipped`", ["-n", "1", "-k", "good"], 0, "1 passed"),
    ],
)
def test_a_session_fails_for_an_unproven_claim(
    claim: str, options: list[str], code: int, printed: str, tmp_path: Path
) -> None:
    """A run of given files knows nothing of the rest of the suite, and claims nothing."""
    (tmp_path / "docs" / "how-to").mkdir(parents=True)
    (tmp_path / "docs" / "how-to" / "claims.md").write_text(claim)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    (tmp_path / "conftest.py").write_text(
        "from pathlib import Path\nfrom testkit.plugins.proofs import Proofs\n\n\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(Proofs(Path(__file__).parent / 'docs'))\n"
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(
        "import pytest\n\n\ndef test_good(): pass\n\n\n"
        "@pytest.mark.skip\ndef test_skipped(): pass\n"
    )
    done = run_pytest(tmp_path, "-q", *options)
    assert done.returncode == code, done.stdout + done.stderr
    assert printed in done.stdout
