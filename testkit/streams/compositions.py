"""Random queries, composed of operations that all take and make the columns a, b and t."""

from __future__ import annotations

import random

STREAM = "SELECT offset AS a, CAST(value AS STRING) AS b, timestamp AS t FROM source"
TABLE = (
    "SELECT id AS a, CAST(id AS STRING) AS b, TIMESTAMP '2024-01-01 00:00:00' AS t FROM range(3)"
)

# Each makes a relation with the columns a BIGINT, b STRING, t TIMESTAMP of another, {q}.
STAGES = (
    "SELECT a + 1 AS a, b, t FROM ({q})",
    "SELECT a, upper(b) AS b, t FROM ({q}) WHERE a > 3",
    "SELECT x.a, x.b, x.t FROM ({q}) AS x WHERE b IN ('a', 'b') OR a BETWEEN 1 AND 3",
    "SELECT * FROM ({q})",
    "SELECT y.* FROM ({q}) AS y(a, b, t)",
    "SELECT * EXCEPT (c) FROM (SELECT *, a + 1 AS c FROM ({q}))",
    "SELECT c AS a, b, s AS t FROM (SELECT a + 1 AS c, c + 1 AS d, b, t AS s FROM ({q}))",
    "SELECT CASE WHEN a > 1 THEN a ELSE 2 END AS a, b, t FROM ({q})",
    "SELECT CAST(CAST(a AS INT) AS BIGINT) AS a, b, CAST(t AS TIMESTAMP) AS t FROM ({q})",
    "SELECT aggregate(array(a), 0L, (s, e) -> s + e) AS a, b, t FROM ({q})",
    "SELECT struct(a AS f).f AS a, b, struct(t AS f).f AS t FROM ({q})",
    "SELECT s.a, s.b, s.t FROM (SELECT struct(a, b, t) AS s FROM ({q}))",
    "SELECT a, b, window(t, '1 hour').start AS t FROM ({q})",
    "SELECT a, b, window_time(w) AS t FROM (SELECT a, b, window(t, '1 hour') AS w FROM ({q}))",
    "SELECT a, b, window(t, '1 hour', '60 minutes').start AS t FROM ({q})",
    "SELECT a, b, window(t, '1 hour', '15 minutes').start AS t FROM ({q})",
    "SELECT a, b, coalesce(t, now()) AS t FROM ({q})",
    "SELECT a, CAST(current_date AS STRING) AS b, t FROM ({q})",
    "SELECT a, b, t FROM ({q}) WHERE t > current_timestamp()",
    "SELECT /*+ BROADCAST(x) */ a, b, t FROM ({q}) x",
    "SELECT /*+ MAPJOIN(nothing) */ a, b, t FROM ({q}) x",
    "SELECT a, explode(array(b)) AS b, t FROM ({q})",
    "SELECT inline(array(struct(a, b, t))) FROM ({q})",
    "SELECT a, c AS b, t FROM ({q}) LATERAL VIEW explode(array(b)) v AS c",
    "SELECT x.a, v.c AS b, t FROM ({q}) x, LATERAL (SELECT upper(x.b) AS c) v",
    "SELECT DISTINCT a, b, t FROM ({q})",
    "SELECT DISTINCT a, b, date_trunc('hour', t) AS t FROM ({q})",
    "SELECT DISTINCT count(*) AS a, b, t FROM ({q}) GROUP BY b, t",
    "SELECT a, b, t FROM ({q}) GROUP BY a, b, t",
    "SELECT a, b, max(t) AS t FROM ({q}) GROUP BY ALL",
    "SELECT count(*) AS a, b, t FROM ({q}) GROUP BY 2, 3",
    "SELECT count(*) AS a, max(b) AS b, max(t) AS t FROM ({q})",
    "SELECT max(a) AS a, b, max(t) AS t FROM ({q}) GROUP BY b",
    "SELECT CAST(NOT any(a > 1) AS BIGINT) AS a, b, max(t) AS t FROM ({q}) GROUP BY b",
    "SELECT approx_count_distinct(a) AS a, b, t FROM ({q}) GROUP BY b, t HAVING count(*) > 1",
    "SELECT count(*) FILTER (WHERE a > 1) AS a, b, t FROM ({q}) GROUP BY b, t",
    "SELECT count(DISTINCT a) AS a, b, t FROM ({q}) GROUP BY b, t",
    "SELECT count(*) AS a, b, t FROM ({q}) GROUP BY ROLLUP (b, t)",
    "SELECT count(*) AS a, b, date_trunc('day', t) AS t FROM ({q})"
    " GROUP BY b, date_trunc('day', t)",
    "SELECT count(*) AS a, b, window.start AS t FROM ({q}) GROUP BY b, window(t, '1 hour')",
    "SELECT a, b, window_time(w) AS t FROM"
    " (SELECT count(*) AS a, b, window AS w FROM ({q}) GROUP BY b, window(t, '1 hour'))",
    "SELECT count(*) AS a, b, w.end AS t FROM"
    " (SELECT a, b, window(t, '1 hour', '15 minutes') AS w FROM ({q})) GROUP BY b, w",
    "SELECT count(*) AS a, b, session_window.end AS t FROM ({q})"
    " GROUP BY b, session_window(t, '5 minutes')",
    "SELECT a, b, t FROM ({q}) ORDER BY a",
    "SELECT a, b, t FROM ({q}) SORT BY a",
    "SELECT count(*) AS a, b, t FROM ({q}) GROUP BY b, t ORDER BY count(*)",
    "SELECT a, b, t FROM ({q}) LIMIT 5",
    "SELECT a, b, t FROM ({q}) LIMIT 5 OFFSET 2",
    "SELECT row_number() OVER (PARTITION BY b ORDER BY t) + a AS a, b, t FROM ({q})",
    "WITH c AS ({q}) SELECT a, b, t FROM c",
    "SELECT a + monotonically_increasing_id() AS a, b, t FROM ({q})",
    "SELECT a, b, t FROM ({q}) DISTRIBUTE BY a",
    "SELECT a, b, t FROM ({q}) TABLESAMPLE (10 PERCENT)",
    "SELECT a, b, t FROM ({q}) TABLESAMPLE (5 ROWS)",
)
# Each combines two relations of these columns, {q} and {r}.
COMBINATIONS = (
    "SELECT x.a, x.b, x.t FROM ({q}) x JOIN ({r}) y ON x.a = y.a",
    "SELECT x.a, y.b, y.t FROM ({q}) x, ({r}) y WHERE x.a = y.a AND x.t = y.t",
    "SELECT a, b, x.t FROM ({q}) x JOIN ({r}) y USING (a, b)",
    "SELECT x.a, x.b, x.t FROM ({q}) x LEFT JOIN ({r}) y ON x.a = y.a",
    "SELECT x.a, x.b, y.t FROM ({q}) x LEFT JOIN ({r}) y ON x.a = y.a AND x.t = y.t",
    "SELECT x.a, x.b, x.t FROM ({q}) x LEFT JOIN ({r}) y"
    " ON x.a = y.a AND y.t BETWEEN x.t AND x.t + INTERVAL 1 HOUR",
    "SELECT y.a, y.b, y.t FROM ({q}) x RIGHT JOIN ({r}) y ON x.a = y.a AND x.t = y.t",
    "SELECT y.a, y.b, y.t FROM ({q}) x RIGHT JOIN ({r}) y ON x.a = y.a",
    "SELECT x.a, y.b, x.t FROM ({q}) x FULL JOIN ({r}) y ON x.a = y.a AND x.t = y.t",
    "SELECT a, b, t FROM ({q}) NATURAL LEFT JOIN ({r})",
    "SELECT a, b, t FROM ({q}) x LEFT SEMI JOIN ({r}) y ON x.a = y.a",
    "SELECT a, b, t FROM ({q}) x LEFT SEMI JOIN ({r}) y ON x.t = y.t",
    "SELECT a, b, t FROM ({q}) x LEFT ANTI JOIN ({r}) y ON x.a = y.a",
    "SELECT x.a, x.b, x.t FROM ({q}) x CROSS JOIN ({r}) y",
    "SELECT a, b, t FROM ({q}) UNION ALL SELECT a, b, t FROM ({r})",
    "SELECT a, b, t FROM ({q}) UNION SELECT a, b, t FROM ({r})",
    "SELECT a, b, t FROM ({q}) EXCEPT SELECT a, b, t FROM ({r})",
    "SELECT a, b, t FROM ({q}) INTERSECT SELECT a, b, t FROM ({r})",
    "SELECT a, b, t FROM ({q}) WHERE a IN (SELECT a FROM ({r}))",
    "SELECT a, b, t FROM ({q}) x WHERE EXISTS (SELECT 1 FROM ({r}) y WHERE x.a = y.a)",
    "SELECT a + (SELECT max(a) FROM ({r})) AS a, b, t FROM ({q})",
    "WITH c AS ({q}), d AS ({r}) SELECT c.a, d.b, c.t FROM c JOIN d ON c.a = d.a",
)


def compose(seed: int, count: int) -> list[str]:
    """Queries of up to four stages over the stream or a table, always the same of one seed."""
    chosen = random.Random(seed)
    return [_compose(chosen, STREAM, 4) for _ in range(count)]


def _compose(chosen: random.Random, base: str, depth: int) -> str:
    query = base
    for _ in range(chosen.randint(depth // 4, depth)):
        if chosen.random() < 0.25:
            other = _compose(chosen, chosen.choice((STREAM, TABLE)), 1)
            pair = [query, other] if chosen.random() < 0.7 else [other, query]
            query = chosen.choice(COMBINATIONS).format(q=pair[0], r=pair[1])
        else:
            query = chosen.choice(STAGES).format(q=query)
    return query
