"""The whole operator in this process, against a real API server and its real controllers."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path

import pytest
import yaml

from penstock.api.v1alpha1.status import CommittedOffset, LastFailure
from penstock.cluster import kinds
from penstock.cluster.objects import Object
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.controller.metrics import OperatorMetrics
from penstock.driver.kubernetes.api import Api
from penstock.driver.kubernetes.orphan_guard import Answer, OwnPod
from testkit.commands import run
from testkit.controller import samples
from testkit.controller.control_plane import (
    ROOT,
    Namespace,
    no_reconcile_for_a_second,
    reconciles,
)
from testkit.kubernetes.api_server import ApiServer
from testkit.tools import tool
from testkit.wait import wait_for_async

SYSTEM = "penstock-system"
CLAIM = "PersistentVolumeClaim flags-checkpoint"


async def start_stream(space: Namespace) -> None:
    """Applies a stream, starts its driver, and waits until it is Ready."""
    await space.apply()
    await space.run_driver()
    await space.wait_ready()


async def resource_versions(space: Namespace) -> dict[str, str]:
    """The resource versions of the stream and of its children, by uid."""
    stream = await space.get(kinds.STREAM, samples.NAME)
    assert stream is not None
    return {
        document["metadata"]["uid"]: document["metadata"]["resourceVersion"]
        for document in [stream, *await space.children()]
    }


def requests(metrics: OperatorMetrics, **labels: str) -> float:
    """How many requests of the operator ended like this."""
    name = "penstock_operator_api_requests_total"
    return metrics.registry.get_sample_value(name, labels) or 0


async def config_maps(space: Namespace) -> list[str]:
    return [name for name in await space.names() if name.startswith("ConfigMap")]


@pytest.mark.proves(27)
async def test_applying_the_same_manifest_twice_changes_nothing(
    space: Namespace,
) -> None:
    """No child and no status gets a new version, also after a restart of the operator."""
    async with space.operator() as metrics:
        await start_stream(space)
        await no_reconcile_for_a_second(metrics)
        before = await resource_versions(space)
        assert "unchanged" in await space.apply()
        await no_reconcile_for_a_second(metrics)
        assert requests(metrics, verb="patch", resource="statefulsets", code="201") == 1
        assert requests(metrics, verb="get", resource="continuousstreams", code="200") >= 1
        assert metrics.registry.get_sample_value("penstock_operator_leader") == 1
    async with space.operator() as metrics:

        async def reconciled() -> bool:
            return reconciles(metrics, "unchanged") >= 1

        await wait_for_async("reconciled", reconciled)
        await no_reconcile_for_a_second(metrics)
    assert await resource_versions(space) == before


@pytest.mark.proves(28)
@pytest.mark.parametrize(("policy", "kept"), [("Retain", {CLAIM}), ("Delete", set())])
async def test_deleting_leaves_only_a_retained_claim_also_without_an_operator(
    space: Namespace, policy: str, kept: set[str]
) -> None:
    async with space.operator():
        await space.apply(checkpoint={"volume": {"reclaimPolicy": policy}})
        await space.run_driver()
        await space.wait_ready()
    await space.kubectl("delete", "cstream", samples.NAME, "--timeout=20s")

    async def only_the_claim_is_left() -> bool:
        return await space.names() == kept

    await wait_for_async("only the claim is left", only_the_claim_is_left)


@pytest.mark.proves(28)
async def test_a_stream_in_an_object_store_has_no_claim(space: Namespace) -> None:
    """It becomes Ready, says where its checkpoint is, and leaves nothing in the cluster."""
    async with space.operator():
        store = {"location": "s3a://bucket/prefix", "accessKeyIdSecret": {"name": "k", "key": "id"}}
        await space.apply(
            checkpoint={
                "objectStore": {**store, "secretAccessKeySecret": {"name": "k", "key": "secret"}}
            }
        )
        await space.run_driver()
        await space.wait_ready()
        assert await space.get(kinds.CLAIM, "flags-checkpoint") is None
        pod, stream = await space.pod(), await space.get(kinds.STREAM, samples.NAME)
        assert pod is not None
        assert stream is not None
        location = f"s3a://bucket/prefix/{Object(pod).namespace}/flags"
        assert stream["status"]["effective"]["checkpointLocation"] == location
        assert Object(pod).annotations[naming.ANNOTATION_CHECKPOINT] == location
        assert not [it for it in pod["spec"]["volumes"] if "persistentVolumeClaim" in it]
    await space.kubectl("delete", "cstream", samples.NAME, "--timeout=20s")

    async def nothing_is_left() -> bool:
        return not await space.names()

    await wait_for_async("nothing is left", nothing_is_left)


async def test_a_new_stream_of_the_same_name_uses_the_retained_claim(space: Namespace) -> None:
    async with space.operator():
        await start_stream(space)
        before = await space.get(kinds.CLAIM, "flags-checkpoint")
        await space.kubectl("delete", "cstream", samples.NAME, "--timeout=20s")
        await space.apply()

        async def new_pod() -> bool:
            stream = await space.get(kinds.STREAM, samples.NAME)
            owner = await space.get(kinds.STATEFUL_SET, "flags-driver")
            pod = await space.pod()
            return (
                stream is not None
                and owner is not None
                and pod is not None
                and Object(owner).owners[0]["uid"] == stream["metadata"]["uid"]
                and Object(pod).owners[0]["uid"] == owner["metadata"]["uid"]
            )

        await wait_for_async("new pod", new_pod)
        await space.run_driver()
        await space.wait_ready()
        after = await space.get(kinds.CLAIM, "flags-checkpoint")
        assert before is not None
        assert after is not None
        assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_an_edit_made_while_the_operator_is_down_is_rolled_out_after_its_start(
    space: Namespace,
) -> None:
    async with space.operator():
        await start_stream(space)
    old = await space.pod()
    assert old is not None
    await space.apply(executor={"cores": 2})
    async with space.operator():
        await space.replaced(old)
        await space.run_driver()
        await space.wait_ready()
        assert (await space.status())["restarts"]["total"] == 0

        async def one_config_map() -> bool:
            return len(await config_maps(space)) == 1

        await wait_for_async("one config map", one_config_map)


async def test_a_corrected_spec_replaces_a_pod_that_never_became_ready(space: Namespace) -> None:
    """Show 5, the other half: a driver with a permanent failure does not block the rollout."""
    failure = LastFailure(reason="TopicMissing", message="none", permanent=True, time=samples.T0)
    async with space.operator():
        await space.apply()
        old = await space.run_driver(state=QueryState.FAILED, last_failure=failure, committed=False)
        patch = '{"status":{"conditions":[{"type":"Ready","status":"False"}]}}'
        await space.kubectl(
            "patch", "pod", old["metadata"]["name"], "--subresource=status", "--type=merge",
            "-p", patch,
        )  # fmt: skip

        async def stalled() -> bool:
            return (await space.condition("Stalled")).get("reason") == "TopicMissing"

        await wait_for_async("stalled", stalled)
        await space.apply(executor={"cores": 2})
        await space.replaced(old)
        await space.run_driver()
        await space.wait_ready()


@pytest.mark.proves(18)
async def test_an_aggregate_ends_stalled_and_recovers_when_corrected(
    space: Namespace,
) -> None:
    async with space.operator():
        await space.apply(**samples.AGGREGATE)

        async def stalled() -> bool:
            return (await space.condition("Stalled")).get("status") == "True"

        await wait_for_async("stalled", stalled)
        assert "Aggregate" in (await space.condition("Stalled"))["message"]
        assert await space.names() == set()
        await start_stream(space)
        assert (await space.condition("Stalled"))["status"] == "False"


async def test_a_deleted_driver_pod_is_counted_and_recovers(space: Namespace) -> None:
    async with space.operator():
        await start_stream(space)
        old = await space.pod()
        assert old is not None
        await space.kubectl("delete", "pod", old["metadata"]["name"], "--grace-period=0", "--force")

        async def not_ready() -> bool:
            return not await space.ready()

        await wait_for_async("not ready", not_ready)
        await space.run_driver()
        await space.wait_ready()
        assert (await space.status())["restarts"]["pod"] == 1


async def own_pod(space: Namespace, server: ApiServer) -> OwnPod:
    """The driver's pod as its driver sees it, with the token that the kubelet would give it."""
    pod = await space.pod()
    assert pod is not None
    name = pod["metadata"]["name"]
    bound = ("--bound-object-kind", "Pod", "--bound-object-name", name)
    token = (await space.kubectl("create", "token", "flags-driver", *bound)).strip()
    trust = ssl.create_default_context(cafile=str(server.ca))
    return OwnPod(Api(server.url, space.name, lambda: token, trust), name)


