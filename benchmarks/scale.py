"""Measures the operator with many running streams, on a real API server with TLS.

    python -m benchmarks.scale --streams 300 [--json FILE]
    python -m benchmarks.scale --json FILE --picture FILE.svg

The StatefulSet and garbage controllers are real. Kubelets and drivers are played: each pod becomes
ready, and each driver writes its report as a real one does. The operator is a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from aiohttp import ClientSession

from benchmarks.scale_picture import draw
from penstock.cluster import kinds
from penstock.cluster.kinds import Key, Manifest
from penstock.cluster.lenient_fields import at
from penstock.cluster.objects import Object
from penstock.cluster.stream_image import StreamImage
from penstock.contract import naming
from penstock.contract.driver_report import NUMBERS_INTERVAL_SECONDS
from testkit.controller import samples
from testkit.controller.control_plane import control_plane
from testkit.controller.fleet import Fleet, client, in_turn
from testkit.controller.operator_process import OperatorProcess
from testkit.kubernetes.api_server import ApiServer

_SETTLE_SECONDS = 20.0
_MEBIBYTE = 2**20
_NOISE_HERTZ = 60
# The API server keeps what has changed for a minute and a quarter at least.
_FROZEN_SECONDS = 240.0
_LIMIT_SECONDS = 5400.0
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? ([-+.e\d]+)$", re.MULTILINE)

Figures = dict[str, float]


class Shown(Figures):
    """Figures that are printed as they come."""

    def __setitem__(self, name: str, value: float) -> None:
        super().__setitem__(name, value)
        print(f"{name:<55}  {value:10.2f}", flush=True)

    def update(self, found: Figures) -> None:  # type: ignore[override]
        for name, value in found.items():
            self[name] = value


class ReportingFleet(Fleet):
    """A fleet whose drivers report as real ones do."""

    def __init__(self, server: ApiServer, session: ClientSession, user: Fleet) -> None:
        """The user edits by connections of his own: nobody's kubectl waits for drivers'."""
        super().__init__(server, session, len(user.keys))
        self._user = user
        self._deleting = set[Key]()
        """Those whose reclaim policy is Delete by now."""

    async def play_kubelets(self, executors: int) -> None:
        """Waits for each driver's pod, makes it ready, and creates its executors."""

        async def start(key: Key) -> None:
            path = kinds.POD.path(key.namespace, naming.driver_pod_name(key.name))
            while True:
                with contextlib.suppress(RuntimeError):
                    pod = await self.request("GET", path)
                    break
                await asyncio.sleep(2)
            for number in range(executors):
                executor = _executor(key, pod, number)
                await self.request("POST", kinds.POD.path(key.namespace), executor)
            await self.start(key, pod)

        await in_turn(start(key) for key in self.keys)

    @contextlib.asynccontextmanager
    async def drivers(self, every: float) -> AsyncIterator[None]:
        """Each driver reports, out of step with the others, until the block ends."""

        async def drive(key: Key) -> None:
            await asyncio.sleep(random.uniform(0, every))
            for epoch in range(int(time.time()), 2**31):
                begun = time.monotonic()
                await self.report(key, epoch)
                await asyncio.sleep(max(0.0, begun + every - time.monotonic()))

        async with _in_background(drive(key) for key in self.keys):
            yield

    @contextlib.asynccontextmanager
    async def noise(self) -> AsyncIterator[Counter[str]]:
        """One tenant's drivers report sixty times a second in all, until the block ends."""
        count, tenant = Counter[str](), self.keys[0].namespace
        noisy = [key for key in self.keys if key.namespace == tenant][:2]

        async def drive(key: Key) -> None:
            for epoch in range(2**30, 2**31):
                begun = time.monotonic()
                await self.report(key, epoch)
                count["writes"] += 1
                wait = begun + len(noisy) / _NOISE_HERTZ - time.monotonic()
                await asyncio.sleep(max(0.0, wait))

        async with _in_background(map(drive, noisy)):
            yield count

    async def edit(self, key: Key) -> float:
        """Edits a stream, without a rollout. Returns the seconds until the status has it."""
        path = kinds.STREAM.path(key.namespace, key.name)
        begun = time.monotonic()
        generation = await self._patch(key)
        while True:
            stream = await self._user.request("GET", path)
            if at(stream, "status", "observedGeneration") == generation:
                return time.monotonic() - begun
            await asyncio.sleep(0.05)

    async def edit_all(self) -> float:
        """Looks at all of them now and then: a look at each would be most of the load."""
        begun = time.monotonic()
        await in_turn(map(self._patch, self.keys))
        while any(  # noqa: ASYNC110
            StreamImage.of(Object(stream)).edited for stream in await self._user.streams()
        ):
            await asyncio.sleep(5)
        return time.monotonic() - begun

    async def _patch(self, key: Key) -> int:
        """Changes a field that restarts nothing. Returns the generation of the spec."""
        self._deleting ^= {key}
        policy = "Delete" if key in self._deleting else "Retain"
        body = {"spec": {"checkpoint": {"volume": {"reclaimPolicy": policy}}}}
        path = kinds.STREAM.path(key.namespace, key.name)
        edited = await self._user.request("PATCH", path, body, "merge-patch+json")
        return int(edited["metadata"]["generation"])

    async def wait_ready(self) -> None:
        """Returns when every stream is Running."""
        while True:
            running = [each for each in await self.streams() if _state(each) == "Running"]
            if len(running) == len(self.keys):
                return
            await asyncio.sleep(2)

    async def number_ages(self) -> list[float]:
        """For how many seconds each status has had its last commit time."""
        now = datetime.now(UTC)
        times = [at(each, "status", "lastCommitTime") for each in await self.streams()]
        return [(now - datetime.fromisoformat(each)).total_seconds() for each in times if each]


