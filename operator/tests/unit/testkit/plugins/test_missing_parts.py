"""What this machine lacks is skipped loudly, and never in CI."""

from pathlib import Path

import pytest

from testkit.plugins.child_session import run_pytest

CONFTEST = """
from testkit.plugins.missing_parts import MissingParts

def pytest_configure(config):
    config.addinivalue_line("markers", "real: ...")
    config.pluginmanager.register(MissingParts(lambda: {"real": "no Java: install it"}))
"""
TESTS = """
import pytest

@pytest.mark.real
def test_real(): pass

def test_unit(): pass
"""


@pytest.mark.parametrize("options", [[], ["-n", "1"]])
@pytest.mark.parametrize(
    ("ci", "printed"), [("", "1 passed, 1 skipped"), ("true", "2 passed")], ids=["local", "ci"]
)
def test_a_test_without_its_parts_is_skipped_loudly_and_never_in_ci(
    ci: str, printed: str, options: list[str], tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    done = run_pytest(tmp_path, "-q", *options, CI=ci)
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed in done.stdout
    loud = "NOT TESTED" in done.stdout and "1 tests skipped. no Java: install it" in done.stdout
    assert loud is (ci == "")
