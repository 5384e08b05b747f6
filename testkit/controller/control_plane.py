"""A real API server with the real controllers for StatefulSets and garbage; the test plays the
kubelet and the driver."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from kubernetes.aio import config
from kubernetes.aio.client import Configuration

from penstock.cluster import kinds
from penstock.cluster.kinds import Kind, Manifest
from penstock.cluster.lenient_fields import at
from penstock.cluster.pods import DriverPod
from penstock.contract import naming
from penstock.controller.kubernetes.api_client import KubernetesApiClient
from penstock.controller.main import operate
from penstock.controller.metrics import OperatorMetrics
from penstock.controller.operator_settings import Settings
from penstock.local.tools.child_process import ChildProcess
from testkit.controller import samples
from testkit.errors import WaitTimeout
from testkit.kubernetes.api_server import ApiServer, api_server
from testkit.paths import CHECKOUT
from testkit.tools import tool
from testkit.wait import wait_for_async

ROOT = CHECKOUT
_CONTROLLERS = (
    "statefulset-controller",
    "garbage-collector-controller",
    "persistentvolumeclaim-protection-controller",
)


@contextlib.contextmanager
def control_plane() -> Iterator[ApiServer]:
    """An API server with the CRD, and the controllers that a stream needs."""
    with api_server() as server:
        server.kube().run("apply", "--server-side", "-f", ROOT / "crds")
        server.kube().wait_until_served(kinds.STREAM.plural)
        manager = ChildProcess(
            [
                tool("kube-controller-manager"),
                f"--kubeconfig={server.kubeconfig}",
                f"--controllers={','.join(_CONTROLLERS)}",
                "--leader-elect=false",
                "--secure-port=0",
            ],
            log=server.kubeconfig.parent / "kube-controller-manager.log",
        )
        try:
            yield server
        finally:
            manager.kill()


class Namespace:
    """A namespace for one test, with an operator that watches only this namespace."""

    def __init__(self, server: ApiServer, api: KubernetesApiClient, name: str) -> None:
        self._server = server
        self.api = api
        self.name = name

    async def kubectl(self, *words: str | Path, stdin: str | None = None) -> str:
        """kubectl in this namespace, without blocking the operator's event loop."""
        return await asyncio.to_thread(self._server.kube(self.name).run, *words, stdin=stdin)

    async def apply(self, **spec: Any) -> str:
        """kubectl apply of the sample stream. Keywords are fields of its spec."""
        stream = samples.stream(**spec)
        del stream["metadata"]["namespace"]
        return await self.kubectl("apply", "-f", "-", stdin=json.dumps(stream))

    @contextlib.asynccontextmanager
    async def operator(
        self, kubeconfig: Path | None = None, settings: Settings | None = None
    ) -> AsyncIterator[OperatorMetrics]:
        """Runs the whole operator in this event loop, and stops it as SIGTERM would."""
        stop, ready, metrics = asyncio.Event(), asyncio.Event(), OperatorMetrics()
        task = asyncio.create_task(
            operate(
                await configuration(kubeconfig or self._server.kubeconfig),
                metrics,
                settings=replace(settings or samples.SETTINGS, watch_namespaces=(self.name,)),
                stop=stop,
                ready=ready,
            )
        )
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.is_set():
            waiting.cancel()
            await task
        try:
            yield metrics
        finally:
            stop.set()
            await task

    async def get(self, kind: Kind, name: str) -> Manifest | None:
        return await self.api.get(kind, self.name, name)

    async def delete(self, kind: Kind, name: str, *options: str) -> None:
        """Deletes an object, and waits until it is gone; another one may be there by then.

        kubectl's own wait can miss the end of an object that is made again at once.
        """
        old = await self.get(kind, name)
        assert old is not None

        async def gone() -> bool:
            now = await self.get(kind, name)
            return now is None or now["metadata"]["uid"] != old["metadata"]["uid"]

        await self.kubectl("delete", "--wait=false", kind.plural, name, *options)
        await wait_for_async(f"{kind.kind} {name} gone", gone)

    async def pod(self) -> Manifest | None:
        return await self.get(kinds.POD, naming.driver_pod_name(samples.NAME))

    async def replaced(self, old: Manifest) -> Manifest:
        """Waits for another driver pod, of the newest revision, and returns it.

        The StatefulSet controller may first create the pod of the old revision once more and
        delete it in the same pass: it counts the pods by the status of its last pass.
        """

        async def another() -> Manifest | None:
            pod = await self.pod()
            if pod is None or pod["metadata"]["uid"] == old["metadata"]["uid"]:
                return None
            owner = await self.get(kinds.STATEFUL_SET, naming.driver_name(samples.NAME))
            newest = at(owner, "status", "updateRevision")
            return pod if DriverPod(pod).revision == newest else None

        pod = await wait_for_async("another pod of the driver", another)
        assert pod is not None
        return pod

    async def status(self) -> dict[str, Any]:
        stream = await self.get(kinds.STREAM, samples.NAME)
        assert stream is not None
        return dict(stream.get("status") or {})

    async def condition(self, kind: str) -> dict[str, Any]:
        found = (await self.status()).get("conditions", [])
        return next((condition for condition in found if condition["type"] == kind), {})

    async def run_driver(self, **report: Any) -> Manifest:
        """Plays kubelet and driver: starts the current pod and publishes its report."""
        pod = await wait_for_async("a pod of the driver", self.pod)
        assert pod is not None
        pod_hash = DriverPod(pod).pod_hash
        config = await self.get(kinds.CONFIG_MAP, naming.config_name(samples.NAME, pod_hash))
        assert config is not None
        fields = {"spec_hash": naming.spec_hash(config["data"][naming.SPEC_FILE]), **report}
        text = samples.report(**fields).model_dump_json(by_alias=True)
        name = pod["metadata"]["name"]
        await self.kubectl(
            "annotate", "--overwrite", "pod", name, f"{naming.ANNOTATION_REPORT}={text}"
        )
        if at(pod, "status", "phase") != "Running":  # else it may be gone: for what it has reported
            await self.kubectl(
                "patch", "pod", name, "--subresource=status", "--type=merge",
                "-p", json.dumps(samples.running_status()),
            )  # fmt: skip
        return pod

    async def take_edit(self) -> None:
        """Plays a driver that takes an edit of its query, when it is there."""

        async def is_there() -> bool:
            return (await self.condition("Reconciling")).get("reason") == "ApplyingEdit"

        await wait_for_async("an edit to take", is_there)
        await self.run_driver()

    async def ready(self) -> bool:
        """As `kubectl wait` sees it: by its newest spec, and not while an edit is applied."""
        stream = await self.get(kinds.STREAM, samples.NAME)
        if stream is None or not stream.get("status"):
            return False
        (found,) = (it for it in stream["status"]["conditions"] if it["type"] == "Ready")
        is_newest = found["observedGeneration"] == stream["metadata"]["generation"]
        return bool(found["status"] == "True" and is_newest)

    async def wait_ready(self) -> None:
        try:
            await wait_for_async("the stream Ready", self.ready)
        except WaitTimeout as timeout:
            found = {"status": await self.status(), "pod": await self.pod()}
            timeout.add_note(json.dumps(found, indent=1))
            raise

    async def children(self) -> list[Manifest]:
        labels = {naming.LABEL_STREAM: samples.NAME}
        lists = [await self.api.list(kind, self.name, labels) for kind in kinds.CHILDREN]
        return [child for some in lists for child in some]

    async def names(self) -> set[str]:
        return {f"{child['kind']} {child['metadata']['name']}" for child in await self.children()}


