"""The source's monitor over a broker that answers late, oddly or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from penstock.driver import calls_with_deadline
from penstock.driver.calls_with_deadline import CallsWithDeadline
from penstock.driver.failures import DriverError, Failure
from penstock.driver.jvm import Jvm
from penstock.driver.kafka import source_monitor
from penstock.driver.kafka.offsets import Partitions
from penstock.driver.kafka.source_monitor import KafkaSourceMonitor
from testkit.streams.streams import kafka_source, stream
from testkit.wait import wait_for


@dataclass
class Broker:
    """Answers as its fields say, in place of an admin client."""

    id: str = "first"
    later: str = ""
    """The id of a topic that was created after the snapshot; empty: there is none."""
    resolves: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    asked: int = 0
    closed: int = 0
    reads_committed = False

    def partitions(self) -> Partitions:
        self.resolves.wait()
        self.asked += 1
        if self.error is not None:
            raise self.error
        later = {"later": [0]} if self.later else {}
        ids = {name: f"{name} {self.later}" for name in later}
        return Partitions({"in": [0], **later}, {"in": self.id, **ids})

    def earliest(self, partitions: Partitions) -> dict[str, dict[int, int]]:
        return {"in": {0: 3}}

    def newest(self, partitions: Partitions) -> dict[str, dict[int, int]]:
        return {"in": {0: 9}}

    def close(self) -> None:
        self.closed += 1


class RunningJvm:
    exit_code: int | None = None
    gateway = None


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    """A broker that answers at once."""
    broker = Broker()
    broker.resolves.set()
    monkeypatch.setattr(source_monitor, "Admin", lambda *_: broker)
    monkeypatch.setattr(source_monitor, "partitions_of", lambda admin, _: admin.partitions())
    monkeypatch.setattr(source_monitor, "POLL_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(source_monitor, "_RETRY_INTERVAL_SECONDS", 0.01)
    return broker


@pytest.fixture
def monitor(broker: Broker) -> Iterator[KafkaSourceMonitor]:
    source = stream(kafka_source()).spec.source.kafka
    assert source is not None
    jvm = RunningJvm()
    monitor = KafkaSourceMonitor(cast(Jvm, jvm), source, Path())
    monitor._calls = CallsWithDeadline("test", 0.05)
    yield monitor
    jvm.exit_code = 0
    broker.resolves.set()


def reason(ask: Callable[[], object]) -> str:
    with pytest.raises(DriverError) as raised:
        ask()
    return raised.value.failure.reason


def test_a_name_server_that_does_not_answer_blocks_no_method(
    broker: Broker, monitor: KafkaSourceMonitor
) -> None:
    monitor.poll()
    broker.resolves.clear()
    assert reason(monitor.poll) == "BrokerUnreachable"
    assert reason(monitor.snapshot) == "BrokerUnreachable"
    wait_for("the outage", lambda: monitor.view.outage is not None)
    monitor.reset()
    assert monitor.view.partition_count is None
    broker.resolves.set()
    wait_for("the name server", lambda: _answers(monitor))
    assert monitor.view.partition_count == 1
    assert monitor.view.outage is None


def _answers(monitor: KafkaSourceMonitor) -> bool:
    try:
        monitor.poll()
    except DriverError:
        return False
    return True


def test_no_exception_ends_the_polling(broker: Broker, monitor: KafkaSourceMonitor) -> None:
    monitor.poll()
    broker.error = RuntimeError()
    wait_for("an outage", lambda: monitor.view.outage is not None)
    broker.error = DriverError(Failure("TopicMissing", ""))
    wait_for("a missing topic", lambda: monitor.view.failure is not None)
    broker.error = None
    wait_for(
        "the end of both", lambda: monitor.view.failure is None and monitor.view.outage is None
    )


def test_a_closed_monitor_asks_no_more_and_leaves_no_connection(
    broker: Broker, monitor: KafkaSourceMonitor
) -> None:
    monitor.poll()
    monitor.close()
    assert monitor._thread is not None
    monitor._thread.join(10)
    assert not monitor._thread.is_alive()
    assert broker.closed == 1


def test_a_recreated_topic_is_remembered_until_the_next_snapshot(
    broker: Broker, monitor: KafkaSourceMonitor
) -> None:
    """The query may still wait for its cores when a poll finds it."""
    monitor.poll()
    monitor.snapshot()
    broker.id = "second"
    wait_for("recreated", lambda: monitor.view.failure is not None)
    asked = broker.asked
    wait_for("more polls", lambda: broker.asked >= asked + 3)
    assert monitor.view.failure is not None
    assert monitor.view.failure.reason == "TopicRecreated"
    monitor.snapshot()
    asked = broker.asked
    wait_for("more polls", lambda: broker.asked >= asked + 3)
    assert monitor.view.failure is None


def test_a_call_whose_caller_has_left_is_never_made() -> None:
    calls, blocked, made = CallsWithDeadline("test", 0.02), threading.Event(), []
    assert reason(lambda: calls.call(blocked.wait)) == "BrokerUnreachable"
    assert reason(lambda: calls.call(lambda: made.append("late"))) == "BrokerUnreachable"
    blocked.set()
    wait_for("an answer", lambda: _is_free(calls))
    assert made == []


def _is_free(calls: CallsWithDeadline) -> bool:
    try:
        return calls.call(lambda: True)
    except DriverError:
        return False


def test_the_error_of_a_call_reaches_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_with_deadline, "_IDLE_SECONDS", 0.0)  # a thread for each call

    def fail() -> None:
        raise TimeoutError("the call's own")

    calls = CallsWithDeadline("test")
    for _ in range(3):
        with pytest.raises(TimeoutError, match="own"):
            calls.call(fail)
        assert calls.call(lambda: 7) == 7


def test_a_topic_that_a_pattern_finds_later_is_known_too(
    broker: Broker, monitor: KafkaSourceMonitor
) -> None:
    monitor.poll()
    monitor.snapshot()
    broker.later = "first"
    wait_for("the later topic", lambda: "later" in monitor.view.topic_ids)
    assert monitor.view.topic_ids == {"in": "first", "later": "later first"}
    assert monitor.view.failure is None
    broker.later = "second"
    wait_for("recreated", lambda: monitor.view.failure is not None)
    assert monitor.view.topic_ids["later"] == "later first"
