"""What a pod template may ask for follows from the standard that the administrator allows.

integration/api/test_pod_security.py compares every rule with a real API server.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import main
from penstock.contract.operator_settings import PodSecurity
from penstock.controller.main import _RECURSION_LIMIT
from penstock.controller.observation import parse_stream
from penstock.controller.operator_settings import Settings
from penstock.validation.rules.pod_security import (
    find_violations,
    find_violations_in_conf,
)
from penstock.validation.spec_check import judge
from testkit.controller import samples
from testkit.streams.streams import spec

ROOT = {"spec": {"containers": [{"name": "driver", "securityContext": {"runAsUser": 0}}]}}
NODE = {"spec": {"hostNetwork": True}}


@pytest.mark.parametrize(
    ("template", "allowed"),
    [
        (ROOT, {PodSecurity.BASELINE, PodSecurity.PRIVILEGED}),
        (NODE, {PodSecurity.PRIVILEGED}),
        ({}, set(PodSecurity)),
    ],
)
def test_a_template_is_accepted_from_its_standard_on(
    template: dict[str, Any], allowed: set[PodSecurity]
) -> None:
    accepted = {each for each in PodSecurity if not find_violations(template, "driver", each)}
    assert accepted == allowed


def test_the_message_names_field_standard_and_remedy() -> None:
    """One problem for each field, in the driver's template and in the executors'."""
    executor = {"spec": {"containers": [{"name": "mine", "image": "mine"}]}}
    found = judge(spec(driver={"podTemplate": ROOT}, executor={"podTemplate": executor}))
    said = [str(each) for each in found if each.reason == "PodSecurityViolation"]
    assert said == [
        "spec.driver.podTemplate: spec.containers[driver].securityContext.runAsUser: must not be "
        "0, which is root: the restricted Pod Security Standard forbids it (the chart's value "
        "podSecurity allows more)",
        *(
            f"spec.executor.podTemplate: spec.containers[mine].securityContext.{rest}: the "
            "restricted Pod Security Standard forbids it (the chart's value podSecurity allows "
            "more)"
            for rest in (
                "allowPrivilegeEscalation: must be false",
                "capabilities.drop: must hold ALL",
            )
        ),
    ]


@pytest.mark.parametrize(
    ("conf", "value", "allowed"),
    [
        ("spark.kubernetes.executor.volumes.hostPath.a.mount.path", "/", "privileged"),
        ("spark.kubernetes.executor.volumes.nfs.a.mount.path", "/", "baseline"),
        ("spark.kubernetes.executor.volumes.emptyDir.a.mount.path", "/a", "restricted"),
        (
            "spark.kubernetes.executor.volumes.persistentVolumeClaim.a.mount.path",
            "/a",
            "restricted",
        ),
        (
            "spark.kubernetes.executor.annotation."
            "container.apparmor.security.beta.kubernetes.io/executor",
            "unconfined",
            "privileged",
        ),
    ],
)
def test_spark_conf_asks_for_no_more_than_a_template(conf: str, value: str, allowed: str) -> None:
    accepted = [each for each in PodSecurity if not find_violations_in_conf({conf: value}, each)]
    assert accepted[0] == allowed


@pytest.mark.parametrize("allowed", PodSecurity)
def test_validate_judges_by_the_same_standard(allowed: PodSecurity, tmp_path: Path) -> None:
    file = tmp_path / "stream.yaml"
    file.write_text(json.dumps(samples.stream(driver={"podTemplate": NODE})))
    code = main(["validate", f"--pod-security={allowed}", str(file)])
    assert code == (0 if allowed is PodSecurity.PRIVILEGED else 1)


@pytest.mark.parametrize("allowed", PodSecurity)
def test_the_operator_follows_the_administrators_setting(allowed: PodSecurity) -> None:
    raw = samples.stored(driver={"podTemplate": ROOT})
    observed = parse_stream(raw, Settings(samples.IMAGE, pod_security=allowed))
    assert (observed.desired is None) == (allowed is PodSecurity.RESTRICTED)


def test_a_stream_in_the_operators_own_namespace_is_refused() -> None:
    """Its code could start a pod with the operator's account."""
    observed = parse_stream(samples.stored(), Settings(samples.IMAGE, namespace="default"))
    assert observed.desired is None
    assert [each.reason for each in observed.problems] == ["OperatorNamespace"]


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"a": [inner]}
    return inner


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ({"metadata": "x"}, "podTemplate cannot set metadata to something that is not an object"),
        ({"metadata": {"labels": ["x"]}}, "podTemplate cannot set metadata.labels to something"),
        ({"metadata": {"annotations": 7}}, "podTemplate cannot set metadata.annotations to some"),
        (
            {"metadata": {"annotations": {"penstock.dev/checkpoint": "s3a://x/y"}}},
            "podTemplate cannot set metadata.annotations.penstock.dev/checkpoint: Penstock sets",
        ),
        (
            {"metadata": {"labels": {"penstock.dev/class": "blue"}}},
            "podTemplate cannot set metadata.labels.penstock.dev/class: Penstock sets such keys",
        ),
        ({"spec": ["x"]}, "podTemplate cannot set spec to something that is not an object"),
        ({"spec": nested(5_000)}, "than 32 levels"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_template_of_another_shape_is_a_problem_of_its_stream(
    template: dict[str, Any], says: str
) -> None:
    """And no exception, which would leave no status."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(_RECURSION_LIMIT)
    raw = samples.stored(executor={"podTemplate": template})
    try:
        observed = parse_stream(raw, samples.SETTINGS)
    finally:
        sys.setrecursionlimit(before)
    assert observed.desired is None
    assert says in str(observed.problems[0])
