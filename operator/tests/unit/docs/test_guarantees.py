"""The documentation agrees with the tests, the metrics and the rights that it names."""

import re

import yaml

from penstock.client.reading import rights
from penstock.controller import metrics as controller_metrics
from penstock.driver.reporting import metrics as driver_metrics
from testkit.paths import CHECKOUT

DOCS = CHECKOUT / "docs"
_NAMED = re.compile(r"`(test_\w+)(\.py)?`")


def _tests() -> set[str]:
    files = [*CHECKOUT.glob("operator/tests/**/test_*.py"), *CHECKOUT.glob("e2e/**/test_*.py")]
    functions = re.findall(
        r"^(?:async )?def (test_\w+)", "\n".join(path.read_text() for path in files), re.MULTILINE
    )
    return {*functions, *(path.stem for path in files)}


def test_every_test_that_the_documentation_names_exists() -> None:
    """In the lists of docs/testing.md they do: those are generated. In its text they may not."""
    texts = [path.read_text() for path in DOCS.glob("**/*.md")]
    named = {name for text in texts for name, _ in _NAMED.findall(text)}
    assert named - _tests() == set()


def test_every_metric_is_documented_and_every_documented_one_exists() -> None:
    """Those of the driver and those of the operator, but for `process_*` of the client library."""
    exported = {
        metric.name + ("_total" if metric.type == "counter" else "")
        for made in (driver_metrics.Metrics(), controller_metrics.OperatorMetrics())
        for metric in made.registry.collect()
        if not metric.name.startswith("process_")
    }
    document = (DOCS / "metrics.md").read_text()
    assert set(re.findall(r"^- `(penstock_\w+)`:", document, re.MULTILINE)) == exported
    assert set(re.findall(r"`(penstock_\w*[a-z])`", document)) == exported


def test_the_shipped_role_lets_the_operators_image_answer_on_call() -> None:
    """The files of examples/on-call have what the commands read in the streams' namespaces."""
    files = sorted((CHECKOUT / "examples/on-call").glob("*.yaml"))
    objects = [each for file in files for each in yaml.safe_load_all(file.read_text())]
    granted = {
        (verb, group, resource)
        for role in objects
        if role["kind"] == "ClusterRole"
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    needed = {
        (right.verb, right.group, "/".join(filter(None, (right.resource, right.subresource))))
        for right in rights.OF_PEOPLE
    }
    assert needed - granted == set()
    assert {it for it in granted if it[0] not in ("get", "list", "create")} == {
        ("update", "penstock.dev", "continuousstreams")
    }
    (bound,) = [each for each in objects if each["kind"] == "ClusterRoleBinding"]
    assert bound["roleRef"]["name"] == "penstock-on-call"
