"""An edit takes effect in the driver that runs: another query, in the same session of Spark."""

from __future__ import annotations

import gc
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.cluster.kinds import Manifest
from penstock.cluster.stream import Stream
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.controller.children import revision
from penstock.driver import calls_with_deadline
from penstock.driver.context import DriverContext
from penstock.driver.environment import LocalEnvironment
from penstock.driver.jvm import Jvm
from penstock.driver.kubernetes.api import OwnStream
from penstock.driver.kubernetes.followed_stream import FollowedStream, StreamDocument
from penstock.driver.loop import DriverOutput
from penstock.driver.queries import Queries
from testkit.driver.driver_process import is_warning, traffic
from testkit.kafka.topics import Topics
from testkit.streams.streams import (
    BOTH_ENGINES,
    EACH_MODE,
    MICRO_BATCH,
    REAL_TIME,
    kafka_to_kafka,
    manifest,
)
from testkit.wait import wait_for

_STOP_SECONDS = 120.0
# Threads of Spark and the JVM that come and go.
_SPARKS_OWN = ("block-manager", "stream execution thread", "Attach Listener", "broadcast-exchange")


class Driver:
    """The queries of a driver in a thread, and an operator that applies each edit at once."""

    def __init__(self, of: Manifest, jvm: Jvm, checkpoint: Path) -> None:
        self.reports: list[DriverReport] = []
        output = DriverOutput(publish=self.reports.append)
        self.health, self.followed = output.health, FollowedStream()
        self.stop, self.error = threading.Event(), list[BaseException]()
        document = _document(of)
        stream = document.stream
        context = DriverContext.of(stream, LocalEnvironment(checkpoint), jvm, self.followed)
        self.queries = Queries(document, stream, context, output)
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.queries.run(self.stop)
        except BaseException as error:
            self.error.append(error)

    def edit(self, stream: Manifest) -> str:
        """Returns the revision."""
        document = _document(stream)
        own = cast(OwnStream, SimpleNamespace(document=lambda: document.text))
        self.followed.refresh(Stream(stream), own)
        return document.spec_hash

    def wait_ready(self, revision: str) -> DriverReport:
        wait_for("ready", lambda: self._fails() or self._runs(revision), detail=self.last)
        return self.reports[-1]

    def _runs(self, revision: str) -> bool:
        return self.health.ready and self.reports[-1].spec_hash == revision

    def _fails(self) -> bool:
        if self.error:
            raise self.error[0]
        return False

    def last(self) -> str:
        return repr(self.reports[-1:])


def _document(stream: Manifest) -> StreamDocument:
    return StreamDocument(revision.document("numbers", "default", stream["spec"], "image"))


@contextmanager
def running(stream: Manifest, jvm: Jvm, checkpoint: Path) -> Iterator[Driver]:
    driver = Driver(stream, jvm, checkpoint)
    driver.thread.start()
    try:
        yield driver
    finally:
        driver.stop.set()
        driver.thread.join(_STOP_SECONDS)
    assert not driver.thread.is_alive()
    assert not driver.error


def plus(addend: int) -> dict[str, Any]:
    """A transform that marks each number, by a function of its own that has always the same name.

    A view or function of the query before would mark it otherwise.
    """
    function = {"name": "marked", "parameters": [{"name": "n", "type": "BIGINT"}]}
    function |= {"returns": "BIGINT", "expression": f"n + {addend}"}
    number = "CAST(CAST(value AS STRING) AS BIGINT)"
    sql = f"SELECT key, CAST(marked({number}) AS STRING) AS value FROM source"
    return {"functions": [function], "sql": sql}


def flow(topics: Topics, source: str, sink: str, trigger: Any, **spec: Any) -> Manifest:
    return manifest("numbers", kafka_to_kafka(topics.bootstrap, source, sink, trigger, **spec))


def applications(jvm: Jvm) -> int:
    """The time at which the JVM's SparkContext began: another one would have another."""
    context = jvm.gateway.jvm.org.apache.spark.SparkContext
    return int(context.getOrCreate().startTime())