class Operator:
    """The operator's process, and what it costs."""

    def __init__(self, server: ApiServer, log: Path) -> None:
        self._server, self._log = server, log
        self.start()

    def start(self) -> None:
        self._process = OperatorProcess(self._server, self._log)
        self.psutil = psutil.Process(self._process._process.pid)

    def end(self, with_signal: signal.Signals) -> None:
        self._process.end(with_signal)

    def send(self, number: signal.Signals) -> None:
        self._process.send(number)

    def cpu(self) -> float:
        times = self.psutil.cpu_times()
        return times.user + times.system

    def peak(self) -> float:
        """The most memory that it had, in MiB; without its processes that judge texts."""
        text = Path(f"/proc/{self.psutil.pid}/status").read_text()
        (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", text)
        return int(peak) / 1024

    def counters(self) -> Counter[str]:
        """Requests by verb and resource, and reconciles by result."""
        found = Counter[str]()
        for name, labels, value in _SAMPLE.findall(self.page()):
            words = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            if name == "penstock_operator_api_requests_total":
                found[f"{words['verb']} {words['resource']}"] += int(float(value))
            elif name == "penstock_operator_reconcile_total":
                found["reconciles"] += int(float(value))
        return found

    def page(self) -> str:
        return self._process.page(self._process.metrics, "/metrics")


async def window(
    fleet: ReportingFleet,
    operator: Operator,
    seconds: float,
    meanwhile: Callable[[], Awaitable[Figures]],
) -> Figures:
    """What the operator costs while time passes."""
    before, cpu, begun = operator.counters(), operator.cpu(), time.monotonic()
    found = await meanwhile()
    await asyncio.sleep(max(0.0, begun + seconds - time.monotonic()))
    lasted = time.monotonic() - begun
    done = operator.counters() - before
    size, minutes = len(fleet.keys), lasted / 60
    ages = await fleet.number_ages()
    return {
        "cores of the operator": (operator.cpu() - cpu) / lasted,
        "MiB resident": operator.psutil.memory_info().rss / _MEBIBYTE,
        "reads a stream and minute": _reads(done) / size / minutes,
        "reconciles a stream and minute": done["reconciles"] / size / minutes,
        "statuses a stream and minute": done["patch continuousstreams/status"] / size / minutes,
        "age of the numbers, median s": statistics.median(ages),
        "age of the numbers, most s": max(ages),
        **found,
    }


async def thaw(fleet: ReportingFleet, operator: Operator) -> Figures:
    """What it takes after the API server has ended all watches, and forgotten their versions (410).

    It does so with an operator that was frozen for some minutes.
    """
    before = operator.counters()
    operator.send(signal.SIGSTOP)
    await asyncio.sleep(_FROZEN_SECONDS)
    operator.send(signal.SIGCONT)
    seconds = await fleet.edit(random.choice(fleet.keys))
    await asyncio.sleep(_SETTLE_SECONDS)
    done = operator.counters() - before
    return {
        "after a freeze: lists": sum(n for name, n in done.items() if name.startswith("list ")),
        "after a freeze: reads a stream": _reads(done) / len(fleet.keys),
        "after a freeze: edit of one, s": seconds,
    }


async def measure(server: ApiServer, given: argparse.Namespace, folder: Path) -> Figures:
    async with client(server) as drivers, client(server) as user:
        operator = Operator(server, folder / "operator.log")
        fleet = ReportingFleet(server, drivers, Fleet(server, user, given.streams))
        try:
            return await _phases(fleet, operator, given)
        finally:
            operator.end(signal.SIGKILL)


async def _phases(fleet: ReportingFleet, operator: Operator, given: argparse.Namespace) -> Figures:
    random.seed(1)
    begun = time.monotonic()
    found = Shown({"streams": given.streams, "pods": given.streams * (1 + given.executors)})
    await fleet.create_streams()
    await fleet.play_kubelets(given.executors)
    await fleet.wait_ready()
    found["s until all run"] = time.monotonic() - begun
    async with fleet.drivers(given.every):
        await asyncio.sleep(_SETTLE_SECONDS)

        async def edits() -> Figures:
            seconds = [await fleet.edit(random.choice(fleet.keys)) for _ in range(5)]
            return {"edit of one, most s": max(seconds)}

        found.update(await window(fleet, operator, given.seconds, edits))
        async with fleet.noise() as count:
            noisy = await window(fleet, operator, given.seconds / 2, edits)
            noisy["writes of the tenant a second"] = count["writes"] / (given.seconds / 2)
        found.update({f"with a noisy tenant: {name}": value for name, value in noisy.items()})
        found["edit of all, s until the last"] = await fleet.edit_all()
        found["KiB of /metrics"] = len(operator.page()) / 1024
        found.update(await thaw(fleet, operator))
        await asyncio.sleep(_SETTLE_SECONDS)
        found["MiB at most"] = operator.peak()
        operator.end(signal.SIGKILL)
        started = time.monotonic()
        operator.start()
        while operator.counters()["reconciles"] < given.streams:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        found["s from a start until each was reconciled"] = time.monotonic() - started
        found["MiB at most after a start"] = operator.peak()
        found["reads of a start, a stream"] = _reads(operator.counters()) / given.streams
    return found


def _executor(key: Key, driver: Manifest, number: int) -> Manifest:
    """A pod of an executor, of the size of a real one."""
    owner = {
        "apiVersion": "v1", "kind": "Pod", "name": driver["metadata"]["name"],
        "uid": driver["metadata"]["uid"],
    }  # fmt: skip
    container = {
        "name": "executor",
        "image": samples.IMAGE,
        "env": [{"name": f"VARIABLE_{each}", "value": "x" * 60} for each in range(30)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{key.name}-exec-{number}",
            "labels": naming.stream_labels(key.name, naming.COMPONENT_EXECUTOR),
            "ownerReferences": [owner],
        },
        "spec": {"containers": [container]},
    }


def _reads(requests: Counter[str]) -> int:
    return sum(n for name, n in requests.items() if name.split()[0] in ("get", "list"))


def _state(stream: Manifest) -> Any:
    return at(stream, "status", "state")


@contextlib.asynccontextmanager
async def _in_background(coroutines: Iterable[Any]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.scale", description=__doc__)
    parser.add_argument("--streams", type=int, default=300)
    parser.add_argument("--executors", type=int, default=4, help="pods of each stream")
    parser.add_argument(
        "--every", type=float, default=NUMBERS_INTERVAL_SECONDS, help="seconds between two reports"
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="of the measurement")
    parser.add_argument("--json", type=Path, help="the runs so far, to which this one is added")
    parser.add_argument("--label", default="", help="what the run is named in the picture")
    parser.add_argument("--picture", type=Path, help="draw the runs of --json, and run nothing")
    given = parser.parse_args()
    if given.picture is not None and given.json is None:
        parser.error("--picture needs --json")
    runs: list[Any] = []
    if given.json is not None and given.json.exists():
        runs += json.loads(given.json.read_text())
    if given.picture is not None:
        draw(runs, given.picture)
        return
    with tempfile.TemporaryDirectory() as folder, control_plane() as server:
        server.kube("default").wait_until_served("cstream")
        bounded = asyncio.wait_for(measure(server, given, Path(folder)), _LIMIT_SECONDS)
        found = asyncio.run(bounded)
    if given.json is not None:
        rounded = {name: round(value, 3) for name, value in found.items()}
        runs.append({"label": given.label, "figures": rounded})
        given.json.write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
