"""What `--show` prints, with a stand-in for Kafka's consumer."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.local.kafka import show, side_tasks
from penstock.local.kafka.show import print_records
from penstock.local.kafka.side_tasks import SideTasks


class JavaList(list[Any]):
    """As py4j gives it to Python."""

    add = list.append


class Consumer:
    """Has records in one partition, and gives out two at each poll."""

    def __init__(self, records: list[str], end: int) -> None:
        self._records, self._at, self._end = records, 0, end

    def partitionsFor(self, _: str) -> Any:
        return SimpleNamespace(size=lambda: 1)

    def assign(self, _: object) -> None: ...

    def seekToEnd(self, _: object) -> None: ...

    def close(self) -> None: ...

    def position(self, _: object) -> int:
        return self._at

    def endOffsets(self, _: object) -> Any:
        return SimpleNamespace(get=lambda _: self._end, keySet=lambda: [0])

    def poll(self, _: object) -> Any:
        some = self._records[self._at : self._at + 2]
        self._at += len(some)
        left = [SimpleNamespace(key=lambda: None, value=lambda each=each: each) for each in some]
        iterator = SimpleNamespace(hasNext=lambda: bool(left), next=lambda: left.pop(0))
        return SimpleNamespace(iterator=lambda: iterator)


def _print(consumer: Consumer) -> None:
    clients: Any = SimpleNamespace(
        consumer=lambda: consumer,
        kafka=SimpleNamespace(common=SimpleNamespace(TopicPartition=lambda *_: 0)),
        jvm=SimpleNamespace(
            java=SimpleNamespace(
                util=SimpleNamespace(ArrayList=JavaList),
                time=SimpleNamespace(Duration=SimpleNamespace(ofMillis=lambda _: None)),
            )
        ),
    )
    stop, ready = threading.Event(), threading.Event()
    stop.set()
    print_records(clients, "out", stop, ready)
    assert ready.is_set()


def test_records_that_are_there_at_the_end_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """An availableNow stream ends as soon as it has written them."""
    records = [f"record {number}" for number in range(7)]
    _print(Consumer([*records, "a later one"] * 2, 7))
    assert capsys.readouterr().out.splitlines()[:7] == records


def test_a_broker_that_is_gone_is_not_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "_SILENCE_SECONDS", 0.01)
    _print(Consumer(["a"], 9))
    assert capsys.readouterr().out == "a\n"


@pytest.mark.parametrize("completed", [True, False])
def test_only_a_completed_stream_waits_for_the_last_record(
    completed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C has to end the command in time."""
    printed, may_end = threading.Event(), threading.Event()

    def print_slowly(_: Any, topic: str, stop: threading.Event, ready: threading.Event) -> None:
        ready.set()
        stop.wait()
        may_end.wait(0.5 if completed else 30)
        printed.set()

    clients = SimpleNamespace(create_topics=lambda _: None)
    monkeypatch.setattr(side_tasks, "print_records", print_slowly)
    monkeypatch.setattr(side_tasks, "KafkaClients", lambda *_: clients)
    broker: Any = SimpleNamespace(wait_until_ready=lambda: None, bootstrap="here")
    tasks = SideTasks(broker, {}, show="out", _end_seconds=0.01)
    jvm: Any = SimpleNamespace(gateway=None)
    with tasks.running(jvm):
        if completed:
            tasks.on_query_completed()
    assert printed.is_set() is completed
    may_end.set()
