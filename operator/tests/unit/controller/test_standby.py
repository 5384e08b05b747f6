"""An operator that does not lead writes nothing, and knows all streams when its turn comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.cluster import kinds
from penstock.cluster.kinds import Key, Manifest
from penstock.contract import naming
from penstock.controller.reconciler import Reconciler, StreamChanged
from penstock.controller.standby import Standby
from penstock.controller.work_queue import WorkQueue
from testkit.controller import samples
from testkit.controller.fake_cluster import KEY, FakeCluster

OTHER = Key(KEY.namespace, "other")


class Turns(WorkQueue):
    """A standby for the stream of a cluster, what it queues, and whether it leads."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__()
        self.leads = False
        self.watched = {KEY.namespace}
        self.queued: list[Key] = []
        self.edits: list[Key] = []
        self.slowly: list[Key] = []
        self.standby = Standby(
            lambda: Reconciler(
                cluster.api,
                cluster.cache,
                cluster.metrics,
                cluster.settings,
                cluster.clock,
                is_watched=self.is_watched,
            ),
            cluster.cache,
            self,
            lambda: self.leads,
            self.is_watched,
        )

    def is_watched(self, namespace: str) -> bool:
        return namespace in self.watched

    def add(self, key: Key, *, edit: bool = False) -> None:
        (self.edits if edit else self.queued).append(key)

    def spread(self, keys: Sequence[Key]) -> None:
        self.slowly.extend(keys)


def other() -> Manifest:
    """A stream that the cluster does not have any more."""
    raw = samples.stored()
    raw["metadata"] |= {"name": OTHER.name, "uid": "other"}
    return raw


async def test_it_waits_for_its_turn_and_then_queues_every_stream() -> None:
    cluster = FakeCluster()
    turns = Turns(cluster)
    cluster.behind = []
    turns.standby.stream_changed(cluster.api.put(samples.stream()), listed=True)
    turns.standby.child_changed(KEY)
    assert turns.queued == []
    assert await turns.standby.reconcile(KEY) is None
    assert cluster.api.writes == []
    turns.leads = True
    turns.standby.take_over()
    assert turns.slowly == [KEY]
    assert await turns.standby.reconcile(KEY) is not None
    assert "apply StatefulSet" in cluster.api.writes


@pytest.mark.parametrize("leads", [True, False])
async def test_a_deleted_stream_is_not_queued_in_the_next_term(leads: bool) -> None:
    """Also if it was deleted while another operator led. Its pods end later than it does."""
    turns = Turns(FakeCluster())
    turns.leads = leads
    turns.standby.stream_changed(other(), listed=False)
    turns.standby.stream_deleted(other())
    turns.standby.child_changed(OTHER)
    assert await turns.standby.reconcile(OTHER) is None
    turns.standby.take_over()
    assert turns.slowly == []


async def test_a_stream_that_was_deleted_unseen_is_forgotten() -> None:
    """The watch was broken just then. Its objects are deleted too, and it wants them back."""
    cluster = FakeCluster()
    turns = Turns(cluster)
    turns.leads = True
    turns.standby.stream_changed(other(), listed=False)
    assert await turns.standby.reconcile(OTHER) is None
    assert cluster.api.writes == []
    turns.standby.take_over()
    assert turns.slowly == []


async def test_the_operators_own_write_of_a_status_causes_no_reconcile() -> None:
    cluster = FakeCluster()
    cluster.api.put(samples.stream())
    turns = Turns(cluster)
    turns.leads = True
    cluster.behind = []
    await turns.standby.reconcile(KEY)
    turns.standby.stream_changed(cluster.stream, listed=False)
    assert (turns.queued, turns.edits) == ([], [])
    cluster.apply(executor={"cores": 2})
    turns.standby.stream_changed(cluster.stream, listed=False)
    assert (turns.queued, turns.edits) == ([], [KEY])


async def test_a_status_that_the_watch_shows_before_the_answer_is_no_edit() -> None:
    """Under load many are. Edits go first, and would wait behind them."""
    cluster = FakeCluster()
    turns = Turns(cluster)
    turns.leads = True
    cluster.behind = []
    turns.standby.stream_changed(cluster.api.put(samples.stored()), listed=False)
    assert turns.edits == [KEY]
    raw = cluster.stream
    raw["status"] = {"observedGeneration": raw["metadata"]["generation"], "state": "Running"}
    turns.standby.stream_changed(cluster.api.put(raw), listed=False)
    raw = cluster.stream
    raw["status"]["epoch"] = 7
    turns.standby.stream_changed(cluster.api.put(raw), listed=False)
    assert (turns.queued, turns.edits) == ([KEY, KEY], [KEY])
    raw = cluster.stream
    raw["metadata"]["annotations"] = {naming.ANNOTATION_PAUSE: "true"}
    turns.standby.stream_changed(cluster.api.put(raw), listed=False)
    assert turns.edits == [KEY, KEY]


