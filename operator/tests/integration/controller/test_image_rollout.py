"""Another default image of an operator with fifty streams, against a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.status import StreamStatus
from penstock.cluster import kinds
from penstock.cluster.kinds import Key
from penstock.cluster.lenient_fields import at
from penstock.cluster.objects import Object
from penstock.cluster.stream import holds
from penstock.contract import naming
from testkit.controller import samples
from testkit.controller.control_plane import control_plane
from testkit.controller.fleet import Fleet, client
from testkit.controller.operator_process import OperatorProcess
from testkit.kubernetes.api_server import ApiServer
from testkit.wait import wait_for_async

_SIZE, _AT_ONCE = 50, 3
_BROKEN, _MENDED = "broken:image", "mended:image"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server of the test's own: the process watches every namespace."""
    with control_plane() as server:
        yield server


class Kubelets:
    """They start each driver whose image is there, as often as it comes."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._started = set[str]()
        self.touched = set[Key]()
        """The streams that ever had a driver of the broken image."""
        self.most_down = 0
        """The most streams without a driver that runs, at a time."""

    async def play(self) -> None:
        label = f"{naming.LABEL_COMPONENT}%3D{naming.COMPONENT_DRIVER}"
        path = f"{kinds.POD.path()}?labelSelector={label}"
        while True:
            pods = (await self._fleet.request("GET", path))["items"]
            running = 0
            for pod in map(Object, pods):
                key = Key(pod.key.namespace, pod.labels[naming.LABEL_STREAM])
                if pod.manifest["spec"]["containers"][0]["image"] == _BROKEN:
                    self.touched.add(key)
                elif pod.uid in self._started:
                    running += not pod.terminating
                else:
                    with contextlib.suppress(RuntimeError):  # deleted meanwhile
                        await self._fleet.start(key, pod.manifest)
                        self._started.add(pod.uid)
            if len(self._started) > _SIZE:
                self.most_down = max(self.most_down, _SIZE - running)
            await asyncio.sleep(0.3)


@contextlib.asynccontextmanager
async def operator(
    server: ApiServer, log: Path, image: str, **settings: Any
) -> AsyncIterator[None]:
    process = OperatorProcess(server, log, sparkImage=image, **settings)
    try:
        yield
    finally:
        process.end(signal.SIGTERM)


@pytest.mark.proves("operate.md#a-new-default-image")
async def test_a_default_image_that_does_not_run_touches_three_of_fifty_streams(
    server: ApiServer, tmp_path: Path
) -> None:
    log = tmp_path / "operator.log"

    async def statuses() -> list[StreamStatus]:
        return [StreamStatus.model_validate(it.get("status") or {}) for it in await fleet.streams()]

    async def recorded() -> bool:
        if playing.done():
            playing.result()
        streams = await fleet.streams()
        return all(at(it, "status", "rollout", "lastReadyRevision") for it in streams)

    async def given_up() -> bool:
        found = [it.rollout for it in await statuses()]
        return sum(it is not None and it.failure is not None for it in found) == _AT_ONCE

    async def all_ready() -> bool:
        return all(holds(it, "Ready") for it in await statuses())

    async with client(server) as session:
        fleet = Fleet(server, session, _SIZE)
        kubelets = Kubelets(fleet)
        playing = asyncio.create_task(kubelets.play())
        try:
            async with operator(server, log, samples.IMAGE):
                await fleet.create_streams(rollout={"deadline": "20s"})
                await wait_for_async("each stream recorded", recorded, 120)
            async with operator(server, log, _BROKEN):
                await wait_for_async("given up", given_up, 120)
                await wait_for_async("all Ready", all_ready, 60)
                await asyncio.sleep(5)  # in which nobody else gets it
            assert len(kubelets.touched) == _AT_ONCE
            assert kubelets.most_down <= _AT_ONCE
            assert {image(it) for it in await statuses()} == {samples.IMAGE}
            kubelets.most_down = 0
            async with operator(server, log, _MENDED, sparkImageMaxUnavailable=10):

                async def all_have_it() -> bool:
                    return {image(it) for it in await statuses()} == {_MENDED}

                await wait_for_async("the mended image", all_have_it, 120)
                await wait_for_async("all Ready", all_ready, 60)
            assert kubelets.most_down <= 10
            assert not any(holds(it, "Stalled") for it in await statuses())
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
    assert "no other stream gets the image broken:image" in log.read_text()


def image(status: StreamStatus) -> str | None:
    return status.effective.image if status.effective is not None else None
