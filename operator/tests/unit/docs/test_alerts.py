"""Each alert is complete, uses series that exist, and has a runbook that can be followed."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
import yaml

from testkit.operations.alert_rules import ALERTS, Rule, rules
from testkit.operations.exported_series import unknown
from testkit.operations.runbooks import HEADINGS, blocks, languages, sections
from testkit.paths import CHECKOUT

RULES = rules(ALERTS.read_text())
ALERT_RULES = [rule for rule in RULES if rule.is_alert]
NAMES = sorted({rule.name for rule in ALERT_RULES})
RUNBOOKS = CHECKOUT / "docs" / "runbooks"
CASES = CHECKOUT / "operator/tests/integration/alerts/rules"
VARIABLES = {"NAMESPACE", "NAME", "OPERATOR_NAMESPACE"}
# kubectl's own commands that a runbook may use, and those that change something.
LOOKS = {"get", "describe", "logs", "events", "top", "exec"}
CHANGES = {"patch", "delete", "rollout"}


@pytest.mark.proves(35)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.name}-{rule.severity}")
def test_a_rule_names_only_series_and_labels_that_exist(rule: Rule) -> None:
    """A misspelt one would make the alert silent for ever."""
    assert unknown(rule.expression) == []


@pytest.mark.proves(35)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.name}-{rule.severity}")
def test_a_rule_takes_what_the_operator_says_from_its_own_job_alone(rule: Rule) -> None:
    """The page of a driver, which its tenant serves, may say it too."""
    series = r"(?<![\w:])(?:penstock_stream|penstock_operator|process)_\w+\b(?!:)"
    job = r'\{job=~"penstock-operator\.\*"'
    assert re.findall(f"{series}(?!{job})", rule.expression) == []
    assert not re.search(rf"\b(by|on|in)\b[^(]*{job}", rule.expression)


@pytest.mark.parametrize("rule", ALERT_RULES, ids=lambda rule: f"{rule.name}-{rule.severity}")
def test_an_alert_says_how_urgent_it_is_what_it_means_and_where_to_read_on(rule: Rule) -> None:
    assert rule.severity in ("warning", "critical")
    assert set(rule.annotations) == {"summary", "description", "runbook_url"}
    values = yaml.safe_load((CHECKOUT / "charts/penstock/values.yaml").read_text())
    base = values["prometheusRule"]["runbookUrl"]
    assert rule.annotations["runbook_url"] == f"{base}/{rule.name}.md"


@pytest.mark.parametrize("alert", NAMES)
def test_an_alert_has_cases_in_which_it_fires_and_others_in_which_it_does_not(alert: str) -> None:
    """promtool runs them (`integration/alerts`); one that never fires would pass there too."""
    tests = yaml.safe_load((CASES / f"{alert}.yaml").read_text())["tests"]
    checks = [check for case in tests for check in case["promql_expr_test"]]
    assert all(f'alertname="{alert}"' in check["expr"] for check in checks)
    severities = {rule.severity for rule in ALERT_RULES if rule.name == alert}
    fired = " ".join(sample["labels"] for check in checks for sample in check["exp_samples"])
    assert set(re.findall(r'severity="(\w+)"', fired)) == severities
    assert any(not check["exp_samples"] for check in checks)


def test_each_alert_has_its_runbook_in_the_index_and_no_other_is_left() -> None:
    assert sorted(path.stem for path in RUNBOOKS.glob("Penstock*.md")) == NAMES
    assert sorted(path.stem for path in CASES.glob("*.yaml")) == NAMES
    index = (RUNBOOKS / "index.md").read_text()
    assert sorted(re.findall(r"\]\((\w+)\.md\)", index)) == NAMES


@pytest.mark.parametrize("alert", NAMES)
def test_a_runbook_has_its_four_parts(alert: str) -> None:
    text = (RUNBOOKS / f"{alert}.md").read_text()
    assert text.startswith(f"# {alert}\n")
    parts = sections(text)
    assert tuple(parts) == HEADINGS
    assert all(parts.values())
    assert blocks(parts["Diagnosis"], "sh") or blocks(parts["Diagnosis"], "promql")


@pytest.mark.parametrize("alert", NAMES)
def test_the_commands_of_a_runbook_can_be_run_as_they_are_written(alert: str) -> None:
    """By a shell that knows the alert's labels: kubectl, and nothing that changes in Diagnosis."""
    text = (RUNBOOKS / f"{alert}.md").read_text()
    assert languages(text) <= {"sh", "promql"}
    for part, body in sections(text).items():
        allowed = LOOKS if part == "Diagnosis" else LOOKS | CHANGES
        for block in blocks(body, "sh"):
            subprocess.run(["bash", "-n"], input=block, text=True, check=True)
            assert set(re.findall(r"\$(\w+)", block)) <= VARIABLES
            for line in block.splitlines():
                program, *arguments = shlex.split(line)
                assert program == "kubectl", line
                assert _verb(arguments) in allowed, line


@pytest.mark.parametrize("alert", NAMES)
def test_the_queries_of_a_runbook_name_only_series_and_labels_that_exist(alert: str) -> None:
    text = (RUNBOOKS / f"{alert}.md").read_text()
    for query in blocks(text, "promql"):
        assert unknown(query) == []
        assert set(re.findall(r"\$(\w+)", query)) <= VARIABLES


def _verb(arguments: list[str]) -> str:
    """The command of kubectl, after options for the namespace."""
    while arguments[0].startswith("-"):
        arguments = arguments[2:]
    return arguments[0]


def test_every_series_of_a_case_could_be_exported() -> None:
    """A case with series that nobody exports would prove an alert that can never fire."""
    for path in sorted(CASES.glob("*.yaml")):
        for case in yaml.safe_load(path.read_text())["tests"]:
            for series in case["input_series"]:
                extra = series["series"].replace('node="n"', "")
                assert unknown(extra) == [], path.name
