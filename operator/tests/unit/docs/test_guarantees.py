"""The documentation agrees with the tests and the metrics that it names."""

import re

from penstock.controller import metrics as controller_metrics
from penstock.driver.reporting import metrics as driver_metrics
from testkit.paths import CHECKOUT

ROOT = CHECKOUT
_NAMED = re.compile(r"`(test_\w+)(\.py)?`")


def _tests() -> set[str]:
    files = [*ROOT.glob("operator/tests/**/test_*.py"), *ROOT.glob("e2e/**/test_*.py")]
    functions = re.findall(
        r"^(?:async )?def (test_\w+)", "\n".join(path.read_text() for path in files), re.MULTILINE
    )
    return {*functions, *(path.stem for path in files)}


def test_every_test_that_the_documentation_names_exists() -> None:
    """A guarantee whose test was removed would be a mere claim."""
    documents = {path: path.read_text() for path in ROOT.glob("docs/**/*.md")}
    named = {name for text in documents.values() for name, _ in _NAMED.findall(text)}
    assert named - _tests() == set()


def test_every_guarantee_names_a_test() -> None:
    rows = re.findall(r"^\| \d+ \|.*$", (ROOT / "docs/guarantees.md").read_text(), re.MULTILINE)
    assert rows
    assert [row for row in rows if not _NAMED.search(row)] == []


def test_every_metric_is_documented_and_every_documented_one_exists() -> None:
    """Those of the driver and those of the operator."""
    exported = {
        metric.name + ("_total" if metric.type == "counter" else "")
        for made in (driver_metrics.Metrics(), controller_metrics.Metrics())
        for metric in made.registry.collect()
    }
    document = (ROOT / "docs/metrics.md").read_text()
    assert set(re.findall(r"^\| `(penstock_\w+)` \|", document, re.MULTILINE)) == exported
    assert set(re.findall(r"`(penstock_\w*[a-z])`", document)) == exported
