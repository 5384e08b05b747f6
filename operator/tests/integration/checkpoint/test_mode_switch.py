"""Every engine of Spark with a real broker, and one checkpoint that all engines use in turn."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.api.modes import execution_of
from penstock.api.v1alpha1.status import Cause
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.jvm import Jvm
from penstock.driver.spark import executors, query
from penstock.driver.spark.batch_metrics import RocksDbMetrics
from penstock.driver.spark.session import MIN_STATE_PARTITIONS
from penstock.driver.spark.sources import KAFKA
from testkit.driver.bare_query import bare_session
from testkit.driver.checkpoints import folder_at, path_of
from testkit.driver.driver_process import driver, traffic
from testkit.driver.in_process_driver import impatient, running
from testkit.kafka.deliveries import commits_of
from testkit.kafka.topics import Topics, number_flow, total
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import (
    ASYNC,
    AVAILABLE_NOW,
    CONTINUOUS,
    MICRO_BATCH,
    RATE,
    REAL_TIME,
    stream,
)
from testkit.wait import wait_for

MODES = {"C": CONTINUOUS, "M": MICRO_BATCH, "A": ASYNC, "R": REAL_TIME}
# In the longer one, each switch between two of the four modes occurs once.
TOURS = ["CMRAC", pytest.param("CMCACRMAMRARC", marks=pytest.mark.full)]


@pytest.mark.proves(2, 14, "checkpoints.md#from-one-trigger-to-another")
@pytest.mark.timeout(480)
@pytest.mark.parametrize("tour", TOURS)
def test_one_checkpoint_through_every_engine(
    tour: str, topics: Topics, jvm: Jvm, tmp_path: Path, record_figure: RecordFigure
) -> None:
    """Any query can be restarted with any trigger under traffic, and loses nothing.

    Duplicates are the records that a stop interrupted: an epoch of the continuous engine, or a
    batch of the others. No committed record is processed again.
    """
    source, sink, duplicates = topics.make(), topics.make(), 0
    with traffic(topics, source) as sent, commits_of(tmp_path) as commits:
        for number, mode in enumerate(tour):
            switch = f"{tour[number - 1 : number]}->{mode}"
            flow = number_flow(topics, source, sink, MODES[mode])
            with running(flow, jvm, tmp_path) as driver:
                start_epoch = driver.wait_ready().epoch
                driver.wait("two more commits", partial(_is_beyond, (start_epoch or 0) + 1))
                assert driver.last.state is QueryState.RUNNING, switch
                assert driver.last.query_restarts == 0, switch
                repair = driver.last.last_repair
            received = topics.received(sink)
            before, duplicates = duplicates, sum(received.values()) - len(received)
            assert repair is None or repair.reason != "Imported", repair
            record_figure(f"{switch}: records sent", sent[0])
            record_figure(f"{switch}: duplicates", duplicates - before)
            record_figure(f"{switch}: repair", repair.message if repair else "none")
    last = number_flow(topics, source, sink, MICRO_BATCH)
    with running(last, jvm, tmp_path):
        received = topics.wait_received(sink, range(sent[0]))
    record_figure("records sent in total", sent[0])
    record_figure("duplicates in total", sum(received.values()) - len(received))
    assert topics.replays_of_committed(commits, source, sink) == []


def test_a_switched_query_that_waits_for_records_claims_no_commit(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """It is Ready, since it works. The epoch in its checkpoint is that of the query before."""
    source, sink = topics.make(), topics.make()
    with running(number_flow(topics, source, sink, CONTINUOUS), jvm, tmp_path) as driver:
        driver.wait_ready()
        topics.send(source, range(10))
        driver.wait_committed(10)
    epoch = folder_at(tmp_path).progress.committed_epoch()
    with running(number_flow(topics, source, sink, MICRO_BATCH), jvm, tmp_path) as driver:
        driver.wait_ready()
        waits = driver.wait("it runs", lambda report: report.state is QueryState.RUNNING)
        assert (waits.committed, waits.epoch) == (False, epoch)
        assert "waits for some" in waits.message
        topics.send(source, range(10, 20))
        report = driver.wait("a commit", lambda report: report.committed)
        assert report.message == ""
        assert report.epoch != epoch


def _is_beyond(epoch: int, report: DriverReport) -> bool:
    return report.epoch is not None and report.epoch > epoch


# So long that several batches run between two that are written to the logs.
LONG_INTERVAL = {"microBatch": {"asyncProgress": {"checkpointInterval": "1s"}}}


@pytest.mark.proves(13)
def test_async_progress_is_turned_off_on_an_idle_topic(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    """On, off, on, off: Spark's own procedure would wait for two batches, which never run."""
    source, sink, sent = topics.make(), topics.make(), 0
    folder = folder_at(tmp_path)
    for _ in range(2):
        with running(number_flow(topics, source, sink, LONG_INTERVAL), jvm, tmp_path) as driver:
            assert driver.wait_ready().query_restarts == 0
            for _ in range(300):
                topics.send(source, range(sent, sent + 5))
                sent += 5
                topics.wait_received(sink, range(sent))
                if _has_gap(folder):
                    break
        assert _has_gap(folder)
        with running(number_flow(topics, source, sink, MICRO_BATCH), jvm, tmp_path) as driver:
            assert driver.wait_ready().query_restarts == 0
            repair = driver.last.last_repair
            assert repair is not None
            assert (repair.reason, repair.cause) == ("AsyncGap", Cause.SWITCH)
            # New records are processed.
            topics.send(source, range(sent, sent + 10))
            sent += 10
            topics.wait_received(sink, range(sent))
            assert driver.last.query_restarts == 0


