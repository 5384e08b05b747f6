"""A container registry, on this machine or in the network of the test cluster's first node."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from penstock.local.tools.child_process import ChildProcess
from testkit.cluster.access import Cluster
from testkit.engine.container_engine import engine
from testkit.kafka.broker import free_ports
from testkit.processes import wait_until_ready
from testkit.tools.debian import container_registry

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
    node = engine().run("inspect", "--format={{.State.Pid}}", cluster.nodes[0]).strip()
    found = Registry(f"{cluster.address}:{_PORT}", f"localhost:{_PORT}")
    enter = ["nsenter", f"--net=/proc/{node}/ns/net"]
    with _registry(folder, f":{_PORT}", found.from_here, enter):
        yield found


@contextlib.contextmanager
def registry_on_loopback(folder: Path) -> Iterator[str]:
    """The address of a registry on this machine's loopback interface. It speaks plain HTTP."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    with _registry(folder, address, address):
        yield address


@contextlib.contextmanager
def _registry(
    folder: Path, listens: str, address: str, enter: Sequence[str] = ()
) -> Iterator[None]:
    """`enter` is the command that starts it in another network."""
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "content")}},
        "http": {"addr": listens},
    }
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    process = ChildProcess(
        [*enter, container_registry(), "serve", folder / "config.yml"], log=folder / "registry.log"
    )
    try:
        wait_until_ready("The registry", [process], partial(_answers, address), 30)
        yield
    finally:
        process.stop()


def _answers(address: str) -> bool:
    with contextlib.suppress(OSError):
        answer = urllib.request.urlopen(f"http://{address}/v2/_catalog", timeout=5)
        return "repositories" in json.load(answer)
    return False
