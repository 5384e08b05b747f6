"""`checkpoint.statePartitions` is changed, with real Spark: all that was counted stays counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import QueryState
from penstock.driver.jvm import Jvm
from testkit.driver.checkpoints import folder_at
from testkit.driver.driver_process import LOAD, Process, driver, traffic
from testkit.driver.in_process_driver import running
from testkit.kafka.topics import Topics, number_flow
from testkit.object_store.streams import CheckpointBucket
from testkit.streams.streams import COUNTS, MICRO_BATCH, OWN_COUNTS, STATE_IN_FILES
from testkit.wait import wait_for

NUMBERS = range(40)
# A number that has come N times before is joined with N + 1 others, and itself, from either side.
JOINED = "SELECT a.value AS key, a.value AS value FROM source a JOIN source b ON a.value = b.value"
FIRST = """
def first(source):
    return source.dropDuplicates(["value"]).select("value")
"""
PROGRAMS: dict[str, tuple[dict[str, Any], str]] = {
    "count": (COUNTS, "update"),
    "join": ({"sql": JOINED}, "append"),
    "deduplication": ({"python": {"function": "firsts:first", "inline": FIRST}}, "append"),
    "own state": (OWN_COUNTS, "update"),
}
COUNTING = ("count", "own state")
FULL = pytest.mark.full


def flow(
    topics: Topics,
    source: str,
    sink: str,
    partitions: int | None = None,
    program: str = "count",
    **more: Any,
) -> ContinuousStream:
    checkpoint = {} if partitions is None else {"statePartitions": partitions}
    transform, mode = PROGRAMS[program]
    fields: dict[str, Any] = {"outputMode": mode, "transform": transform, **more}
    return number_flow(topics, source, sink, MICRO_BATCH, checkpoint=checkpoint, **fields)


def state_partitions(checkpoint: Path) -> int:
    return len([it for it in checkpoint.glob("state/0/*") if it.name.isdecimal()])


@pytest.mark.proves("checkpoints.md#state")
@pytest.mark.parametrize(
    "program",
    ["count", "join", *(pytest.param(it, marks=FULL) for it in ("deduplication", "own state"))],
)
def test_values_are_right_whatever_the_number_of_partitions(
    program: str, topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """More, fewer, more again, and as it is: the status says the number that there is."""
    source, sink = topics.make(), topics.make(1)
    for sends, (partitions, now) in enumerate([(None, 4), (7, 7), (2, 2), (5, 5), (None, 5)], 1):
        topics.send(source, NUMBERS)
        with running(flow(topics, source, sink, partitions, program), jvm, tmp_path) as it:
            it.wait_committed(sends * len(NUMBERS))
            assert it.last.state_partitions == now
            assert it.last.query_restarts == 0
            assert it.last.last_repair is None
        if program in COUNTING:
            assert topics.last_values(sink) == dict.fromkeys(NUMBERS, sends), now
        else:
            copies = sends**2 if program == "join" else 1
            assert topics.received(sink) == Counter(dict.fromkeys(NUMBERS, copies)), now


def test_the_reports_say_it_as_long_as_it_takes(
    topics: Topics, jvm: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no longer: what comes before it and after it has the time that any edit has."""
    monkeypatch.setattr("penstock.driver.loop._LOOK_SECONDS", 0.05)
    monkeypatch.setattr("penstock.driver.supervision.reported_state._SAID_EVERY_SECONDS", 0.01)
    source, sink = topics.make(), topics.make(1)
    topics.send(source, NUMBERS)
    with running(flow(topics, source, sink), jvm, tmp_path) as it:
        it.wait_committed(len(NUMBERS))
    topics.send(source, NUMBERS)
    with running(flow(topics, source, sink, 6), jvm, tmp_path) as it:
        it.wait_committed(2 * len(NUMBERS))
        said = [report for report in it.reports if report.repartitions_state]
        assert said
        assert all("Dividing the state" in report.message for report in said)
        assert all(report.state is QueryState.STARTING for report in said)


@pytest.mark.proves("checkpoints.md#state")
@pytest.mark.parametrize("wanted", [3, *(pytest.param(number, marks=FULL) for number in (6, None))])
def test_a_kill_undoes_what_was_done_of_it(
    wanted: int | None, topics: Topics, jvm: Jvm, class_path: str, tmp_path: Path
) -> None:
    """And the next driver begins again, also with another number, or with none by then."""
    source, sink = topics.make(), topics.make(1)
    folder = folder_at(tmp_path / "checkpoint")
    topics.send(source, NUMBERS)
    with running(flow(topics, source, sink), jvm, tmp_path / "checkpoint") as it:
        it.wait_committed(len(NUMBERS))
    topics.send(source, NUMBERS)

    def divides() -> bool:
        planned = folder.progress.planned_epoch()
        return planned != folder.progress.committed_epoch() and partitions() == 6

    def partitions() -> int | None:
        contents = folder.contents()
        return None if contents is None else contents.partitions

    process = Process(flow(topics, source, sink, 6), tmp_path, class_path)
    wait_for("the start of it", divides, every=0.005)
    process.kill()
    assert divides(), "the kill came too late"
    with driver(flow(topics, source, sink, wanted), tmp_path, class_path) as process:
        process.wait_ready()
        wait_for(
            "the exact counts",
            lambda: topics.last_values(sink) == dict.fromkeys(NUMBERS, 2),
            detail=lambda: str(topics.last_values(sink)),
        )
        assert process.stop() == 0
        assert process.warnings() == []
    assert partitions() == (wanted or 4)


