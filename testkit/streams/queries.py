"""Queries, and which executions of Spark 4.2 accept each, as `test_spark_verdicts` found out."""
# ruff: noqa: E501  a query is read best on one line

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.api.modes import Execution, Mode

# The letters that stand for executions below.
EXECUTIONS = {
    "C": Execution(Mode.CONTINUOUS),
    "A": Execution(Mode.MICRO_BATCH, "append"),
    "U": Execution(Mode.MICRO_BATCH, "update"),
    "M": Execution(Mode.MICRO_BATCH, "complete"),
    "S": Execution(Mode.ASYNC),
    "R": Execution(Mode.REAL_TIME, "update"),
}
# The executions that accept a watermark.
WITH_WATERMARK = "AUMR"


@dataclass(frozen=True)
class Function:
    """A SQL function that a query's stream declares."""

    name: str
    returns: str
    expression: str
    parameters: tuple[tuple[str, str], ...] = ()

    def as_fields(self) -> dict[str, Any]:
        parameters = [{"name": name, "type": of_type} for name, of_type in self.parameters]
        return {
            "name": self.name,
            "parameters": parameters,
            "returns": self.returns,
            "expression": self.expression,
        }


@dataclass(frozen=True)
class Query:
    """A query over the columns of the Kafka source."""

    sql: str
    accepted_by: str
    """The letters of the executions that accept it."""
    refused_by_spark_only: str = ""
    """The letters of those that refuse it for a reason that only Spark's analyzer can see."""
    refused_by_penstock_only: str = ""
    """The letters of those that Spark accepts wrongly: current_time() is frozen in continuous mode."""
    functions: tuple[Function, ...] = ()


