"""Somebody deletes or changes the objects of a running stream by hand, with a real API server.

Whatever is not said is as before within seconds, and the driver's pod runs on.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock.cluster import kinds
from penstock.cluster.kinds import Kind, Manifest
from penstock.cluster.objects import Object
from penstock.contract import naming
from testkit.controller import samples
from testkit.controller.control_plane import Namespace
from testkit.wait import wait_for_async

STREAM = "continuousstreams.penstock.dev"
DRIVER = naming.driver_name(samples.NAME)
POD = naming.driver_pod_name(samples.NAME)
CLAIM = naming.checkpoint_claim_name(samples.NAME)
NO_LABELS = {"metadata": {"labels": None}}
NO_OWNER = {"metadata": {"ownerReferences": None}}
NEITHER = {"metadata": {"labels": None, "ownerReferences": None}}
HELD = {"metadata": {"finalizers": ["example.com/held"]}}
FREE = {"metadata": {"finalizers": None}}
# What the server writes itself.
_OF_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


async def start(space: Namespace) -> Manifest:
    """Starts a stream, and returns its driver's pod."""
    await space.apply()
    pod = await space.run_driver()
    await space.wait_ready()
    return pod


async def patch(space: Namespace, kind: str, name: str, change: object, *options: str) -> None:
    words = (kind, name, "--type=merge", "-p", json.dumps(change))
    await space.kubectl("patch", *words, *options)


async def make_again(space: Namespace, kind: Kind, name: str, **fields: Any) -> None:
    """Deletes an object and creates another one of its name, while the operator is paused."""
    found = await space.get(kind, name)
    assert found is not None
    meta = {field: v for field, v in found["metadata"].items() if field not in _OF_SERVER}
    new = {**found, "metadata": meta, **fields}
    # Otherwise it would be restored between the two.
    await space.kubectl("annotate", STREAM, samples.NAME, f"{naming.ANNOTATION_PAUSE}=true")
    await wait_reason(space, "Reconciling", "ReconciliationPaused")
    await space.kubectl("replace", "--force", "-f", "-", stdin=json.dumps(new))
    await space.kubectl("annotate", STREAM, samples.NAME, f"{naming.ANNOTATION_PAUSE}-")


async def config_name(space: Namespace) -> str:
    (found,) = [name for name in await space.names() if name.startswith("ConfigMap ")]
    return found.removeprefix("ConfigMap ")


def written(found: Manifest | None) -> Manifest | None:
    """What people write of an object."""
    if found is None:
        return None
    meta = {name: value for name, value in found["metadata"].items() if name not in _OF_SERVER}
    rest = {name: value for name, value in found.items() if name not in ("metadata", "status")}
    return {**rest, "metadata": meta}


async def wait_restored(space: Namespace, kind: Kind, name: str, before: Manifest | None) -> None:
    async def restored() -> bool:
        return written(await space.get(kind, name)) == written(before)

    await wait_for_async(f"{kind.kind} {name} is as before", restored, 30)


async def wait_reason(space: Namespace, condition: str, reason: str) -> str:
    """Waits until a condition has this reason, and returns its message."""

    async def found() -> str:
        now = await space.condition(condition)
        return str(now["message"]) if now.get("reason") == reason else ""

    return str(await wait_for_async(f"{condition} with {reason}", found, 30))


async def assert_undisturbed(space: Namespace, pod: Manifest) -> None:
    """The same pod runs, its StatefulSet owns it, and the stream is Ready."""
    owner = await space.get(kinds.STATEFUL_SET, DRIVER)
    assert owner is not None

    async def owned() -> bool:
        now = await space.pod()
        return now is not None and Object(now).is_owned_by(Object(owner).uid)

    await wait_for_async("the StatefulSet owns the pod", owned, 30)
    now = await space.pod()
    assert now is not None
    assert Object(now).uid == Object(pod).uid
    await space.wait_ready()
    assert (await space.condition("Ready"))["reason"] == "Running"


_PLAIN = {
    "role": (kinds.ROLE, {"rules": []}),
    "rolebinding": (kinds.ROLE_BINDING, {"subjects": []}),
    "networkpolicy": (kinds.NETWORK_POLICY, {"spec": {"ingress": []}}),
    "statefulset": (kinds.STATEFUL_SET, {"spec": {"replicas": 2}}),
}


@pytest.mark.proves("failures.md#somebody-deletes-or-changes-an-object-of-the-stream")
@pytest.mark.parametrize("resource", list(_PLAIN))
async def test_an_object_is_restored_and_the_driver_runs_on(
    space: Namespace, resource: str
) -> None:
    """Deleted (a StatefulSet without its pod), changed, without its labels or owner or both."""
    kind, change = _PLAIN[resource]
    options = ["--cascade=orphan"] if resource == "statefulset" else []
    async with space.operator():
        pod = await start(space)
        before = await space.get(kind, DRIVER)
        await space.delete(kind, DRIVER, *options)
        await wait_restored(space, kind, DRIVER, before)
        for each in (change, NO_LABELS, NO_OWNER, NEITHER):
            await patch(space, resource, DRIVER, each)
            await wait_restored(space, kind, DRIVER, before)
        await assert_undisturbed(space, pod)


async def test_a_claim_is_restored(space: Namespace) -> None:
    """It has no owner, for it outlives its stream."""
    async with space.operator():
        pod = await start(space)
        before = await space.get(kinds.CLAIM, CLAIM)
        await patch(space, "pvc", CLAIM, NO_LABELS)
        await wait_restored(space, kinds.CLAIM, CLAIM, before)
        await assert_undisturbed(space, pod)


