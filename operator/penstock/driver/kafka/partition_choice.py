"""Chooses the partitions to read, and the executors for them. Pure.

A source may get more partitions than `executor.maxInstances` has cores for. That stops nothing that
runs: the limit is about executors, and the earlier partitions still have theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.sizing import (
    Size,
    in_driver,
    may_run_in_driver,
    most_slots_in_driver,
    size,
)
from penstock.driver.failures import DriverError, Failure

TOO_FEW_EXECUTORS_ALLOWED = "TooFewExecutorsAllowed"


@dataclass(frozen=True)
class ChosenPartitions:
    """What the stream reads of its source, and the executors for it."""

    by_topic: Mapping[str, Sequence[int]] | None
    """Partition numbers by topic; None if the source has no topics."""
    size: Size
    left_out: int = 0
    """Partitions that are not read, because no core is allowed for them."""
    warning: Failure | None = None
    """There are more partitions than cores are allowed."""


def choose(
    spec: StreamSpec,
    count: int,
    by_topic: Mapping[str, Sequence[int]] | None,
    read: Mapping[str, Collection[int]],
    state_tasks: int = 0,
) -> ChosenPartitions:
    """The partitions to read, of `count` that exist; `read` are those that the stream has read.

    `state_tasks` are the tasks with state that keep their cores too.

    Raises TooFewExecutorsAllowed if not even these have the cores that they need.

    >>> spec = StreamSpec.model_validate({
    ...     "source": {"rate": {"rowsPerSecond": 1}}, "sink": {"noop": {}},
    ...     "trigger": {"continuous": {"checkpointInterval": "1s"}},
    ...     "executor": {"maxInstances": 2},
    ... })
    >>> chosen = choose(spec, 3, {"in": [0, 1, 2]}, read={"in": [0, 1]})
    >>> chosen.by_topic, chosen.left_out
    ({'in': [0, 1]}, 1)
    """
    needed = size(count, spec, state_tasks)
    if isinstance(needed, Size):
        return ChosenPartitions(by_topic, needed)
    if not spec.trigger.mode.has_long_running_tasks:
        # Its tasks take turns, so fewer cores only make it slower.
        cores = needed.max_executors * spec.executor.cores
        fewer = Size(count, needed.max_executors, spec.executor.cores, cores)
        if may_run_in_driver(spec) and cores <= most_slots_in_driver(spec):
            fewer = in_driver(count, spec, count)
        slower = f"The query runs with {fewer.cores} cores for {count} partitions: {needed}."
        return ChosenPartitions(by_topic, fewer, warning=Failure(TOO_FEW_EXECUTORS_ALLOWED, slower))
    known = {
        topic: common
        for topic, numbers in (by_topic or {}).items()
        if (common := [number for number in numbers if number in read.get(topic, ())])
    }
    reading = sum(map(len, known.values()))
    fewer_partitions = size(reading, spec, state_tasks)
    if not known or not isinstance(fewer_partitions, Size):
        raise DriverError(Failure(TOO_FEW_EXECUTORS_ALLOWED, str(needed), permanent=True))
    waiting = (
        f"The query reads {reading} of {count} partitions. The other {count - reading} wait for "
        f"cores, and are then read from their first record: {needed}."
    )
    return ChosenPartitions(
        known, fewer_partitions, count - reading, Failure(TOO_FEW_EXECUTORS_ALLOWED, waiting)
    )