QUERIES = (
    Query("SELECT * FROM source", "CAUSR"),
    Query("SELECT key, value FROM source", "CAUSR"),
    Query("TABLE source", "CAUSR"),
    Query("FROM source SELECT key", "CAUSR"),
    Query("SELECT * FROM source |> WHERE value IS NOT NULL", "AUSR"),
    Query(
        "SELECT CAST(key AS STRING) AS key, upper(CAST(value AS STRING)) AS value FROM source WHERE value IS NOT NULL",
        "CAUSR",
    ),
    Query("SELECT value FROM (SELECT value FROM source) WHERE value IN ('a', 'b')", "CAUSR"),
    Query("SELECT s.value FROM source AS s", "CAUSR"),
    Query("SELECT CASE WHEN offset > 1 THEN 'a' ELSE 'b' END AS value FROM source", "CAUSR"),
    Query("SELECT from_json(CAST(value AS STRING), 'a INT').a AS value FROM source", "CAUSR"),
    Query("SELECT to_json(struct(key, value)) AS value FROM source", "CAUSR"),
    Query("SELECT filter(array(offset), y -> y > 1) AS value FROM source", "CAUSR"),
    Query("SELECT aggregate(array(offset), 0L, (a, y) -> a + y) AS value FROM source", "CAUSR"),
    Query("SELECT exists(array(offset), y -> y > 1) AS value FROM source", "CAUSR"),
    Query("SELECT forall(array(offset), y -> y > 1) AS value FROM source", "CAUSR"),
    Query("SELECT array_max(array(offset)) AS value, size(array(1)) AS n FROM source", "CAUSR"),
    Query("SELECT unix_timestamp(timestamp) AS value FROM source", "CAUSR"),
    Query("SELECT date_format(timestamp, 'yyyy') AS value FROM source", "CAUSR"),
    Query("SELECT date_trunc('hour', timestamp) AS value FROM source", "CAUSR"),
    Query("SELECT greatest(offset, 1), least(offset, 1) FROM source", "CAUSR"),
    Query("SELECT rand() AS value FROM source", "CAUSR"),
    Query("SELECT uuid() AS value FROM source", "CAUSR"),
    Query("SELECT current_timezone() AS value FROM source", "CAUSR"),
    Query("SELECT current_catalog(), current_schema(), current_user() FROM source", "CAUSR"),
    Query("SELECT spark_partition_id() AS value FROM source", "CAUSR"),
    Query("SELECT hash(key), md5(value), sha2(value, 256) FROM source", "CAUSR"),
    Query("SELECT offset AS first, offset AS count FROM source", "CAUSR"),
    Query("SELECT named_struct('sum', offset).sum AS value FROM source", "CAUSR"),
    Query("SELECT offset + 1 AS a, a + 1 AS b FROM source", "CAUSR"),
    Query("SELECT transform(array(1, 2), x -> x + offset) AS value FROM source", "CAUSR"),
    Query("SELECT map_from_arrays(array('a'), array(offset)) AS value FROM source", "CAUSR"),
    Query("SELECT split(CAST(value AS STRING), ',')[0] AS value FROM source", "CAUSR"),
    Query("SELECT regexp_extract(CAST(value AS STRING), '(a)', 1) AS value FROM source", "CAUSR"),
    Query("SELECT value FROM source WHERE CAST(value AS STRING) LIKE 'a%'", "CAUSR"),
    Query("SELECT value FROM source WHERE offset BETWEEN 1 AND 5", "CAUSR"),
    Query("SELECT value FROM source WHERE timestamp > TIMESTAMP '2020-01-01 00:00:00'", "CAUSR"),
    Query("SELECT * EXCEPT (key) FROM source", "CAUSR"),
    Query(
        "SELECT key FROM source WATERMARK timestamp DELAY OF INTERVAL 1 MINUTE",
        "AUR",
        refused_by_penstock_only="S",
    ),
    Query(
        "SELECT DISTINCT ts FROM (SELECT timestamp AS ts FROM source) WATERMARK ts DELAY OF INTERVAL '1' MINUTE s",
        "AUMR",
    ),
    Query(
        "SELECT window(timestamp, '5 seconds').start AS value, count(*) FROM source WATERMARK timestamp DELAY OF INTERVAL 1 MINUTE 30 SECONDS GROUP BY window(timestamp, '5 seconds')",
        "AUMR",
    ),
    Query("SELECT count(*) AS value FROM source", "UMR"),
    Query("SELECT key, max(offset) AS value FROM source GROUP BY key", "UMR"),
    Query("SELECT key FROM source GROUP BY key", "UMR"),
    Query("SELECT key, count(*) FROM source GROUP BY ALL", "UMR"),
    Query("SELECT key, count(*) FROM source GROUP BY key HAVING count(*) > 1", "UMR"),
    Query("SELECT first(value) AS value FROM source", "UMR"),
    Query("SELECT last_value(value) AS value FROM source", "UMR"),
    Query("SELECT any_value(value) AS value FROM source", "UMR"),
    Query("SELECT collect_set(value) AS value FROM source", "UMR"),
    Query("SELECT array_agg(value) AS value FROM source", "UMR"),
    Query("SELECT percentile_approx(offset, 0.5) AS value FROM source", "UMR"),
    Query("SELECT approx_count_distinct(key) AS value FROM source", "UMR"),
    Query("SELECT count_if(offset > 1) AS value FROM source", "UMR"),
    Query("SELECT bool_and(offset > 1) AS value FROM source", "UMR"),
    Query("SELECT every(offset > 1), some(offset > 1) FROM source", "UMR"),
    Query("SELECT bit_and(offset), bit_xor(offset) FROM source", "UMR"),
    Query("SELECT max_by(value, offset), min_by(value, offset) FROM source", "UMR"),
    Query("SELECT stddev(offset), variance(offset), corr(offset, offset) FROM source", "UMR"),
    Query("SELECT count(DISTINCT key) AS value FROM source", ""),
    Query("SELECT sum(DISTINCT offset) AS value FROM source", ""),
    Query("SELECT mode(offset) AS value FROM source", "UMR"),
    Query("SELECT try_sum(offset), try_avg(offset) FROM source", "UMR"),
    Query("SELECT listagg(CAST(value AS STRING), ',') AS value FROM source", "UMR"),
    Query("SELECT key, count(*) FROM source GROUP BY ROLLUP(key)", "UMR"),
    Query("SELECT key, topic, count(*) FROM source GROUP BY CUBE(key, topic)", "UMR"),
    Query("SELECT key, topic, count(*) FROM source GROUP BY GROUPING SETS ((key), (topic))", "UMR"),
    Query("SELECT window(timestamp, '5 seconds') AS w FROM source", "CAUSR"),
    Query(
        "SELECT window(timestamp, '5 seconds').start AS s, count(*) FROM source GROUP BY window(timestamp, '5 seconds')",
        "UMR",
    ),
    Query(
        "SELECT window, count(*) AS n FROM source GROUP BY window(timestamp, '5 seconds'), key",
        "UMR",
    ),
    Query(
        "SELECT window, count(*) AS n FROM source GROUP BY key, window(timestamp, '10 seconds', '5 seconds')",
        "UMR",
    ),
    Query(
        "SELECT session_window, count(*) AS n FROM source GROUP BY session_window(timestamp, '5 seconds'), key",
        "M",
    ),
    Query("SELECT key, count(*) AS n FROM source GROUP BY key, timestamp", "UMR"),
    Query("SELECT max(n) FROM (SELECT count(*) AS n FROM source GROUP BY key)", ""),
    Query(
        "SELECT * FROM (SELECT topic, partition FROM source) PIVOT (count(partition) FOR topic IN ('a', 'b'))",
        "",
    ),
    Query(
        "SELECT * FROM (SELECT topic, CAST(value AS STRING) AS v FROM source) PIVOT (max(v) FOR topic IN ('a', 'b'))",
        "UMR",
    ),
    Query(
        "SELECT * FROM (SELECT topic, partition FROM source) PIVOT (max(partition) FOR topic IN ('a', 'b'))",
        "",
        refused_by_spark_only="UMR",
    ),
    Query(
        "SELECT * FROM (SELECT offset AS a, offset AS b FROM source) UNPIVOT (v FOR n IN (a, b))",
        "AUSR",
    ),
    Query("SELECT row_number() OVER (ORDER BY key) AS value FROM source", ""),
    Query(
        "SELECT row_number() OVER (PARTITION BY key ORDER BY timestamp) AS value FROM source", ""
    ),
    Query("SELECT sum(offset) OVER w AS value FROM source WINDOW w AS (PARTITION BY key)", ""),
    Query("SELECT lag(value) OVER (ORDER BY timestamp) AS value FROM source", ""),
    Query("SELECT DISTINCT key FROM source", "UMR"),
    Query("SELECT DISTINCT key, timestamp FROM source", "UMR"),
    Query("SELECT a.key FROM source a JOIN source b ON a.key = b.key", "AU"),
    Query("SELECT a.key FROM source a, source b", ""),
    Query("SELECT a.key FROM source a CROSS JOIN source b", ""),
    Query("SELECT a.key FROM source a LEFT JOIN source b ON a.key = b.key", ""),
    Query(
        "SELECT a.key FROM source a LEFT JOIN source b ON a.key = b.key AND a.timestamp BETWEEN b.timestamp AND b.timestamp + INTERVAL 1 MINUTE",
        "",
    ),
    Query("SELECT a.key FROM source a FULL JOIN source b ON a.key = b.key", ""),
    Query("SELECT a.key FROM source a LEFT SEMI JOIN source b ON a.key = b.key", ""),
    Query("SELECT a.key FROM source a LEFT ANTI JOIN source b ON a.key = b.key", ""),
    Query("SELECT a.key, b.id FROM source a JOIN range(10) b ON a.offset = b.id", "AUSR"),
    Query(
        "SELECT a.key, b.x FROM source a JOIN (VALUES (1, 'a'), (2, 'b')) AS b(id, x) ON a.offset = b.id",
        "AUSR",
    ),
    Query("SELECT a.key, b.id FROM source a LEFT JOIN range(10) b ON a.offset = b.id", "AUSR"),
    Query("SELECT a.key, b.id FROM source a RIGHT JOIN range(10) b ON a.offset = b.id", ""),
    Query("SELECT a.key, b.id FROM range(10) b RIGHT JOIN source a ON a.offset = b.id", "AUSR"),
    Query("SELECT a.key, b.id FROM source a FULL JOIN range(10) b ON a.offset = b.id", ""),
    Query("SELECT a.key FROM source a LEFT SEMI JOIN range(10) b ON a.offset = b.id", "AUSR"),
    Query("SELECT a.key, b.id FROM source a CROSS JOIN range(10) b", "AUS"),
    Query("SELECT key FROM source WHERE offset IN (SELECT id FROM range(10))", "CAUSR"),
    Query("SELECT key FROM source WHERE key IN (SELECT key FROM source)", ""),
    Query(
        "SELECT key FROM source WHERE EXISTS (SELECT 1 FROM range(10) WHERE id = offset)", "CAUSR"
    ),
    Query("SELECT key FROM source WHERE EXISTS (SELECT 1)", "CAUSR"),
    Query("SELECT key, (SELECT max(id) FROM range(10)) AS m FROM source", "CAUSR"),
    Query("SELECT key FROM source WHERE offset > (SELECT max(id) FROM range(10))", "CAUSR"),
    Query("SELECT key, (SELECT max(offset) FROM source) AS m FROM source", ""),
    Query("SELECT key, (SELECT 1) AS one FROM source", "CAUSR"),
    Query("SELECT key FROM source UNION ALL SELECT key FROM source", "AUS"),
    Query("SELECT key FROM source UNION SELECT key FROM source", "UM"),
    Query("SELECT offset FROM source UNION ALL SELECT id FROM range(10)", ""),
    Query("SELECT key FROM source EXCEPT SELECT key FROM source", ""),
    Query("SELECT offset FROM source EXCEPT SELECT id FROM range(10)", "UR"),
    Query("SELECT key FROM source INTERSECT SELECT key FROM source", ""),
    Query("SELECT offset FROM source INTERSECT SELECT id FROM range(10)", ""),
    Query("WITH a AS (SELECT * FROM source) SELECT * FROM a", "AUSR"),
    Query("WITH a AS (SELECT key, count(*) AS n FROM source GROUP BY key) SELECT * FROM a", "UMR"),
    Query("WITH a AS (SELECT * FROM source) SELECT key FROM a UNION ALL SELECT key FROM a", "AUS"),
    Query("SELECT key FROM source LIMIT 10", "A"),
    Query("SELECT key FROM source LIMIT ALL", "CAUSR"),
    Query("SELECT key FROM source OFFSET 2", ""),
    Query("SELECT key FROM source ORDER BY key", ""),
    Query("SELECT key FROM source SORT BY key", ""),
    Query("SELECT key FROM source CLUSTER BY key", ""),
    Query("SELECT key FROM source DISTRIBUTE BY key", "AUSR"),
    Query("SELECT key, count(*) AS n FROM source GROUP BY key ORDER BY n", "M"),
    Query("SELECT key, count(*) AS n FROM source GROUP BY key LIMIT 5", "M"),
    Query("SELECT /*+ REPARTITION(3) */ key FROM source", "AUSR"),
    Query("SELECT /*+ COALESCE(1) */ key FROM source", "AUS"),
    Query(
        "SELECT /*+ BROADCAST(b) */ a.key, b.id FROM source a JOIN range(10) b ON a.offset = b.id",
        "AUSR",
    ),
    Query("SELECT /*+ NONSENSE(3) */ key FROM source", "CAUSR"),
    Query("SELECT * FROM source TABLESAMPLE (10 PERCENT)", ""),
    Query("SELECT * FROM source TABLESAMPLE (10 ROWS)", "A"),
    Query("SELECT explode(split(CAST(value AS STRING), ',')) AS value FROM source", "AUSR"),
    Query("SELECT explode_outer(array(offset)) AS value FROM source", "AUSR"),
    Query("SELECT posexplode(array(offset)) FROM source", "AUSR"),
    Query("SELECT inline(array(struct(offset))) FROM source", "AUSR"),
    Query("SELECT json_tuple(CAST(value AS STRING), 'a') FROM source", "AUSR"),
    Query("SELECT key, y FROM source LATERAL VIEW explode(array(offset)) t AS y", "AUSR"),
    Query("SELECT key, y FROM source LATERAL VIEW OUTER explode(array(offset)) t AS y", "AUSR"),
    Query("SELECT key, t.y FROM source, LATERAL explode(array(offset)) AS t(y)", "AUSR"),
    Query("SELECT key, t.y FROM source, LATERAL (SELECT offset + 1 AS y) AS t", "AUSR"),
    Query("SELECT current_timestamp() AS value FROM source", "AUSR"),
    Query("SELECT now() AS value FROM source", "AUSR"),
    Query("SELECT current_date AS value FROM source", "AUSR"),
    Query("SELECT curdate() AS value FROM source", "AUSR"),
    Query("SELECT localtimestamp() AS value FROM source", "AUSR"),
    Query("SELECT unix_timestamp() AS value FROM source", "AUSR"),
    Query("SELECT key FROM source WHERE timestamp > current_timestamp() - INTERVAL 1 HOUR", "AUSR"),
    Query("SELECT date_sub(current_date(), 1) AS value FROM source", "AUSR"),
    Query("SELECT monotonically_increasing_id() AS value FROM source", ""),
    Query("SELECT input_file_name() AS value FROM source", "CAUSR"),
    Query("SELECT get_json_object(value, '$.a') AS value FROM source", ""),
    Query("SELECT from_json(value, 'a INT').a AS value FROM source", ""),
    Query("SELECT parse_json(value) AS value FROM source", ""),
    Query("SELECT v FROM source LATERAL VIEW json_tuple(value, 'a') t AS v", "", "AUSR"),
    Query("SELECT CAST(key AS INT) AS value FROM source", ""),
    Query("SELECT k::timestamp AS value FROM (SELECT key AS k FROM source)", ""),
    Query(
        "SELECT from_json(v, 'a INT').a FROM (SELECT CAST(value AS STRING) AS v FROM source)",
        "CAUSR",
    ),
    Query(
        "SELECT split(value, ',')[0] AS value, regexp_extract(value, 'a', 0) FROM source", "CAUSR"
    ),
    Query(
        "SELECT upper(value), concat(value, 'a'), value LIKE 'a%', value = 'a' FROM source", "CAUSR"
    ),
    Query("SELECT 1 AS value", ""),
    Query("SELECT id FROM range(10)", ""),
    Query("VALUES (1), (2)", ""),
    Query("SELECT window(timestamp, '10 seconds', '5 seconds') AS w FROM source", "AUSR"),
    Query(
        "SELECT offset FROM source EXCEPT ALL SELECT id FROM range(10)",
        "U",
        refused_by_spark_only="R",
    ),
    Query("SELECT key, count(*) AS n FROM source GROUP BY key ORDER BY n LIMIT 3", "M"),
    Query("SELECT key, count(*) AS n FROM source GROUP BY key OFFSET 2", ""),
    Query("SELECT a.key FROM source a, source b WHERE a.key = b.key", "AU"),
    Query(
        "SELECT a.key, b.id FROM source a JOIN range(10) b ON a.offset > b.id",
        "AUS",
        refused_by_spark_only="R",
    ),
    Query("SELECT key FROM source UNION ALL SELECT topic FROM source", "AUS"),
    Query("SELECT TRANSFORM(offset) USING 'cat' AS (b) FROM source", "AUS"),
    Query("SELECT key FROM source GROUP BY key, window(timestamp, '5 seconds')", "UMR"),
    Query(
        "SELECT a.key, b.n FROM source a JOIN (SELECT id, count(*) AS n FROM range(10) GROUP BY id ORDER BY id LIMIT 5) b ON a.offset = b.id",
        "AUSR",
    ),
    Query(
        "SELECT key, row_number() OVER (PARTITION BY key ORDER BY timestamp) AS r FROM source QUALIFY r = 1",
        "",
    ),
    Query("SELECT s.key FROM (SELECT key FROM source LIMIT 5) s", "A"),
    Query("SELECT key, (SELECT count(*) FROM range(3)) AS c FROM source", "CAUSR"),
    Query("SELECT assert_true(offset >= 0) FROM source", "CAUSR"),
    Query("SELECT key, percentile(offset, 0.5) FROM source GROUP BY key", "UMR"),
    Query("SELECT count(DISTINCT key) AS n, count(*) AS m FROM source GROUP BY topic", ""),
    Query("SELECT * FROM source WHERE timestamp > now()", "AUSR"),
    Query("SELECT try_divide(offset, 0) AS value FROM source", "CAUSR"),
    Query("SELECT offset AS limit, partition AS now FROM source", "CAUSR"),
    Query("SELECT explode(array(offset)) AS v, key FROM source WHERE offset > 1", "AUSR"),
    Query("SELECT key, v FROM source LATERAL VIEW posexplode(array(offset)) t AS p, v", "AUSR"),
    Query("WITH a AS (SELECT id FROM range(3)) SELECT key FROM source", "AUSR"),
    Query(
        "WITH a AS (SELECT id FROM range(3)) SELECT s.key, a.id FROM source s JOIN a ON s.offset = a.id",
        "AUSR",
    ),
    Query("SELECT DISTINCT key FROM (SELECT DISTINCT key, topic FROM source)", ""),
    Query("SELECT DISTINCT count(*) AS n FROM source GROUP BY key", ""),
    Query("SELECT DISTINCT n FROM (SELECT count(*) AS n FROM source GROUP BY key)", ""),
    Query("SELECT key, count(*) FROM (SELECT DISTINCT key, topic FROM source) GROUP BY key", ""),
    Query("SELECT key FROM source GROUP BY key UNION SELECT key FROM source", ""),
    Query(
        "SELECT a.key FROM source a JOIN (SELECT DISTINCT key FROM source) b ON a.key = b.key", ""
    ),
    Query(
        "SELECT a.key FROM source a LEFT SEMI JOIN (SELECT DISTINCT key FROM source) b ON a.key = b.key",
        "",
    ),
    Query("SELECT DISTINCT key FROM source ORDER BY key", ""),
    Query("SELECT key, count(*) FROM (SELECT * FROM source ORDER BY key) GROUP BY key", ""),
    Query(
        "SELECT key, n FROM (SELECT key, count(*) AS n FROM source GROUP BY key) ORDER BY n", "M"
    ),
    Query(
        "WITH a AS (SELECT key, count(*) AS n FROM source GROUP BY key) SELECT * FROM a ORDER BY n",
        "",
    ),
    Query(
        "WITH a AS (SELECT key, count(*) AS n FROM source GROUP BY key ORDER BY n) SELECT * FROM a",
        "M",
    ),
    Query(
        "WITH a AS (SELECT key, count(*) AS n FROM source GROUP BY key) SELECT n, count(*) FROM a GROUP BY n",
        "UMR",
    ),
    Query(
        "SELECT a, count(*) FROM (SELECT offset AS a FROM source EXCEPT SELECT id FROM range(10)) GROUP BY a",
        "UMR",
    ),
    Query(
        "SELECT n FROM (SELECT key, count(*) AS n FROM source GROUP BY key) EXCEPT SELECT id FROM range(10)",
        "UMR",
    ),
    Query("SELECT a.key FROM source a JOIN source b ON a.offset > b.offset", ""),
    Query(
        "SELECT a.key FROM source a JOIN (SELECT id FROM range(10) OFFSET 2) b ON a.offset = b.id",
        "",
    ),
    Query(
        "SELECT a.key FROM source a JOIN (SELECT monotonically_increasing_id() AS id FROM range(10)) b ON a.offset = b.id",
        "",
    ),
    Query("SELECT key FROM source WHERE offset IN (SELECT id FROM range(10) OFFSET 2)", "CAUSR"),
    Query(
        "SELECT key FROM source WHERE offset IN (SELECT monotonically_increasing_id() FROM range(10))",
        "CAUSR",
    ),
)

