"""SQL that an engine cannot run is refused from its text; the rest is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.v1alpha1 import StreamSpec
from penstock.sql.refusals import Refusal, refusals
from testkit.streams.queries import QUERIES, WATERMARKED, Query
from testkit.streams.specs import KAFKA_TO_KAFKA, spec

CONTINUOUS: dict[str, Any] = {"trigger": {"continuous": {"checkpointInterval": "1s"}}}
BATCHES: dict[str, Any] = {"trigger": {"microBatch": {}}}
ENGINES: dict[str, dict[str, Any]] = {
    "C": CONTINUOUS,
    "A": BATCHES,
    "U": {**BATCHES, "outputMode": "update"},
    "M": {**BATCHES, "outputMode": "complete"},
    "S": {"trigger": {"microBatch": {"asyncProgress": {}}}},
    "R": {"trigger": {"realTime": {}}},
}


def judged(sql: str, engine: str, **transform: Any) -> list[Refusal]:
    """The refusals of a query between two topics."""
    return refusals(
        StreamSpec.model_validate(
            {**KAFKA_TO_KAFKA, **ENGINES[engine], "transform": {"sql": sql, **transform}}
        )
    )


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.sql)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_verdict_is_sparks(query: Query, engine: str) -> None:
    """The table is what Spark says (test_spark_verdicts); what only Spark can see is left to it."""
    refused = judged(query.sql, engine)
    assert bool(refused) == (engine not in query.takes + query.late), refused


@pytest.mark.parametrize("query", WATERMARKED, ids=lambda query: query.sql)
@pytest.mark.parametrize("engine", "AUMR")
def test_the_verdict_with_a_watermark_is_sparks(query: Query, engine: str) -> None:
    """Append mode then takes aggregates over event time."""
    watermark = {"column": "timestamp", "delay": "5 seconds"}
    refused = judged(query.sql, engine, watermark=watermark)
    assert bool(refused) == (engine not in query.takes + query.late), refused


def test_available_now_takes_what_micro_batch_takes() -> None:
    """It is the same engine."""
    for query in QUERIES:
        sql = {"transform": {"sql": query.sql}, "trigger": {"availableNow": {}}}
        refused = refusals(StreamSpec.model_validate({**KAFKA_TO_KAFKA, **sql}))
        assert bool(refused) == (not {"A"} & {*query.takes, *query.late}), query.sql


MESSAGES = [
    (
        "C",
        "SELECT key, count(*) AS n\nFROM source\nGROUP BY key",
        "spec.transform.sql, line 1, column 13: trigger.continuous does not support Aggregate (an "
        "aggregate: COUNT(*)), because the continuous engine runs projections and filters only: "
        "take it out of the query, or use trigger.microBatch with outputMode update",
    ),
    (
        "C",
        "SELECT window.start, count(*) AS n FROM source GROUP BY window(timestamp, '5 seconds')",
        "does not support Aggregate (an aggregate over event time: COUNT(*)), because the "
        "continuous engine runs projections and filters only: take it out of the query, or use "
        "trigger.microBatch with outputMode append and transform.watermark",
    ),
    (
        "A",
        "SELECT key, count(*) AS n FROM source GROUP BY key",
        "trigger.microBatch with outputMode append does not support Aggregate (an aggregate: "
        "COUNT(*)), because without event time a group is never finished, so outputMode append "
        "would never write it: take it out of the query, or use trigger.microBatch with "
        "outputMode update",
    ),
    (
        "C",
        "SELECT key\nFROM source\nWHERE timestamp > current_timestamp()",
        "spec.transform.sql, line 3, column 19: trigger.continuous does not support CurrentTime "
        "(the current time or date: CURRENT_TIMESTAMP()), because the continuous engine runs "
        "projections and filters only: take it out of the query, or use trigger.realTime",
    ),
    (
        "R",
        "SELECT DISTINCT key FROM source",
        "spec.transform.sql, line 1, column 8: trigger.realTime does not support Deduplicate "
        "(DISTINCT: DISTINCT), because real-time mode runs neither state nor a shuffle in Spark "
        "4.2: take it out of the query, or use trigger.microBatch with outputMode update",
    ),
    (
        "S",
        "SELECT a.key FROM source a JOIN source b ON a.key = b.key",
        "line 1, column 28: trigger.microBatch with asyncProgress does not support Join (a join "
        "of two streams: JOIN source AS b ON a.key = b.key), because asynchronous progress "
        "tracking takes stateless queries only: take it out of the query, or use "
        "trigger.microBatch with outputMode append",
    ),
    (
        "U",
        "SELECT key FROM source ORDER BY key",
        "column 24: trigger.microBatch with outputMode update does not support Sort (an ordering: "
        "ORDER BY key), because only all rows together have an order: take it out of "
        "the query",
    ),
    (
        "M",
        "SELECT key FROM source",
        "does not support CompleteOutput (outputMode complete without an aggregate: SELECT key "
        "FROM source), because there would be no end of the rows to write again: use outputMode "
        "append",
    ),
    ("A", "SELECT count(DISTINCT key) FROM source", "use approx_count_distinct"),
    ("A", "SELECT 1 AS value", "it would end at once: select from `source`"),
    (
        "A",
        "SELECT a.key FROM source a FULL JOIN range(3) b ON a.offset = b.id",
        "whether a row of the table has a partner in the stream is never known: turn the join "
        "round",
    ),
    (
        "A",
        "SELECT key FROM source WHERE key IN (SELECT key FROM source)",
        "does not support Subquery (a stream in a subquery expression: ",
    ),
]


@pytest.mark.parametrize(("engine", "sql", "expected"), MESSAGES)
def test_a_refusal_names_the_operation_its_place_the_reason_and_the_remedy(
    engine: str, sql: str, expected: str
) -> None:
    """And the engine nearest to the one asked for that would take the whole query."""
    found = judged(sql, engine)
    assert all(each.reason == "UnsupportedOperation" for each in found)
    assert any(expected in each.message for each in found), [each.message for each in found]


def test_each_operation_is_named_once() -> None:
    """However often it stands in the text; the first place is told."""
    (found,) = judged("SELECT now() AS a,\n now() AS b FROM source", "C")
    assert "line 1, column 8" in found.message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT this is not SQL that the parser can read ((",
        "SELECT 'unfinished",
        "SELECT * FROM STREAM(source) WHERE ((",
    ],
)
def test_what_the_parser_cannot_read_is_left_to_spark(sql: str) -> None:
    """A wrong refusal would be worse than a late one."""
    assert judged(sql, "C") == []


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("DROP TABLE x", "DROP"),
        ("INSERT INTO t SELECT * FROM source", "INSERT"),
        ("CREATE TABLE t AS SELECT * FROM source", "CREATE"),
        ("SET spark.sql.ansi.enabled = false", "SET"),
        ("-- a comment\nUSE other", "USE"),
        ("SELECT 1; SELECT 2", "2"),
        (" ; ", "0"),
    ],
)
def test_only_one_select_is_taken(sql: str, word: str) -> None:
    """Anything else would run as a command in the driver."""
    (found,) = judged(sql, "A")
    assert found.reason == "NotOneSelect"
    assert f"not {word}:" in found.message


def test_a_semicolon_at_the_end_does_no_harm() -> None:
    """People paste SQL."""
    assert judged("SELECT key FROM source;", "C") == []


@pytest.mark.parametrize(
    "name", ["now", "max", "count", "explode", "every", "monotonically_increasing_id"]
)
def test_a_function_of_the_streams_own_hides_sparks(name: str) -> None:
    """A declared function may bear the name of one that the engine would refuse."""
    function = {"name": name, "returns": "BIGINT", "expression": "1"}
    java = {"name": name, "className": "com.example.F"}
    assert judged(f"SELECT {name}(offset) AS n FROM source", "C", functions=[function]) == []
    assert judged(f"SELECT {name}(offset) AS n FROM source", "C", javaFunctions=[java]) == []


def test_the_body_of_a_function_is_judged_where_it_is_used() -> None:
    """Spark inlines it, so it must be map-like as well."""
    function = {"name": "f", "returns": "TIMESTAMP", "expression": "1 +\n current_timestamp()"}
    (found,) = judged("SELECT F() AS t FROM source", "C", functions=[function])
    assert "spec.transform.functions[0].expression, line 2, column 2: " in found.message
    assert judged("SELECT key FROM source", "C", functions=[function]) == []
    assert judged("SELECT f() AS t FROM source", "A", functions=[function]) == []


@given(st.text(max_size=200))
def test_no_text_breaks_the_judge(text: str) -> None:
    """Whatever people write, the answer is a list of refusals."""
    if text:
        refusals(spec(transform={"sql": text}))


WORDS = (
    *("SELECT", "FROM", "source", "WHERE", "key", ",", "(", ")", "count", "window", "over"),
    *("UNION", "ALL", "JOIN", "ON", "a", "b", "1", "GROUP", "BY", "LATERAL", "VIEW", "explode"),
    *("PIVOT", "LIMIT", "ORDER", "WITH", "AS", "DISTINCT", "*", "|>", ";"),
)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=25))
def test_no_heap_of_sql_words_breaks_the_judge(words: list[str]) -> None:
    """Nor text that is nearly SQL."""
    refusals(spec(transform={"sql": " ".join(words)}))
