"""The versions of another Kubernetes, in the place of those of versions.toml."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.errors import ClusterError
from testkit.paths import HERE
from testkit.tools import pins

OTHERS = sorted(path.stem.partition("-")[2] for path in HERE.glob("kubernetes-*.toml"))


@pytest.fixture(autouse=True)
def read_anew() -> Iterator[None]:
    pins._versions.cache_clear()
    pins.go_tools.cache_clear()
    yield
    pins._versions.cache_clear()
    pins.go_tools.cache_clear()


def test_there_is_an_older_and_a_newer_kubernetes() -> None:
    default = pins.kubernetes_version()
    versions = [f"v{minor}." for minor in OTHERS]
    assert any(each < default for each in versions)
    assert any(each > default for each in versions)


@pytest.mark.parametrize("minor", OTHERS)
def test_another_kubernetes_changes_its_own_pins_alone(
    minor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, kind = pins.go_tools(), pins.published_node_image()
    pins._versions.cache_clear()
    pins.go_tools.cache_clear()
    monkeypatch.setenv("PENSTOCK_KUBERNETES", minor)
    assert pins.kubernetes_version().startswith(f"v{minor}.")
    assert pins.go_tools().keys() == tools.keys()
    # Its libraries are those of the default.
    assert pins.go_tools()["helm"].alone is not None
    assert "helm.sh/helm/v4" not in pins.go_modules()
    assert pins.published_node_image() == kind


def test_a_kubernetes_without_pins_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KUBERNETES", "1.20")
    with pytest.raises(ClusterError, match=f"there is {', '.join(OTHERS)}"):
        pins.kubernetes_version()
