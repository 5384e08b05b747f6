"""The commands that ask a cluster, as processes, against a real API server.

The operator runs in the test, and writes the status. The test plays kubelet and driver: logs and
exec take their real way through the API server to a kubelet that serves nothing else.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.api.v1alpha1.status import LastFailure
from penstock.client.reading import rights
from penstock.cluster import kinds
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


@asynccontextmanager
async def deployed(space: Namespace) -> AsyncIterator[None]:
    """The operator's Deployment as the chart installs it, with one ready pod, and the operator.

    No fixture, because kopf would cancel the task that ends it.
    """
    labels = {"app.kubernetes.io/name": "penstock", "app.kubernetes.io/component": "operator"}
    settings = json.dumps({"sparkImage": "any", "watchNamespaces": [space.name]})
    template = {
        "metadata": {"labels": labels, "annotations": {naming.ANNOTATION_SETTINGS: settings}},
        "spec": {
            "serviceAccountName": "penstock-operator",
            "containers": [{"name": "operator", "image": "any"}],
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
    status = {"status": {"replicas": 1, "readyReplicas": int(ready)}}
    await space.kubectl(
        "patch", "deployment", "penstock-operator", "--subresource=status", "--type=merge",
        "-p", json.dumps(status),
    )  # fmt: skip


async def start(server: ApiServer, space: Namespace, brokers: str = "127.0.0.1:1") -> None:
    """Applies a stream, puts its pod on the node and starts its driver."""
    connection = {"bootstrapServers": brokers}
    await space.apply(
        source={"kafka": {**connection, "topics": ["in"]}},
        sink={"kafka": {**connection, "topic": "out"}},
    )
    pod = await wait_for_async("a pod of the driver", space.pod)
    assert pod is not None
    await asyncio.to_thread(bind, server, space.name, DRIVER)
    await space.run_driver(lag=7)
    await space.wait_ready()


async def test_a_stream_that_runs_is_shown_and_has_no_problem(
    server: ApiServer, space: Namespace, kubelet: KubeletServer, penstock: Commands
) -> None:
    """By all commands; and an operator that does not run is one."""
    (port,) = free_ports(1)
    broker = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
    async with deployed(space), broker:
        await start(server, space, f"127.0.0.1:{port}")
        listed, shown, judged, live = await asyncio.gather(
            penstock.ask("status"),
            penstock.ask("status", samples.NAME),
            penstock.ask("doctor", samples.NAME),
            penstock.ask("top", "--iterations", "2", "--interval", "0.1"),
        )
        await set_ready(space, ready=False)
        without_operator = await penstock.ask("doctor", "-o", "json")
    assert listed.code == 0, listed.stderr
    head, row = listed.stdout.splitlines()
    assert head.split()[:3] == ["NAMESPACE", "NAME", "STATE"]
    assert row.split()[:6] == [space.name, "flags", "Running", "Running", "Continuous", "7"]
    assert shown.code == 0, shown.stderr
    assert shown.stdout.startswith(f"{space.name}/flags: Running: ")
    assert f"{DRIVER}   Running" in shown.stdout
    assert judged.first_line.startswith(f"ok: {space.name}/flags is Running for ")
    assert judged.code == 0
    assert kubelet.commands[-1] == ["python3", "-m", MODULE, f"127.0.0.1:{port}"]
    assert live.code == 0, live.stderr
    assert live.stdout.count("1 of 1 streams Ready") == 2
    assert live.stdout.count(f"{space.name}   flags   Running") == 2
    first = json.loads(without_operator.stdout)["findings"][0]
    assert (first["severity"], first["reason"]) == ("problem", "OperatorNotReady")
    assert without_operator.code == 1


@pytest.mark.usefixtures("kubelet")
async def test_doctor_finds_a_broker_that_refuses_from_inside_the_container(
    server: ApiServer, space: Namespace, penstock: Commands
) -> None:
    """The driver says only that it cannot reach Kafka."""
    async with deployed(space):
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
        assert found.first_line == (
            f"problem: {space.name}/flags: BrokerUnreachable: From inside the driver's container, "
            f"the broker 127.0.0.1:{closed} (127.0.0.1) of the source and sink: the host answers, "
            "and nothing listens at the port"
        )
        assert found.code == 1
        shown = await penstock.ask("status", samples.NAME, "-o", "json")
        (stream,) = json.loads(shown.stdout)["streams"]
        assert stream["status"]["lastFailure"]["reason"] == "BrokerUnreachable"
        assert [pod["name"] for pod in stream["pods"]] == [DRIVER]


async def test_doctor_quotes_what_refuses_the_drivers_pod(
    space: Namespace, penstock: Commands
) -> None:
    """The real StatefulSet controller says so in an event."""
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "tiny"},
        "spec": {"limits": [{"type": "Container", "max": {"memory": "10Mi"}}]},
    }
    await space.kubectl("apply", "-f", "-", stdin=json.dumps(limits))
    async with deployed(space):
        await space.apply()

        async def refused() -> bool:
            return (await space.condition("Ready")).get("reason") == "FailedCreate"

        await wait_for_async("the refusal", refused)
        found = await penstock.ask("doctor")
    refusal = f"problem: {space.name}/flags: FailedCreate: Kubernetes refuses a pod of the "
    assert found.first_line.startswith(refusal)
    assert "maximum memory usage per Container is 10Mi" in found.first_line


async def test_logs_are_read_followed_and_those_of_the_container_before(
    server: ApiServer, space: Namespace, kubelet: KubeletServer, penstock: Commands
) -> None:
    async with deployed(space):
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
    await space.apply()
    penstock = Commands(server.kubeconfig_of(token, tmp_path), space.name)
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


async def test_a_plan_says_what_the_apply_would_do(
    space: Namespace, penstock: Commands, tmp_path: Path
) -> None:
    """And changes nothing."""
    file = tmp_path / "stream.yaml"

    async def planned(*words: str, **spec: Any) -> Ran:
        stream = samples.stream(**spec)
        del stream["metadata"]["namespace"]
        file.write_text(yaml.safe_dump(stream))
        return await penstock.ask("plan", str(file), *words)

    created = await planned()
    assert (created.code, "it is created" in created.stdout) == (0, True)
    await space.apply()
    before = await space.get(kinds.STREAM, samples.NAME)
    nothing = await planned(restart={"maxAttempts": 3})
    assert (nothing.code, "nothing restarts" in nothing.stdout) == (0, True)
    query = await planned("--format", "json", queryName="edited")
    assert query.code == 2
    reasons = [each["reason"] for each in json.loads(query.stdout)["findings"]]
    assert reasons == ["QueryRestarts", "FieldEdited"]
    refused = await planned(className="blue")
    assert (refused.code, "spec.className: added (refused)" in refused.stdout) == (1, True)
    assert await space.get(kinds.STREAM, samples.NAME) == before
    file.unlink()
    assert (await penstock.ask("plan", str(file))).code == 1


async def test_an_earlier_spec_can_be_written_again(space: Namespace, penstock: Commands) -> None:
    name = samples.NAME
    assert (await penstock.ask("history", name)).code == 2
    async with deployed(space):
        await space.apply(image="one:image")
        assert (await penstock.ask("rollback", name)).code == 1
        await space.run_driver()
        await space.wait_ready()
        before = (await space.status())["effective"]["revision"]
        await space.apply(image="one:image", queryName="edited")
        await space.take_edit()
        await space.wait_ready()
        shown = await penstock.ask("history", name, "-o", "json")
        newest, oldest = json.loads(shown.stdout)
        assert (newest["state"], newest["changed"]) == ("Running", ["queryName"])
        assert (oldest["revision"], oldest["image"]) == (before, "one:image")
        dry = await penstock.ask("rollback", name, "--dry-run")
        assert (dry.code, "would be written: the spec of" in dry.stdout) == (0, True)
        assert "in the same pods, the edited query" in dry.stdout
        wrote = await penstock.ask("rollback", name)
        assert (wrote.code, f"written: the spec of revision {before}" in wrote.stdout) == (0, True)
        await space.take_edit()
        await space.wait_ready()
        assert (await space.status())["effective"]["revision"] == before
        stream = await space.get(kinds.STREAM, name)
        assert stream is not None
        assert (await penstock.ask("rollback", name, "--to", "none")).code == 1
