"""The file of the operator's settings: what is refused, and what its parts become."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock import cli
from penstock.contract import naming
from penstock.contract.operator_settings import LabelSelector, OperatorSettings
from penstock.controller.operator_settings import Settings, WrongSettings, read_settings
from testkit.paths import CHECKOUT


def read(path: Path, **settings: Any) -> Settings:
    file = path / "settings.yaml"
    file.write_text(yaml.safe_dump({"sparkImage": "an:image", **settings}))
    return read_settings(file, "penstock")


def test_all_but_the_image_has_a_default(tmp_path: Path) -> None:
    assert read(tmp_path) == Settings("an:image", namespace="penstock")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sparkImage": ""}, "sparkImage: should have at least 1 character"),
        ({"namespace": "mine"}, "namespace: there is no such field"),
        ({"clasName": "blue"}, "clasName: there is no such field: did you mean className?"),
        (
            {"workQueue": {"streamQps": 1}},
            "workQueue.streamQps: there is no such field: did you mean streamQPS?",
        ),
        ({"className": "Blue"}, "className: should match"),
        (
            {"numbersIntervalSeconds": 29},
            "numbersIntervalSeconds: should be greater than or equal to 30 (not 29)",
        ),
        (
            {"podSecurity": "none"},
            "podSecurity: should be 'restricted', 'baseline' or",
        ),
        ({"leaderElection": {"renewDeadlineSeconds": 15}}, "leaderElection: leaseDurationSeconds"),
        (
            {"watchNamespaces": ["a"], "watchNamespaceSelector": {"matchLabels": {"b": "c"}}},
            "watchNamespaces and watchNamespaceSelector exclude each other: remove one",
        ),
        (
            {"networkPolicies": {"metricsFrom": [{"podSelektor": {}}]}},
            "networkPolicies.metricsFrom[0].podSelektor: there is no such field: did you mean",
        ),
        ({"streamDefaults": {"image": "b"}}, "streamDefaults: image: there are defaults for"),
        (
            {"streamDefaults": {"driver": {"cores": "two"}}},
            "streamDefaults: driver.cores: there is",
        ),
    ],
    ids=str,
)
def test_what_the_operator_does_not_know_is_refused(
    settings: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the file, the field and what it takes; nothing starts."""
    with pytest.raises(WrongSettings) as refused:
        read(tmp_path, **settings)
    assert f"settings.yaml: {said}" in str(refused.value)
    assert cli.main(["operator", f"--settings={tmp_path}/settings.yaml"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[", "a"])
def test_a_file_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text(text)
    for file in (tmp_path / "settings.yaml", tmp_path / "none.yaml"):
        with pytest.raises(WrongSettings, match=str(file)):
            read_settings(file, "")


@pytest.mark.parametrize("wrong", [0, -1, "many", float("nan")])
@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("", "sparkImageMaxUnavailable"),
        ("workQueue", "maxConcurrentReconciles"),
        ("workQueue", "maxConcurrentReconcilesPerNamespace"),
        ("workQueue", "streamQPS"),
        ("workQueue", "streamBurst"),
    ],
)
def test_an_operator_that_could_do_nothing_does_not_start(
    group: str, name: str, wrong: object, tmp_path: Path
) -> None:
    path = f"{group}.{name}" if group else name
    with pytest.raises(WrongSettings, match=rf"yaml: {path}: should be "):
        read(tmp_path, **({group: {name: wrong}} if group else {name: wrong}))


@pytest.mark.parametrize(
    ("labels", "requirements", "selector"),
    [
        ({}, [], ""),
        ({"example.com/team": "", "streams": "yes"}, [], "example.com/team=,streams=yes"),
        (
            {},
            [("team", "In", ["data", "ml"]), ("a", "NotIn", ["b"])],
            "team in (data,ml),a notin (b)",
        ),
        ({"a": "b"}, [("c", "Exists", []), ("d", "DoesNotExist", [])], "a=b,c,!d"),
        ({f"{'a' * 63}": "b" * 63}, [], f"{'a' * 63}={'b' * 63}"),
        ({"a": "b" * 64}, [], None),
        ({"a": "b/c"}, [], None),
        ({"a/b/c": "d"}, [], None),
        ({"": "yes"}, [], None),
        ({"a b": "c"}, [], None),
        ({}, [("team", "in", ["data"])], None),
        ({}, [("team", "In", [])], None),
    ],
)
def test_a_selector_of_namespaces_is_one_that_kubernetes_takes(
    labels: dict[str, str],
    requirements: list[tuple[str, str, list[str]]],
    selector: str | None,
    tmp_path: Path,
) -> None:
    """Another one the API server would refuse again and again, while nothing is looked after."""
    expressions = [
        {"key": key, "operator": operator, "values": values}
        for key, operator, values in requirements
    ]
    given = {"matchLabels": labels, "matchExpressions": expressions}
    if selector is None:
        with pytest.raises(WrongSettings, match="watchNamespaceSelector"):
            read(tmp_path, watchNamespaceSelector=given)
        return
    found = read(tmp_path, watchNamespaceSelector=given).watch_namespace_selector
    assert isinstance(found, LabelSelector)
    assert str(found) == selector


def test_the_chart_gives_each_setting_and_its_default(tmp_path: Path) -> None:
    """As `kustomize` installs it; a test with helm compares the two."""
    text = (CHECKOUT / "config" / "default" / "operator.yaml").read_text()
    (deployment,) = [it for it in yaml.safe_load_all(text) if it["kind"] == "Deployment"]
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    written = yaml.safe_load(annotations[naming.ANNOTATION_SETTINGS])
    assert len(written) == len(fields(OperatorSettings))
    assert read(tmp_path, **written) == Settings(written["sparkImage"], namespace="penstock")