async def wait_unauthorized(pod: OwnPod) -> None:
    """An API server knows for some seconds what it has found valid."""

    async def unauthorized() -> bool:
        return await asyncio.to_thread(pod.ask) is Answer.UNAUTHORIZED

    await wait_for_async("the token rejected", unauthorized)


@pytest.mark.proves("failures.md#the-api-server-rejects-the-drivers-token")
async def test_a_pod_whose_service_account_was_made_again_is_replaced_once(
    space: Namespace, server: ApiServer
) -> None:
    """The API server rejects its token, as it does that of a pod that was deleted by force."""
    async with space.operator() as metrics:
        await start_stream(space)
        old = await space.pod()
        assert old is not None
        seen = await own_pod(space, server)
        assert await asyncio.to_thread(seen.ask) is Answer.EXISTS
        await asyncio.sleep(1.1)  # of two objects of one second it is not known which is older
        await space.delete(kinds.SERVICE_ACCOUNT, "flags-driver")
        new = await space.replaced(old)
        await wait_unauthorized(seen)
        await space.run_driver()
        await space.wait_ready()
        await no_reconcile_for_a_second(metrics)
        left = await space.pod()
        assert left is not None
        assert left["metadata"]["uid"] == new["metadata"]["uid"]
        assert requests(metrics, verb="delete", resource="pods", code="200") == 1
        assert (await space.status())["restarts"]["pod"] == 1
        events = await space.kubectl("get", "events", "-ojsonpath={.items[*].reason}")
        assert events.split().count("ServiceAccountRecreated") == 1
        seen = await own_pod(space, server)
        assert await asyncio.to_thread(seen.ask) is Answer.EXISTS
        name = new["metadata"]["name"]
        await space.kubectl("delete", "pod", name, "--grace-period=0", "--force")
        await wait_unauthorized(seen)


