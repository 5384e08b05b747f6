"""A container registry in the network of the test cluster's first node."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from penstock.local.tools.child_process import ChildProcess
from testkit.cluster.access import Cluster
from testkit.engine.container_engine import engine
from testkit.tools.debian import container_registry
from testkit.wait import wait_for

_PORT = 5000


@dataclass(frozen=True)
class Registry:
    """The registry's addresses. It speaks plain HTTP."""

    from_here: str
    from_the_node: str
    """Its loopback interface, where containerd expects plain HTTP without being told."""


@contextlib.contextmanager
def running_registry(cluster: Cluster, folder: Path) -> Iterator[Registry]:
    """A registry that keeps its content in the folder and runs until the end of the block."""
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "content")}},
        "http": {"addr": f":{_PORT}"},
    }
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    node = engine().run("inspect", "--format={{.State.Pid}}", cluster.nodes[0]).strip()
    process = ChildProcess(
        [
            "nsenter", f"--net=/proc/{node}/ns/net",
            container_registry(), "serve", folder / "config.yml",
        ],
        log=folder / "registry.log",
    )  # fmt: skip
    found = Registry(f"{cluster.address}:{_PORT}", f"localhost:{_PORT}")
    try:
        wait_for("the registry", lambda: _answers(found), 30)
        yield found
    finally:
        process.stop()


def _answers(registry: Registry) -> bool:
    with contextlib.suppress(OSError):
        answer = urllib.request.urlopen(f"http://{registry.from_here}/v2/_catalog", timeout=5)
        return "repositories" in json.load(answer)
    return False
