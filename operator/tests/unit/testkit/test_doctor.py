"""`python -m testkit doctor` says what to do."""

import pytest

from testkit import system_packages
from testkit.doctor import Finding, go_finding, missing_finding, report


@pytest.mark.parametrize("version", ["go1.24", "go1.26.8\n", "go2.0"])
def test_a_recent_go_is_good(version: str) -> None:
    assert go_finding(version).good


@pytest.mark.parametrize("version", ["go1.19.8", "devel", ""])
def test_an_old_or_unknown_go_is_refused_with_what_to_install(version: str) -> None:
    finding = go_finding(version)
    assert not finding.good
    assert "Install Go 1.24" in finding.message


def test_missing_packages_are_good_where_they_can_be_installed() -> None:
    finding = missing_finding("engine", [system_packages.NEEDS["podman"]], installs=True)
    assert finding.good
    assert "apt-get" in finding.message


def test_missing_packages_are_named_where_they_cannot_be_installed() -> None:
    finding = missing_finding("engine", [system_packages.NEEDS["podman"]], installs=False)
    assert not finding.good
    assert "apt-get install podman" in finding.message


def test_what_apt_does_not_have_is_never_promised() -> None:
    assert not missing_finding("Go", [system_packages.NEEDS["go"]], installs=True).good


def test_the_report_marks_each_finding() -> None:
    lines = report([Finding("a", True, "yes"), Finding("b", False, "no")]).splitlines()
    assert lines == ["✓ a: yes", "✗ b: no"]