@pytest.mark.proves("failures.md#somebody-deletes-or-changes-an-object-of-the-stream")
async def test_a_config_map_is_restored_with_its_content(space: Namespace) -> None:
    """A driver that starts never reads another document under the name of its own."""
    async with space.operator():
        pod = await start(space)
        name = await config_name(space)
        before = await space.get(kinds.CONFIG_MAP, name)
        await space.delete(kinds.CONFIG_MAP, name)
        await wait_restored(space, kinds.CONFIG_MAP, name, before)
        await patch(space, "configmap", name, NO_LABELS)
        await wait_restored(space, kinds.CONFIG_MAP, name, before)
        await make_again(space, kinds.CONFIG_MAP, name, data={naming.SPEC_FILE: "spec: {}"})
        await wait_restored(space, kinds.CONFIG_MAP, name, before)
        await assert_undisturbed(space, pod)


@pytest.mark.proves("failures.md#somebody-deletes-or-changes-an-object-of-the-stream")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(NO_LABELS, id="no labels"),
        pytest.param(NO_OWNER, id="no owner"),
        pytest.param({"metadata": {"labels": {naming.LABEL_STREAM: None}}}, id="no stream"),
        pytest.param(
            {"metadata": {"annotations": {naming.ANNOTATION_POD_HASH: None}}}, id="no pod hash"
        ),
        pytest.param(
            {"metadata": {"annotations": {naming.ANNOTATION_POD_HASH: "other"}}}, id="other hash"
        ),
        pytest.param(
            {"metadata": {"annotations": {naming.ANNOTATION_REPORT: None}}}, id="no report"
        ),
        pytest.param(
            {"metadata": {"annotations": {naming.ANNOTATION_REPORT: "{"}}}, id="broken report"
        ),
    ],
)
async def test_the_driver_runs_on_whatever_is_changed_on_its_pod(
    space: Namespace, change: Manifest
) -> None:
    """And stays Ready; its driver writes a missing report again."""
    async with space.operator():
        pod = await start(space)
        await patch(space, "pod", POD, change)
        # The next edit of the status comes after the operator has seen the change.
        await patch(space, "role", DRIVER, NO_LABELS)
        role = await space.get(kinds.ROLE, DRIVER)
        assert role is not None

        async def looked() -> bool:
            found = await space.get(kinds.ROLE, DRIVER)
            return found is not None and naming.LABEL_STREAM in Object(found).labels

        await wait_for_async("the operator has looked", looked, 30)
        await assert_undisturbed(space, pod)
        assert (await space.status())["restarts"]["total"] == 0
        reasons = await space.kubectl("get", "events", "-ojsonpath={.items[*].reason}")
        assert "NotReady" not in reasons.split()


@pytest.mark.proves("failures.md#somebody-deletes-or-changes-an-object-of-the-stream")
async def test_a_binding_to_another_role_is_said_until_it_is_deleted(space: Namespace) -> None:
    """Nobody can change what a RoleBinding binds to."""
    async with space.operator():
        pod = await start(space)
        before = await space.get(kinds.ROLE_BINDING, DRIVER)
        other = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        await make_again(space, kinds.ROLE_BINDING, DRIVER, roleRef=other)
        message = await wait_reason(space, "Stalled", "ApplyRefused")
        assert f"recreated the RoleBinding {DRIVER}, delete it" in message
        await space.delete(kinds.ROLE_BINDING, DRIVER)
        await wait_restored(space, kinds.ROLE_BINDING, DRIVER, before)
        await assert_undisturbed(space, pod)


@pytest.mark.proves("failures.md#somebody-deletes-or-changes-an-object-of-the-stream")
async def test_an_account_of_somebody_else_is_said_and_its_pod_is_replaced(
    space: Namespace,
) -> None:
    """The token of the pod is void, whoever made the account again."""
    async with space.operator():
        pod = await start(space)
        await asyncio.sleep(1.1)  # the times of pod and account have whole seconds
        meta = {"name": DRIVER, "namespace": space.name}
        await make_again(space, kinds.SERVICE_ACCOUNT, DRIVER, metadata=meta)
        assert DRIVER in await wait_reason(space, "Stalled", "ForeignObject")
        second = await space.replaced(pod)
        await space.run_driver()
        await asyncio.sleep(1.1)
        await space.delete(kinds.SERVICE_ACCOUNT, DRIVER)
        await space.replaced(second)
        await space.run_driver()
        await space.wait_ready()


@pytest.mark.proves("failures.md#somebody-deletes-or-changes-an-object-of-the-stream")
async def test_what_a_finalizer_keeps_is_said(space: Namespace) -> None:
    """Not that a node does not confirm the end of the pod."""
    async with space.operator():
        await start(space)
        await patch(space, "role", DRIVER, HELD)
        await space.kubectl("delete", "role", DRIVER, "--wait=false")
        assert "example.com/held" in await wait_reason(space, "Warning", "HeldByFinalizers")
        await patch(space, "role", DRIVER, FREE)
        await wait_reason(space, "Warning", "NoWarnings")
        assert await space.get(kinds.ROLE, DRIVER) is not None


@pytest.mark.proves("failures.md#somebody-deletes-or-changes-an-object-of-the-stream")
@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"state": "Stalled", "conditions": []}, id="another"),
        pytest.param(None, id="none"),
    ],
)
async def test_a_status_is_written_again(space: Namespace, status: Manifest | None) -> None:
    async with space.operator():
        pod = await start(space)
        await patch(space, STREAM, samples.NAME, {"status": status}, "--subresource=status")

        async def again() -> bool:
            now = await space.status()
            return now.get("state") == "Running" and len(now.get("conditions", [])) == 4

        await wait_for_async("the status", again, 30)
        await assert_undisturbed(space, pod)
