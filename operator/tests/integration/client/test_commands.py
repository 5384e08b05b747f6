"""`penstock status`, `logs`, `doctor` and `top` as processes, against a real API server.

The operator runs in the test, and writes the status. The test plays kubelet and driver: logs and
exec take their real way through the API server to a kubelet that serves nothing else.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from penstock.api.v1alpha1.status import LastFailure
from penstock.client.reading import rights
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.contract.pod_check import MODULE
from testkit.controller import samples
from testkit.controller.control_plane import Namespace
from testkit.kafka.broker import free_ports
from testkit.kubernetes.api_server import ApiServer
from testkit.kubernetes.kubelet_server import KubeletServer, bind, kubelet_server
from testkit.kubernetes.penstock_command import PenstockCommand, Ran
from testkit.wait import wait_for_async

DRIVER = naming.driver_pod_name(samples.NAME)
OPERATOR = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "penstock-operator"},
}


class Commands(PenstockCommand):
    """Runs commands while the operator in this event loop goes on."""

    async def ask(self, *words: str) -> Ran:
        return await asyncio.to_thread(self.run, *words)


@pytest.fixture(scope="module")
def kubelet(server: ApiServer) -> Iterator[KubeletServer]:
    """The node of all pods of this module."""
    with kubelet_server(server) as kubelet:
        yield kubelet


@pytest.fixture
def penstock(server: ApiServer, space: Namespace) -> Commands:
    return Commands(server.kubeconfig, space.name)


@pytest.fixture
async def deployed(space: Namespace) -> AsyncIterator[None]:
    """The operator's Deployment as the chart installs it, with one ready pod, and the operator."""
    labels = {"app.kubernetes.io/name": "penstock", "app.kubernetes.io/component": "operator"}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "serviceAccountName": "penstock-operator",
            "containers": [
                {"name": "operator", "image": "any", "args": [f"--namespace={space.name}"]}
            ],
        },
    }
    deployment = {
        **OPERATOR,
        "metadata": {**OPERATOR["metadata"], "labels": labels},  # type: ignore[dict-item]
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    binding = ["--clusterrole=cluster-admin", f"--serviceaccount={space.name}:penstock-operator"]
    await space.kubectl("create", "rolebinding", "operator", *binding)
    await space.kubectl("apply", "-f", "-", stdin=json.dumps(deployment))
    await set_ready(space, ready=True)
    async with space.operator():
        yield
    await space.kubectl("delete", "deployment", "penstock-operator")


async def set_ready(space: Namespace, *, ready: bool) -> None:
    """Says whether the operator's pod is ready."""
    status = {"status": {"replicas": 1, "readyReplicas": int(ready)}}
    await space.kubectl(
        "patch", "deployment", "penstock-operator", "--subresource=status", "--type=merge",
        "-p", json.dumps(status),
    )  # fmt: skip


async def start(server: ApiServer, space: Namespace, brokers: str = "kafka:9092") -> None:
    """Applies a stream, puts its pod on the node and starts its driver."""
    await space.apply(kafka={"bootstrapServers": brokers})
    pod = await wait_for_async("a pod of the driver", space.pod)
    assert pod is not None
    await asyncio.to_thread(bind, server, space.name, DRIVER)
    await space.run_driver(lag=7)
    await space.wait_ready()


@pytest.mark.usefixtures("deployed")
async def test_a_stream_that_runs_is_shown_and_has_no_problem(
    server: ApiServer, space: Namespace, kubelet: KubeletServer, penstock: Commands
) -> None:
    (port,) = free_ports(1)
    listening = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", port)
    async with listening:
        await start(server, space, f"127.0.0.1:{port}")
        listed, shown, judged = await asyncio.gather(
            penstock.ask("status"),
            penstock.ask("status", samples.NAME),
            penstock.ask("doctor", samples.NAME),
        )
    assert listed.code == 0, listed.stderr
    head, row = listed.stdout.splitlines()
    assert head.split()[:3] == ["NAMESPACE", "NAME", "STATE"]
    assert row.split()[:6] == [space.name, "flags", "Running", "Running", "Continuous", "7"]
    assert shown.code == 0, shown.stderr
    assert shown.stdout.startswith(f"{space.name}/flags: Running: ")
    assert f"{DRIVER}   Running" in shown.stdout
    assert "CheckpointFound" not in shown.stdout
    assert judged.stdout.startswith(f"ok: {space.name}/flags is Running for "), judged.stdout
    assert judged.code == 0
    assert kubelet.commands[-1] == ["python3", "-m", MODULE, f"127.0.0.1:{port}"]


@pytest.mark.usefixtures("deployed", "kubelet")
async def test_doctor_finds_a_broker_that_refuses_from_inside_the_container(
    server: ApiServer, space: Namespace, penstock: Commands
) -> None:
    """The driver says only that it cannot reach Kafka."""
    (closed,) = free_ports(1)
    await start(server, space, f"127.0.0.1:{closed}")
    failure = LastFailure(
        reason="BrokerUnreachable", message="no answer", permanent=False, time=samples.T0
    )
    await space.run_driver(state=QueryState.RESTARTING, last_failure=failure)

    async def not_ready() -> bool:
        return not await space.ready()

    await wait_for_async("not Ready", not_ready)
    found = await penstock.ask("doctor")
    assert found.stdout.startswith(
        f"problem: {space.name}/flags: BrokerUnreachable: From inside the driver's container, "
        f"127.0.0.1:{closed} (127.0.0.1): the host answers, and nothing listens at the port\n"
        "  do:  Start the broker"
    )
    assert found.code == 1
    shown = await penstock.ask("status", samples.NAME, "-o", "json")
    (stream,) = json.loads(shown.stdout)["streams"]
    assert stream["status"]["lastFailure"]["reason"] == "BrokerUnreachable"
    assert [each["name"] for each in stream["pods"]] == [DRIVER]


@pytest.mark.usefixtures("deployed")
async def test_doctor_names_an_operator_that_does_not_run(
    space: Namespace, penstock: Commands
) -> None:
    await set_ready(space, ready=False)
    found = await penstock.ask("doctor", "-o", "json")
    first = json.loads(found.stdout)["findings"][0]
    assert (first["severity"], first["reason"]) == ("problem", "OperatorNotReady")
    assert found.code == 1


@pytest.mark.usefixtures("deployed")
async def test_doctor_quotes_the_quota_that_refuses_the_drivers_pod(
    space: Namespace, penstock: Commands
) -> None:
    """The real StatefulSet controller says so in an event."""
    await space.kubectl("create", "quota", "none", "--hard=pods=0")

    async def enforced() -> bool:
        return "0" in await space.kubectl("get", "quota", "none", "-ojsonpath={.spec.hard.pods}")

    await wait_for_async("the quota", enforced)
    await space.apply()

    async def refused() -> bool:
        return (await space.condition("Ready")).get("reason") == "FailedCreate"

    await wait_for_async("the refusal", refused)
    found = await penstock.ask("doctor")
    line = found.stdout.splitlines()[0]
    assert line.startswith(f"problem: {space.name}/flags: FailedCreate: Kubernetes refuses a pod")
    assert "exceeded quota: none" in line


@pytest.mark.usefixtures("deployed")
async def test_logs_are_read_followed_and_those_of_the_container_before(
    server: ApiServer, space: Namespace, kubelet: KubeletServer, penstock: Commands
) -> None:
    await start(server, space)
    place = (DRIVER, naming.DRIVER_CONTAINER)
    line = '{"time": "2026-11-22T05:00:01.000Z", "level": "INFO", "message": "started"}'
    kubelet.logs[place] = [f"2026-11-22T05:00:01.000000000Z {line}"]
    kubelet.previous[place] = ["2026-11-22T04:00:00.000000000Z Killed"]
    read, raw, previous = await asyncio.gather(
        penstock.ask("logs", samples.NAME),
        penstock.ask("logs", samples.NAME, "--raw", "--tail", "1"),
        penstock.ask("logs", samples.NAME, "--previous"),
    )
    assert read.stdout == "05:00:01.000 INFO  driver     | started\n", read.stderr
    assert raw.stdout == f"{line}\n"
    assert previous.stdout == "04:00:00.000       driver     | Killed\n"
    followed = await asyncio.create_subprocess_exec(
        *penstock.words("logs", samples.NAME, "-f"), stdout=subprocess.PIPE
    )
    assert followed.stdout is not None
    assert b"started" in await asyncio.wait_for(followed.stdout.readline(), 60)
    kubelet.logs[place].append("2026-11-22T05:00:02.000000000Z later")
    assert b"| later" in await asyncio.wait_for(followed.stdout.readline(), 60)
    followed.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(followed.wait(), 60) == 130
    del kubelet.logs[place]


@pytest.mark.usefixtures("deployed", "kubelet")
async def test_top_prints_the_fleet_as_often_as_asked(
    server: ApiServer, space: Namespace, penstock: Commands
) -> None:
    await start(server, space)
    shown = await penstock.ask("top", "--iterations", "2", "--interval", "0.1")
    assert shown.code == 0, shown.stderr
    frames = [line for line in shown.stdout.splitlines() if "1 of 1 streams Ready" in line]
    assert len(frames) == 2
    assert shown.stdout.count(f"{space.name}   flags   Running") == 2


async def test_a_person_with_few_rights_sees_what_they_may_and_what_is_not_judged(
    server: ApiServer, space: Namespace, tmp_path: Path
) -> None:
    """The rights of a team in its namespace: no operator, no node, no metrics."""
    await space.kubectl("create", "serviceaccount", "someone")
    streams = {"apiGroups": ["penstock.dev"], "resources": ["continuousstreams"]}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "few"},
        "rules": [{**streams, "verbs": ["get", "list"]}],
    }
    await space.kubectl("apply", "-f", "-", stdin=json.dumps(role))
    user = f"--serviceaccount={space.name}:someone"
    await space.kubectl("create", "rolebinding", "someone", "--role=few", user)
    token = (await space.kubectl("create", "token", "someone")).strip()
    users = yaml.safe_load(server.kubeconfig.read_text())
    users["users"][0]["user"] = {"token": token}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(users))
    await space.apply()
    penstock = Commands(kubeconfig, space.name)
    found = await penstock.ask("doctor")
    assert (
        "not judged: cluster: NotJudged: the operator's deployment cannot be read" in found.stdout
    )
    (missing,) = [line for line in found.stdout.splitlines() if "You may not " in line]
    assert missing.count(f" in {space.name}") == len(rights.OF_PEOPLE) - 2
    listed = await penstock.ask("status")
    assert listed.stdout.splitlines()[1].split()[:3] == [space.name, "flags", "Unknown"]
    assert "not read: the pods: " in listed.stderr
    everywhere = await penstock.ask("status", "-A")
    assert everywhere.code == 2
    assert "cannot look: the API server" in everywhere.stderr


async def test_what_cannot_be_looked_at_is_exit_code_2(
    space: Namespace, penstock: Commands, tmp_path: Path
) -> None:
    absent = await penstock.ask("doctor", "absent")
    assert absent.code == 2
    assert f"there is no stream absent in the namespace {space.name}" in absent.stderr
    away = {
        "clusters": [{"name": "any", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "any", "user": {"token": "any"}}],
        "contexts": [{"name": "any", "context": {"cluster": "any", "user": "any"}}],
        "current-context": "any",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(away))
    nobody = await Commands(tmp_path / "kubeconfig", "any").ask("status")
    assert nobody.code == 2
    assert nobody.stderr.startswith(
        "cannot look: the API server https://127.0.0.1:1 cannot be reached: "
    )
    assert "refused" in nobody.stderr