# With a watermark of 5 seconds on the column timestamp, which C and S do not accept.
WATERMARKED = (
    Query("SELECT count(*) AS value FROM source", "UMR"),
    Query("SELECT key, max(offset) AS value FROM source GROUP BY key", "UMR"),
    Query("SELECT key FROM source GROUP BY key", "UMR"),
    Query("SELECT key, count(*) FROM source GROUP BY ALL", "UMR"),
    Query("SELECT key, count(*) FROM source GROUP BY key HAVING count(*) > 1", "UMR"),
    Query("SELECT approx_count_distinct(key) AS value FROM source", "UMR"),
    Query("SELECT count(DISTINCT key) AS value FROM source", ""),
    Query("SELECT sum(DISTINCT offset) AS value FROM source", ""),
    Query("SELECT key, count(*) FROM source GROUP BY ROLLUP(key)", "UMR"),
    Query("SELECT key, topic, count(*) FROM source GROUP BY CUBE(key, topic)", "UMR"),
    Query("SELECT key, topic, count(*) FROM source GROUP BY GROUPING SETS ((key), (topic))", "UMR"),
    Query("SELECT window(timestamp, '5 seconds') AS w FROM source", "AUR"),
    Query(
        "SELECT window(timestamp, '5 seconds').start AS s, count(*) FROM source GROUP BY window(timestamp, '5 seconds')",
        "AUMR",
    ),
    Query(
        "SELECT window, count(*) AS n FROM source GROUP BY window(timestamp, '5 seconds'), key",
        "AUMR",
    ),
    Query(
        "SELECT window, count(*) AS n FROM source GROUP BY key, window(timestamp, '10 seconds', '5 seconds')",
        "AUMR",
    ),
    Query(
        "SELECT session_window, count(*) AS n FROM source GROUP BY session_window(timestamp, '5 seconds'), key",
        "AM",
    ),
    Query("SELECT key, count(*) AS n FROM source GROUP BY key, timestamp", "AUMR"),
    Query("SELECT max(n) FROM (SELECT count(*) AS n FROM source GROUP BY key)", ""),
    Query("SELECT sum(offset) OVER w AS value FROM source WINDOW w AS (PARTITION BY key)", ""),
    Query("SELECT DISTINCT key FROM source", "UMR"),
    Query("SELECT DISTINCT key, timestamp FROM source", "AUMR"),
    Query("SELECT a.key FROM source a JOIN source b ON a.key = b.key", "AU"),
    Query("SELECT a.key FROM source a CROSS JOIN source b", ""),
    Query(
        "SELECT a.key FROM source a LEFT JOIN source b ON a.key = b.key",
        "",
    ),
    Query(
        "SELECT a.key FROM source a LEFT JOIN source b ON a.key = b.key AND a.timestamp BETWEEN b.timestamp AND b.timestamp + INTERVAL 1 MINUTE",
        "A",
    ),
    Query(
        "SELECT a.key FROM source a FULL JOIN source b ON a.key = b.key",
        "",
    ),
    Query(
        "SELECT a.key FROM source a LEFT SEMI JOIN source b ON a.key = b.key",
        "",
    ),
    Query("SELECT a.key FROM source a LEFT ANTI JOIN source b ON a.key = b.key", ""),
    Query("SELECT a.key, b.id FROM source a JOIN range(10) b ON a.offset = b.id", "AUR"),
    Query(
        "SELECT a.key, b.x FROM source a JOIN (VALUES (1, 'a'), (2, 'b')) AS b(id, x) ON a.offset = b.id",
        "AUR",
    ),
    Query("SELECT a.key, b.id FROM source a LEFT JOIN range(10) b ON a.offset = b.id", "AUR"),
    Query("SELECT a.key, b.id FROM source a RIGHT JOIN range(10) b ON a.offset = b.id", ""),
    Query("SELECT a.key, b.id FROM range(10) b RIGHT JOIN source a ON a.offset = b.id", "AUR"),
    Query("SELECT a.key, b.id FROM source a FULL JOIN range(10) b ON a.offset = b.id", ""),
    Query("SELECT a.key FROM source a LEFT SEMI JOIN range(10) b ON a.offset = b.id", "AUR"),
    Query("SELECT a.key, b.id FROM source a CROSS JOIN range(10) b", "AU"),
    Query("SELECT key FROM source WHERE offset IN (SELECT id FROM range(10))", "AUR"),
    Query("SELECT key FROM source WHERE key IN (SELECT key FROM source)", ""),
    Query("SELECT key FROM source UNION ALL SELECT key FROM source", "AU"),
    Query("SELECT key FROM source UNION SELECT key FROM source", "UM"),
    Query("SELECT offset FROM source UNION ALL SELECT id FROM range(10)", ""),
    Query("WITH a AS (SELECT key, count(*) AS n FROM source GROUP BY key) SELECT * FROM a", "UMR"),
    Query("WITH a AS (SELECT * FROM source) SELECT key FROM a UNION ALL SELECT key FROM a", "AU"),
    Query("SELECT key, count(*) AS n FROM source GROUP BY key ORDER BY n", "M"),
    Query("SELECT key, count(*) AS n FROM source GROUP BY key LIMIT 5", "M"),
    Query(
        "SELECT /*+ BROADCAST(b) */ a.key, b.id FROM source a JOIN range(10) b ON a.offset = b.id",
        "AUR",
    ),
    Query("SELECT * FROM source", "AUR"),
    Query("SELECT key, value FROM source", "AUR"),
    Query("SELECT key FROM source EXCEPT SELECT key FROM source", ""),
    Query("SELECT current_timestamp() AS value FROM source", "AUR"),
    Query("WITH a AS (SELECT * FROM source) SELECT * FROM a", "AUR"),
    Query(
        "SELECT w, count(*) FROM (SELECT window(timestamp, '5 seconds') AS w FROM source) GROUP BY w",
        "AUMR",
    ),
    Query(
        "SELECT window(window, '10 seconds'), count(*) FROM (SELECT window, count(*) AS n FROM source GROUP BY window(timestamp, '5 seconds'), key) GROUP BY window(window, '10 seconds')",
        "A",
    ),
    Query(
        "SELECT key, count(*) AS n FROM (SELECT key, timestamp AS ts FROM source) GROUP BY key, ts",
        "AUMR",
    ),
    Query("SELECT key, max(timestamp) FROM source GROUP BY key", "UMR"),
    Query(
        "SELECT a.key, count(*) FROM source a JOIN source b ON a.key=b.key GROUP BY a.key",
        "U",
    ),
    Query(
        "SELECT key, count(*) FROM (SELECT DISTINCT key, timestamp FROM source) GROUP BY key", ""
    ),
    Query(
        "SELECT timestamp, count(*) FROM (SELECT DISTINCT key, timestamp FROM source) GROUP BY timestamp",
        "A",
    ),
    Query(
        "SELECT timestamp, count(*) FROM (SELECT timestamp, key, count(*) FROM source GROUP BY timestamp, key) GROUP BY timestamp",
        "A",
    ),
    Query(
        "SELECT timestamp, max(n) FROM (SELECT max(timestamp) AS timestamp, key, count(*) AS n FROM source GROUP BY key) GROUP BY timestamp",
        "",
    ),
    Query("SELECT DISTINCT count(*) AS n, timestamp FROM source GROUP BY timestamp", "A"),
    Query(
        "SELECT a.key FROM source a LEFT SEMI JOIN source b ON a.key = b.key AND a.timestamp = b.timestamp",
        "AU",
    ),
    Query("SELECT a.key FROM source a LEFT JOIN source b USING (key, timestamp)", "A"),
    Query("SELECT key FROM source a LEFT JOIN source b USING (key)", ""),
    Query("SELECT key FROM source NATURAL LEFT JOIN source b", "A"),
    Query(
        "SELECT a.key FROM source a LEFT JOIN source b ON a.key = b.key AND a.offset < b.offset", ""
    ),
    Query(
        "SELECT a.key FROM source a LEFT JOIN source b ON a.key = b.key AND (a.offset = 1 OR a.timestamp < b.timestamp)",
        "",
        refused_by_spark_only="A",
    ),
    Query(
        "SELECT a.timestamp FROM source a JOIN (SELECT DISTINCT timestamp FROM source) b ON a.timestamp = b.timestamp",
        "A",
    ),
    Query("SELECT timestamp FROM source EXCEPT SELECT TIMESTAMP '2020-01-01' FROM range(3)", "AUR"),
    Query("SELECT offset FROM source EXCEPT SELECT id FROM range(3)", "UR"),
    Query(
        "SELECT a.key FROM source a LEFT JOIN (SELECT key, timestamp + INTERVAL 1 HOUR AS t FROM source) b ON a.key = b.key AND a.timestamp < b.t",
        "",
        refused_by_spark_only="A",
    ),
)


