"""Writes the generated files; with --check, only lists those that are out of date."""

import sys
from pathlib import Path

from benchmarks.latency import page
from benchmarks.latency.result import Result
from penstock import __version__
from scripts.codegen import (
    argocd,
    chart,
    crd,
    dashboards,
    metrics,
    reasons,
    reference,
    testing,
)
from testkit.operations import alert_rules

ROOT = Path(__file__).resolve().parent.parent
ARGO_CD = ROOT / "examples" / "gitops" / "argocd"
CHART = ROOT / "charts" / "penstock"
METRICS = ROOT / "docs" / "metrics.md"
TESTING = ROOT / "docs" / "testing.md"
LATENCY = ROOT / "docs" / "benchmarks" / "latency.md"
DASHBOARDS = ROOT / "charts" / "penstock" / "files" / "dashboards"


def generated() -> dict[Path, str]:
    text = crd.to_yaml()
    values = chart.with_version((CHART / "values.yaml").read_text(), __version__)
    values = chart.with_settings(values)
    schema = CHART / "values.schema.json"
    return {
        ROOT / "crds" / "penstock.dev_continuousstreams.yaml": text,
        # kustomize reads no file outside its folders.
        ROOT / "config" / "crd" / "penstock.dev_continuousstreams.yaml": text,
        # Printed by `penstock crd`.
        ROOT / "operator" / "penstock" / "api" / "v1alpha1" / "crd.yaml": text,
        # A chart can only read files inside it.
        CHART / "files" / "continuousstreams.yaml": text,
        CHART / "templates" / "_settings.tpl": chart.settings_template(),
        # The operator's settings; the rest is written by hand.
        schema: chart.with_schema(schema.read_text()),
        # The version; the rest is written by hand.
        CHART / "Chart.yaml": chart.with_version((CHART / "Chart.yaml").read_text(), __version__),
        CHART / "values.yaml": values,
        # The table; the rest is written by hand.
        CHART / "README.md": chart.with_values((CHART / "README.md").read_text(), values),
        ARGO_CD / "argocd-cm.yaml": argocd.config_map_patch(ARGO_CD),
        ROOT / "docs" / "reference.md": reference.reference(),
        ROOT / "docs" / "modes.md": reference.modes(),
        # The lists; what is between them is written by hand.
        METRICS: metrics.with_lists(
            METRICS.read_text(), alert_rules.rules(alert_rules.ALERTS.read_text())
        ),
        # The lists, from the marks of the tests.
        TESTING: testing.with_lists(TESTING.read_text(), ROOT),
        # The tables, from the figures of the last `make bench-latency`.
        LATENCY: page.with_figures(
            LATENCY.read_text(),
            Result.model_validate_json(LATENCY.with_suffix(".json").read_text()),
        ),
        ROOT / "docs" / "reasons.md": reasons.reasons(),
    } | {
        DASHBOARDS / f"{dashboard.name}.json": dashboard.to_json()
        for dashboard in dashboards.DASHBOARDS
    }


def main() -> int:
    """Returns the exit code: 1 if --check found a file that is out of date."""
    stale = {
        path: text
        for path, text in generated().items()
        if not path.exists() or path.read_text() != text
    }
    if "--check" in sys.argv[1:]:
        for path in stale:
            sys.stderr.write(f"{path.relative_to(ROOT)} is out of date: run `make generate`\n")
        return 1 if stale else 0
    for path, text in stale.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
