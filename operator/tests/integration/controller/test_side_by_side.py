"""Two releases of the operator in one cluster, told apart by class or by namespaces."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.objects import Object
from penstock.contract import naming
from testkit.controller import samples
from testkit.controller.control_plane import Namespace, namespace
from testkit.controller.operator_process import OperatorProcess
from testkit.kubernetes.api_server import ApiServer
from testkit.wait import wait_for, wait_for_async

DRIVER = naming.driver_name(samples.NAME)


@pytest.fixture
async def other(server: ApiServer) -> AsyncIterator[Namespace]:
    async with namespace(server) as other:
        yield other


@contextmanager
def _operator(server: ApiServer, log: Path, **settings: Any) -> Iterator[OperatorProcess]:
    operator = OperatorProcess(server, log, **settings)
    try:
        wait_for("its health page", lambda: operator.page(operator.health, "/healthz"), 60)
        yield operator
    finally:
        operator.end(signal.SIGKILL)


async def _applied(space: Namespace) -> Manifest:
    """Waits until an operator has acted on the newest spec, and returns the StatefulSet."""

    async def applied() -> Manifest | None:
        stream = await space.get(kinds.STREAM, samples.NAME)
        assert stream is not None
        meta, seen = stream["metadata"], (stream.get("status") or {}).get("observedGeneration")
        child = await space.get(kinds.STATEFUL_SET, DRIVER)
        own = child is not None and Object(child).is_owned_by(meta["uid"])
        return child if own and seen == meta["generation"] else None

    found = await wait_for_async("the newest spec applied", applied, 60)
    assert found is not None
    return found


@pytest.mark.proves(26)
async def test_each_operator_acts_on_the_streams_of_its_class_only(
    server: ApiServer, space: Namespace, other: Namespace, tmp_path: Path
) -> None:
    """Also on one that moves: it is deleted, and applied again with another class."""
    one, two = tmp_path / "blue.log", tmp_path / "none.log"
    with _operator(server, one, className="blue") as blue, _operator(server, two):
        await space.apply(className="blue")
        await other.apply()
        first = await _applied(space)
        assert Object(first).labels[naming.LABEL_CLASS] == "blue"
        assert naming.LABEL_CLASS not in Object(await _applied(other)).labels
        await space.delete(kinds.STATEFUL_SET, DRIVER)  # noticed by its label
        restored = await wait_for_async(
            "the StatefulSet restored", lambda: space.get(kinds.STATEFUL_SET, DRIVER)
        )
        assert restored is not None
        assert f"{other.name}/{samples.NAME}" not in one.read_text()
        assert f"{space.name}/{samples.NAME}" not in two.read_text()

        blue.send(signal.SIGSTOP)
        await space.apply(className="blue", executor={"cores": 2})
        await other.apply(executor={"cores": 2})
        await _applied(other)
        assert (await space.status())["observedGeneration"] == 1
        blue.send(signal.SIGCONT)
        await _applied(space)

        await space.kubectl("delete", "cstream", samples.NAME)
        await space.apply()
        moved = await _applied(space)
        assert naming.LABEL_CLASS not in Object(moved).labels

        async def claim_moved() -> bool:
            claim = await space.get(kinds.CLAIM, naming.checkpoint_claim_name(samples.NAME))
            return claim is not None and naming.LABEL_CLASS not in Object(claim).labels

        await wait_for_async("the checkpoint moved too", claim_moved)


async def test_an_operator_follows_the_labels_of_namespaces(
    server: ApiServer, space: Namespace, other: Namespace, tmp_path: Path
) -> None:
    """A namespace that loses its label keeps what runs, and its edits wait for the label."""
    log, kube = tmp_path / "operator.log", server.kube()
    wanted = {"key": "streams", "operator": "In", "values": [space.name, "x"]}
    with _operator(server, log, watchNamespaceSelector={"matchExpressions": [wanted]}):
        await space.apply()
        await other.apply()
        kube.run("label", "namespace", space.name, f"streams={space.name}")
        uid = (await _applied(space))["metadata"]["uid"]
        kube.run("label", "namespace", space.name, "streams-")
        await wait_for_async("the label's end noticed", lambda: _ignores_an_edit(space))
        kube.run("label", "namespace", space.name, "streams=x")
        assert (await _applied(space))["metadata"]["uid"] == uid
        assert (await other.status()) == {}
    assert f"{other.name}/{samples.NAME}" not in log.read_text()


async def _ignores_an_edit(space: Namespace) -> bool:
    """Whether the operator does not observe a change of the spec, for a while."""
    stream = await space.get(kinds.STREAM, samples.NAME)
    assert stream is not None
    await space.apply(executor={"cores": 1 + stream["metadata"]["generation"]})
    await asyncio.sleep(3)
    observed = (await space.status())["observedGeneration"]
    return bool(observed <= stream["metadata"]["generation"])


async def test_each_operator_acts_in_its_namespaces_only(
    server: ApiServer, space: Namespace, other: Namespace, tmp_path: Path
) -> None:
    one, two = tmp_path / "one.log", tmp_path / "two.log"
    with (
        _operator(server, one, watchNamespaces=[space.name]),
        _operator(server, two, watchNamespaces=[other.name]),
    ):
        await space.apply()
        await other.apply()
        await _applied(space)
        await _applied(other)
    assert f"{space.name}/{samples.NAME}" in one.read_text()
    assert f"{other.name}/{samples.NAME}" not in one.read_text()
    assert f"{other.name}/{samples.NAME}" in two.read_text()
    assert f"{space.name}/{samples.NAME}" not in two.read_text()
