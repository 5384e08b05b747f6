"""An edit of a running stream, which its driver judges or follows, against a real API server."""

from __future__ import annotations

import asyncio
import json
import ssl
from functools import partial

import pytest

from penstock.api.v1alpha1.status import EditVerdict, LastFailure
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.cluster.objects import Object
from penstock.cluster.pods import DriverPod
from penstock.cluster.rest_api import ApiError
from penstock.contract import naming
from penstock.contract.driver_report import QueryState
from penstock.controller.metrics import OperatorMetrics
from penstock.controller.operator_settings import Settings
from penstock.driver.kubernetes.api import Api, OwnStream
from penstock.driver.kubernetes.followed_stream import FollowedStream, StreamDocument
from testkit.controller import samples
from testkit.controller.control_plane import Namespace, no_reconcile_for_a_second
from testkit.kubernetes.api_server import ApiServer
from testkit.wait import wait_for_async


@pytest.mark.proves(19)
async def test_an_edit_is_applied_when_the_driver_says_that_spark_takes_it(
    space: Namespace,
) -> None:
    """One that Spark refuses leaves pod and ConfigMap, also when the operator restarts."""
    no_field = LastFailure(
        reason="FieldNotFound", message="no field x", permanent=True, time=samples.T0
    )
    sql = {"sql": "SELECT key, value.x AS value FROM source"}
    edit = {"transform": sql, "executor": {"cores": 2}}

    async def condition(kind: str, reason: str) -> bool:
        return bool((await space.condition(kind)).get("reason") == reason)

    async with space.operator():
        await space.apply()
        await space.run_driver(edit=EditVerdict(generation=1))
        await space.wait_ready()
        old = await space.pod()
        assert old is not None
        await space.apply(**edit)
        await wait_for_async("asked", partial(condition, "Reconciling", "JudgingEdit"))
        await space.run_driver(edit=EditVerdict(generation=2, refusal=no_field))
        await wait_for_async("refused", partial(condition, "Stalled", "FieldNotFound"))
    await space.run_driver(edit=EditVerdict(generation=1))  # as of a process that has not judged
    async with space.operator() as metrics:
        await no_reconcile_for_a_second(metrics)
        assert (await space.condition("Ready"))["status"] == "True"
        assert await condition("Ready", "SpecNotApplied")
        assert await condition("Stalled", "FieldNotFound")
        assert len([name for name in await space.names() if name.startswith("ConfigMap")]) == 1
        same = await space.pod()
        assert same is not None
        assert same["metadata"]["uid"] == old["metadata"]["uid"]
        await space.run_driver(edit=EditVerdict(generation=2))
        await space.replaced(old)
        await space.run_driver(edit=EditVerdict(generation=2))
        await space.wait_ready()
        assert (await space.status())["restarts"]["total"] == 0
        assert await condition("Stalled", "NotStalled")


@pytest.mark.proves("edits.md#an-edit-of-the-query")
async def test_an_edit_of_the_query_reaches_the_driver_that_runs(
    space: Namespace, server: ApiServer
) -> None:
    """By a watch and a ConfigMap that its own account may read, and no other of either."""
    async with space.operator():
        await space.apply()
        await space.run_driver(edit=EditVerdict(generation=1))
        await space.wait_ready()
        pod = await space.pod()
        assert pod is not None
        before = (await space.status())["effective"]["revision"]
        token = await space.kubectl("create", "token", naming.driver_name(samples.NAME))
        trust = ssl.create_default_context(cafile=str(server.ca))
        api = Api(server.url, space.name, token.strip, trust)
        own, followed = OwnStream(api, samples.NAME, DriverPod(pod).pod_hash), FollowedStream()
        followed.begin(StreamDocument(own.document() or ""), lambda _: None)

        def follow() -> StreamDocument | None:
            """Ends with the first edit, or with the watch."""
            for stream in own.changes(60):
                followed.refresh(stream, own)
                if followed.next_document is not None:
                    return followed.next_document
            return None

        following = asyncio.create_task(asyncio.to_thread(follow))
        await space.apply(queryName="edited")
        await wait_for_async("judged", lambda: _is_judged(followed, 2))
        await space.run_driver(edit=followed.verdict, spec_hash=before)
        edited = await following
        assert edited is not None
        assert edited.stream.spec.query_name == "edited"
        assert (await space.condition("Reconciling"))["reason"] == "ApplyingEdit"
        assert (await space.status())["effective"]["revision"] == before
        await space.run_driver(edit=followed.verdict, spec_hash=edited.spec_hash)
        await space.wait_ready()
        status, same = await space.status(), await space.pod()
        assert same is not None
        assert same["metadata"]["uid"] == pod["metadata"]["uid"]
        assert status["effective"]["revision"] == edited.spec_hash
        assert status["restarts"]["total"] == 0
        with pytest.raises(ApiError, match="403"):
            await asyncio.to_thread(api.document, "kube-root-ca.crt")
        with pytest.raises(ApiError, match="403"):
            await asyncio.to_thread(lambda: list(api.changes("another", 1)))


