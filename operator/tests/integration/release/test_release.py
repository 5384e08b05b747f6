"""What a release publishes, as far as it needs neither a registry nor a cluster."""

import zipfile
from pathlib import Path

import yaml

from penstock import __version__
from scripts import release
from testkit.commands import run
from testkit.paths import CHECKOUT
from testkit.tools import tool


def test_the_workflows_are_valid() -> None:
    """actionlint knows the syntax, the expressions and the inputs of well-known actions."""
    run([tool("actionlint"), "-no-color"], cwd=CHECKOUT)


def test_the_wheel_contains_the_files_that_are_no_modules(tmp_path: Path) -> None:
    """setuptools leaves them out unless they are listed."""
    with zipfile.ZipFile(release.build_wheel(tmp_path)) as wheel:
        found = set(wheel.namelist())
    package = CHECKOUT / "operator" / "penstock"
    files = {
        f"penstock/{path.relative_to(package)}"
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".md")
    }
    assert {path for path in files if not path.endswith(".py")}
    assert files <= found


def test_the_chart_names_the_images_of_its_registry(tmp_path: Path) -> None:
    """Installed without a value, it runs what the release pushed."""
    registry = "registry.example/penstock"
    chart = release.chart_for(registry, tmp_path)
    rendered = run([tool("helm"), "template", "penstock", chart, "--skip-tests"])
    objects = [document for document in yaml.safe_load_all(rendered) if document]
    (deployment,) = (document for document in objects if document["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    refs = release.image_refs(registry)
    assert container["image"] == refs["operator"]
    assert f"--default-image={refs['spark']}" in container["args"]
    assert refs["operator"].endswith(f":{__version__}")
