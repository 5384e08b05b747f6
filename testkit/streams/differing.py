"""Aggregates over a Kafka source, and whether a batch that runs again may make other rows."""

from __future__ import annotations

# The argument of a SELECT beside a key.
DIFFERING = (
    "rand()", "rand(3)", "random()", "randn()", "uuid()", "spark_partition_id()",
    "shuffle(array(1, 2))[0]",
    "first(offset)", "first_value(offset)", "last(offset, true)", "last_value(offset)",
    "any_value(offset)", "collect_list(topic)[0]", "collect_set(topic)[0]", "array_agg(topic)[0]",
    "array_sort(collect_list(topic))[0]", "listagg(topic, ',')", "mode(offset)", "now()",
)  # fmt: skip
SAME = (
    "max(offset)", "count(*)", "max_by(topic, offset)", "sum(offset)",
    "current_timestamp()", "max(current_date())", "approx_count_distinct(topic)",
    "percentile_approx(offset, 0.5)", "max(hash(topic))", "string(max(struct(offset, topic)))",
)  # fmt: skip


def query(value: str) -> str:
    return f"SELECT key, CAST({value} AS STRING) AS value FROM source GROUP BY key"


DIFFERING_QUERIES = (
    *map(query, DIFFERING),
    "SELECT max(v) AS value FROM (SELECT key, uuid() AS v FROM source) GROUP BY key",
    "SELECT DISTINCT CAST(rand() AS STRING) AS value FROM source",
    "WITH once AS (SELECT DISTINCT key, value FROM source) SELECT uuid() AS value FROM once",
)
SAME_QUERIES = (
    *map(query, SAME),
    "SELECT DISTINCT value FROM source",
    "WITH first AS (SELECT DISTINCT key, value FROM source) SELECT first.value FROM first",
)
