"""The driver that runs asks Spark about an edit, and its query does not notice."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.api.v1alpha1.driver_and_executor import MOST_SLOTS_IN_DRIVER
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster.stream import Stream
from penstock.driver.checkpoint.storage.volume import VolumeCheckpoints
from penstock.driver.environment import LocalEnvironment
from penstock.driver.failures import Failure
from penstock.driver.spark.edit_judge import EditJudge
from testkit.driver.bare_query import bare
from testkit.kafka.topics import Topics
from testkit.streams.streams import (
    BOTH_ENGINES,
    CONTINUOUS,
    EACH_MODE,
    MICRO_BATCH,
    RATE,
    kafka_source,
    kafka_to_kafka,
    manifest,
)

FUNCTION = {"name": "same", "parameters": [{"name": "x", "type": "BINARY"}], "returns": "BINARY"}
RUNS: dict[str, Any] = {
    "functions": [{**FUNCTION, "expression": "x"}],
    "sql": "SELECT key, same(value) AS value FROM source",
}


def sql(value: str, more: str = "") -> dict[str, Any]:
    return {"sql": f"SELECT key, CAST({value} AS STRING) AS value FROM source {more}"}


def python(expression: str) -> dict[str, Any]:
    text = f"def flow(source):\n    return source.select({expression})\n"
    return {"python": {"function": "flows:flow", "inline": text}}


# Only Spark can tell what is wrong with these.
REFUSED: list[tuple[dict[str, Any], str]] = [
    (sql("from_json(CAST(value AS STRING), 'a STRUCT<b: INT>').a.c"), "FieldNotFound"),
    (sql("offset + array(1)"), "DatatypeMismatch"),
    ({"sql": "SELECT s.key, s.value FROM source s JOIN names n ON s.key = n.k"},
     "TableOrViewNotFound"),
    (python("'key', 'valeu'"), "UnresolvedColumn"),
    ({"functions": [{**FUNCTION, "expression": "x.y"}], "sql": "SELECT same(value) AS value "
      "FROM source"}, "InvalidExtractBaseFieldType"),
    ({"sql": "SELECT key, struct(value) AS value FROM source"}, "SinkColumns"),
]  # fmt: skip
TAKEN = [
    sql("from_json(CAST(value AS STRING), 'a STRUCT<b: INT>').a.b"),
    sql("value", "WHERE offset > 3"),
    python("'key', 'value'"),
    {"functions": [{**FUNCTION, "expression": "null"}], "sql": "SELECT same(value) AS value "
     "FROM source"},
]  # fmt: skip


def judge_of(
    running: ContinuousStream, checkpoint: Path, spark: SparkSession | None
) -> Callable[[Stream], Failure | None]:
    """What judges edits beside a stream that runs in this session."""
    local = LocalEnvironment(checkpoint)
    return EditJudge(running.spec, local, VolumeCheckpoints(local), lambda: spark).judge


@pytest.mark.proves(19)
@pytest.mark.parametrize("trigger", EACH_MODE)
def test_spark_judges_an_edit_in_each_mode(
    trigger: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    """Without a broker: Spark asks none before the query starts."""

    def edited(transform: dict[str, Any]) -> Any:
        return manifest("numbers", kafka_to_kafka("nowhere:9092", "a", "b", trigger, **transform))

    running = ContinuousStream.model_validate(edited({"transform": RUNS}))
    judge = judge_of(running, tmp_path, spark)
    refused = [judge(Stream(edited({"transform": each}))) for each, _ in REFUSED]
    assert [each and each.reason for each in refused] == [reason for _, reason in REFUSED]
    assert all(each is None or each.permanent for each in refused)
    taken = [judge(Stream(edited({"transform": each}))) for each in TAKEN]
    assert taken == [None] * len(TAKEN)


@pytest.mark.proves(19)
@pytest.mark.parametrize(
    ("trigger", "reason"),
    [(CONTINUOUS, "UnsupportedOperation"), (MICRO_BATCH, "CheckpointOfOtherReads")],
    ids=["continuous", "micro-batch"],
)
def test_a_query_that_runs_does_not_notice(
    trigger: dict[str, Any], reason: str, spark: SparkSession, tmp_path: Path
) -> None:
    """`reason`: why it cannot read its source twice."""

    def edited(sql: str) -> Any:
        numbers = {**FUNCTION, "parameters": [{"name": "x", "type": "BIGINT"}]}
        function = {**numbers, "returns": "BIGINT", "expression": "x + 1"}
        transform = {"functions": [function], "sql": sql}
        fields = {"source": RATE, "sink": {"noop": {}}, "trigger": trigger, "transform": transform}
        return manifest("numbers", fields)

    running = ContinuousStream.model_validate(edited("SELECT same(value) AS value FROM source"))
    judge = judge_of(running, tmp_path, spark)
    with bare(spark, running, tmp_path) as query:
        progress = query.folder.progress
        query.wait("two commits", lambda: (progress.committed_epoch() or 0) >= 1)
        failure = judge(Stream(edited("SELECT valeu FROM source")))
        assert failure is not None
        assert failure.reason == "UnresolvedColumn"
        twice = "SELECT value FROM source UNION ALL SELECT value FROM source"
        failure = judge(Stream(edited(twice)))
        assert failure is not None
        assert failure.reason == reason
        if trigger is MICRO_BATCH:  # the other engine joins no table
            missing = Stream(edited("SELECT n FROM later, source"))
            assert judge(missing) is not None
            spark.sql(f"CREATE TABLE later (n BIGINT) USING csv LOCATION '{tmp_path / 'later'}'")
            assert judge(missing) is None  # what was missing is there
            spark.sql("DROP TABLE later")
        other = edited("SELECT value AS v FROM source")
        other["spec"]["transform"]["functions"][0]["expression"] = "x + 2"
        assert judge(Stream(other)) is None
        before = progress.committed_epoch() or 0
        query.wait("two more commits", lambda: (progress.committed_epoch() or 0) > before + 1)
        # Its own function is as it was. (No job: the tasks of the query hold all cores.)
        plan = spark.sql("SELECT same(1L) AS one")._jdf.queryExecution().optimizedPlan()
        assert "2 AS one" in plan.toString()


@pytest.mark.proves(19)
@pytest.mark.parametrize("trigger", BOTH_ENGINES)
def test_a_plan_that_runs_a_job_leaves_nothing_behind(
    trigger: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    """Tasks that never end hold all cores: the job would be the first to get those of the query
    when it fails, and until then nobody would hear of another edit.
    """
    text = (
        "def flow(source):\n"
        "    rows = source.sparkSession.range(4).count()\n"
        "    return source.select((source.value + rows).alias('value'))\n"
    )
    rate = {"rate": {"rowsPerSecond": 16, "numPartitions": MOST_SLOTS_IN_DRIVER}}
    fields = {"source": rate, "sink": {"console": {}}, "trigger": trigger}
    running = ContinuousStream.model_validate(manifest("numbers", fields))
    judge = judge_of(running, tmp_path, spark)
    edited = {**fields, "transform": {"python": {"function": "flows:flow", "inline": text}}}
    with bare(spark, running, tmp_path) as query:
        tasks = running_tasks(spark)
        query.wait(
            "all cores are taken", lambda: trigger is MICRO_BATCH or tasks() == MOST_SLOTS_IN_DRIVER
        )
        if trigger is MICRO_BATCH:
            assert judge(Stream(manifest("numbers", edited))) is None
            return
        with pytest.raises(TimeoutError, match="no core"):
            judge(Stream(manifest("numbers", edited)))
        assert len(spark.sparkContext.statusTracker().getActiveJobsIds()) == 1


def running_tasks(spark: SparkSession) -> Callable[[], int]:
    tracker = spark.sparkContext.statusTracker()

    def count() -> int:
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        return sum(stage.numActiveTasks for stage in stages if stage is not None)

    return count


def test_an_edit_that_awaits_a_query_of_its_own_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would judge a later edit if it were awaited. The query that runs goes on."""
    text = "    source.writeStream.foreachBatch(lambda rows, number: None).start()"
    (tmp_path / "awaits.py").write_text(f"def save(source):\n{text}.awaitTermination()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "awaits", raising=False)
    fields = {"source": RATE, "sink": {"noop": {}}, "trigger": MICRO_BATCH}
    running = ContinuousStream.model_validate(manifest("numbers", fields))
    judge = judge_of(running, tmp_path, spark)
    with bare(spark, running, tmp_path / "checkpoint") as query:
        edited = {**fields, "transform": {"python": {"function": "awaits:save"}}}
        failure = judge(Stream(manifest("numbers", edited)))
        assert [other.id for other in spark.streams.active] == [query.query.id]
    assert failure is not None
    assert (failure.reason, failure.permanent) == ("PythonFailed", True)
    assert "awaits:save starts a query" in failure.message


def _counts(sql: str, source: dict[str, Any], trigger: dict[str, Any]) -> Any:
    fields = {"source": source, "sink": {"console": {}}, "outputMode": "update"}
    return manifest("numbers", {**fields, "trigger": trigger, "transform": {"sql": sql}})


_COUNT = "SELECT count(*) AS n FROM source"
_COPY = "SELECT value FROM source"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ((_COPY, CONTINUOUS), (_COUNT, MICRO_BATCH), "CheckpointHoldsNoState"),
        ((_COUNT, MICRO_BATCH), (_COPY, CONTINUOUS), "CheckpointHoldsState"),
        ((_COPY, CONTINUOUS), (_COPY, MICRO_BATCH), None),
        ((_COPY, MICRO_BATCH), (_COPY, CONTINUOUS), None),
    ],
    ids=["state-added", "state-dropped", "to-batches", "to-continuous"],
)
def test_an_edit_that_switches_the_mode_is_judged_with_the_checkpoint(
    before: tuple[str, Any], after: tuple[str, Any], reason: str | None,
    spark: SparkSession, topics: Topics, tmp_path: Path,
) -> None:  # fmt: skip
    topic = topics.make(1)
    topics.send(topic, range(20))
    source = kafka_source(topics.bootstrap, topics=[topic], startingOffsets="earliest")
    running = ContinuousStream.model_validate(_counts(before[0], source, before[1]))
    judge = judge_of(running, tmp_path, spark)
    with bare(spark, running, tmp_path) as query:
        query.wait("a commit", lambda: query.folder.progress.committed_epoch() is not None)
        failure = judge(Stream(_counts(after[0], source, after[1])))
    assert (failure and failure.reason) == reason


def test_offsets_of_another_format_are_no_basis_for_an_edit(
    spark: SparkSession, tmp_path: Path
) -> None:
    running = ContinuousStream.model_validate(_counts(_COPY, RATE, CONTINUOUS))
    judge = judge_of(running, tmp_path, spark)
    with bare(spark, running, tmp_path) as query:
        query.wait("a commit", lambda: query.folder.progress.committed_epoch() is not None)
        failure = judge(Stream(_counts(_COPY, RATE, MICRO_BATCH)))
    assert failure is not None
    assert failure.reason == "CheckpointOfAnotherMode"


def test_without_spark_there_is_no_verdict(tmp_path: Path) -> None:
    """The operator then takes no answer for one, and rolls the edit out in time."""
    fields = kafka_to_kafka("nowhere:9092", "a", "b", transform=RUNS)
    running = ContinuousStream.model_validate(manifest("numbers", fields))
    judge = judge_of(running, tmp_path, None)
    assert judge(Stream(manifest("numbers", fields))) is None  # the same query
    fields["transform"] = TAKEN[0]
    with pytest.raises(RuntimeError):
        judge(Stream(manifest("numbers", fields)))
