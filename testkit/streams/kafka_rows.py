"""Queries whose columns Spark's Kafka writer takes, or refuses: `test_spark_verdicts` asks it."""

from __future__ import annotations

# Taken with and without a topic of the sink.
TAKEN = (
    "SELECT key, value, topic FROM source",
    "SELECT * FROM source",
    "SELECT value, CAST(value AS STRING) AS topic FROM source",
    "SELECT s.value, s.topic FROM source AS s",
)
# Taken only if the sink has a topic.
TAKEN_WITH_TOPIC = (
    "SELECT value FROM source",
    "SELECT CAST(value AS STRING) FROM source",
    "SELECT CAST(value AS STRING) AS value FROM source",
    "SELECT (value) FROM source",
    "SELECT 'text' AS value FROM source",
    "SELECT to_json(struct(*)) AS value FROM source",
    "SELECT CAST(offset AS STRING) AS key, value FROM source",
    "SELECT value, offset AS topic FROM source",
    "SELECT value, partition FROM source",
    "SELECT value, array(struct('a' AS key, value AS value)) AS headers FROM source",
    "WITH a AS (SELECT value FROM source) SELECT * FROM a",
    "SELECT max(value) AS value FROM source",
    "SELECT first(key) AS value FROM source",
    "SELECT CAST(value AS VARCHAR(10)) AS value FROM source",
    "SELECT coalesce(key, value) AS value FROM source",
    "SELECT if(offset > 1, key, value) AS value FROM source",
    "SELECT CASE WHEN offset > 1 THEN 'a' END AS value FROM source",
    "SELECT split(CAST(value AS STRING), ',')[0] AS value FROM source",
    "SELECT key || value AS value FROM source",
    "SELECT value, CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers FROM source",
    "SELECT key, value, value FROM source",
    "SELECT KEY, VALUE AS value FROM SOURCE",
)
# Taken by Spark, which writes the first of two columns of one name; refused here.
REFUSED_HERE = (
    "SELECT *, upper(CAST(value AS STRING)) AS value FROM source",
    "SELECT key, value, CAST(value AS STRING) AS value FROM source",
    "SELECT CAST(value AS STRING) AS value, length(value) AS value FROM source",
    "SELECT value, key, topic AS key FROM source",
    "SELECT value, 0 AS partition, 1 AS partition FROM source",
    "SELECT s.*, s.topic AS key FROM source AS s",
)
# Refused in any case.
REFUSED = (
    "SELECT key FROM source",
    "SELECT value AS v FROM source",
    "SELECT length(value) AS value, CAST(value AS STRING) AS value FROM source",
    "SELECT value AS VALUE FROM source",
    "SELECT upper(CAST(value AS STRING)) FROM source",
    "SELECT offset AS value FROM source",
    "SELECT timestamp AS value FROM source",
    "SELECT offset AS key, value FROM source",
    "SELECT value, offset AS partition FROM source",
    "SELECT value, key AS headers FROM source",
    "SELECT value FROM (SELECT offset AS value FROM source)",
    "SELECT * FROM (SELECT key AS k, value AS v FROM source)",
    "SELECT * EXCEPT (value) FROM source",
)
# Refused for the type of an expression, which only Spark knows.
REFUSED_BY_SPARK_ONLY = (
    "SELECT 1 AS value FROM source",
    "SELECT CAST(offset AS INT) AS value FROM source",
    "SELECT offset > 1 AS value FROM source",
    "SELECT count(*) AS value FROM source",
    "SELECT struct(key) AS value FROM source",
    "SELECT window(timestamp, '1 hour') AS value FROM source",
    "SELECT max(offset) AS value FROM source",
    "SELECT sum(partition) AS value FROM source",
    "SELECT avg(offset) AS value FROM source",
    "SELECT count(*) FILTER (WHERE offset > 1) AS value FROM source",
    "SELECT approx_count_distinct(key) AS value FROM source",
    "SELECT collect_list(key) AS value FROM source",
    "SELECT -1 AS value FROM source",
    "SELECT 1.5 AS value FROM source",
    "SELECT 1e3 AS value FROM source",
    "SELECT 0L AS value FROM source",
    "SELECT NULL AS value FROM source",
    "SELECT offset + 1 AS value FROM source",
    "SELECT offset / 2 AS value FROM source",
    "SELECT offset % 2 AS partition, value FROM source",
    "SELECT CAST(offset AS DECIMAL(10, 2)) AS value FROM source",
    "SELECT coalesce(offset, 1) AS value FROM source",
    "SELECT CASE WHEN offset > 1 THEN 1 ELSE 2 END AS value FROM source",
    "SELECT array(value) AS value FROM source",
    "SELECT map('a', value) AS value FROM source",
    "SELECT split(CAST(value AS STRING), ',') AS value FROM source",
    "SELECT length(value) AS value FROM source",
    "SELECT year(timestamp) AS value FROM source",
    "SELECT current_timestamp() AS value FROM source",
    "SELECT current_date AS value FROM source",
    "SELECT date_trunc('hour', timestamp) AS value FROM source",
    "SELECT DATE '2020-01-01' AS value FROM source",
    "SELECT INTERVAL 1 HOUR AS value FROM source",
    "SELECT hash(value) AS value FROM source",
    "SELECT rand() AS value FROM source",
    "SELECT value IS NULL AS value FROM source",
)
# What `test_spark_verdicts` asks Spark's writer: each with the sink's topic.
ASKED = (
    *(
        (sql, to)
        for sql in (*TAKEN, *TAKEN_WITH_TOPIC, *REFUSED, *REFUSED_BY_SPARK_ONLY)
        for to in ("out", None)
    ),
    *((sql, "out") for sql in REFUSED_HERE),
)
