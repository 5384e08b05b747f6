"""The doctor's words say what to do."""

import pytest

from testkit import system_packages
from testkit.doctor import Finding, gaps_finding, go_finding, report


@pytest.mark.parametrize("version", ["go1.24", "go1.26.8\n", "go2.0"])
def test_a_new_enough_go_is_good(version: str) -> None:
    assert go_finding(version).good


@pytest.mark.parametrize("version", ["go1.19.8", "devel", ""])
def test_another_go_is_refused_with_what_to_install(version: str) -> None:
    finding = go_finding(version)
    assert not finding.good
    assert "install Go 1.24" in finding.words


def test_missing_packages_are_fine_where_we_may_install_them() -> None:
    finding = gaps_finding("engine", [system_packages.NEEDS["podman"]], installs=True)
    assert finding.good
    assert "apt-get" in finding.words


def test_missing_packages_are_named_where_we_may_not() -> None:
    finding = gaps_finding("engine", [system_packages.NEEDS["podman"]], installs=False)
    assert not finding.good
    assert "apt-get install podman" in finding.words


def test_what_apt_cannot_give_is_never_promised() -> None:
    assert not gaps_finding("Go", [system_packages.NEEDS["go"]], installs=True).good


def test_the_report_marks_what_is_not_good() -> None:
    lines = report([Finding("a", True, "yes"), Finding("b", False, "no")]).splitlines()
    assert lines == ["✓ a: yes", "✗ b: no"]