@pytest.mark.proves("edits.md#an-edit-of-the-query")
def test_an_edited_query_keeps_the_cores_of_the_state_in_real_time_mode(
    jvm: Jvm, topics: Topics, tmp_path: Path
) -> None:
    """They count before the edited query is planned: else Spark would restart for too many."""
    source, sink = topics.make(2), topics.make(1)
    key, streams = "CAST(value AS STRING)", []
    for edit in (1, 2):
        sql = f"SELECT {key} AS key, CAST(count(*) AS STRING) AS value FROM source "
        sql += f"WHERE offset >= -{edit} GROUP BY {key}"
        more = {"outputMode": "update", "transform": {"sql": sql}}
        streams.append(flow(topics, source, sink, REAL_TIME, **more))
    with running(streams[0], jvm, tmp_path) as driver:
        for times, stream in enumerate(streams, 1):
            if times > 1:
                session = applications(jvm)
                assert driver.wait_ready(driver.edit(stream)).cores == 4
                assert applications(jvm) == session
            topics.send(source, range(20))
            counts = dict.fromkeys(range(20), times)
            wait_for("the counts", lambda: topics.last_values(sink) == counts)  # noqa: B023


@pytest.mark.proves("edits.md#an-edit-of-the-query")
@pytest.mark.parametrize(
    "trigger",
    [*EACH_MODE, pytest.param({"realTime": {"batchDuration": "1m"}}, id="long real-time batches")],
)
def test_an_edited_query_goes_on_where_the_one_before_has_committed(
    trigger: dict[str, Any],
    jvm: Jvm,
    jvm_log: Path,
    topics: Topics,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Each record is written by the one or by the other, while more of them come in.

    Nothing is logged about it that would worry anybody.
    """
    source, sink = topics.make(2), topics.make(1)
    stream = flow(topics, source, sink, trigger, transform=plus(0))
    with running(stream, jvm, tmp_path) as driver:
        topics.send(source, range(100))
        topics.wait_received(sink, range(100))
        driver.wait_ready(_document(stream).spec_hash)
        session, sent, logged = applications(jvm), 100, jvm_log.stat().st_size
        for edit in (1, 2):
            mark = edit * 1_000_000
            edited = driver.edit(flow(topics, source, sink, trigger, transform=plus(mark)))
            began = time.monotonic()
            while not driver._runs(edited) and time.monotonic() < began + 60:
                topics.send(source, range(sent, sent + 5))
                sent += 5
                time.sleep(0.1)
            record_property(f"seconds until edit {edit} runs", round(time.monotonic() - began, 1))
            driver.wait_ready(edited)
            topics.send(source, range(sent, sent + 10))
            topics.wait_received(sink, range(mark + sent, mark + sent + 10))
            sent += 10
        assert applications(jvm) == session
        lines = jvm_log.read_text()[logged:].splitlines()
        # Clients of earlier tests still look for their brokers.
        of_spark = [line for line in lines if '"logger":"org.apache.kafka' not in line]
        assert list(filter(is_warning, of_spark)) == []
        received = topics.received(sink)
        written = Counter[int]()
        for number, times in received.items():
            written[number % 1_000_000] += times
        assert set(written) == set(range(sent))
        record_property("records written twice", written.total() - sent)
        if "realTime" in trigger:  # the edit ends its batch
            assert written.total() == sent
        assert driver.reports[-1].query_restarts == 0
        assert driver.reports[-1].last_failure is None


@pytest.mark.parametrize("trigger", BOTH_ENGINES)
def test_an_edit_mends_a_query_that_fails(
    trigger: dict[str, Any], jvm: Jvm, topics: Topics, tmp_path: Path
) -> None:
    """Also while the query waits for its next attempt."""
    source, sink = topics.make(1), topics.make(1)
    topics.send(source, range(3))
    fails = {"sql": "SELECT key, raise_error('no') AS value FROM source"}
    stream = flow(topics, source, sink, trigger, transform=fails)
    with running(stream, jvm, tmp_path) as driver:
        wait_for("a failure", lambda: driver.reports and driver.reports[-1].last_failure)
        edited = driver.edit(flow(topics, source, sink, trigger, transform=plus(0)))
        topics.wait_received(sink, range(3))
        report = driver.wait_ready(edited)
        assert report.last_failure is None
        assert report.query_restarts == 0


@pytest.mark.parametrize("trigger", BOTH_ENGINES)
def test_an_edit_that_fails_over_each_record_has_proved_nothing(
    trigger: dict[str, Any], jvm: Jvm, topics: Topics, tmp_path: Path
) -> None:
    """So its failure is permanent, and the operator takes it back, while records come in."""
    source, sink = topics.make(2), topics.make(1)
    fails = {"sql": "SELECT key, raise_error('no') AS value FROM source"}
    with running(flow(topics, source, sink, trigger, transform=plus(0)), jvm, tmp_path) as driver:
        with traffic(topics, source) as sent:
            wait_for("ready", lambda: driver.health.ready and sent[0] > 200)
            driver.edit(flow(topics, source, sink, trigger, transform=fails))
            failed = QueryState.FAILED
            wait_for("its end", lambda: driver.reports[-1].state is failed, 60, driver.last)
        assert not any(report.proved for report in driver.reports if report.last_failure)


def test_a_query_that_reads_fewer_partitions_gives_its_cores_back(
    jvm: Jvm, topics: Topics, tmp_path: Path
) -> None:
    """So it gets another session."""
    many, few, sink = topics.make(3), topics.make(1), topics.make(1)
    with running(flow(topics, many, sink, MICRO_BATCH), jvm, tmp_path) as driver:
        wait_for("ready", lambda: driver.health.ready)
        assert driver.reports[-1].cores == 3
        before = applications(jvm)
        report = driver.wait_ready(driver.edit(flow(topics, few, sink, MICRO_BATCH)))
        assert (report.cores, report.registered_cores) == (1, 1)
        assert applications(jvm) != before


def test_an_edit_that_is_taken_back_leaves_the_query_that_runs(
    jvm: Jvm, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is taken back while the query already stops: then that one starts again."""
    source, sink = topics.make(1), topics.make(1)
    stream = flow(topics, source, sink, MICRO_BATCH, transform=plus(0))
    with running(stream, jvm, tmp_path) as driver:
        topics.send(source, range(10))
        topics.wait_received(sink, range(10))
        sampler, taken_back = driver.queries._loop._sampler, threading.Event()
        assert sampler is not None
        stop_sampler = sampler.stop

        def take_back() -> None:
            driver.edit(stream)
            taken_back.set()
            stop_sampler()

        monkeypatch.setattr(sampler, "stop", take_back)
        driver.edit(flow(topics, source, sink, MICRO_BATCH, transform=plus(1_000_000)))
        wait_for("the stop", taken_back.is_set)
        driver.wait_ready(_document(stream).spec_hash)
        topics.send(source, range(10, 20))
        assert topics.wait_received(sink, range(20)) == Counter(range(20))


def test_edits_leave_nothing_behind(
    jvm: Jvm, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither threads, such as those of Kafka's clients, nor sessions."""
    monkeypatch.setattr(calls_with_deadline, "_IDLE_SECONDS", 0.5)  # of a minute
    source, sink, letters = topics.make(1), topics.make(1), topics.make(1)
    of_source = {"consumerGroup": f"{source}-group", "deadLetters": {"topic": letters}}

    def edited(number: int) -> Manifest:
        fields = kafka_to_kafka(
            topics.bootstrap, source, sink, MICRO_BATCH, of_source, transform=plus(number)
        )
        return manifest("numbers", fields)

    def left() -> Counter[str]:
        gc.collect()
        threads = [re.sub(r"\d+", "N", it.name) for it in threading.enumerate()]
        stacks = jvm.gateway.jvm.java.lang.Thread.getAllStackTraces().keySet()
        of_jvm = [re.sub(r"\d+", "N", str(it.getName())) for it in stacks]
        threads += [name for name in of_jvm if not name.startswith(_SPARKS_OWN)]
        command = ["jcmd", str(jvm.pid), "GC.class_histogram"]
        histogram = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        (sessions,) = re.findall(
            r" (\d+) +\d+ +org\.apache\.spark\.sql\.classic\.SparkSession\b(?!\$)", histogram
        )
        return Counter({**Counter(threads), "sessions": int(sessions)})

    before = Counter[str]()

    def grown() -> dict[str, int]:
        """Without what comes and goes: a thread while it asks, a session until it is collected."""
        return {name: count for name, count in (left() - before).items() if count > 2}

    with running(edited(0), jvm, tmp_path) as driver:
        for number in range(1, 13):
            driver.wait_ready(driver.edit(edited(number)))
            if number == 2:
                before = left()
        wait_for("what ten edits left to end", lambda: not grown(), 60, lambda: repr(grown()))
