"""SQL that the continuous engine cannot run is refused from its text; the rest is not."""

import pytest

from penstock.stream.sql import refusals
from tests.stream.samples import spec

REFUSED = [
    ("SELECT count(*) FROM source", "Aggregate"),
    ("SELECT key, max(value) FROM source GROUP BY key", "Aggregate"),
    ("SELECT key FROM source GROUP BY key", "Aggregate"),
    ("SELECT first(value) FROM source", "Aggregate"),
    ("SELECT collect_set(value) FROM source", "Aggregate"),
    ("SELECT window(timestamp, '5 seconds') FROM source", "Aggregate"),
    ("SELECT * FROM source PIVOT (sum(a) FOR b IN (1, 2))", "Aggregate"),
    ("SELECT row_number() OVER (ORDER BY key) FROM source", "Window"),
    ("SELECT DISTINCT key FROM source", "Deduplicate"),
    ("SELECT a.key FROM source a JOIN source b ON a.key = b.key", "Join"),
    ("SELECT key FROM source WHERE key IN (SELECT key FROM other)", "Join"),
    ("SELECT key FROM source UNION ALL SELECT key FROM source", "Union"),
    ("WITH a AS (SELECT * FROM source) SELECT * FROM a", "WithCTE"),
    ("SELECT key FROM source LIMIT 10", "Limit"),
    ("SELECT key FROM source ORDER BY key", "Sort"),
    ("SELECT key FROM source SORT BY key", "Sort"),
    ("SELECT key FROM source CLUSTER BY key", "Repartition"),
    ("SELECT key FROM source DISTRIBUTE BY key", "Repartition"),
    ("SELECT /*+ REPARTITION(3) */ key FROM source", "UnresolvedHint"),
    ("SELECT * FROM source TABLESAMPLE (10 PERCENT)", "Sample"),
    ("SELECT explode(split(value, ',')) FROM source", "Generate"),
    ("SELECT posexplode(x) FROM source", "Generate"),
    ("SELECT inline(x) FROM source", "Generate"),
    ("SELECT * FROM source LATERAL VIEW explode(x) t AS y", "Generate"),
    ("SELECT current_timestamp() FROM source", "CurrentTime"),
    ("SELECT now() FROM source", "CurrentTime"),
    ("SELECT current_date FROM source", "CurrentTime"),
    ("SELECT unix_timestamp() FROM source", "CurrentTime"),
    ("SELECT monotonically_increasing_id() FROM source", "MonotonicallyIncreasingID"),
]


@pytest.mark.parametrize(("sql", "operation"), REFUSED)
def test_an_operation_beyond_the_engine_is_refused_by_name(sql: str, operation: str) -> None:
    """The message names Spark's operation and where it stands."""
    found = refusals(spec(transform={"sql": sql}))
    assert any(f"does not support {operation} (" in each.message for each in found)
    assert all(each.reason == "UnsupportedOperation" for each in found)


ACCEPTED = [
    "SELECT * FROM source",
    "SELECT CAST(key AS STRING) key, upper(value) value FROM source WHERE value IS NOT NULL",
    "SELECT value FROM (SELECT value FROM source) WHERE value IN ('a', 'b')",
    "SELECT CASE WHEN key > 1 THEN 'a' ELSE 'b' END AS value FROM source",
    "SELECT from_json(value, 'a INT').a AS value FROM source",
    "SELECT filter(x, y -> y > 1), aggregate(x, 0, (a, y) -> a + y), array_max(x) FROM source",
    "SELECT unix_timestamp(timestamp), date_format(timestamp, 'yyyy') FROM source",
    "SELECT greatest(a, b), least(a, b), size(x), element_at(x, 1) FROM source",
    "SELECT rand(), uuid() FROM source",
    "SELECT this is not SQL that the parser can read ((",
]


@pytest.mark.parametrize("sql", ACCEPTED)
def test_map_like_sql_is_never_refused(sql: str) -> None:
    """Nor is text the parser cannot read: Spark's analyser has the last word on that."""
    assert refusals(spec(transform={"sql": sql})) == []


@pytest.mark.parametrize(
    "sql", ["DROP TABLE x", "INSERT INTO t SELECT * FROM source", "SELECT 1; SELECT 2"]
)
def test_only_one_select_is_taken(sql: str) -> None:
    """Anything else would run as a command in the driver."""
    assert [each.reason for each in refusals(spec(transform={"sql": sql}))] == ["NotOneSelect"]


def test_a_function_of_the_streams_own_hides_sparks() -> None:
    """A declared function may bear the name of one that the engine would refuse."""
    function = {"name": "now", "returns": "BIGINT", "expression": "1"}
    assert refusals(spec(transform={"sql": "SELECT now()", "functions": [function]})) == []


def test_the_body_of_a_function_is_judged_too() -> None:
    """Spark inlines it, so it must be map-like as well."""
    function = {"name": "f", "returns": "TIMESTAMP", "expression": "current_timestamp()"}
    (refusal,) = refusals(spec(transform={"sql": "SELECT f()", "functions": [function]}))
    assert "spec.transform.functions[0].expression" in refusal.message
