"""An edit of a running stream, which its driver judges or follows, against a real API server."""

from __future__ import annotations

from functools import partial

from penstock.api.v1alpha1.status import EditVerdict, LastFailure
from testkit.controller import samples
from testkit.controller.control_plane import Namespace, no_reconcile_for_a_second
from testkit.wait import wait_for_async


async def test_an_edit_is_rolled_out_when_the_driver_says_that_spark_takes_it(
    space: Namespace,
) -> None:
    """One that Spark refuses leaves pod and ConfigMap, also when the operator restarts."""
    no_field = LastFailure(
        reason="FieldNotFound", message="no field x", permanent=True, time=samples.T0
    )
    sql = {"sql": "SELECT key, value.x AS value FROM source"}

    async def condition(kind: str, reason: str) -> bool:
        return bool((await space.condition(kind)).get("reason") == reason)

    async with space.operator():
        await space.apply()
        await space.run_driver(edit=EditVerdict(generation=1))
        await space.wait_ready()
        old = await space.pod()
        assert old is not None
        await space.apply(transform=sql)
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
