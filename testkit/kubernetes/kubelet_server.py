"""A node whose kubelet serves logs and exec and runs nothing, behind a real API server.

So `kubectl logs` and `kubectl exec` take their real way. A command of exec runs on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator

from aiohttp import web

from testkit.kubernetes.api_server import ApiServer

NODE = "this-machine"
_STDOUT, _STATUS = b"\x01", b"\x03"


class KubeletServer:
    """What the node's containers have logged."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, str], list[str]] = {}
        """By pod and container: lines that begin with their time."""
        self.previous: dict[tuple[str, str], list[str]] = {}
        self.commands: list[list[str]] = []
        """What was run."""

    async def serve_log(self, request: web.Request) -> web.StreamResponse:
        """The lines of a container; followed, also those that come later."""
        place = (request.match_info["pod"], request.match_info["container"])
        source = self.previous if request.query.get("previous") == "true" else self.logs
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        sent = 0
        while True:
            lines = source.get(place, [])
            if "tailLines" in request.query and sent == 0:
                sent = max(0, len(lines) - int(request.query["tailLines"]))
            new = lines[sent:]  # while these are sent, others may come
            sent += len(new)
            for line in new:
                await response.write(f"{line}\n".encode())
            if request.query.get("follow") != "true":
                return response
            await asyncio.sleep(0.05)

    async def run_command(self, request: web.Request) -> web.WebSocketResponse:
        """Runs a command and sends its output, and how it ended."""
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        command = request.query.getall("command")
        self.commands.append(command)
        words = [sys.executable, *command[1:]] if command[0] == "python3" else command
        done = await asyncio.to_thread(subprocess.run, words, capture_output=True)
        await socket.send_bytes(_STDOUT + done.stdout)
        await socket.send_bytes(_STATUS + json.dumps(_status(done.returncode)).encode())
        await socket.close()
        return socket


def _status(code: int) -> dict[str, object]:
    if code == 0:
        return {"status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}


@contextlib.contextmanager
def kubelet_server(server: ApiServer) -> Iterator[KubeletServer]:
    """Serves until the end of the block, as the kubelet of the node NODE."""
    kubelet, loop = KubeletServer(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner, port = asyncio.run_coroutine_threadsafe(_start(kubelet, server), loop).result(30)
    try:
        _register(server, port)
        yield kubelet
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _start(kubelet: KubeletServer, server: ApiServer) -> tuple[web.AppRunner, int]:
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trust.load_cert_chain(server.ca, server.ca.with_name("apiserver.key"))
    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", kubelet.serve_log)
    app.router.add_get("/exec/{namespace}/{pod}/{container}", kubelet.run_command)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust)
    await site.start()
    port: int = runner.addresses[0][1]
    return runner, port


def _register(server: ApiServer, port: int) -> None:
    """Creates the node, or gives it this port."""
    kube = server.kube()
    kube.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    }
    patch = json.dumps({"status": status})
    kube.run("patch", "node", NODE, "--subresource=status", "--type=merge", "-p", patch)


def bind(server: ApiServer, namespace: str, pod: str) -> None:
    """Puts a pod on the node, as the scheduler does."""
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/binding"
    server.kube().run("create", "--raw", path, "-f", "-", stdin=json.dumps(binding))
