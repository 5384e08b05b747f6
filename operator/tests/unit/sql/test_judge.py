"""SQL that an execution does not support is refused from its text alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from penstock.api.problem import Problem
from penstock.api.v1alpha1 import StreamSpec
from penstock.sql.judge import judge_sql
from testkit.streams.kafka_rows import REFUSED, TAKEN, TAKEN_WITH_TOPIC
from testkit.streams.nested_queries import NESTED, NESTED_WATERMARKED
from testkit.streams.queries import EXECUTIONS, QUERIES, WATERMARKED, WITH_WATERMARK, Query
from testkit.streams.streams import KAFKA_TO_KAFKA, changed, query_stream

CONTINUOUS: dict[str, Any] = {"trigger": {"continuous": {"checkpointInterval": "1s"}}}
BATCHES: dict[str, Any] = {"trigger": {"microBatch": {}}}
FIELDS: dict[str, dict[str, Any]] = {
    "C": CONTINUOUS,
    "A": BATCHES,
    "U": {**BATCHES, "outputMode": "update"},
    "M": {**BATCHES, "outputMode": "complete"},
    "S": {"trigger": {"microBatch": {"asyncProgress": {}}}},
    "R": {"trigger": {"realTime": {}}},
    "trigger.availableNow": {"trigger": {"availableNow": {}}},
}
# trigger.availableNow runs the micro-batch engine too, so it accepts the same queries.
SAME_AS = {"trigger.availableNow": "A"}


def refusals_of(sql: str, letter: str, **transform: Any) -> list[Problem]:
    """The refusals of a query over a topic, for a sink that takes any columns."""
    fields = {"sink": {"memory": {}}, **FIELDS[letter], "transform": {"sql": sql, **transform}}
    spec = StreamSpec.model_validate({**KAFKA_TO_KAFKA, **fields})
    return errors(judge_sql(spec))


def errors(found: list[Problem]) -> list[Problem]:
    return [each for each in found if each.severity == "error"]


def verdicts(query: Query, letters: Iterable[str], **transform: Any) -> dict[str, str]:
    """For each execution, "accepted" or "refused"."""
    return {
        _name(letter): "refused" if refusals_of(query.sql, letter, **transform) else "accepted"
        for letter in letters
    }


def transform_of(query: Query, **more: Any) -> dict[str, Any]:
    """The fields of the transform, apart from the SQL."""
    return {"functions": [each.as_fields() for each in query.functions], **more}


def expected(query: Query, letters: Iterable[str]) -> dict[str, str]:
    """The verdicts of the table; a query that only Spark refuses is accepted here."""
    accepted = {*query.accepted_by, *query.refused_by_spark_only} - {
        *query.refused_by_penstock_only
    }
    return {
        _name(letter): "accepted" if SAME_AS.get(letter, letter) in accepted else "refused"
        for letter in letters
    }


def _name(letter: str) -> str:
    return str(EXECUTIONS[letter]) if letter in EXECUTIONS else letter


@pytest.mark.parametrize("query", [*QUERIES, *NESTED], ids=lambda query: query.sql)
def test_verdicts_are_those_of_spark(query: Query) -> None:
    """`test_spark_verdicts` compares the table with Spark."""
    assert verdicts(query, FIELDS, **transform_of(query)) == expected(query, FIELDS)


@pytest.mark.parametrize("query", [*WATERMARKED, *NESTED_WATERMARKED], ids=lambda query: query.sql)
def test_verdicts_with_a_watermark_are_those_of_spark(query: Query) -> None:
    """With a watermark append mode accepts aggregates over event time."""
    watermark = {"column": "timestamp", "delay": "5 seconds"}
    actual = verdicts(query, WITH_WATERMARK, **transform_of(query, watermark=watermark))
    assert actual == expected(query, WITH_WATERMARK)


@pytest.mark.parametrize("sql", [*TAKEN, *TAKEN_WITH_TOPIC, *REFUSED])
def test_a_kafka_sink_takes_the_columns_that_sparks_writer_takes(sql: str) -> None:
    """With a topic in the sink, and without."""
    spec = {**query_stream(sql, "U"), "sink": KAFKA_TO_KAFKA["sink"]}  # U accepts all of them
    without_topic = changed(spec, "sink.kafka.topic", ...)
    taken = [
        not errors(judge_sql(StreamSpec.model_validate(each))) for each in (spec, without_topic)
    ]
    assert taken == [sql not in REFUSED, sql in TAKEN]


MESSAGES = [
    (
        "C",
        "SELECT key, count(*) AS n\nFROM source\nGROUP BY key",
        "spec.transform.sql, line 1, column 13: trigger.continuous does not support Aggregate (an "
        "aggregate: COUNT(*)), because the continuous engine runs projections and filters only: "
        "remove it from the query, or use trigger.microBatch with outputMode update",
    ),
    (
        "C",
        "SELECT window.start, count(*) AS n FROM source GROUP BY window(timestamp, '5 seconds')",
        "does not support Aggregate (an aggregate over event time: COUNT(*)), because the "
        "continuous engine runs projections and filters only: remove it from the query, or use "
        "trigger.microBatch with outputMode append and transform.watermark",
    ),
    (
        "A",
        "SELECT key, count(*) AS n FROM source GROUP BY key",
        "trigger.microBatch with outputMode append does not support Aggregate (an aggregate: "
        "COUNT(*)), because without event time a group never ends, so outputMode append "
        "would never write it: remove it from the query, or use trigger.microBatch with "
        "outputMode update",
    ),
    (
        "C",
        "SELECT key\nFROM source\nWHERE timestamp > current_timestamp()",
        "spec.transform.sql, line 3, column 19: trigger.continuous does not support CurrentTime "
        "(the current time or date: CURRENT_TIMESTAMP()), because the continuous engine plans a "
        "query once and would keep the time of its start: remove it from the query, or use "
        "trigger.realTime",
    ),
    (
        "R",
        "SELECT DISTINCT key FROM source",
        "spec.transform.sql, line 1, column 8: trigger.realTime does not support Deduplicate "
        "(DISTINCT: DISTINCT), because real-time mode supports neither state nor a shuffle in "
        "Spark 4.2: remove it from the query, or use trigger.microBatch with outputMode update",
    ),
    (
        "S",
        "SELECT a.key FROM source a JOIN source b ON a.key = b.key",
        "line 1, column 28: trigger.microBatch with asyncProgress does not support Join (a join "
        "of two streams: JOIN source AS b ON a.key = b.key), because asynchronous progress "
        "tracking supports stateless queries only: remove it from the query, or use "
        "trigger.microBatch with outputMode append",
    ),
    (
        "U",
        "SELECT key FROM source ORDER BY key",
        "column 24: trigger.microBatch with outputMode update does not support Sort (sorting: "
        "ORDER BY key), because only the result of an aggregate can be sorted, as a whole: remove "
        "it from the query",
    ),
    (
        "M",
        "SELECT key FROM source",
        "does not support CompleteOutput (outputMode complete without an aggregate: SELECT key "
        "FROM source), because each batch would write all rows again, without bound: use "
        "outputMode append",
    ),
    ("A", "SELECT count(DISTINCT key) FROM source", "use approx_count_distinct"),
    ("A", "SELECT 1 AS value", "it would end at once: select from `source`"),
    (
        "A",
        "SELECT a.key FROM source a FULL JOIN range(3) b ON a.offset = b.id",
        "a later record of the stream can still match a row of the table: keep the rows of the "
        "stream instead",
    ),
    (
        "A",
        "SELECT key FROM source WHERE key IN (SELECT key FROM source)",
        "does not support Subquery (a stream in a subquery expression: ",
    ),
]


@pytest.mark.parametrize(("letter", "sql", "message"), MESSAGES)
def test_a_refusal_names_operation_place_reason_and_remedy(
    letter: str, sql: str, message: str
) -> None:
    """The remedy includes the nearest execution that accepts the whole query."""
    found = refusals_of(sql, letter)
    assert all(each.reason == "UnsupportedOperation" for each in found)
    assert any(message in each.message for each in found), [each.message for each in found]


def test_each_operation_is_reported_once() -> None:
    """At its first place in the text."""
    (found,) = refusals_of("SELECT now() AS a,\n now() AS b FROM source", "C")
    assert "line 1, column 8" in found.message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT this is not SQL that the parser can read ((",
        "SELECT 'unfinished",
        "SELECT * FROM STREAM(source) WHERE ((",
    ],
)
def test_text_that_the_parser_cannot_read_is_left_to_spark(sql: str) -> None:
    """A wrong refusal would be worse than a late one."""
    assert refusals_of(sql, "C") == []


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
def test_only_one_select_is_accepted(sql: str, word: str) -> None:
    """Any other statement would run as a command in the driver."""
    (found,) = refusals_of(sql, "A")
    assert found.reason == "NotOneSelect"
    assert f"not {word}:" in found.message


def test_a_semicolon_at_the_end_is_accepted() -> None:
    assert refusals_of("SELECT key FROM source;", "C") == []


@pytest.mark.parametrize(
    "name", ["now", "max", "count", "explode", "every", "monotonically_increasing_id"]
)
def test_a_declared_function_hides_the_one_of_spark(name: str) -> None:
    """It may have the name of a function that the continuous engine does not support."""
    function = {"name": name, "returns": "BIGINT", "expression": "1"}
    java = {"name": name, "className": "com.example.F"}
    assert refusals_of(f"SELECT {name}(offset) AS n FROM source", "C", functions=[function]) == []
    assert refusals_of(f"SELECT {name}(offset) AS n FROM source", "C", javaFunctions=[java]) == []


def test_the_body_of_a_function_is_checked_if_it_is_called() -> None:
    """Spark inlines it into the query."""
    function = {"name": "f", "returns": "TIMESTAMP", "expression": "1 +\n current_timestamp()"}
    (found,) = refusals_of("SELECT F() AS t FROM source", "C", functions=[function])
    assert "spec.transform.functions[0].expression, line 2, column 2: " in found.message
    assert refusals_of("SELECT key FROM source", "C", functions=[function]) == []
    assert refusals_of("SELECT f() AS t FROM source", "A", functions=[function]) == []
