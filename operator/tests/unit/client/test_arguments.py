"""The command line of `penstock status`, `logs`, `doctor`, `top` and `operator`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock import __version__, cli


@pytest.mark.parametrize("command", sorted(cli._COMMANDS.keys() - {"crd", "operator"}))
def test_the_help_has_examples_and_exit_codes(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"\n  penstock {command}" in text
    assert "exit codes:\n  0  " in text
    assert "  2  wrong usage" in text


def test_the_help_lists_the_commands_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command it is wrong usage."""
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    places = [text.index(f"{name}  ") for name in cli._COMMANDS]
    assert places == sorted(places)
    assert cli.main([]) == 2
    assert capsys.readouterr().out == text


def test_python_runs_the_package() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "--version"], capture_output=True, text=True
    )
    assert done.stdout == f"penstock {__version__}\n"


def test_a_command_whose_extra_is_missing_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['kubernetes'] = None; from penstock.cli import main; "
        "raise SystemExit(main(['status']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("penstock status requires kubernetes: install penstock-streams[")


def test_kubectl_penstock_is_the_same_command(capsys: pytest.CaptureFixture[str]) -> None:
    """kubectl runs the program kubectl-penstock."""
    assert cli.kubectl(["doctor", "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: kubectl penstock doctor ")


@pytest.mark.parametrize(
    "words",
    [
        ("top", "--iterations", "0"),
        ("top", "--interval", "0"),
        ("logs", "flags", "--since", "1d"),
        ("logs", "flags", "--since", "soon"),
        ("logs",),
        ("status", "-o", "yaml"),
        ("status", "--nope"),
        ("validate", "--nope"),
        ("plan", "stream.yaml", "--nope"),
        ("nope",),
        ("operator",),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    assert ": error: " in capsys.readouterr().err


def test_a_kubeconfig_that_cannot_be_used_is_exit_code_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a stack trace."""
    assert cli.main(["status", "--kubeconfig", "/nonexistent"]) == 2
    assert capsys.readouterr().err.startswith("cannot look: ")
