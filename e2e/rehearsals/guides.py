"""Follows guides of docs/ with the demo's stream: their commands run as they are written there.

Kafka's tools run on this machine, since the broker's image has none. The cluster has no room for
sixteen partitions: two are added.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from demo import cluster as demo
from demo.payments import EXAMPLE, PARTITIONS
from testkit.cluster.install import Installation
from testkit.cluster.stream import KIND, Stream
from testkit.kafka.tools import TOPICS, write_program
from testkit.kubernetes.kubectl import Kube, Object
from testkit.operations.runbooks import blocks, sections
from testkit.paths import CHECKOUT

pytestmark = pytest.mark.timeout(1800)

NEW = "new"
# What goes on until Ctrl-C.
_ENDLESS = (" --watch", " --follow")
_WATCHED_SECONDS = 10
_COMMAND_SECONDS = 400


class Reader:
    """Has kubectl, penstock and Kafka's tools on the PATH, and the demo's namespace as default."""

    def __init__(self, installation: Installation, folder: Path) -> None:
        cluster, self._folder = installation.cluster, folder
        kubeconfig = folder / "kubeconfig"
        shutil.copy(cluster.kubeconfig, kubeconfig)
        shutil.copy(EXAMPLE, folder)
        shutil.copytree(EXAMPLE.parent, folder / "examples")
        tools = folder / "kafka"
        tools.mkdir()
        write_program(tools / "kafka-topics.sh", TOPICS)
        programs = [str(cluster.kubectl.parent), str(Path(sys.executable).parent), str(tools)]
        path = os.pathsep.join([*programs, os.environ["PATH"]])
        self._environment = {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig)}
        self.run(f"kubectl config set-context --current --namespace={demo.NAMESPACE}")

    def follow(self, page: str, section: str = "", **instead: str) -> list[str]:
        """Runs the commands of a page of docs/, or of a section; returns what each has printed.

        `instead` has words that stand in the commands for others.
        """
        # Without the indentation of numbered lists.
        text = re.sub(r"^ {3}", "", (CHECKOUT / "docs" / page).read_text(), flags=re.MULTILINE)
        commands = blocks(sections(text)[section] if section else text, "sh")
        lines = "\n".join(commands).replace("\\\n", " ").splitlines()
        assert lines
        return [self.run(_with(instead, line)) for line in lines]

    def run(self, line: str) -> str:
        """Runs a command of the shell; AssertionError if it fails."""
        endless = any(command in line for command in _ENDLESS)
        done = subprocess.run(
            ["timeout", str(_WATCHED_SECONDS if endless else _COMMAND_SECONDS), "bash", "-euo",
             "pipefail", "-c", line],
            env=self._environment, cwd=self._folder, capture_output=True, text=True,
            timeout=_COMMAND_SECONDS + 60,
        )  # fmt: skip
        assert done.returncode == (124 if endless else 0), f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout


def _with(instead: dict[str, str], line: str) -> str:
    for word, other in instead.items():
        line = re.sub(rf"\b{word}\b", other, line)
    return line


@pytest.fixture(scope="module")
def stream(installation: Installation) -> Stream:
    """fraud-flags, as the demo leaves it."""
    assert demo.main(watch_seconds=3) == 0
    return Stream(installation.kube(demo.NAMESPACE), "fraud-flags")


@pytest.fixture
def reader(installation: Installation, stream: Stream, tmp_path: Path) -> Reader:
    """Who follows the guides."""
    return Reader(installation, tmp_path)


def test_more_is_logged(reader: Reader, stream: Stream) -> None:
    before = [pod["metadata"]["uid"] for pod in stream.pods()]
    reader.follow("operate.md", "Log level")
    assert [pod["metadata"]["uid"] for pod in stream.pods()] == before


def test_the_partitions_grow(reader: Reader, stream: Stream, installation: Installation) -> None:
    more = PARTITIONS + 2
    instead = {"kafka.kafka:9092": installation.kafka.external, "16": str(more)}
    reader.follow("how-to/grow-partitions.md", **instead)
    stream.wait_for("more partitions", lambda: stream.status()["partitions"] == more, 120)
    stream.wait_ready()


def test_the_mode_is_switched(reader: Reader, stream: Stream) -> None:
    *_, said = reader.follow("how-to/switch-the-mode.md")
    assert said.startswith("RealTime ")
    reader.follow("how-to/upgrade.md", "The streams")


def test_a_stream_starts_over(stream: Stream) -> None:
    """And goes back. The guide (how-to/rewind.md) has no steps but an edit."""
    before = stream.epoch()
    assert before > 0
    stream.edit(checkpoint={"generation": 1, "startFrom": {"offsets": "earliest"}})
    stream.wait_for("a new checkpoint", lambda: stream.generation() == 1, 120)
    stream.wait_ready()
    stream.edit(checkpoint={"generation": 0, "startFrom": None})
    stream.wait_for("the old checkpoint", lambda: stream.generation() == 0, 120)
    stream.wait_for("it goes on", lambda: stream.epoch() >= before, 120)


@pytest.fixture
def new(installation: Installation) -> Iterator[Kube]:
    """The namespace that the stream moves to."""
    kube = installation.kube(f"{demo.NAMESPACE}-{NEW}")
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube.namespace}})
    yield kube
    kube.run("delete", "namespace", kube.namespace, "--wait=false")


def test_a_checkpoint_moves(
    reader: Reader, stream: Stream, new: Kube, installation: Installation
) -> None:
    """To another namespace, copied from volume to volume."""
    reader.follow("how-to/move-a-checkpoint.md", old=demo.NAMESPACE)
    node = installation.cluster.nodes[0]
    commits = installation.cluster.on_node(node, "ls", f"{stream.checkpoint_on_node()}/commits")
    before = max(int(name) for name in commits.split() if name.isdecimal())
    stream.wait_for("the last commit in the status", lambda: stream.epoch() == before, 30)
    moved = Stream(new, stream.name)
    claim = f"{stream.name}-checkpoint"
    new.apply(_claim(claim), _holder(claim, installation.images["operator"]))
    new.run("wait", "pod/holder", "--for=condition=Ready", "--timeout=120s", timeout=130)
    old, fresh = (side.checkpoint_on_node().rpartition("/")[0] for side in (stream, moved))
    installation.cluster.on_node(node, "bash", "-c", f"cp -a {old}/. {fresh}/")
    new.run("delete", "pod", "holder", "--grace-period=1")
    document = yaml.safe_load(EXAMPLE.read_text())
    document["spec"]["checkpoint"] = {"volume": {"adopt": True}}
    document["spec"]["trigger"] = stream.resource()["spec"]["trigger"]
    new.apply(document)
    moved.wait_ready()
    assert moved.epoch() >= before
    assert any("CheckpointFound" in event for event in new.events(moved.name))
    for moving in (moved, stream):
        moving.kube.delete(KIND, moving.name)


def _claim(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def _holder(claim: str, image: str) -> Object:
    """A pod that mounts a claim: its volume is made for the first one."""
    mount = {"name": "checkpoint", "mountPath": "/checkpoint"}
    sleep = ["python3", "-c", "import time; time.sleep(600)"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "holder"},
        "spec": {
            "containers": [
                {
                    "name": "holder",
                    "image": image,
                    "imagePullPolicy": "Never",
                    "command": sleep,
                    "volumeMounts": [mount],
                }
            ],
            "volumes": [{"name": "checkpoint", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }


def test_on_call_without_a_checkout(reader: Reader, installation: Installation) -> None:
    """By a pod of the operator's image, with the role of examples/on-call."""
    instead = {
        "registry.example.com/penstock/operator:0.1.0": installation.images["operator"],
        "payments": demo.NAMESPACE,
    }
    _, _, said, running = reader.follow("on-call.md", "Get the command", **instead)
    assert "problem" in said or "ok" in said
    assert running == installation.images["operator"]


def test_the_quickstart(reader: Reader, installation: Installation) -> None:
    """Its stream. What comes before needs a registry, and the broker's tools."""
    kafka = {"my-cluster-kafka-bootstrap": "kafka"}
    bootstrap = installation.kafka.external
    create = "--create --topic payments-per-minute --partitions 1"
    reader.run(f"kafka-topics.sh --bootstrap-server {bootstrap} {create}")
    for section in (
        "A stream",
        "Kill the driver",
        "Change the query",
        "Make a mistake",
        "A stream with state",
        "Clean up",
    ):
        reader.follow("quickstart.md", section, **kafka)
    kube = installation.kube(demo.NAMESPACE)
    assert kube.run("get", KIND, "--output=name").strip() == ""
