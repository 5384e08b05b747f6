"""What `validate` and the driver say of a batch that runs again: the same, for each of these."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.driver.spark import query, replays
from penstock.local.spark_analyzer import placeholder
from penstock.sql.judge import judge_sql
from testkit.streams.differing import DIFFERING_QUERIES, SAME_QUERIES
from testkit.streams.streams import MICRO_BATCH, kafka_to_kafka, stream


@pytest.mark.proves("guarantees.md#exactly-once-with-state")
@pytest.mark.parametrize("sql", [*DIFFERING_QUERIES, *SAME_QUERIES])
def test_spark_says_the_same(sql: str, spark: SparkSession) -> None:
    spec = kafka_to_kafka("kafka:9092", "in", "out")
    spec["sink"]["kafka"]["delivery"] = "ExactlyOnce"
    spec |= {"trigger": MICRO_BATCH, "outputMode": "update", "transform": {"sql": sql}}
    parsed = stream(**spec).spec
    placeholder(spark, parsed.source).createOrReplaceTempView("source")
    found = replays.find_problem(
        query._analyzed_plan(spark.sql(sql)), query._STATEFUL, is_promised=False
    )
    assert (found is not None) == (sql in DIFFERING_QUERIES), found
    said = [problem.reason for problem in judge_sql(parsed)]
    assert ("ExactlyOnceImpossible" in said) == (sql in DIFFERING_QUERIES), said
