"""An edit of a running stream, which its driver judges, against a real API server."""

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
