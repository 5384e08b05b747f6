"""What a release publishes, as far as it needs neither a registry nor a cluster."""

import re
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from penstock import DISTRIBUTION, __version__
from penstock.contract import naming
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


def _images(chart: Path) -> tuple[str, str]:
    """The operator's image and that of streams, as the chart renders them without a value."""
    rendered = run([tool("helm"), "template", "penstock", chart, "--skip-tests"])
    objects = [document for document in yaml.safe_load_all(rendered) if document]
    (deployment,) = (document for document in objects if document["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    settings = yaml.safe_load(template["metadata"]["annotations"][naming.ANNOTATION_SETTINGS])
    return container["image"], settings["sparkImage"]


def test_the_chart_names_the_images_of_its_registry(tmp_path: Path) -> None:
    """Installed without a value, it runs what `make push` pushed."""
    registry = "registry.example/penstock"
    image, of_streams = _images(release.chart_for(registry, tmp_path))
    refs = release.image_refs(registry)
    assert image == refs["operator"]
    assert of_streams == refs["spark"]
    assert refs["operator"].endswith(f":{__version__}")


def test_a_released_chart_names_its_images_by_digest(tmp_path: Path) -> None:
    """Whoever can move a tag in the registry changes no installation."""
    registry = "registry.example/penstock"
    digests = {"operator": "sha256:" + "a" * 64, "spark": "sha256:" + "b" * 64}
    image, of_streams = _images(release.chart_for(registry, tmp_path, digests))
    assert image == f"{registry}/operator@{digests['operator']}"
    spark = f"{release.image_refs(registry)['spark']}@{digests['spark']}"
    assert of_streams == spark


def test_the_workflows_run_no_action_that_somebody_can_move() -> None:
    """A tag or a branch can be moved; these jobs may publish and sign."""
    for workflow in sorted((CHECKOUT / ".github" / "workflows").glob("*.yaml")):
        jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
        used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
        assert used
        movable = [action for action in used if not re.fullmatch(r"[\w/.-]+@[0-9a-f]{40}", action)]
        assert not movable, (workflow.name, movable)


def test_no_message_names_the_package_of_somebody_else() -> None:
    """`penstock` on PyPI is another project: who installs it runs a stranger's code."""
    with (CHECKOUT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["name"] == DISTRIBUTION
    told = [
        path.relative_to(CHECKOUT)
        for folder in ("operator/penstock", "docs", "examples", "demo")
        for path in (CHECKOUT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".yaml", ".toml")
        and re.search(r"\bpenstock\[|pip install '?penstock\b(?!-)", path.read_text())
    ]
    assert not told


@pytest.mark.parametrize(("image", "extra"), [("operator", "operator"), ("spark", "driver")])
def test_an_image_installs_what_is_tested(image: str, extra: str) -> None:
    """Its hashed packages are those of constraints.txt; after a change there, `make lock`."""
    pinned = _versions(CHECKOUT / "constraints.txt")
    locked = _versions(CHECKOUT / "images" / image / "requirements.txt")
    assert {name: pinned.get(name) for name in locked} == locked
    with (CHECKOUT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    for line in (*project["dependencies"], *project["optional-dependencies"][extra]):
        wanted = Requirement(line)
        assert locked[canonicalize_name(wanted.name)] in wanted.specifier


def _versions(file: Path) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", file.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}
