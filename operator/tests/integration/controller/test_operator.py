"""The whole operator in this process, against the real API server and its real controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from penstock.api.v1alpha1.status import LastFailure
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.controller import objects
from testkit.commands import run
from testkit.controller import samples
from testkit.controller.control_plane import (
    ROOT,
    Namespace,
    control_plane,
    eventually,
    kubectl,
    namespace,
)
from testkit.errors import ClusterError
from testkit.kubernetes.api_server import ApiServer
from testkit.tools import tool

pytestmark = pytest.mark.real

SYSTEM = "penstock-system"
CLAIM = "PersistentVolumeClaim flags-checkpoint"


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with control_plane() as server:
        yield server


async def running(space: Namespace) -> None:
    await space.apply()
    await space.run_driver()
    await eventually(space.ready)


async def versions(space: Namespace) -> dict[str, str]:
    stream = await space.get(objects.STREAM, samples.NAME)
    assert stream is not None
    return {
        each["metadata"]["uid"]: each["metadata"]["resourceVersion"]
        for each in [stream, *await space.children()]
    }


def test_a_stream_becomes_ready_and_the_same_manifest_again_changes_nothing(
    server: ApiServer,
) -> None:
    """Neither a child nor the status gets a new version, also when the operator is restarted."""

    async def scenario() -> None:
        async with namespace(server) as space:
            async with space.operator() as metrics:
                await running(space)
                await settled(metrics)
                before = await versions(space)
                assert "unchanged" in await space.apply()
                await settled(metrics)
            async with space.operator() as metrics:
                await eventually(lambda: looked(metrics, 1))
                await settled(metrics)
            assert await versions(space) == before

    async def looked(metrics: object, times: float) -> bool:
        return count(metrics, "unchanged") >= times

    def count(metrics: object, result: str) -> float:
        registry = metrics.registry  # type: ignore[attr-defined]
        return (
            registry.get_sample_value("penstock_operator_reconcile_total", {"result": result}) or 0
        )

    async def settled(metrics: object) -> None:
        """No reconcile for a second, and the last ones changed nothing."""
        while True:
            before = sum(count(metrics, each) for each in ("changed", "unchanged", "error"))
            await asyncio.sleep(1)
            if before == sum(count(metrics, each) for each in ("changed", "unchanged", "error")):
                return

    asyncio.run(scenario())


@pytest.mark.parametrize(("policy", "stays"), [("Retain", {CLAIM}), ("Delete", set())])
def test_deleting_leaves_only_a_retained_claim_also_with_no_operator(
    server: ApiServer, policy: str, stays: set[str]
) -> None:
    async def scenario() -> None:
        async with namespace(server) as space:
            async with space.operator():
                await space.apply(checkpoint={"volume": {"reclaimPolicy": policy}})
                await space.run_driver()
                await eventually(space.ready)
            await space.kubectl("delete", "cstream", samples.NAME, "--timeout=20s")

            async def only_what_stays() -> bool:
                return await space.names() == stays

            await eventually(only_what_stays)

    asyncio.run(scenario())


def test_a_stream_of_the_same_name_goes_on_from_the_retained_claim(server: ApiServer) -> None:
    async def scenario() -> None:
        async with namespace(server) as space, space.operator():
            await running(space)
            before = await space.get(objects.CLAIM, "flags-checkpoint")
            await space.kubectl("delete", "cstream", samples.NAME, "--timeout=20s")
            await space.apply()

            async def new_pod() -> bool:
                stream = await space.get(objects.STREAM, samples.NAME)
                owner = await space.get(objects.STATEFUL_SET, "flags-driver")
                pod = await space.pod()
                return (
                    stream is not None
                    and owner is not None
                    and pod is not None
                    and objects.owners_of(owner)[0]["uid"] == stream["metadata"]["uid"]
                    and objects.owners_of(pod)[0]["uid"] == owner["metadata"]["uid"]
                )

            await eventually(new_pod)
            await space.run_driver()
            await eventually(space.ready)
            after = await space.get(objects.CLAIM, "flags-checkpoint")
            assert before is not None
            assert after is not None
            assert after["metadata"]["uid"] == before["metadata"]["uid"]

    asyncio.run(scenario())


def test_an_edit_while_the_operator_is_away_is_rolled_out_when_it_is_back(
    server: ApiServer,
) -> None:
    async def scenario() -> None:
        async with namespace(server) as space:
            async with space.operator():
                await running(space)
            old = await space.pod()
            assert old is not None
            await space.apply(executor={"cores": 2})
            async with space.operator():
                await space.replaced(old)
                await space.run_driver()
                await eventually(space.ready)
                assert (await space.status())["restarts"]["total"] == 0

                async def one_document() -> bool:
                    names = await space.names()
                    return sum(name.startswith("ConfigMap") for name in names) == 1

                await eventually(one_document)

    asyncio.run(scenario())


def test_a_corrected_spec_replaces_a_pod_that_never_got_ready(server: ApiServer) -> None:
    """Show 5, the other half: a driver that gave up holds nothing up."""
    failure = LastFailure(reason="TopicMissing", message="none", permanent=True, time=samples.T0)

    async def scenario() -> None:
        async with namespace(server) as space, space.operator():
            await space.apply()
            old = await space.run_driver(
                state=QueryState.FAILED, last_failure=failure, committed=False
            )
            patch = '{"status":{"conditions":[{"type":"Ready","status":"False"}]}}'
            await space.kubectl(
                "patch", "pod", old["metadata"]["name"], "--subresource=status", "--type=merge",
                "-p", patch,
            )  # fmt: skip

            async def stalled() -> bool:
                return (await space.condition("Stalled")).get("reason") == "TopicMissing"

            await eventually(stalled)
            await space.apply(executor={"cores": 2})
            await space.replaced(old)
            await space.run_driver()
            await eventually(space.ready)

    asyncio.run(scenario())


def test_a_query_the_engine_cannot_run_is_stalled_before_anything_is_made(
    server: ApiServer,
) -> None:
    async def scenario() -> None:
        async with namespace(server) as space, space.operator():
            await space.apply(**samples.AGGREGATE)

            async def stalled() -> bool:
                return (await space.condition("Stalled")).get("status") == "True"

            await eventually(stalled)
            assert "Aggregate" in (await space.condition("Stalled"))["message"]
            assert await space.names() == set()
            await space.kubectl("delete", "cstream", samples.NAME)
            await running(space)

    asyncio.run(scenario())


def test_a_deleted_driver_pod_is_counted_and_recovers(server: ApiServer) -> None:
    async def scenario() -> None:
        async with namespace(server) as space, space.operator():
            await running(space)
            old = await space.pod()
            assert old is not None
            await space.kubectl(
                "delete", "pod", old["metadata"]["name"], "--grace-period=0", "--force"
            )

            async def not_ready() -> bool:
                return not await space.ready()

            await eventually(not_ready)
            await space.run_driver()
            await eventually(space.ready)
            assert (await space.status())["restarts"]["pod"] == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("spoiled", "named"),
    [
        ({"source": {}}, "spec.source"),
        ({"source": {"rate": {}, **samples.stream()["spec"]["source"]}}, "spec.source"),
        ({"trigger": {"continuous": {"checkpointInterval": "soon"}}}, "checkpointInterval"),
        ({"colour": "blue"}, "spec.colour"),
    ],
)  # fmt: skip
def test_a_bad_manifest_is_refused_with_the_field_it_is_about(
    server: ApiServer, spoiled: dict[str, object], named: str
) -> None:
    async def scenario() -> None:
        async with namespace(server) as space:
            with pytest.raises(ClusterError) as refusal:
                await space.apply(**spoiled)
            assert named in str(refusal.value)

    asyncio.run(scenario())


def test_the_charts_rights_are_enough(server: ApiServer, tmp_path: Path) -> None:
    """The operator with the chart's rights alone; and they do not let it read a Secret."""
    rendered = run([tool("helm"), "template", "penstock", ROOT / "charts/penstock", "-n", SYSTEM])
    rbac = [
        each
        for each in yaml.safe_load_all(rendered)
        if each and each["kind"] in {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
    ]
    kubectl(server, "create", "namespace", SYSTEM)
    kubectl(server, "apply", "-f", "-", stdin=yaml.safe_dump_all(rbac))
    (name,) = [each["metadata"]["name"] for each in rbac if each["kind"] == "ServiceAccount"]
    account = f"system:serviceaccount:{SYSTEM}:{name}"
    token = kubectl(server, "-n", SYSTEM, "create", "token", name).strip()
    kubeconfig = tmp_path / "kubeconfig"
    users = yaml.safe_load(server.kubeconfig.read_text())
    users["users"][0]["user"] = {"token": token}
    kubeconfig.write_text(yaml.safe_dump(users))

    async def scenario() -> None:
        async with namespace(server) as space, space.operator(kubeconfig):
            await running(space)
            old = await space.pod()
            assert old is not None
            await space.apply(executor={"cores": 2})
            await space.replaced(old)
            await space.run_driver()
            await eventually(space.ready)
            names = await eventually(lambda: one_document(space))
            assert len(names) == 1
            denied = await space.kubectl(
                "auth", "can-i", "--list", f"--as={account}", "--no-headers"
            )
            assert "secrets" not in denied

    async def one_document(space: Namespace) -> list[str]:
        names = [name for name in await space.names() if name.startswith("ConfigMap")]
        return names if len(names) == 1 else []

    asyncio.run(scenario())


def test_events_tell_the_story(server: ApiServer) -> None:
    async def scenario() -> None:
        async with namespace(server) as space, space.operator():
            await running(space)
            pod = await space.pod()
            assert pod is not None
            await space.run_driver(query_restarts=1)

            async def told() -> bool:
                events = await space.kubectl("get", "events", "-ojsonpath={.items[*].reason}")
                return {"Running", "QueryRestarted"} <= set(events.split())

            await eventually(told)
            assert naming.LABEL_STREAM in objects.labels_of(pod)

    asyncio.run(scenario())