def _has_gap(folder: CheckpointFolder) -> bool:
    newest = folder.progress.planned_epoch() or 0
    return newest > 0 and not (path_of(folder) / "offsets" / str(newest - 1)).exists()


@dataclass(frozen=True)
class Crashed:
    """The state after a query with asynchronous progress was killed."""

    checkpoint: Path
    source: str
    sent: int
    received: set[int]


@pytest.fixture(scope="module")
def crashed(shared: Topics, class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    """Kills a query under traffic, while it has planned batches that are not committed."""
    source, sink = shared.make(), shared.make()
    folder = tmp_path_factory.mktemp("crashed")
    checkpoint = folder_at(folder / "checkpoint")
    flow = number_flow(shared, source, sink, ASYNC)
    with traffic(shared, source) as sent, driver(flow, folder, class_path) as process:
        process.wait_ready()
        process.kill(
            lambda: (
                (checkpoint.progress.planned_epoch() or 0)
                > (checkpoint.progress.committed_epoch() or 0)
            )
        )
    return Crashed(path_of(checkpoint), source, sent[0], set(shared.received(sink)))


@pytest.mark.proves(13)
@pytest.mark.parametrize(
    "trigger",
    [
        pytest.param(MICRO_BATCH, id="off"),
        pytest.param(CONTINUOUS, id="continuous", marks=pytest.mark.full),
    ],
)
def test_async_progress_is_turned_off_after_a_crash(
    shared: Topics, jvm: Jvm, tmp_path: Path, trigger: dict[str, Any], crashed: Crashed
) -> None:
    folder = Path(shutil.copytree(crashed.checkpoint, tmp_path / "checkpoint"))
    sink, before = shared.make(), crashed.received
    with running(number_flow(shared, crashed.source, sink, trigger), jvm, folder) as driver:
        assert driver.wait_ready().query_restarts == 0
        received = shared.wait_received(sink, range(max(before) + 1, crashed.sent))
    assert set(range(crashed.sent)) - before - set(received) == set()


@pytest.mark.proves("checkpoints.md#from-one-trigger-to-another")
@pytest.mark.parametrize(
    "trigger", [MICRO_BATCH, pytest.param(AVAILABLE_NOW, marks=pytest.mark.full)]
)
def test_a_switch_from_continuous_whose_first_batch_fails(
    trigger: dict[str, Any], topics: Topics, jvm: Jvm, jvm_log: Path, tmp_path: Path
) -> None:
    """The batch is planned, and before it there is an epoch without Spark's settings."""
    source, sink = topics.make(), topics.make()
    topics.send(source, range(20))
    with running(number_flow(topics, source, sink), jvm, tmp_path) as driver:
        driver.wait_committed(20)
    topics.send(source, range(20, 40))
    fails = {"sql": "SELECT CAST(raise_error('all') AS STRING) AS value FROM source"}
    failing = number_flow(topics, source, sink, trigger, transform=fails)
    logged = len(jvm_log.read_text())
    with running(failing, jvm, tmp_path, impatient(failing)) as driver:
        driver.wait("two restarts", lambda report: report.query_restarts >= 2)
        seen = {it.last_failure.reason for it in driver.reports if it.last_failure is not None}
    assert seen == {"UserRaisedException"}
    # Spark says so of each setting that it looks for and does not find.
    assert "was not found in the offset log" not in jvm_log.read_text()[logged:]
    with running(number_flow(topics, source, sink, trigger), jvm, tmp_path):
        assert topics.wait_received(sink, range(40)) == dict.fromkeys(range(40), 1)


def test_an_idle_micro_batch_query_is_ready(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """It commits nothing while there are no new records, and that is no stall."""
    source, sink = topics.make(), topics.make()
    idle = number_flow(topics, source, sink, MICRO_BATCH)
    topics.send(source, range(10))
    with running(idle, jvm, tmp_path) as driver:
        driver.wait_ready()
        driver.wait_committed(10)
    epoch = folder_at(tmp_path).progress.committed_epoch()
    with running(idle, jvm, tmp_path) as driver:
        again = driver.wait_ready()
        assert (again.state, again.epoch) == (QueryState.RUNNING, epoch)
        assert driver.runtime.observe(frozenset()).activity.idle


def test_available_now_completes_and_stops_the_session(
    topics: Topics, jvm: Jvm, tmp_path: Path
) -> None:
    source, sink = topics.make(), topics.make()
    topics.send(source, range(40))
    with running(number_flow(topics, source, sink, AVAILABLE_NOW), jvm, tmp_path) as driver:
        report = driver.wait("completed", lambda report: report.state is QueryState.COMPLETED)
        assert report.last_failure is None
        driver.wait("the session to stop", lambda report: not driver.runtime.has_session)
        assert driver.health.ready
        assert driver.last.state is QueryState.COMPLETED
        # The metrics of its batches can still be read.
        assert sum(batch.input_rows for batch in driver.runtime.new_batches().batches) == 40
    assert set(topics.received(sink)) == set(range(40))


@pytest.mark.proves("checkpoints.md#from-plain-spark")
@pytest.mark.parametrize("mode", MODES)
def test_one_checkpoint_for_both(mode: str, topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    """Penstock, a plain query of Spark's, Penstock: nothing is lost or comes twice."""
    source, sink = topics.make(), topics.make()
    flow = number_flow(topics, source, sink, MODES[mode])
    for turn in (1, 2, 3):
        topics.send(source, range(100 * turn - 100, 100 * turn))
        if turn == 2:
            run_plainly(flow, topics, source, sink, jvm, tmp_path)
            continue
        with running(flow, jvm, tmp_path) as driver:
            driver.wait_committed(100 * turn)
            assert driver.last.query_restarts == 0
    assert topics.received(sink) == dict.fromkeys(range(300), 1)


def run_plainly(
    flow: ContinuousStream, topics: Topics, source: str, sink: str, jvm: Jvm, folder: Path
) -> None:
    """As an application of Spark's without Penstock, until the checkpoint has 200 records."""
    at, progress = {"kafka.bootstrap.servers": topics.bootstrap}, folder_at(folder).progress
    with bare_session(jvm, flow, folder / "session") as spark:
        frame = spark.readStream.format(KAFKA).options(**at, subscribe=source).load()
        writer = frame.writeStream.format(KAFKA).options(**at, topic=sink)
        writer = writer.options(**query.trigger_options(flow.spec))
        writer = writer.outputMode(execution_of(flow.spec).output_mode)
        writer = writer.option("checkpointLocation", str(folder))
        plain = writer.trigger(**query.trigger_arguments(flow.spec)).start()
        wait_for("all records", lambda: total(progress.committed_offsets()) == 200)
        with executors.without_stop_warnings(spark.sparkContext):
            plain.stop()
            executors.wait_until_idle(spark.sparkContext)


# Then each commit has files of RocksDB, and so a size.
WHOLE_COMMITS = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false"}


def test_an_aggregate_with_a_watermark(topics: Topics, jvm: Jvm, tmp_path: Path) -> None:
    source, sink = topics.make(), topics.make(1)
    sql = (
        "SELECT CAST(window.end AS STRING) AS key, CAST(count(*) AS STRING) AS value FROM source "
        "GROUP BY window(timestamp, '1 second')"
    )
    transform = {"sql": sql, "watermark": {"column": "timestamp", "delay": "1 second"}}
    more: dict[str, Any] = {"outputMode": "update", "sparkConf": WHOLE_COMMITS}
    counted = number_flow(topics, source, sink, MICRO_BATCH, transform=transform, **more)
    with running(counted, jvm, tmp_path) as driver:
        topics.send(source, range(30))
        driver.wait("counts", lambda report: sum(topics.received(sink).values()) > 0)
        assert driver.wait_ready().query_restarts == 0
        # Not 200, and not as few as the cores of the first start.
        assert driver.runtime.session is not None
        kept = str(MIN_STATE_PARTITIONS)
        assert driver.runtime.session.conf.get("spark.sql.shuffle.partitions") == kept
        assert len(list((tmp_path / "state" / "0").glob("[0-9]*"))) == MIN_STATE_PARTITIONS

        def rocksdb() -> list[RocksDbMetrics]:
            states = [batch.state for batch in driver.runtime.new_batches().batches]
            return [state.rocksdb for state in states if state and state.rows and state.rocksdb]

        of_state = wait_for("a batch with state", rocksdb)[-1]  # reported after its commit
        assert of_state.file_bytes > 0
        assert {"Get", "Put", "ReadBlockCacheHit"} <= of_state.operations.keys()
        assert {"Get", "CommitFileSync", "CommitFlush"} <= of_state.seconds.keys()
    # Another grouping over the same state is reported at once, not after retries.
    other = {**transform, "sql": sql.replace("GROUP BY", "GROUP BY key,")}
    edited = number_flow(topics, source, sink, MICRO_BATCH, transform=other, **more)
    topics.send(source, range(30, 60))
    with running(edited, jvm, tmp_path) as driver:
        report = driver.wait("failed", lambda report: report.state is QueryState.FAILED)
        assert report.last_failure is not None
        assert report.last_failure.reason == "StateOfAnotherQuery"


@pytest.mark.proves(14)
def test_a_source_without_portable_offsets_refuses_another_mode(jvm: Jvm, tmp_path: Path) -> None:
    """Rate has different offsets for each engine. This is reported at once, not after retries."""
    with running(stream(RATE), jvm, tmp_path) as driver:
        driver.wait_ready()
    with running(stream(RATE, trigger=MICRO_BATCH), jvm, tmp_path) as driver:
        report = driver.wait("failed", lambda report: report.state is QueryState.FAILED)
        assert report.last_failure is not None
        assert report.last_failure.reason == "CheckpointOfAnotherMode"
        assert report.last_failure.permanent
