"""An operator that does not lead writes nothing, and knows all streams when its turn comes."""

from __future__ import annotations

from penstock.cluster.objects import Key
from penstock.controller.reconciler import Reconciler
from penstock.controller.standby import Standby
from testkit.controller import samples
from testkit.controller.fake_cluster import KEY, FakeCluster

OTHER = Key(KEY.namespace, "other")


class Turns:
    """A standby for the stream of a cluster, and whether it leads."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.leads = False
        self.queued: list[Key] = []
        self.standby = Standby(
            lambda: Reconciler(cluster.api, cluster.metrics, cluster.settings, cluster.clock),
            self.queued.append,
            cluster.metrics,
            lambda: self.leads,
        )


async def test_it_waits_for_its_turn_and_then_queues_every_stream() -> None:
    cluster = FakeCluster()
    cluster.api.put(samples.stream())
    turns = Turns(cluster)
    assert await turns.standby.reconcile(KEY) is None
    assert cluster.api.writes == []
    turns.leads = True
    turns.standby.take_over()
    assert turns.queued == [KEY]
    assert await turns.standby.reconcile(KEY) is not None
    assert "apply StatefulSet" in cluster.api.writes


async def test_a_deleted_stream_is_not_queued_in_the_next_term() -> None:
    turns = Turns(FakeCluster())
    turns.leads = True
    assert await turns.standby.reconcile(OTHER) is None
    turns.standby.take_over()
    assert turns.queued == []


async def test_one_that_steps_back_exports_no_stream() -> None:
    """Two exporters would show each stream twice."""
    cluster = FakeCluster()
    cluster.api.put(samples.stream())
    turns = Turns(cluster)
    turns.leads = True
    await turns.standby.reconcile(KEY)
    sample = ("penstock_stream_state", {**vars_of(KEY), "state": "Pending"})
    assert cluster.metrics.registry.get_sample_value(*sample) is not None
    turns.standby.step_back()
    assert cluster.metrics.registry.get_sample_value(*sample) is None


def vars_of(key: Key) -> dict[str, str]:
    return {"namespace": key.namespace, "name": key.name}
