"""Renders the chart into config/default/operator.yaml, for people who install without Helm.

`python -m scripts.kustomize_base`. It needs helm, so `scripts.generate` leaves it alone, and
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
_HEAD = "# Rendered from charts/penstock: python -m scripts.kustomize_base\n"
_MANAGED_BY_HELM = ("app.kubernetes.io/managed-by", "Helm")


def render(helm: Path) -> str:
    """The chart's objects with its default values, without the resource type and the tests."""
    options = (f"--namespace={NAMESPACE}", "--set=crds.install=false", "--skip-tests")
    rendered = run([helm, "template", "penstock", CHART, *options])
    objects = [_without_helm(document) for document in yaml.safe_load_all(rendered) if document]
    return _HEAD + yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False)


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines, such as the operator's settings, as lines."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def _without_helm(value: Any) -> Any:
    """Without the labels that say that Helm manages the object."""
    if isinstance(value, list):
        return [_without_helm(item) for item in value]
    if isinstance(value, dict):
        return {
            key: _without_helm(item)
            for key, item in value.items()
            if key != "helm.sh/chart" and (key, item) != _MANAGED_BY_HELM
        }
    return value


def main() -> int:
    RENDERED.write_text(render(tool("helm")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
