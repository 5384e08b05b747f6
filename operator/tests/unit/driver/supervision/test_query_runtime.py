"""The runtime without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.checkpoint.progress import Commit
from penstock.driver.checkpoint.source_changes import SourceChanges
from penstock.driver.context import DriverContext
from penstock.driver.environment import LocalEnvironment
from penstock.driver.failures import DriverError, Failure
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.source_monitor import SourceMonitor, SourceView
from penstock.driver.record_position import Position
from penstock.driver.supervision.query_runtime import QueryRuntime
from testkit.driver.checkpoints import folder_at, note
from testkit.streams.streams import (
    CONTINUOUS,
    MICRO_BATCH,
    kafka_source,
    stream,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.driver.kafka.dead_letters import DeadLetterTopic

VERY_LONG = 6_000.0
"""Seconds; longer than a test may take."""


class Source(SourceMonitor):
    """A source of which this is known."""

    def __init__(self, **known: Any) -> None:
        super().__init__()
        self._known = SourceView(**known)


class Query:
    """Commits epoch 8 when isActive is read, if `commits` is given."""

    def __init__(self, commits: Path | None, active: bool = True) -> None:
        self._commits = commits
        self._active = active

    @property
    def isActive(self) -> bool:
        if self._commits is not None:
            (self._commits / "8").touch()
        return self._active


def runtime_of(it: ContinuousStream, folder: Path) -> QueryRuntime:
    return QueryRuntime(it, DriverContext.of(it, LocalEnvironment(folder), cast(Jvm, None)))


def runtime_with(
    has_query: Query, folder: Path, trigger: dict[str, Any] = CONTINUOUS
) -> QueryRuntime:
    """A runtime with a query that has committed epoch 7."""
    runtime = runtime_of(stream(trigger=trigger), folder)
    runtime._query = has_query  # type: ignore[assignment]
    (folder / "commits").mkdir()
    (folder / "commits" / "7").touch()
    return runtime


def test_a_stop_waits_for_the_next_commit(tmp_path: Path) -> None:
    """Records after a commit are replayed: right after a commit there are almost none."""
    runtime = runtime_with(Query(tmp_path / "commits"), tmp_path)
    runtime.wait_for_commit(VERY_LONG)
    assert runtime.progress.committed_epoch() == 8


@pytest.mark.parametrize(("active", "seconds"), [(True, 0.0), (False, VERY_LONG)])
def test_a_stop_does_not_wait_without_a_commit(
    active: bool, seconds: float, tmp_path: Path
) -> None:
    runtime_with(Query(None, active), tmp_path).wait_for_commit(seconds)


def test_a_stop_does_not_wait_for_a_batch_that_nobody_has_planned(tmp_path: Path) -> None:
    """A trigger may have minutes between two batches."""
    runtime = runtime_with(Query(None), tmp_path, MICRO_BATCH)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").touch()
    runtime.wait_for_commit(VERY_LONG)


class FailedWrite:
    """Of a file that a task's state store has given up, as its task failed."""

    def take(self) -> str:
        return "state/0/1/.4.changelog"


@pytest.mark.parametrize(
    ("trigger", "reason"),
    [(CONTINUOUS, "CommitsStuck"), (MICRO_BATCH, None)],
)
def test_a_failed_write_is_asked_for_only_where_spark_does_not_say_it(
    trigger: dict[str, Any], reason: str | None, tmp_path: Path
) -> None:
    """A batch fails with the cause a moment later, which may be another one."""
    runtime = runtime_with(Query(None), tmp_path, trigger)
    runtime.context.application._writes = FailedWrite()
    failure = runtime.observe(frozenset()).failure
    assert (failure and failure.reason) == reason


class Letters:
    """A dead-letter topic that takes records, or fails."""

    name = "dead"

    def __init__(self) -> None:
        self.failure: DriverError | None = None
        self.copied: list[Position] = []

    def copy(self, record: Position, headers: dict[str, str]) -> bool:
        if self.failure is not None:
            raise self.failure
        self.copied.append(record)
        return True


def test_a_copy_that_waits_is_of_one_topic(tmp_path: Path) -> None:
    """In a topic that was created again meanwhile there is another record at its position."""
    letters: dict[str, Any] = {"deadLetters": {"topic": "dead"}}
    runtime = runtime_of(stream(kafka_source(**letters)), tmp_path)
    topic, failure = Letters(), Failure("CastInvalidInput", "", record=Position("in", 0, 7))
    runtime._dead_letters = cast("DeadLetterTopic", topic)
    runtime._source = Source(topic_ids={"in": "a"})
    topic.failure = DriverError(failure)
    with pytest.raises(DriverError):
        runtime.copy_dead_letter(failure)
    topic.failure, runtime._source = None, Source(topic_ids={"in": "b"})
    runtime.copy_dead_letter(failure)
    assert topic.copied == []
    # The query fails over that one too, twice.
    runtime.copy_dead_letter(failure)
    runtime.copy_dead_letter(failure)  # asked for once more, because something else has failed
    assert topic.copied == [failure.record]


def test_a_topic_that_was_recreated_while_the_query_waits_for_cores_is_a_failure(
    tmp_path: Path,
) -> None:
    """It was planned with the offsets of the old topic."""
    runtime = runtime_of(stream(), tmp_path)
    failure = Failure("TopicRecreated", "in")
    runtime._source = Source(failure=failure)
    assert runtime.observe(frozenset()).failure is None  # the next check finds out
    runtime._is_planned = True
    assert runtime.observe(frozenset()).failure == failure


@pytest.mark.parametrize("accepts", [True, False])
def test_records_lost_while_the_query_runs_are_a_warning(accepts: bool, tmp_path: Path) -> None:
    """Under failOnDataLoss, Spark fails the query itself."""
    it = stream(kafka_source(failOnDataLoss=not accepts))
    runtime = runtime_of(it, tmp_path)
    runtime._source = Source(earliest_offsets={"in": {0: 9}})
    runtime._query = cast("StreamingQuery", object())
    runtime.progress.newest = Commit(3, 0.0, None, {"in": {0: 5}})
    warning = runtime.take_warning()
    if not accepts:
        assert warning is None
        return
    assert warning is not None
    assert warning.message.startswith("4 records")
    assert runtime.take_warning() is None


def test_the_id_of_a_topic_that_is_found_while_the_query_runs_is_stored(tmp_path: Path) -> None:
    """Else one that is created again while nothing runs would be taken for the old one."""
    folder = folder_at(tmp_path)
    note(folder, topic_ids={"in": "a", "gone": "b"})
    changes = SourceChanges(stream(kafka_source()).spec.source.kafka, folder)
    changes.begin(SourceView(topic_ids={"in": "a"}), None)
    changes.store_new_topics(SourceView(topic_ids={"in": "a", "later": "c"}))
    assert folder.notes.read().topic_ids == {"in": "a", "gone": "b", "later": "c"}


def test_offsets_are_unknown_while_the_source_does_not_answer(tmp_path: Path) -> None:
    """Else the lag would stay at what it was, often 0, as long as the brokers are away."""
    runtime = runtime_of(stream(), tmp_path)
    runtime._source = Source(newest_offsets={"in": {0: 9}})
    runtime.progress.newest = Commit(3, 0.0, None, {"in": {0: 5}})
    assert runtime.offsets() == ({"in": {0: 5}}, {"in": {0: 9}})
    runtime._source = Source(newest_offsets={"in": {0: 9}}, outage=Failure("BrokerUnreachable", ""))
    assert runtime.offsets() is None