@pytest.mark.proves("checkpoints.md#state")
@pytest.mark.parametrize(
    ("transform", "conf", "why"),
    [
        (COUNTS, STATE_IN_FILES, "Spark can divide that of RocksDB, and this one is kept by"),
        (
            {"sql": "SELECT CAST(count(*) AS STRING) AS value FROM source"},
            {},
            "an operator keeps all of it in one partition",
        ),
    ],
)
def test_what_spark_cannot_divide_is_refused(
    transform: dict[str, Any],
    conf: dict[str, str],
    why: str,
    topics: Topics,
    jvm: Jvm,
    tmp_path: Path,
) -> None:
    """A checkpoint keeps the class of its state, whatever the spec says later."""
    source, sink = topics.make(), topics.make(1)
    more: dict[str, Any] = {"transform": transform}
    topics.send(source, NUMBERS)
    with running(flow(topics, source, sink, sparkConf=conf, **more), jvm, tmp_path) as it:
        it.wait_committed(len(NUMBERS))
    with running(flow(topics, source, sink, 6, **more), jvm, tmp_path) as it:
        report = it.wait_failure("UnsupportedOperation")
        assert report.state is QueryState.FAILED
        assert report.last_failure is not None
        assert why in report.last_failure.message
    topics.send(source, NUMBERS)
    with running(flow(topics, source, sink, **more), jvm, tmp_path) as it:
        it.wait_committed(2 * len(NUMBERS))
        assert it.last.state_partitions == 4


@pytest.mark.proves("checkpoints.md#state")
def test_a_batch_that_the_sink_would_miss_is_refused(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """And another folder for Spark's file sink, which would lack the batches before."""
    source = topics.make()

    def to_files(name: str, partitions: int | None = None) -> ContinuousStream:
        out = {"custom": {"format": "parquet", "options": {"path": str(tmp_path / name)}}}
        of = flow(topics, source, "none", partitions, "deduplication")
        sink = of.spec.sink.model_validate(out)
        return of.model_copy(update={"spec": of.spec.model_copy(update={"sink": sink})})

    topics.send(source, NUMBERS)
    with running(to_files("out"), jvm, tmp_path / "c") as it:
        it.wait_committed(len(NUMBERS))
    for refused, why in ((to_files("out", 6), "would miss"), (to_files("new"), "another")):
        with running(refused, jvm, tmp_path / "c") as it:
            failure = it.wait_failure("UnsupportedOperation").last_failure
            assert failure is not None
            assert why in failure.message
    topics.send(source, NUMBERS)
    with running(to_files("out"), jvm, tmp_path / "c") as it:
        it.wait_committed(2 * len(NUMBERS))


def test_a_batch_that_the_sink_may_know_runs_first(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """However steadily records come, so that one is planned at each stop."""
    source, sink = topics.make(), topics.make(1)
    options = {"kafka.bootstrap.servers": topics.bootstrap, "topic": sink}

    def to_custom(partitions: int | None = None) -> ContinuousStream:
        of = flow(topics, source, sink, partitions)
        out = of.spec.sink.model_validate({"custom": {"format": "kafka", "options": options}})
        return of.model_copy(update={"spec": of.spec.model_copy(update={"sink": out})})

    awaited = None
    with traffic(topics, source, LOAD) as sent:
        while awaited is None:
            with running(to_custom(), jvm, tmp_path) as it:
                it.wait_ready()
            contents = folder_at(tmp_path).contents()
            awaited = contents and contents.awaited
        with running(to_custom(6), jvm, tmp_path) as it:
            it.wait("the division", lambda report: report.state_partitions == 6)
            it.wait_ready()
            assert it.last.query_restarts == 0
            # The one batch before it does not show that the edit runs.
            before = [report for report in it.reports if report.state_partitions == 4]
            assert not any(report.proved for report in before)
    with running(to_custom(6), jvm, tmp_path) as it:
        it.wait_committed(sent[0])
        assert it.last.state_partitions == 6
    assert topics.last_values(sink) == dict.fromkeys(range(sent[0]), 1)


@pytest.mark.proves("checkpoints.md#state")
@pytest.mark.full
@pytest.mark.parametrize("program", COUNTING)
def test_in_an_object_store(
    program: str, topics: Topics, jvm: Jvm, bucket: CheckpointBucket
) -> None:
    source, sink = topics.make(), topics.make(1)
    for sends, partitions in enumerate([None, 6, 2], 1):
        topics.send(source, NUMBERS)
        it = bucket.stream(flow(topics, source, sink, partitions, program))
        with running(it, jvm, bucket.environment()) as process:
            process.wait_committed(sends * len(NUMBERS))
            assert process.last.state_partitions == (partitions or 4)
        assert topics.last_values(sink) == dict.fromkeys(NUMBERS, sends)
