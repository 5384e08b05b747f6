"""No claim of the documentation is without a test, and no test that shows one is left out."""

from __future__ import annotations

import pytest

from scripts.codegen.testing import Claim, lists, proofs_of
from testkit.plugins.proofs import Proofs

pytest_plugins = ["pytester"]

PAGES = {
    "failures.md": "# Failures\n## Kafka\n### It's `gone`\nStatus.\n```sh\n# no heading\n```\n",
    "guarantees.md": "# Guarantees\n- **1.** Nothing is lost.\n",
    "recipes.md": "# Recipes\n## Joins\n",
}
PROOFS: dict[Claim, set[str]] = {
    1: {"`test_x`"},
    "failures.md#its-gone": {"`test_y`"},
    "recipes.md#joins": {"`test_x`"},
}


def test_the_marks_of_functions_and_files_are_read() -> None:
    proves = "pytest.mark.proves"
    tests = {
        "a/test_one.py": f"@{proves}(1, 'b.md#c')\n@pytest.mark.full\nasync def test_x(): ...\n",
        "e2e/test_two.py": f"pytestmark = [pytest.mark.full, {proves}(1)]\ndef test_y(): ...\n",
    }
    assert proofs_of(tests) == {
        1: {"`test_x`", "`test_two.py` (real cluster)"},
        "b.md#c": {"`test_x`"},
    }


def test_each_claim_has_an_entry() -> None:
    assert lists(PAGES, PROOFS) == {
        "guarantees": "- **1**: `test_x`\n",
        "failures": "- [It's `gone`](failures.md#its-gone): `test_y`\n",
        "others": "- [Recipes: Joins](recipes.md#joins): `test_x`\n",
    }


@pytest.mark.parametrize("claim", [1, "failures.md#its-gone"])
def test_a_claim_that_no_test_shows_is_refused(claim: Claim) -> None:
    proofs = {each: tests for each, tests in PROOFS.items() if each != claim}
    with pytest.raises(ValueError, match=f"no test shows: .*{claim}"):
        lists(PAGES, proofs)


@pytest.mark.parametrize("claim", [2, "failures.md#no-heading", "recipes.md#merges", "tips.md"])
def test_a_mark_that_names_no_claim_is_refused(claim: Claim) -> None:
    with pytest.raises(ValueError, match=f"name no claim: .*{claim}"):
        lists(PAGES, PROOFS | {claim: {"`test_x`"}})


def test_a_proof_that_is_skipped_has_failed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        @pytest.mark.proves(1)
        def test_proof(): pytest.skip("not here")
        @pytest.mark.proves(1)
        @pytest.mark.xfail
        def test_expected_to_fail(): assert False
        @pytest.mark.proves(1)
        @pytest.mark.parametrize("none", [])
        def test_of_nothing(none): ...
        @pytest.mark.proves(1)
        def test_that_passes(): ...
        def test_other(): pytest.skip("not here")
    """)
    result = pytester.runpytest_inprocess("-p", "no:asyncio", plugins=[Proofs()])
    result.assert_outcomes(passed=1, failed=2, errors=1, skipped=1)
