"""Random queries, composed of operations that all take and make the columns a, b and t."""

from __future__ import annotations

import random

_BASE = "SELECT offset AS a, CAST(value AS STRING) AS b, timestamp AS t FROM source"

# Each makes a relation with the columns a BIGINT, b STRING, t TIMESTAMP of another, {q}.
STAGES = (
    "SELECT a + 1 AS a, b, t FROM ({q})",
    "SELECT a, upper(b) AS b, t FROM ({q}) WHERE a > 3",
    "SELECT x.a, x.b, x.t FROM ({q}) AS x WHERE b IN ('a', 'b') OR a BETWEEN 1 AND 3",
    "SELECT CASE WHEN a > 1 THEN a ELSE 2 END AS a, b, t FROM ({q})",
    "SELECT aggregate(array(a), 0L, (s, e) -> s + e) AS a, b, t FROM ({q})",
    "SELECT struct(a AS f).f AS a, b, t FROM ({q})",
    "SELECT a, b, window(t, '1 hour').start AS t FROM ({q})",
    "SELECT a, b, window(t, '1 hour', '60 minutes').start AS t FROM ({q})",
    "SELECT a, b, window(t, '1 hour', '15 minutes').start AS t FROM ({q})",
    "SELECT a, b, coalesce(t, now()) AS t FROM ({q})",
    "SELECT a, CAST(current_date AS STRING) AS b, t FROM ({q})",
    "SELECT a, b, t FROM ({q}) WHERE t > current_timestamp()",
    "SELECT /*+ BROADCAST(x) */ a, b, t FROM ({q}) x",
    "SELECT /*+ MAPJOIN(nothing) */ a, b, t FROM ({q}) x",
    "SELECT a, explode(array(b)) AS b, t FROM ({q})",
    "SELECT a, c AS b, t FROM ({q}) LATERAL VIEW explode(array(b)) v AS c",
    "SELECT DISTINCT a, b, t FROM ({q})",
    "SELECT max(a) AS a, b, max(t) AS t FROM ({q}) GROUP BY b",
    "SELECT CAST(NOT any(a > 1) AS BIGINT) AS a, b, max(t) AS t FROM ({q}) GROUP BY b",
    "SELECT count(*) AS a, b, t FROM ({q}) GROUP BY b, t",
    "SELECT a, b, t FROM ({q}) ORDER BY a",
    "SELECT row_number() OVER (PARTITION BY b ORDER BY t) + a AS a, b, t FROM ({q})",
    "WITH c AS ({q}) SELECT a, b, t FROM c",
    "SELECT x.a, x.b, x.t FROM ({q}) x JOIN range(3) r ON x.a = r.id",
    "SELECT a, b, t FROM ({q}) WHERE a IN (SELECT id FROM range(3))",
    "SELECT a + monotonically_increasing_id() AS a, b, t FROM ({q})",
    "SELECT a, b, t FROM ({q}) DISTRIBUTE BY a",
    "SELECT a, b, t FROM ({q}) TABLESAMPLE (10 PERCENT)",
)


def compose(seed: int, count: int) -> list[str]:
    """Queries of one to four stages each, always the same of one seed."""
    chosen = random.Random(seed)
    made = []
    for _ in range(count):
        query = _BASE
        for _ in range(chosen.randint(1, 4)):
            query = chosen.choice(STAGES).format(q=query)
        made.append(query)
    return made