async def _is_judged(followed: FollowedStream, generation: int) -> bool:
    return followed.verdict is not None and followed.verdict.generation == generation


@pytest.mark.proves("operate.md#edit")
async def test_an_edit_of_a_live_field_changes_no_object(space: Namespace) -> None:
    """The driver, which would be asked about any other edit, takes it by itself."""

    async def of_objects() -> dict[str, str]:
        """Their versions, which each write changes."""
        meta = [child["metadata"] for child in await space.children()]
        return {found["uid"]: found["resourceVersion"] for found in meta}

    async with space.operator() as metrics:
        await space.apply()
        await space.run_driver(edit=EditVerdict(generation=1))
        await space.wait_ready()
        await no_reconcile_for_a_second(metrics)
        before, hash_before = await of_objects(), (await space.status())["effective"]["revision"]
        for spec in ({"restart": {"maxAttempts": 3}}, {}, {"restart": {"stableAfter": "5m"}}):
            await space.apply(**spec)
            await space.wait_ready()  # of this generation
            assert (await space.condition("Reconciling"))["status"] == "False"
        await no_reconcile_for_a_second(metrics)
        assert await of_objects() == before
        status = await space.status()
        assert status["effective"]["revision"] == hash_before
        assert status["observedGeneration"] == 4
        assert status["restarts"]["total"] == 0


@pytest.mark.proves("edits.md#an-edit-that-does-not-run")
async def test_an_edit_that_does_not_become_ready_is_taken_back(space: Namespace) -> None:
    """By what the operator has recorded; the API server lets nobody change a record's data."""
    broken = LastFailure(reason="Boom", message="it broke", permanent=True, time=samples.T0)

    async def is_rolled_back() -> bool:
        return bool((await space.condition("Stalled")).get("reason") == "RolledBack")

    async def records() -> list[Manifest]:
        labels = {
            naming.LABEL_STREAM: samples.NAME,
            naming.LABEL_COMPONENT: naming.COMPONENT_REVISION,
        }
        return await space.api.list(kinds.CONTROLLER_REVISION, space.name, labels)

    async with space.operator():
        await space.apply()
        await space.run_driver()
        await space.wait_ready()
        before, old = (await space.status())["effective"]["revision"], await space.pod()
        assert old is not None
        await space.apply(executor={"cores": 2})
        bad = await space.replaced(old)
        await space.run_driver(state=QueryState.FAILED, last_failure=broken)
        await wait_for_async("given up", is_rolled_back)
        again = await space.replaced(bad)
        assert DriverPod(again).pod_hash == DriverPod(old).pod_hash
        await space.run_driver()
        await wait_for_async("the earlier spec", partial(_runs, space, before))
        assert not await space.ready()  # as `kubectl wait` sees it
        assert await is_rolled_back()
    async with space.operator() as metrics:  # a new one takes nothing up
        await no_reconcile_for_a_second(metrics)
        assert await is_rolled_back()
        same = await space.pod()
        assert same is not None
        assert same["metadata"]["uid"] == again["metadata"]["uid"]
        await space.apply()
        await space.wait_ready()
        assert (await space.condition("Stalled"))["status"] == "False"
        status = await space.status()
        assert status["restarts"]["total"] == 0
        rollout = status["rollout"]
        assert rollout["revision"] == rollout["lastReadyRevision"] == before
        assert rollout.keys().isdisjoint({"failure", "startTime"})
        await space.apply(queryName="edited")
        await space.take_edit()
        await space.wait_ready()
        assert len(await records()) == 2


