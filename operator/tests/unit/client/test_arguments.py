"""The command line of `penstock status`, `logs`, `doctor`, `top` and `operator`."""

from __future__ import annotations

import pytest

from penstock import cli
from penstock.client.arguments import COMMANDS, Help


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.name)
def test_the_help_has_examples_and_exit_codes(
    command: Help, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main([command.name, "--help"])
    text = capsys.readouterr().out
    assert f"\n  penstock {command.name}" in text
    assert "exit codes:\n  0  " in text
    assert "  2  wrong usage" in text


def test_kubectl_penstock_is_the_same_command(capsys: pytest.CaptureFixture[str]) -> None:
    """kubectl runs the program kubectl-penstock."""
    with pytest.raises(SystemExit):
        cli.kubectl(["doctor", "--help"])
    assert capsys.readouterr().out.startswith("usage: kubectl penstock doctor ")


@pytest.mark.parametrize(
    "words",
    [
        ("top", "--iterations", "0"),
        ("top", "--interval", "0"),
        ("logs", "flags", "--since", "1d"),
        ("logs", "flags", "--since", "soon"),
        ("logs",),
        ("status", "-o", "yaml"),
        ("operator",),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as refused:
        cli.main(words)
    assert refused.value.code == 2


def test_a_kubeconfig_that_cannot_be_used_is_exit_code_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a stack trace."""
    assert cli.main(["status", "--kubeconfig", "/nonexistent"]) == 2
    assert capsys.readouterr().err.startswith("cannot look: ")
