"""Every package has its layers in import-linter's configuration."""

import tomllib

import pytest

from testkit.paths import CHECKOUT

ROOTS = {
    "penstock": CHECKOUT / "operator",
    "testkit": CHECKOUT,
    "scripts": CHECKOUT,
    "demo": CHECKOUT,
}


def _packages() -> list[str]:
    return sorted(
        ".".join(init.parent.relative_to(parent).parts)
        for name, parent in ROOTS.items()
        for init in (parent / name).rglob("__init__.py")
    )


@pytest.mark.parametrize("package", _packages())
def test_a_package_has_a_contract_for_its_layers(package: str) -> None:
    """Exhaustive, so that a new module must be given its place."""
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    found = [each for each in contracts if package in each.get("containers", [])]
    assert [each["exhaustive"] for each in found] == [True]


def test_no_folder_holds_more_than_twelve_modules() -> None:
    """A larger folder hides rooms of its own."""
    folders = {
        path.parent
        for root in ("operator", "testkit", "demo", "e2e", "scripts", "benchmarks", "images")
        for path in (CHECKOUT / root).rglob("*.py")
    }
    crowded = {
        str(folder.relative_to(CHECKOUT)): count
        for folder in folders
        if (count := len([p for p in folder.glob("*.py") if p.stem != "__init__"])) > 12
    }
    assert crowded == {}


@pytest.mark.parametrize("package", _packages())
def test_a_package_says_in_a_sentence_what_lives_there(package: str) -> None:
    """The docstring of its ``__init__.py``."""
    folder = ROOTS[package.partition(".")[0]].joinpath(*package.split("."))
    assert (folder / "__init__.py").read_text().startswith('"""')