async def test_an_edit_while_the_status_is_written_stays_known() -> None:
    """The API server refuses that status. What the watch has shown meanwhile is newer."""
    cluster = FakeCluster()
    cluster.apply()
    turns = Turns(cluster)
    turns.leads = True

    def edited_meanwhile(manifest: Manifest) -> None:
        if "status" in manifest:
            cluster.apply(executor={"cores": 2})

    cluster.api.refuse = edited_meanwhile
    with pytest.raises(StreamChanged):
        await turns.standby.reconcile(KEY)
    turns.standby.take_over()
    assert (turns.edits, turns.slowly) == ([KEY], [KEY])


async def test_a_stream_that_is_replaced_while_it_is_looked_for_stays_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster()
    turns = Turns(cluster)
    turns.leads = True
    cluster.behind = []
    turns.standby.stream_changed(samples.stored(), listed=False)
    get = cluster.api.get

    async def replaced_meanwhile(*asked: Any) -> Manifest | None:
        monkeypatch.undo()
        answer = await get(*asked)
        turns.standby.stream_changed(cluster.api.put(samples.stream()), listed=False)
        return answer

    monkeypatch.setattr(cluster.api, "get", replaced_meanwhile)
    await turns.standby.reconcile(KEY)
    turns.standby.take_over()
    assert KEY in turns.edits
    assert cluster.cache.streams() == [KEY]


def test_a_stream_that_was_there_before_the_operator_is_no_edit() -> None:
    """Thousands of them would be a burst, before the edit that somebody waits for."""
    cluster = FakeCluster()
    turns = Turns(cluster)
    turns.leads = True
    known = {**samples.stored(), "status": {"observedGeneration": 1}}
    turns.standby.stream_changed(known, listed=True)
    assert (turns.slowly, turns.queued, turns.edits) == ([KEY], [], [])
    turns.standby.stream_changed(other(), listed=True)
    assert (turns.slowly, turns.queued, turns.edits) == ([KEY], [], [OTHER])


def test_an_edit_while_nobody_led_goes_first() -> None:
    """Others of a takeover are looked at within a minute."""
    cluster = FakeCluster()
    turns = Turns(cluster)
    turns.standby.stream_changed(samples.stored(), listed=False)
    turns.standby.stream_changed({**other(), "status": {"observedGeneration": 1}}, listed=False)
    turns.leads = True
    turns.standby.take_over()
    assert (turns.edits, turns.slowly) == ([KEY], [KEY, OTHER])


async def test_a_namespace_that_loses_its_labels_is_left_alone_until_it_has_them_again() -> None:
    """What runs there is not touched; an edit of that time is applied later."""
    cluster = FakeCluster()
    turns = Turns(cluster)
    turns.leads = True
    turns.standby.stream_changed(cluster.api.put(samples.stream()), listed=False)
    assert await turns.standby.reconcile(KEY) is not None
    labels = {"namespace": KEY.namespace, "name": KEY.name, "state": "Pending"}
    assert cluster.metrics.registry.get_sample_value("penstock_stream_state", labels) == 1
    turns.watched.clear()
    turns.standby.namespace_changed(Key("", KEY.namespace))
    assert turns.slowly == [KEY]
    writes, queued = list(cluster.api.writes), (list(turns.queued), list(turns.edits))
    edited = cluster.api.one(kinds.STREAM, KEY.name)
    edited["spec"]["executor"] = {"cores": 2}
    turns.standby.stream_changed(cluster.api.put(edited), listed=False)
    turns.standby.child_changed(KEY)
    assert (turns.queued, turns.edits) == queued
    assert await turns.standby.reconcile(KEY) is None
    assert cluster.api.writes == writes
    assert cluster.metrics.registry.get_sample_value("penstock_stream_state", labels) is None
    turns.watched.add(KEY.namespace)
    turns.standby.namespace_changed(Key("", KEY.namespace))
    assert turns.edits[-1] == KEY
    assert await turns.standby.reconcile(KEY) is not None
    assert cluster.api.writes != writes


async def test_a_stream_that_loses_its_label_while_it_is_reconciled_is_known_for_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not gone, although nothing is done about it any more."""
    cluster = FakeCluster()
    turns = Turns(cluster)
    turns.leads = True
    turns.standby.stream_changed(cluster.api.put(samples.stream()), listed=False)

    shown = cluster.cache.list

    async def list_and_unlabel(*arguments: Any) -> list[Manifest]:
        turns.watched.clear()
        return await shown(*arguments)

    monkeypatch.setattr(cluster.cache, "list", list_and_unlabel)
    assert await turns.standby.reconcile(KEY) is None
    assert cluster.api.writes == []
    turns.watched.add(KEY.namespace)
    turns.standby.namespace_changed(Key("", KEY.namespace))
    assert turns.edits[-1] == KEY


@pytest.mark.proves("decisions/bounded-tenants.md")
async def test_an_object_of_no_stream_fills_no_queue() -> None:
    """Whoever may label a ConfigMap could give it a new name of a stream at each write."""
    cluster = FakeCluster()
    turns = Turns(cluster)
    turns.leads = True
    turns.standby.child_changed(OTHER)
    assert turns.queued == []
    turns.standby.stream_changed(cluster.api.put(samples.stored()), listed=True)
    turns.standby.child_changed(KEY)
    assert turns.queued == [KEY]
