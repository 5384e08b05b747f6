"""More queries, in the nestings and spellings in which an operation can hide (`queries.py`)."""
# ruff: noqa: E501  a query is read best on one line

from __future__ import annotations

from testkit.streams.queries import Function, Query

_ORDER = "from_json(CAST(value AS STRING), 'id BIGINT, customer STRUCT<country: STRING>, items ARRAY<STRUCT<price: INT>>, tags MAP<STRING, INT>')"

NESTED = (
    Query("SELECT CAST(any(offset > 1) AS STRING) AS value FROM source", "UMR"),
    Query("SELECT NOT any(offset > 1) AS value FROM source", "UMR"),
    Query("SELECT IF(any(offset > 1), 1, 2) AS value FROM source", "UMR"),
    Query("SELECT CASE WHEN any(offset > 1) THEN 1 END AS value FROM source", "UMR"),
    Query("SELECT struct(any(offset > 1)) AS value FROM source", "UMR"),
    Query("SELECT to_json(struct(any(offset > 1) AS a)) AS value FROM source", "UMR"),
    Query("SELECT coalesce(some(offset > 1), false) AS value FROM source", "UMR"),
    Query("SELECT NOT every(offset > 1) AS value FROM source", "UMR"),
    Query("SELECT array(any(offset > 1))[0] AS value FROM source", "UMR"),
    Query("SELECT true = any(offset > 1) AS value FROM source", "UMR"),
    Query("SELECT any(offset > 1) AND true AS value FROM source", "UMR"),
    Query("SELECT upper(CAST(max(offset) AS STRING)) AS value FROM source", "UMR"),
    Query("SELECT named_struct('a', max(offset)).a AS value FROM source", "UMR"),
    Query("SELECT concat(CAST(max(value) AS STRING), 'a') AS value FROM source", "UMR"),
    Query("SELECT array(max(offset)) AS value FROM source", "UMR"),
    Query("SELECT map('a', max(offset)) AS value FROM source", "UMR"),
    Query("SELECT value FROM source WHERE CAST(value AS STRING) LIKE ANY ('a%', 'b%')", "CAUSR"),
    Query("SELECT value FROM source WHERE CAST(value AS STRING) LIKE ALL ('a%', 'b%')", "CAUSR"),
    Query("SELECT transform(array(1), x -> any(offset > x)) AS value FROM source", "UMR"),
    Query("SELECT window(timestamp, '1 hour', '15 minutes') AS value FROM source", "AUSR"),
    Query("SELECT window(timestamp, INTERVAL 1 HOUR, INTERVAL 15 MINUTE) AS value FROM source", ""),
    Query(
        "SELECT window(timestamp, INTERVAL '1' HOUR, INTERVAL '15' MINUTE) AS value FROM source", ""
    ),
    Query("SELECT window(timestamp, INTERVAL '1 hour', '15 minutes') AS value FROM source", ""),
    Query("SELECT window(timestamp, '1 hour', '1 hour') AS value FROM source", "CAUSR"),
    Query("SELECT window(timestamp, '60 minutes', '1 hour') AS value FROM source", "CAUSR"),
    Query("SELECT window(timestamp, INTERVAL 1 HOUR, '60 minutes') AS value FROM source", ""),
    Query(
        "SELECT window(timestamp, '1 hour', '1 hour', '5 minutes') AS value FROM source", "CAUSR"
    ),
    Query(
        "SELECT window(timestamp, '1 hour', '15 minutes', '5 minutes') AS value FROM source", "AUSR"
    ),
    Query("SELECT window(timestamp, '1 day', '24 hours') AS value FROM source", "CAUSR"),
    Query("SELECT window(timestamp, '1 week', '1 day') AS value FROM source", "AUSR"),
    Query(
        "SELECT window(timestamp, '1 hour 30 minutes', '30 minutes') AS value FROM source", "AUSR"
    ),
    Query(
        "SELECT window(timestamp, '1 hour 30 minutes', '90 minutes') AS value FROM source", "CAUSR"
    ),
    Query(
        "SELECT window(timestamp, 'interval 1 hour', '60 minutes') AS value FROM source", "CAUSR"
    ),
    Query(
        "SELECT window(timestamp, '1 minute', '60000 milliseconds') AS value FROM source", "CAUSR"
    ),
    Query("SELECT window(timestamp, '1 hour').end AS value FROM source", "CAUSR"),
    Query("SELECT struct(window(timestamp, '1 hour', '15 minutes')) AS value FROM source", "AUSR"),
    Query("SELECT session_window(timestamp, '5 minutes') AS value FROM source", "CAUSR"),
    Query(
        "SELECT window(timestamp, '0.5 hours', '30 minutes') AS value FROM source",
        "",
        refused_by_spark_only="CAUSR",
    ),
    Query("SELECT window(timestamp, '1.5 seconds', '1 second') AS value FROM source", "AUSR"),
    Query("SELECT /*+ BROADCAST(source) */ key FROM source", "AUSR"),
    Query("SELECT /*+ MAPJOIN(source) */ key FROM source", "AUSR"),
    Query("SELECT /*+ BROADCASTJOIN(source) */ key FROM source", "AUSR"),
    Query("SELECT /*+ MERGE(source) */ key FROM source", "AUSR"),
    Query("SELECT /*+ SHUFFLE_MERGE(source) */ key FROM source", "AUSR"),
    Query("SELECT /*+ MERGEJOIN(source) */ key FROM source", "AUSR"),
    Query("SELECT /*+ SHUFFLE_HASH(source) */ key FROM source", "AUSR"),
    Query("SELECT /*+ SHUFFLE_REPLICATE_NL(source) */ key FROM source", "AUSR"),
    Query("SELECT /*+ BROADCAST(nothing) */ key FROM source", "CAUSR"),
    Query("SELECT /*+ BROADCAST */ key FROM source", "AUSR"),
    Query("SELECT /*+ REPARTITION */ key FROM source", "AUSR"),
    Query("SELECT /*+ REPARTITION(3), BROADCAST(source) */ key FROM source", "AUSR"),
    Query("SELECT /*+ broadcast(SOURCE) */ key FROM source", "AUSR"),
    Query("SELECT /*+ BROADCAST(s) */ key FROM source AS s", "AUSR"),
    Query("SELECT /*+ BROADCAST(source) */ key FROM source AS s", "CAUSR"),
    Query("SELECT key FROM (SELECT /*+ BROADCAST(source) */ key FROM source)", "AUSR"),
    Query("SELECT /*+ BROADCAST(source) */ key FROM (SELECT key FROM source) t", "CAUSR"),
    Query("SELECT /*+ BROADCAST(t) */ key FROM (SELECT key FROM source) t", "AUSR"),
    Query("SELECT current_time() AS value FROM source", "CAUSR", refused_by_penstock_only="C"),
    Query("SELECT current_time AS value FROM source", "CAUSR", refused_by_penstock_only="C"),
    Query("SELECT current_time(3) AS value FROM source", "CAUSR", refused_by_penstock_only="C"),
    Query("SELECT current_timestamp AS value FROM source", "AUSR"),
    Query("SELECT CAST(current_date() AS STRING) AS value FROM source", "AUSR"),
    Query("SELECT to_json(struct(now())) AS value FROM source", "AUSR"),
    Query("SELECT CASE WHEN offset > 1 THEN current_timestamp() END AS value FROM source", "AUSR"),
    Query("SELECT transform(array(1), x -> current_timestamp()) AS value FROM source", "AUSR"),
    Query("SELECT named_struct('a', current_date).a AS value FROM source", "AUSR"),
    Query("SELECT coalesce(timestamp, now()) AS value FROM source", "AUSR"),
    Query("SELECT date_add(DAY, 1, current_timestamp()) AS value FROM source", "AUSR"),
    Query("SELECT extract(YEAR FROM current_date) AS value FROM source", "AUSR"),
    Query("SELECT to_unix_timestamp(now()) AS value FROM source", "AUSR"),
    Query("SELECT unix_timestamp(now()) AS value FROM source", "AUSR"),
    Query("SELECT current_timestamp() - timestamp AS value FROM source", "AUSR"),
    Query("SELECT from_utc_timestamp(now(), 'UTC') AS value FROM source", "AUSR"),
    Query("SELECT array(now())[0] AS value FROM source", "AUSR"),
    Query("SELECT map('a', now()) AS value FROM source", "AUSR"),
    Query("SELECT current_date FROM (SELECT timestamp AS current_date FROM source)", "CAUSR"),
    Query("SELECT s.current_date FROM (SELECT timestamp AS current_date FROM source) s", "CAUSR"),
    Query("SELECT `current_date` FROM (SELECT timestamp AS current_date FROM source)", "CAUSR"),
    Query("SELECT `current_date` FROM source", "AUSR"),
    Query(
        "SELECT current_timestamp FROM (SELECT timestamp AS current_timestamp FROM source)", "CAUSR"
    ),
    Query("SELECT value FROM source WHERE timestamp > current_date", "AUSR"),
    Query("SELECT current_date FROM source WHERE EXISTS (SELECT 1 FROM range(3))", "AUSR"),
    Query(
        "SELECT value FROM source WHERE (SELECT max(id) FROM range(3)) > unix_timestamp()", "AUSR"
    ),
    Query("SELECT value FROM IDENTIFIER('source')", "CAUSR"),
    Query("SELECT s.value FROM IDENTIFIER('source') AS s", "CAUSR"),
    Query("SELECT value FROM IDENTIFIER('sou' || 'rce')", "CAUSR", refused_by_spark_only="M"),
    Query("SELECT count(*) FROM IDENTIFIER('source')", "UMR"),
    Query("SELECT value FROM STREAM source", "CAUSR"),
    Query("SELECT value FROM STREAM(source)", "CAUSR"),
    Query("SELECT s.value FROM STREAM source AS s", "CAUSR"),
    Query("SELECT s.value FROM STREAM(source) s", "CAUSR"),
    Query("SELECT count(*) FROM STREAM source", "UMR"),
    Query("SELECT value FROM STREAM IDENTIFIER('source')", "CAUSR"),
    Query("SELECT IDENTIFIER('value') FROM source", "CAUSR"),
    Query(
        "SELECT IDENTIFIER('upper')('a') AS value FROM source", "CAUSR", refused_by_spark_only="M"
    ),
    Query(
        "SELECT IDENTIFIER('current_time')() AS value FROM source",
        "CAUSR",
        refused_by_spark_only="M",
    ),
    Query(
        "SELECT IDENTIFIER('count')(value) AS value FROM source",
        "UMR",
        refused_by_spark_only="CASR",
    ),
    Query("FROM source", "CAUSR"),
    Query("SELECT value FROM (source)", "CAUSR"),
    Query("SELECT s.value FROM (source) AS s", "CAUSR"),
    Query("SELECT source.value FROM (source)", "CAUSR"),
    Query("SELECT f() AS value FROM source", "", functions=(Function("f", "BIGINT", "count(*)"),)),
    Query(
        "SELECT f(offset) AS value FROM source",
        "",
        functions=(Function("f", "BIGINT", "max(x)", (("x", "BIGINT"),)),),
    ),
    Query(
        "SELECT f(offset) AS value FROM source",
        "",
        functions=(Function("f", "BOOLEAN", "NOT any(x > 1)", (("x", "BIGINT"),)),),
    ),
    Query(
        "SELECT f() AS value FROM source",
        "AUSR",
        functions=(
            Function("g", "TIMESTAMP", "now()"),
            Function("f", "TIMESTAMP", "g()"),
        ),
    ),
    Query(
        "SELECT f() AS value FROM source",
        "AUSR",
        functions=(
            Function("h", "TIMESTAMP", "current_timestamp"),
            Function("g", "TIMESTAMP", "h()"),
            Function("f", "STRING", "CAST(g() AS STRING)"),
        ),
    ),
    Query(
        "SELECT f() AS value FROM source", "AUSR", functions=(Function("f", "TIMESTAMP", "now()"),)
    ),
    Query(
        "SELECT f(offset) AS value FROM source",
        "CAUSR",
        functions=(Function("f", "BIGINT", "x + 1", (("x", "BIGINT"),)),),
    ),
    Query(
        "SELECT f(offset) AS value FROM source",
        "CAUSR",
        functions=(Function("f", "BIGINT", "f.x + 1", (("x", "BIGINT"),)),),
    ),
    Query(
        "SELECT f(offset) AS value FROM source",
        "CAUSR",
        functions=(
            Function("f", "BIGINT", "(SELECT max(id) FROM range(3)) + x", (("x", "BIGINT"),)),
        ),
    ),
    Query(
        "SELECT f(offset) AS value FROM source",
        "",
        functions=(Function("f", "BIGINT", "(SELECT count(*) FROM source)", (("x", "BIGINT"),)),),
    ),
    Query(
        "SELECT f(offset) AS value FROM source",
        "",
        functions=(Function("f", "BIGINT", "row_number() OVER (ORDER BY x)", (("x", "BIGINT"),)),),
    ),
    Query(
        "SELECT f(offset) AS value FROM source",
        "",
        functions=(Function("f", "BIGINT", "explode(array(x))", (("x", "BIGINT"),)),),
    ),
    Query(
        "SELECT f(offset) AS value FROM source",
        "",
        functions=(Function("f", "BIGINT", "monotonically_increasing_id()", (("x", "BIGINT"),)),),
    ),
    Query(
        "SELECT f(max(offset)) AS value FROM source",
        "UMR",
        functions=(Function("f", "BIGINT", "x + 1", (("x", "BIGINT"),)),),
    ),
    Query("SELECT value FROM (SELECT value FROM (SELECT DISTINCT value FROM source))", "UMR"),
    Query("SELECT value FROM (SELECT explode(array(value)) AS value FROM source)", "AUSR"),
    Query("SELECT value FROM (SELECT max(value) AS value FROM source GROUP BY key)", "UMR"),
    Query(
        "SELECT value, n FROM (SELECT value, row_number() OVER (ORDER BY key) AS n FROM source) WHERE n = 1",
        "",
    ),
    Query("SELECT value FROM (SELECT value, now() AS t FROM source)", "AUSR"),
    Query(
        "SELECT value FROM (SELECT value, current_time() AS t FROM source)",
        "CAUSR",
        refused_by_penstock_only="C",
    ),
    Query("SELECT count(*) FILTER (WHERE offset > 1) AS value FROM source", "UMR"),
    Query("SELECT value FROM source HAVING count(*) > 1", "", refused_by_spark_only="UMR"),
    Query("SELECT key FROM source GROUP BY key HAVING max(offset) > 1", "UMR"),
    Query("SELECT VALUE FROM source", "CAUSR"),
    Query("SELECT `value` FROM source", "CAUSR"),
    Query("SELECT key AS k, k AS j FROM source", "CAUSR"),
    Query("SELECT timestamptype FROM source", "CAUSR"),
    Query("SELECT current_user FROM source", "CAUSR"),
    Query("SELECT user FROM source", "CAUSR"),
    Query("SELECT aggregate(array(1), 0, (a, x) -> a + x) FROM source", "CAUSR"),
    Query("SELECT timestampadd(HOUR, 1, timestamp) FROM source", "CAUSR"),
    Query("SELECT date_add(DAY, 1, timestamp) FROM source", "CAUSR"),
    Query("SELECT extract(YEAR FROM timestamp) FROM source", "CAUSR"),
    Query("SELECT datediff(HOUR, timestamp, timestamp) FROM source", "CAUSR"),
    Query("SELECT timestampdiff(MONTH, timestamp, timestamp) FROM source", "CAUSR"),
    Query("SELECT trim(BOTH 'x' FROM CAST(value AS STRING)) FROM source", "CAUSR"),
    Query("SELECT position('a' IN CAST(value AS STRING)) FROM source", "CAUSR"),
    Query("SELECT substring(value FROM 1 FOR 2) FROM source", "CAUSR"),
    Query("SELECT overlay(CAST(value AS STRING) PLACING 'x' FROM 1) FROM source", "CAUSR"),
    Query("SELECT transform(array(struct(1 AS a)), x -> x.a) FROM source", "CAUSR"),
    Query("SELECT filter(array(1), (x, i) -> x > i) FROM source", "CAUSR"),
    Query("SELECT zip_with(array(1), array(2), (x, y) -> x + y) FROM source", "CAUSR"),
    Query("SELECT CAST(value AS STRING) FROM source", "CAUSR"),
    Query("SELECT CAST(value AS STRING) || 'a' FROM source", "CAUSR"),
    Query("SELECT upper(value) FROM source", "CAUSR"),
    Query("SELECT (value) FROM source", "CAUSR"),
    Query("SELECT value::STRING FROM source", "CAUSR"),
    Query("SELECT cast(value as string) as VALUE FROM source", "CAUSR"),
    Query("SELECT 1 AS a, a + 1 AS b FROM source", "CAUSR"),
    Query("SELECT interval 1 day FROM source", "CAUSR"),
    Query("SELECT date '2020-01-01' FROM source", "CAUSR"),
    Query("SELECT struct(key AS a).a FROM source", "CAUSR"),
    Query("SELECT offset AS value, value AS value FROM source", "CAUSR"),
    Query("SELECT * EXCEPT (key, topic) FROM source", "CAUSR"),
    Query("SELECT s.k FROM source AS s(k, v, t, p, o, ts, tt)", "CAUSR"),
    Query("WITH a(k) AS (SELECT key FROM source) SELECT k FROM a", "AUSR"),
    Query("SELECT key, n FROM source LATERAL VIEW explode(array(1)) t AS n", "AUSR"),
    Query("SELECT max(offset) AS m FROM source ORDER BY m", "M"),
    Query("SELECT key AS a FROM source UNION ALL SELECT value FROM source", "AUS"),
    Query(
        "SELECT a FROM (SELECT key AS a FROM source UNION ALL SELECT value AS b FROM source)", "AUS"
    ),
    Query("SELECT value FROM source", "", functions=(Function("f", "BIGINT", "count(*)"),)),
    Query("SELECT value FROM source", "CAUSR", functions=(Function("g", "TIMESTAMP", "now()"),)),
    *(
        Query(
            sql.replace("FROM orders", f"FROM (SELECT key, {_ORDER} AS o FROM source) AS orders"),
            accepted,
        )
        for sql, accepted in (
            ("SELECT o.* EXCEPT (id), transform(o.items, x -> x.price) FROM orders", "CAUSR"),
            (
                "SELECT o.customer.country, o.items[0].price FROM orders WHERE o.tags['a'] = 1",
                "CAUSR",
            ),
            ("SELECT item.price FROM orders LATERAL VIEW explode(o.items) AS item", "AUSR"),
            (
                "SELECT i, item.price FROM orders LATERAL VIEW posexplode(o.items) AS i, item",
                "AUSR",
            ),
            ("SELECT k, v FROM orders LATERAL VIEW OUTER explode(o.tags) AS k, v", "AUSR"),
            ("SELECT item.price FROM (SELECT explode(o.items) AS item FROM orders)", "AUSR"),
            ("SELECT price FROM (SELECT inline(o.items) FROM orders)", "AUSR"),
            ("SELECT max(o.customer).country FROM orders", "UMR"),
            (
                "SELECT o.customer AS c, count(*) FROM orders GROUP BY o.customer HAVING c.country = 'x'",
                "UMR",
            ),
        )
    ),
    Query(
        "SELECT o.current_date FROM (SELECT struct(key AS current_date) AS o FROM source)", "CAUSR"
    ),
    Query(
        "SELECT current_date FROM (SELECT o.* FROM (SELECT from_json(CAST(value AS STRING), 'current_date DATE') AS o FROM source))",
        "CAUSR",
    ),
    Query("SELECT inline_outer(array(struct(key, value))) FROM source", "AUSR"),
    Query("SELECT window.start, count(*) FROM source GROUP BY window(timestamp, '1 hour')", "UMR"),
    Query(
        "SELECT w.end FROM (SELECT window AS w, count(*) FROM source GROUP BY window(timestamp, '1 hour'))",
        "UMR",
    ),
)