def _by_clause(query: Query) -> Query:
    """The same with a WATERMARK clause in place of transform.watermark."""
    clause = "FROM source WATERMARK timestamp DELAY OF INTERVAL 5 SECONDS"
    accepted = "".join(each for each in query.accepted_by if each in "AUM")
    if query.sql.startswith("SELECT offset FROM source EXCEPT"):
        accepted = "AU"  # Spark takes the clause's column for one of the result
    return Query(query.sql.replace("FROM source", clause), accepted)


_TS = "(SELECT key, CAST(CAST(value AS STRING) AS TIMESTAMP) AS ts FROM source) WATERMARK ts DELAY OF INTERVAL 10 MINUTES"
# With a watermark by the clause, which the executions A, U and M are asked about.
CLAUSED = (
    *(
        _by_clause(query)
        for query in WATERMARKED
        if query.sql.count("source") == 1 and "FROM source" in query.sql
    ),
    Query(
        f"SELECT date_trunc('HOUR', ts) AS h, count(*) AS n FROM {_TS} GROUP BY date_trunc('HOUR', ts)",
        "UM",
    ),
    Query(
        f"SELECT window(ts, '1 hour') AS w, count(*) AS n FROM {_TS} GROUP BY window(ts, '1 hour')",
        "AUM",
    ),
    Query(f"SELECT ts, count(*) AS n FROM {_TS} GROUP BY ts", "AUM"),
    Query(f"SELECT t, count(*) AS n FROM (SELECT ts AS t FROM {_TS}) GROUP BY t", "AUM"),
    Query(f"SELECT DISTINCT key FROM {_TS}", "UM"),
    Query(f"SELECT DISTINCT ts FROM {_TS}", "AUM"),
    Query(f"SELECT key, count(*) AS n FROM {_TS} GROUP BY key", "UM"),
    Query(f"SELECT key, max(ts) AS n FROM {_TS} GROUP BY key", "UM"),
    Query(f"SELECT a.key FROM {_TS} a LEFT JOIN {_TS.replace('10', '20')} b ON a.key = b.key", ""),
    Query(
        f"SELECT a.key FROM {_TS} a LEFT JOIN {_TS.replace('10', '20')} b ON a.key = b.key AND a.ts = b.ts",
        "A",
    ),
    Query(
        "SELECT b.t, count(*) AS n FROM (SELECT struct(timestamp AS t) AS b FROM source WATERMARK timestamp DELAY OF INTERVAL 1 MINUTE) GROUP BY b.t",
        "UMR",
        refused_by_spark_only="A",
    ),
)