@contextlib.asynccontextmanager
async def namespace(server: ApiServer) -> AsyncIterator[Namespace]:
    name = f"test-{secrets.token_hex(4)}"
    await asyncio.to_thread(server.kube().run, "create", "namespace", name)
    try:
        async with KubernetesApiClient(await configuration(server.kubeconfig)) as api:
            yield Namespace(server, api, name)
    finally:
        await _close_connections()


def reconciles(metrics: OperatorMetrics, *results: str) -> float:
    """How often the operator has reconciled with one of these results."""
    name = "penstock_operator_reconcile_total"
    counts = [metrics.registry.get_sample_value(name, {"result": result}) for result in results]
    return sum(count or 0 for count in counts)


async def no_reconcile_for_a_second(metrics: OperatorMetrics) -> None:
    """Returns after a second without a reconcile."""
    results = ("changed", "unchanged", "error")
    while True:
        before = reconciles(metrics, *results)
        await asyncio.sleep(1)
        if before == reconciles(metrics, *results):
            return


async def _close_connections() -> None:
    """Closes the remaining connections of this event loop.

    aiohttp drops a TLS connection that is still in use (a watch) before the server has confirmed
    its end. Under load the confirmation arrives after the loop has ended.
    """
    for transport in list(asyncio.get_running_loop()._transports.values()):  # type: ignore[attr-defined]
        transport.abort()
    await asyncio.sleep(0)


async def configuration(kubeconfig: Path) -> Configuration:
    """A client's configuration from this file alone."""
    loaded = Configuration()
    await config.load_kube_config(str(kubeconfig), client_configuration=loaded)
    return loaded