# With a watermark of 5 seconds on the column timestamp, which C and S do not accept.
NESTED_WATERMARKED = (
    Query(
        "SELECT f(timestamp) AS k, count(*) FROM source GROUP BY f(timestamp)",
        "UMR",
        functions=(Function("f", "TIMESTAMP", "x", (("x", "TIMESTAMP"),)),),
    ),
    Query(
        "SELECT date_trunc('hour', timestamp) AS k, count(*) AS n FROM source GROUP BY date_trunc('hour', timestamp)",
        "UMR",
    ),
    Query(
        "SELECT window(timestamp, '1 hour').start AS k, count(*) AS n FROM source GROUP BY window(timestamp, '1 hour').start",
        "UMR",
    ),
    Query(
        "SELECT window(timestamp, '1 hour').end AS k, count(*) AS n FROM source GROUP BY window(timestamp, '1 hour').end",
        "UMR",
    ),
    Query(
        "SELECT CAST(timestamp AS TIMESTAMP) AS k, count(*) AS n FROM source GROUP BY CAST(timestamp AS TIMESTAMP)",
        "UMR",
    ),
    Query(
        "SELECT CAST(timestamp AS STRING) AS k, count(*) AS n FROM source GROUP BY CAST(timestamp AS STRING)",
        "UMR",
    ),
    Query(
        "SELECT window(CAST(offset AS TIMESTAMP), '1 hour') AS k, count(*) AS n FROM source GROUP BY window(CAST(offset AS TIMESTAMP), '1 hour')",
        "UMR",
    ),
    Query("SELECT (timestamp) AS k, count(*) AS n FROM source GROUP BY (timestamp)", "AUMR"),
    Query(
        "SELECT coalesce(timestamp, timestamp) AS k, count(*) AS n FROM source GROUP BY coalesce(timestamp, timestamp)",
        "UMR",
    ),
    Query(
        "SELECT CAST(timestamp AS DATE) AS k, count(*) AS n FROM source GROUP BY CAST(timestamp AS DATE)",
        "UMR",
    ),
    Query(
        "SELECT window(timestamp, '1 hour') AS k, count(*) AS n FROM source GROUP BY window(timestamp, '1 hour')",
        "AUMR",
    ),
    Query(
        "SELECT timestamp + INTERVAL 1 HOUR AS k, count(*) AS n FROM source GROUP BY timestamp + INTERVAL 1 HOUR",
        "UMR",
    ),
    Query("SELECT 1 AS k, count(*) AS n FROM source GROUP BY 1", "UMR"),
    Query("SELECT date_trunc('hour', timestamp) AS k, count(*) FROM source GROUP BY k", "UMR"),
    Query("SELECT timestamp AS k, count(*) FROM source GROUP BY k", "AUMR"),
    Query("SELECT timestamp AS k, count(*) FROM source GROUP BY 1", "AUMR"),
    Query("SELECT key AS k, count(*) FROM source GROUP BY 1", "UMR"),
    Query("SELECT key, count(*) FROM (SELECT key, value FROM source) GROUP BY key", "UMR"),
    Query("SELECT t, count(*) FROM (SELECT timestamp AS t FROM source) GROUP BY t", "AUMR"),
    Query(
        "SELECT t, count(*) FROM (SELECT date_trunc('hour', timestamp) AS t FROM source) GROUP BY t",
        "UMR",
    ),
    Query("SELECT window.end, count(*) FROM source GROUP BY window(timestamp, '1 hour')", "AUMR"),
    Query(
        "SELECT window_time(window), count(*) FROM (SELECT window, count(*) AS n FROM source GROUP BY window(timestamp, '1 hour')) GROUP BY window_time(window)",
        "A",
    ),
    Query(
        "SELECT key, count(*) FROM source GROUP BY ROLLUP(timestamp)",
        "",
        refused_by_spark_only="AUMR",
    ),
    Query("SELECT timestamp, count(*) FROM source GROUP BY ROLLUP(timestamp)", "AUMR"),
    Query("SELECT DISTINCT date_trunc('hour', timestamp) FROM source", "UMR"),
    Query("SELECT DISTINCT CAST(timestamp AS STRING), timestamp FROM source", "AUMR"),
    Query("SELECT DISTINCT * FROM source", "AUMR"),
    Query("SELECT DISTINCT key, value FROM (SELECT key, value FROM source)", "UMR"),
    Query(
        "SELECT a.key, count(*) FROM source a JOIN range(3) b ON a.offset = b.id GROUP BY a.key",
        "UMR",
    ),
    Query(
        "SELECT a.timestamp, count(*) FROM source a JOIN range(3) b ON a.offset = b.id GROUP BY a.timestamp",
        "AUMR",
    ),
    Query(
        "SELECT w.start, count(*) FROM (SELECT window(timestamp, '1 hour') AS w FROM source) GROUP BY w.start",
        "UMR",
    ),
    Query("SELECT timestamp, count(*) FROM source GROUP BY ALL", "AUMR"),
    Query("SELECT window, count(*) FROM source GROUP BY window(timestamp, '1 hour'), key", "AUMR"),
    Query("SELECT max(timestamp) AS t, key FROM source GROUP BY key", "UMR"),
    Query("SELECT key, count(*) FROM source WHERE timestamp > '2020-01-01' GROUP BY key", "UMR"),
    Query(
        "SELECT t, count(*) FROM (SELECT struct(timestamp AS f).f AS t FROM source) GROUP BY t",
        "AUMR",
    ),
    Query(
        "SELECT t, count(*) FROM (SELECT s.t AS t FROM (SELECT struct(timestamp AS t) AS s FROM source)) GROUP BY t",
        "AUMR",
    ),
    Query(
        "SELECT s.t, count(*) FROM (SELECT struct(timestamp AS t) AS s FROM source) GROUP BY s.t",
        "UMR",
        refused_by_spark_only="A",
    ),
    Query("SELECT DISTINCT s.t FROM (SELECT struct(timestamp AS t) AS s FROM source)", "AUMR"),
    Query(
        "SELECT s.k, count(*) FROM (SELECT struct(key AS k, timestamp AS t) AS s FROM source) GROUP BY s.k",
        "UMR",
    ),
    Query(
        "SELECT t, count(*) FROM (SELECT inline(array(struct(timestamp AS t, key AS k))) FROM source) GROUP BY t",
        "AUMR",
    ),
    Query(
        "SELECT k, count(*) FROM (SELECT inline(array(struct(timestamp AS t, key AS k))) FROM source) GROUP BY k",
        "UMR",
    ),
    Query(
        "SELECT t, count(*) FROM (SELECT from_json(CAST(value AS STRING), 't TIMESTAMP').t AS t FROM source) GROUP BY t",
        "UMR",
    ),
    Query(
        "SELECT count(*) FROM (SELECT window(timestamp, '1 hour').start AS t FROM source) GROUP BY session_window(t, '5 minutes')",
        "M",
    ),
    Query(
        "SELECT t, count(*) FROM (SELECT window.start AS t FROM source GROUP BY window(timestamp, '1 hour')) GROUP BY t",
        "",
    ),
    Query(
        "SELECT window.start AS t FROM source GROUP BY window(timestamp, '1 hour') UNION SELECT timestamp FROM source",
        "",
    ),
    Query(
        "SELECT timestamp FROM source UNION SELECT CAST(timestamp AS TIMESTAMP) FROM source", "AUM"
    ),
    Query(
        "SELECT CAST(timestamp AS TIMESTAMP) FROM source UNION SELECT timestamp FROM source", "UM"
    ),
    Query(
        "SELECT s.key FROM (SELECT r.id AS key FROM range(3) r JOIN source s ON r.id = s.offset) s LEFT JOIN source x ON s.key = x.offset",
        "",
    ),
    # Ways on which a watermark comes to another name.
    Query(
        "SELECT t, count(*) FROM (SELECT o.timestamp AS t FROM (SELECT struct((timestamp)) AS o FROM source)) GROUP BY t",
        "AUMR",
    ),
    Query(
        "SELECT t, count(*) FROM (SELECT s['t'] AS t FROM (SELECT named_struct('t', timestamp) AS s FROM source)) GROUP BY t",
        "AUMR",
    ),
    Query(
        "SELECT t, count(*) FROM (SELECT map('a', struct(timestamp AS t))['a'].t AS t FROM source) GROUP BY t",
        "AUMR",
    ),
    Query(
        "SELECT t, count(*) FROM (SELECT if(offset > 1, s, s).t AS t FROM (SELECT offset, struct(timestamp AS t) AS s FROM source)) GROUP BY t",
        "AUMR",
    ),
    Query(
        "SELECT c, count(*) FROM (SELECT * FROM source) AS s(k, v, a, p, o, c, y) GROUP BY c",
        "AUMR",
    ),
    Query(
        "SELECT a, count(*) FROM (SELECT inline(array(struct(timestamp AS t, key AS k))) AS (a, b) FROM source) GROUP BY a",
        "AUMR",
    ),
    Query(
        "SELECT `window_time(w)`, count(*) FROM (SELECT window_time(w) FROM (SELECT window(timestamp, '1 hour') AS w FROM source)) GROUP BY `window_time(w)`",
        "AUMR",
    ),
    Query(
        "SELECT a.key FROM source a LEFT JOIN (SELECT key, timestamp AS t FROM source) b ON a.key = b.key AND a.timestamp = b.t",
        "A",
    ),
)
