"""`make demo-cluster` where a registry is in reach, with one on loopback in that role.

`make test-all` runs it. podman starts with an empty storage, pulls the node image and the
base of the images under their public names, and gets both from the loopback registry. It holds this
machine's own ones: Debian, and the node image of the test kit, since kind's cannot be had here.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.cluster.registry import registry_on_loopback
from testkit.commands import run
from testkit.engine.container_engine import engine
from testkit.images.base_image import base_ref, ensure_base
from testkit.images.node_image import ensure_node_image
from testkit.paths import CHECKOUT
from testkit.plugins.figures import RecordFigure
from testkit.tools import tool
from testkit.tools.pins import debian_release, kubernetes_version

pytestmark = pytest.mark.timeout(2400)

PUBLIC = "docker.io"
_DEMO_SECONDS = 1800
_PUSH_SECONDS = 900
# What only the other way does.
_NOT_SAID = ("no container registry is reachable", "compiling", "making a minimal Debian")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: podman's sockets are in it."""
    found = Path(tempfile.mkdtemp(prefix="penstock-"))
    yield found
    shutil.rmtree(found, ignore_errors=True)


@pytest.fixture
def pulls(folder: Path) -> Iterator[dict[str, str]]:
    """The environment of a machine that pulls, and has kubectl, helm and kind on its PATH."""
    node = f"{PUBLIC}/kindest/node:{kubernetes_version()}"
    (folder / "registry").mkdir()
    with registry_on_loopback(folder / "registry") as registry:
        for release in {debian_release("images"), debian_release("node")}:
            _push(ensure_base(release), base_ref(release), registry)
        digest = _push(ensure_node_image(), node, registry)
        (folder / "registries.conf").write_text(_mirror(registry))
        programs = folder / "bin"
        programs.mkdir()
        for name in ("kubectl", "helm", "kind"):
            (programs / name).symlink_to(tool(name))
        yield {
            "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PENSTOCK_CACHE": str(folder / "cache"),
            "PENSTOCK_ENGINE": "podman",
            "PENSTOCK_NODE_IMAGE": f"{node}@{digest}",  # as in versions.toml
            "PENSTOCK_OFFLINE": "0",
        }


def _push(ref: str, public: str, registry: str) -> str:
    """Pushes an image under its public name; returns its digest there."""
    target = f"docker://{registry}{public.removeprefix(PUBLIC)}"
    with tempfile.NamedTemporaryFile("r") as digest:
        words = ["push", "--quiet", "--tls-verify=false", f"--digestfile={digest.name}"]
        engine().run(*words, ref, target, timeout=_PUSH_SECONDS)
        return digest.read()


def _mirror(registry: str) -> str:
    return f"""\
unqualified-search-registries = ["{PUBLIC}"]
[[registry]]
prefix = "{PUBLIC}"
location = "{registry}"
insecure = true
"""


def test_the_demo_pulls_its_images_and_compiles_nothing(
    pulls: dict[str, str], record_figure: RecordFigure
) -> None:
    began = time.monotonic()
    try:
        demo = ["sh", "-c", "exec make demo-cluster 2>&1"]
        said = run(demo, cwd=CHECKOUT, env=pulls, timeout=_DEMO_SECONDS)
        record_figure("seconds of make demo-cluster", time.monotonic() - began)
    finally:
        down = run(["make", "cluster-down"], cwd=CHECKOUT, env=pulls, timeout=300)
    print(said, down)
    assert " 0 lost, 0 wrong, " in said
    assert [words for words in _NOT_SAID if words in said] == []
