"""The operator dies before or after any of its writes; the next one makes up for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.api.v1alpha1.status import StreamState
from testkit.controller import samples
from testkit.controller.fake_api import Killed
from testkit.controller.fake_cluster import World


def created(world: World) -> None:
    """A stream is applied for the first time."""
    world.apply()


def edited(world: World) -> None:
    """A running stream gets another spec and a larger volume."""
    world.apply()
    world.settle()
    world.apply(executor={"cores": 2}, checkpoint={"volume": {"size": "2Gi"}})


def applied_anew(world: World) -> None:
    """A stream is deleted and applied again before its objects are gone."""
    edited(world)
    world.settle()
    world.delete()
    world.apply()


def corrected(world: World) -> None:
    """A running stream gets a spec that cannot run, and then a good one."""
    edited(world)
    world.settle()
    world.apply(**samples.AGGREGATE)
    world.settle()
    world.apply()


CAUSES = (created, edited, applied_anew, corrected)


def writes_until_settled(cause: Callable[[World], None]) -> tuple[int, int, set[str]]:
    """The numbers of the first and the last write after the cause, and what there is then."""
    world = World()
    cause(world)
    first = len(world.cluster.writes) + 1
    world.settle()
    return first, len(world.cluster.writes), world.children()


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("cause", CAUSES)
def test_a_crash_at_any_write_is_made_up_for(cause: Callable[[World], None], side: str) -> None:
    first, last, children = writes_until_settled(cause)
    assert last > first
    for number in range(first, last + 1):
        world = World()
        cause(world)
        world.cluster.kill_at = (number, side)
        with pytest.raises(Killed):
            world.settle()
        world.cluster.kill_at = None
        world.restart_operator()
        world.settle()
        assert world.state == StreamState.RUNNING
        assert world.children() == children
        assert world.reconcile() == []


@pytest.mark.parametrize("side", ["before", "after"])
def test_no_crash_makes_a_restart_count_twice(side: str) -> None:
    """The bookmark and the count are one write."""
    for number in range(1, 8):
        world = World()
        world.apply()
        world.settle()
        world.report(query_restarts=2)
        world.cluster.kill_at = (len(world.cluster.writes) + number, side)
        try:
            world.settle()
        except Killed:
            world.cluster.kill_at = None
            world.restart_operator()
            world.settle()
        assert world.status.restarts is not None
        assert world.status.restarts.query == 2
