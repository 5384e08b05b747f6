"""The command line of `penstock status`, `logs`, `doctor`, `top` and `operator`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock import cli
from penstock.client.arguments import COMMANDS, Help
from penstock.contract.driver_report import NUMBERS_INTERVAL_SECONDS

CHART = Path(__file__).parents[4] / "charts/penstock"


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
        ("operator", "--default-image", "an:image", "--numbers-interval", "29"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as refused:
        cli.main(words)
    assert refused.value.code == 2


@pytest.mark.parametrize("wrong", ["0", "-1", "many", "nan"])
@pytest.mark.parametrize(
    ("flag", "right"),
    [
        ("--spark-image-max-unavailable", "1"),
        ("--max-concurrent-reconciles", "1"),
        ("--max-concurrent-reconciles-per-namespace", "1"),
        ("--stream-qps", "0.1"),
        ("--stream-burst", "1"),
    ],
)
def test_an_operator_that_could_do_nothing_does_not_start(
    flag: str, right: str, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the option, and what it takes."""
    words = ["operator", "--default-image=an:image"]
    assert cli._parser("penstock").parse_args([*words, f"{flag}={right}"])
    with pytest.raises(SystemExit) as refused:
        cli.main([*words, f"{flag}={wrong}"])
    assert refused.value.code == 2
    said = capsys.readouterr().err
    assert f"argument {flag}: must be a " in said
    assert said.rstrip().endswith(f", not {wrong}")


@pytest.mark.parametrize(
    ("selector", "valid"),
    [
        ("streams=yes", True),
        ("streams==yes,team!=ops", True),
        ("example.com/team in (data, ml), !legacy,old", True),
        ("team notin (data)", True),
        ("a b", False),
        ("team in data", False),
        ("streams=", True),
        ("team in (,data)", True),
        ("team in ()", False),
        ("a/b/c=d", False),
        ("a=b/c", False),
        (f"a={'b' * 63}", True),
        (f"a={'b' * 64}", False),
        ("=yes", False),
        ("a=b,", False),
    ],
)
def test_a_selector_of_namespaces_is_one_that_kubernetes_takes(
    selector: str, valid: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["operator", "--default-image=an:image", f"--namespace-selector={selector}"]
    if valid:
        assert cli._parser("penstock").parse_args(words).namespace_selector == selector
        return
    with pytest.raises(SystemExit):
        cli.main(words)
    assert "must be a label selector such as 'streams=yes' or" in capsys.readouterr().err


def test_no_status_has_newer_numbers_than_the_drivers_report() -> None:
    """The chart refuses what would change nothing."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    least = schema["properties"]["numbersIntervalSeconds"]["minimum"]
    assert least == NUMBERS_INTERVAL_SECONDS
    words = ["operator", "--default-image", "an:image", "--numbers-interval", str(least)]
    options = cli._parser("penstock").parse_args(words)
    assert options.numbers_interval.total_seconds() == least


def test_a_kubeconfig_that_cannot_be_used_is_exit_code_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a stack trace."""
    assert cli.main(["status", "--kubeconfig", "/nonexistent"]) == 2
    assert capsys.readouterr().err.startswith("cannot look: ")