async def test_an_object_of_any_depth_stops_no_other(space: Namespace) -> None:
    """The API server stores ten thousand levels, and Python's parser fails beyond one thousand."""
    deep = samples.stream(driver={"podTemplate": {"metadata": "@"}})
    deep["metadata"] = {"name": "deep"}
    levels = 9_000
    text = json.dumps(deep).replace('"@"', '{"a":' * levels + "1" + "}" * levels)
    async with space.operator():
        await space.kubectl("create", "--validate=false", "-f", "-", stdin=text)
        await start_stream(space)

        async def refused() -> bool:
            stalled = "-ojsonpath={.status.conditions[?(@.type=='Stalled')]}"
            said = await space.kubectl("get", "cstream", "deep", stalled)
            return "podTemplate cannot have more than 32 levels" in said

        await wait_for_async("the deep object is refused", refused)


@pytest.fixture
def service_account(server: ApiServer) -> str:
    """The operator's service account, with the rights that the chart grants and no others."""
    chart = ROOT / "charts/penstock"
    rendered = run([tool("helm"), "template", "penstock", chart, "-n", SYSTEM, "--skip-tests"])
    rbac = [
        document
        for document in yaml.safe_load_all(rendered)
        if document and document["kind"] in {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
    ]
    server.kube().run("create", "namespace", SYSTEM)
    server.kube().apply(*rbac)
    (name,) = [
        document["metadata"]["name"] for document in rbac if document["kind"] == "ServiceAccount"
    ]
    return str(name)


async def test_the_rights_that_the_chart_grants_are_sufficient(
    server: ApiServer, space: Namespace, service_account: str, tmp_path: Path
) -> None:
    """The operator runs with them alone, and they do not let it read a Secret."""
    token = server.kube(SYSTEM).run("create", "token", service_account).strip()
    async with space.operator(server.kubeconfig_of(token, tmp_path)):
        await start_stream(space)
        old = await space.pod()
        assert old is not None
        await space.apply(executor={"cores": 2})
        await space.replaced(old)
        await space.run_driver()
        await space.wait_ready()

        async def one_config_map() -> bool:
            return len(await config_maps(space)) == 1

        await wait_for_async("one config map", one_config_map)
        user = f"system:serviceaccount:{SYSTEM}:{service_account}"
        rights = await space.kubectl("auth", "can-i", "--list", f"--as={user}", "--no-headers")
        (on_secrets,) = [right for right in rights.splitlines() if right.startswith("secrets ")]
        assert on_secrets.rpartition(" [")[2] == "create]"
        # Why a pod cannot be created is in no status.
        await space.kubectl("auth", "can-i", "list", "events.events.k8s.io", f"--as={user}")


@pytest.mark.proves("failures.md#events")
async def test_events_report_the_start_and_a_restart_of_the_query(space: Namespace) -> None:
    async with space.operator():
        await start_stream(space)
        pod = await space.pod()
        assert pod is not None
        await space.run_driver(query_restarts=1)

        async def reported() -> bool:
            events = await space.kubectl("get", "events", "-ojsonpath={.items[*].reason}")
            return {"Running", "QueryRestarted"} <= set(events.split())

        await wait_for_async("reported", reported)
        assert naming.LABEL_STREAM in Object(pod).labels


async def test_kubectl_shows_the_status(space: Namespace) -> None:
    """The status passes the schema of the API server, and the columns read it."""
    offsets = [
        CommittedOffset(topic="flags", partition=partition, offset=5) for partition in range(4)
    ]
    async with space.operator():
        await space.apply()
        await space.run_driver(committed_offsets=offsets, committed_offsets_omitted=2, lag=7)
        await space.wait_ready()
        status = await space.status()
        assert status["cores"] == {"registered": 4, "desired": 4}
        assert status["committedOffsets"] == [committed.model_dump() for committed in offsets]
        assert status["committedOffsetsOmitted"] == 2
        assert [condition["type"] for condition in status["conditions"]] == [
            "Ready", "Reconciling", "Stalled", "Warning",
        ]  # fmt: skip
        pod = await space.pod()
        assert pod is not None
        assert status["internal"]["driverPodUid"] == pod["metadata"]["uid"]
        assert status["effective"]["image"] == samples.IMAGE
        assert status["effective"]["driver"]["heap"] == "512Mi"
        row = (await space.kubectl("get", "cstream", "--no-headers")).split()
        assert row[:5] == ["flags", "True", "Running", "Continuous", "7"]
        wide = (await space.kubectl("get", "cstream", "--no-headers", "-owide")).split()
        assert wide[6:] == ["Running", "4", "4", "1", "0", samples.IMAGE]
