"""Which partitions are read when there are more than cores are allowed."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.contract.sizing import Size
from penstock.driver.failures import DriverError
from penstock.driver.kafka.partition_choice import TOO_FEW_EXECUTORS_ALLOWED, choose
from testkit.streams.streams import MICRO_BATCH, kafka_sink, kafka_source, stream

REAL_TIME = {"realTime": {"batchDuration": "5s"}}
CONTINUOUS = {"continuous": {"checkpointInterval": "1s"}}
EXISTING = {"in": [0, 1, 2]}
READ = {"in": {0: 5, 1: 5}}


def limited(trigger: dict[str, Any]) -> Any:
    kafka = kafka_source()
    return stream(kafka, kafka_sink(), trigger=trigger, executor={"maxInstances": 2}).spec


@pytest.mark.proves("failures.md#the-partitions-outgrow-executormaxinstances")
@pytest.mark.parametrize("trigger", [CONTINUOUS, REAL_TIME])
def test_new_partitions_without_cores_wait_and_the_others_are_read(trigger: Any) -> None:
    """At a new start too: what is not in the checkpoint is read later, from its first record."""
    chosen = choose(limited(trigger), 3, EXISTING, READ)
    assert chosen.by_topic == {"in": [0, 1]}
    assert (chosen.size, chosen.left_out) == (Size(2, 2, 1, 2), 1)
    assert chosen.warning is not None
    assert "reads 2 of 3 partitions" in chosen.warning.message
    assert "maxInstances is 2" in chosen.warning.message


def test_tasks_with_state_take_cores_of_the_partitions() -> None:
    """In real-time mode, where all of them run at once."""
    spec = limited(REAL_TIME)
    chosen = choose(spec, 2, {"in": [0, 1]}, {"in": [0]}, state_tasks=1)
    assert (chosen.by_topic, chosen.size, chosen.left_out) == ({"in": [0]}, Size(1, 2, 1, 2), 1)
    with pytest.raises(DriverError, match="2 partitions and 2 tasks with state need 4 executors"):
        choose(spec, 2, {"in": [0, 1]}, {"in": [0]}, state_tasks=2)


def test_a_micro_batch_reads_all_partitions_on_the_cores_that_are_allowed() -> None:
    chosen = choose(limited(MICRO_BATCH), 3, EXISTING, {})
    assert chosen.by_topic == EXISTING
    assert (chosen.size, chosen.left_out) == (Size(3, 2, 1, 2), 0)
    assert chosen.warning is not None
    assert "2 cores for 3 partitions" in chosen.warning.message


@pytest.mark.parametrize("read", [{}, {"in": {0: 1, 1: 1, 2: 1}}, {"gone": {0: 1}}])
def test_too_few_cores_from_the_start_are_refused(read: dict[str, dict[int, int]]) -> None:
    """Some partitions would never be read, without an error."""
    with pytest.raises(DriverError) as raised:
        choose(limited(CONTINUOUS), 3, EXISTING, read)
    assert raised.value.failure.reason == TOO_FEW_EXECUTORS_ALLOWED
    assert raised.value.failure.permanent


def test_enough_cores_need_no_choice() -> None:
    chosen = choose(limited(CONTINUOUS), 2, {"in": [0, 1]}, {})
    assert (chosen.by_topic, chosen.warning) == ({"in": [0, 1]}, None)