@pytest.mark.proves("edits.md#an-edit-that-does-not-run")
async def test_a_stream_that_replaces_another_is_rolled_back_by_its_own_record(
    space: Namespace,
) -> None:
    """`kubectl replace --force`, and the same edit fails again, with the real garbage collector: it
    deletes what is written with the owner of before."""
    broken = LastFailure(reason="Boom", message="it broke", permanent=True, time=samples.T0)

    async def rolled_back() -> bool:
        return bool((await space.condition("Stalled")).get("reason") == "RolledBack")

    async def begun() -> Manifest | None:
        """The pod of the present stream: that of its newest StatefulSet."""
        stream = await space.get(kinds.STREAM, samples.NAME)
        owner = await space.get(kinds.STATEFUL_SET, naming.driver_name(samples.NAME))
        pod = await space.pod()
        if stream is None or owner is None or pod is None:
            return None
        is_own = Object(owner).is_owned_by(Object(stream).uid)
        return pod if is_own and Object(pod).is_owned_by(Object(owner).uid) else None

    async def runs() -> bool:
        return bool((await space.condition("Ready")).get("status") == "True")

    async def recorded() -> bool:
        return (await space.status()).get("rollout", {}).get("lastReadyRevision") is not None

    async with space.operator() as metrics:
        await space.apply()
        for number in range(2):
            old = await wait_for_async("the stream's own pod", begun)
            await space.run_driver()
            await space.wait_ready()
            await wait_for_async("recorded", recorded)
            await space.apply(executor={"cores": 2})
            assert old is not None
            bad = await space.replaced(old)
            await space.run_driver(state=QueryState.FAILED, last_failure=broken)
            await wait_for_async("given up", rolled_back)
            await space.replaced(bad)
            await space.run_driver()
            await no_reconcile_for_a_second(metrics)
            if number == 0:
                # So many changes that the next look is seconds away: after the new stream is there.
                for change in range(8):
                    note = f"example.com/change={change}"
                    await space.kubectl("annotate", "--overwrite", "pod", "flags-driver-0", note)
                    await asyncio.sleep(0.1)
                meta = {"name": samples.NAME, "namespace": space.name}
                again = json.dumps({**samples.stream(), "metadata": meta})
                await space.kubectl("replace", "--force", "-f", "-", stdin=again)
        # The garbage collector has seen all by now that it would delete.
        stream = await space.get(kinds.STREAM, samples.NAME)
        assert stream is not None
        dead = {
            f"{Object(child)} of {owner['uid']}"
            for child in await space.children()
            for owner in Object(child).owners
            if owner["kind"] == kinds.STREAM.kind and owner["uid"] != Object(stream).uid
        }
        assert dead == set()
        assert await rolled_back()
        await wait_for_async("the spec of before Ready", runs)
        assert await space.get(kinds.CLAIM, naming.checkpoint_claim_name(samples.NAME)) is not None


async def test_a_query_that_has_finished_runs_again_only_when_somebody_says_so(
    space: Namespace,
) -> None:
    """Its driver ends; no restart of the operator, live field or default image brings it back."""
    nightly = {"trigger": {"availableNow": {}}, "ttlSecondsAfterFinished": 2}

    async def no_pod() -> bool:
        return await space.pod() is None

    async def is_completed() -> bool:
        found = {kind: await space.condition(kind) for kind in ("Ready", "Reconciling", "Stalled")}
        held = {kind for kind, condition in found.items() if condition["status"] == "True"}
        return held == {"Ready"} and (await space.status())["state"] == "Completed"

    async def stays_completed(metrics: OperatorMetrics) -> None:
        await no_reconcile_for_a_second(metrics)
        assert await is_completed()
        assert await no_pod()

    async with space.operator() as metrics:
        await space.apply(**nightly)
        await space.run_driver(state=QueryState.COMPLETED)
        await wait_for_async("completed", is_completed)
        completed = (await space.status())["completionTime"]
        await wait_for_async("no pod", no_pod)
        await stays_completed(metrics)
        await space.apply(**nightly, restart={"maxAttempts": 3})
        await space.wait_ready()
        await space.apply(trigger=nightly["trigger"])
        await space.wait_ready()
        await stays_completed(metrics)
    async with space.operator(settings=Settings("another:image")) as metrics:
        await stays_completed(metrics)
        await space.apply(**nightly)
        await space.wait_ready()
        await stays_completed(metrics)
        assert (await space.status())["completionTime"] == completed
        await space.apply(**nightly, restartedAt="now")
        again = await space.run_driver()
        await space.wait_ready()
        status = await space.status()
        assert (status["state"], status["restarts"]["total"]) == ("Running", 0)
        assert "completionTime" not in status
        assert again["spec"]["containers"][0]["image"] == "another:image"


async def _runs(space: Namespace, revision: str) -> bool:
    status = await space.status()
    is_ready = (await space.condition("Ready")).get("status") == "True"
    return is_ready and bool(status["effective"]["revision"] == revision)
