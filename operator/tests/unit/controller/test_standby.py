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
