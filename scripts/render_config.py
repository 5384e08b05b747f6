"""Renders the chart into config/default/operator.yaml, for people who install without Helm.

`python -m scripts.render_config`. It needs helm, so `scripts.generate` leaves it alone, and
`test_the_kustomize_base_is_the_chart` compares.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from testkit.commands import run
from testkit.paths import CHECKOUT
from testkit.tools import tool

CHART = CHECKOUT / "charts" / "penstock"
RENDERED = CHECKOUT / "config" / "default" / "operator.yaml"
NAMESPACE = "penstock"
_HEAD = "# Rendered from charts/penstock: python -m scripts.render_config\n"
_MANAGED_BY_HELM = ("app.kubernetes.io/managed-by", "Helm")


def render(helm: Path) -> str:
    """The chart's objects with its default values, without the resource type and the tests."""
    options = (f"--namespace={NAMESPACE}", "--set=crds.install=false", "--skip-tests")
    rendered = run([helm, "template", "penstock", CHART, *options])
    objects = [_without_helm(each) for each in yaml.safe_load_all(rendered) if each]
    return _HEAD + yaml.safe_dump_all(objects, sort_keys=False)


def _without_helm(value: Any) -> Any:
    """Without the labels that say that Helm manages the object."""
    if isinstance(value, list):
        return [_without_helm(each) for each in value]
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if name != "helm.sh/chart"}
        return {
            name: _without_helm(each)
            for name, each in kept.items()
            if (name, each) != _MANAGED_BY_HELM
        }
    return value


def main() -> int:
    """Writes the file."""
    RENDERED.write_text(render(tool("helm")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
