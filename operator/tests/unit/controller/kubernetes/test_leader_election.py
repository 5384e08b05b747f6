"""At most one of several operators leads, also when clocks jump and requests hang.

The same on a real API server, with processes: integration/controller/test_two_operators.py.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import pytest
from kubernetes.aio.client import Configuration, V1Lease
from kubernetes.aio.client.exceptions import ApiException

from penstock.contract.operator_settings import ElectionTimes
from penstock.controller.kubernetes.leader_election import (
    BoundedLeaseLock,
    LeaderElection,
    LeaseName,
    Timing,
)

pytestmark = pytest.mark.proves(26)

QUICK = Timing(lease=2, renew_deadline=1.3, retry=1.0, request=0.2)
LEASE = LeaseName("penstock", "penstock-operator", QUICK)


class Store:
    """The Lease."""

    def __init__(self) -> None:
        self.lease: V1Lease | None = None
        self.version = 0
        self.views: dict[str, Leases] = {}
        """The API server as each candidate reaches it, by identity."""

    def put(self, body: V1Lease) -> None:
        self.version += 1
        self.lease = copy.deepcopy(body)
        self.lease.metadata.resource_version = str(self.version)
        spec = self.lease.spec
        spec.renew_time, spec.acquire_time = _parsed(spec.renew_time), _parsed(spec.acquire_time)


class Leases:
    """The API server as one candidate reaches it. A Lease is replaced only if it was read last."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.reached = asyncio.Event()
        """Not set: requests hang."""
        self.reached.set()

    async def read_namespaced_lease(self, name: str, namespace: str) -> V1Lease:
        await self.reached.wait()
        if self.store.lease is None:
            error = ApiException(status=404)
            error.body = '{"code": 404}'
            raise error
        return copy.deepcopy(self.store.lease)

    async def create_namespaced_lease(self, namespace: str, body: V1Lease) -> None:
        await self.reached.wait()
        if self.store.lease is not None:
            raise ApiException(status=409)
        self.store.put(body)

    async def replace_namespaced_lease(self, name: str, namespace: str, body: V1Lease) -> None:
        await self.reached.wait()
        if body.metadata.resource_version != str(self.store.version):
            raise ApiException(status=409)
        self.store.put(body)


def _parsed(moment: object) -> object:
    return datetime.fromisoformat(moment.rstrip("Z")) if isinstance(moment, str) else moment


class Candidate:
    """One operator of several."""

    def __init__(self) -> None:
        self.election = LeaderElection(Configuration(), LEASE)
        self.elected = asyncio.Event()
        self.lost = asyncio.Event()

    def leads(self) -> bool:
        return self.election.leads()

    @asynccontextmanager
    async def campaign(self) -> AsyncIterator[None]:
        async with self.election.campaign(self.elected.set, self.lost.set):
            yield


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    """The Lease that all candidates share."""
    store = Store()
    create = BoundedLeaseLock.__init__

    def with_fake(self: BoundedLeaseLock, *arguments: Any) -> None:
        create(self, *arguments)
        self.api_instance = store.views[self.identity] = Leases(store)

    monkeypatch.setattr(BoundedLeaseLock, "__init__", with_fake)
    return store


async def soon(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), 30)


async def test_the_next_one_leads_at_once_when_the_leader_stops(store: Store) -> None:
    first, second = Candidate(), Candidate()
    async with first.campaign():
        await soon(first.elected)
        assert first.leads()
    assert not first.leads()
    assert store.lease is not None
    assert store.lease.spec.holder_identity is None
    async with second.campaign():
        await soon(second.elected)
        assert second.leads()


async def test_the_next_one_leads_when_the_lease_of_a_silent_leader_has_ended(
    store: Store,
) -> None:
    """The leader's requests hang: it has stopped to write before the other one begins."""
    first, second = Candidate(), Candidate()
    async with first.campaign():
        await soon(first.elected)
        cut_off = store.views[first.election.identity]
        async with second.campaign():
            cut_off.reached.clear()
            while not second.leads():
                assert not second.leads() or not first.leads()
                await asyncio.sleep(0.01)
            assert not first.leads()
            cut_off.reached.set()
            await soon(first.lost)
            assert (first.leads(), second.leads()) == (False, True)


async def test_a_clock_that_is_set_ahead_takes_no_lease(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Candidate(), Candidate()
    async with first.campaign():
        await soon(first.elected)
        now = time.time
        async with second.campaign():
            await asyncio.sleep(QUICK.retry / 2)  # it has seen the Lease
            monkeypatch.setattr("time.time", lambda: now() + 3600)
            await asyncio.sleep(1.5 * QUICK.retry)
            assert (first.leads(), second.leads()) == (True, False)


async def test_a_leader_that_sees_another_holder_stops_at_once(store: Store) -> None:
    first = Candidate()
    async with first.campaign():
        await soon(first.elected)
        assert store.lease is not None
        taken = copy.deepcopy(store.lease)
        taken.spec.holder_identity = "another"
        store.put(taken)
        await soon(first.lost)
        assert not first.leads()


async def test_a_term_that_ended_between_two_renewals_begins_again(store: Store) -> None:
    """The client goes on leading, and what came due meanwhile was not reconciled."""
    first = Candidate()
    async with first.campaign():
        await soon(first.elected)
        first.elected.clear()
        first.election._term.end()  # a renewal took too long
        await soon(first.elected)
        assert first.leads()
        assert not first.lost.is_set()


def test_the_times_are_those_of_kubernetes_own_components() -> None:
    """A leader stops to write before another candidate may begin, also with times of one's own."""
    assert Timing.of(ElectionTimes()) == Timing(15, 10, 2, request=4)
    for times in (ElectionTimes(), ElectionTimes(60, 40, 5), ElectionTimes(4, 3, 1)):
        timing = Timing.of(times)
        assert timing.renew_deadline + timing.request < timing.lease


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 2, 2), (3, 10, 15)])
def test_times_with_which_two_could_write_are_refused(times: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="must be longer than"):
        ElectionTimes(*times)
