"""SQL that an execution does not support is refused from its text alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.api.problem import Problem
from penstock.api.v1alpha1 import Sink, StreamSpec
from penstock.sql.columns import Column, find_column_problems
from penstock.sql.judge import judge_sql
from testkit.streams.differing import DIFFERING_QUERIES, SAME_QUERIES, query
from testkit.streams.kafka_rows import (
    REFUSED,
    REFUSED_BY_SPARK_ONLY,
    REFUSED_HERE,
    TAKEN,
    TAKEN_WITH_TOPIC,
)
from testkit.streams.nested_queries import NESTED, NESTED_WATERMARKED
from testkit.streams.queries import CLAUSED, EXECUTIONS, QUERIES, WATERMARKED, WITH_WATERMARK, Query
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


@pytest.mark.proves("ci.md")
@pytest.mark.parametrize("query", CLAUSED, ids=lambda query: query.sql)
def test_a_watermark_of_the_query_is_judged_as_that_of_the_spec(query: Query) -> None:
    assert verdicts(query, "AUM") == expected(query, "AUM")


MARK = "WATERMARK timestamp DELAY OF INTERVAL 1 MINUTE"
MESSAGES = [
    (
        "C",
        "SELECT key, count(*) AS n\nFROM source\nGROUP BY key",
        "spec.transform.sql, line 1, column 13: trigger.continuous does not support Aggregate (an "
        "aggregate: COUNT(*)), because the continuous engine runs projections and filters only: "
        "remove it from the query, or use trigger.realTime",
    ),
    (
        "C",
        "SELECT window.start, count(*) AS n FROM source GROUP BY window(timestamp, '5 seconds')",
        "does not support Aggregate (an aggregate over event time: COUNT(*)), because the "
        "continuous engine runs projections and filters only: remove it from the query, or use "
        "trigger.realTime",
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
        "SELECT a.key FROM source a JOIN source b ON a.key = b.key",
        "spec.transform.sql, line 1, column 28: trigger.realTime does not support Join (a join of "
        "two streams: JOIN source AS b ON a.key = b.key), because Spark 4.3 does not run it in "
        "real-time mode: remove it from the query, or use trigger.microBatch with outputMode "
        "append",
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
        "it from the query; for the greatest of a time window use slice(sort_array(collect_list("
        "struct(...)), false), 1, n), grouped by the window",
    ),
    (
        "M",
        "SELECT key FROM source",
        "does not support CompleteOutput (outputMode complete without an aggregate: SELECT key "
        "FROM source), because each batch would write all rows again, without bound: use "
        "outputMode append",
    ),
    *(
        (
            "U",
            f"SELECT a.key FROM (SELECT * FROM source {MARK}) a {kind} JOIN (SELECT * FROM source "
            f"{MARK}) b ON a.key = b.key AND a.timestamp > b.timestamp",
            "outputMode update and WATERMARK does not support Join (an outer join of two "
            "streams over event time",
        )
        for kind in ("LEFT", "RIGHT", "FULL")
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


def judged(sql: str, letter: str = "A", **fields: Any) -> list[tuple[str, str, str]]:
    """Severity, reason and message of everything that is said about a query."""
    transform = {"sql": sql, **fields.pop("transform", {})}
    fields = {"sink": {"memory": {}}, **FIELDS[letter], **fields, "transform": transform}
    found = judge_sql(StreamSpec.model_validate({**KAFKA_TO_KAFKA, **fields}))
    return [
        (each.severity, each.reason, each.message)
        for each in found
        if each.reason != "DependencyDoubtful"
    ]


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("SELECT key,\n value, FROM source", "line 2, column 7"),
        ("SELECT key FROM source GROUP BY key,", "column 36"),
    ],
)
def test_a_stray_comma_is_refused(sql: str, place: str) -> None:
    """The parser takes it, and Spark does not."""
    found = judged(sql, "U")
    assert [each for each in found if f"{place}: a comma with nothing" in each[2]], found


@pytest.mark.proves("ci.md")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT concat(uper(valu), :topic, ?) AS value FROM source",
        "SELECT o.b AS value FROM (SELECT from_json(topic, 'a INT') AS o FROM source)",
        "SELECT f(key) AS value FROM source WHERE nothing.at.all > 1",
        *REFUSED_BY_SPARK_ONLY,
    ],
)
def test_names_and_types_are_left_to_spark(sql: str) -> None:
    """`validate --spark` and the driver say what is wrong with them."""
    sink = {"kafka": {"bootstrapServers": "k:9092", "topic": "out"}}
    functions = [{"name": "f", "returns": "STRING", "expression": "lowr(nothing)"}]
    found = judged(sql, "U", sink=sink, transform={"functions": functions})
    assert [each for each in found if each[1] != "SinkColumns"] == []
    assert all(each[0] == "warning" for each in found)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT catalog.db.mine(key) AS k FROM source",
        "SELECT /*+ BROADCAST(source) */ key FROM source",
        "SELECT timestampadd(HOUR, 1, timestamp) AS t, ':no' AS p FROM source",
        "SELECT t.k FROM source LATERAL VIEW explode(array(1)) t AS k",
    ],
)
def test_what_only_looks_like_a_mistake_is_accepted(sql: str) -> None:
    assert judged(sql) == []


LATE = "WATERMARK ts DELAY OF INTERVAL 25 MINUTES"
EVENTS = f"(SELECT CAST(CAST(value AS STRING) AS TIMESTAMP) AS ts FROM source) {LATE}"
WINDOWS = "SELECT window.start, count(*) AS n FROM {} GROUP BY window(ts, '10 minutes')"


@pytest.mark.parametrize("interval", ["25 MINUTES", "'25' MINUTE", "1 HOUR 30 SECONDS"])
def test_a_watermark_in_sql_is_read(interval: str) -> None:
    """Which column carries it is left to Spark; the rest of the query is judged."""
    events = EVENTS.replace("25 MINUTES", interval)
    assert judged(WINDOWS.format(events)) == []
    assert judged(WINDOWS.format(f"{events} e")) == []
    assert judged(f"SELECT DISTINCT ts FROM {events} WHERE ts > 1") == []
    found = judged(f"SELECT ts FROM {events}", "C")
    assert [each[1] for each in found] == ["UnsupportedOperation"]
    assert "column 84: trigger.continuous does not support EventTimeWatermark" in found[0][2]


def test_a_watermark_that_the_parser_cannot_read_is_left_to_spark() -> None:
    """Spark takes no text with a unit there (measured with 4.2), and an expression with a name."""
    for clause in ("ts DELAY OF INTERVAL '1 hour'", "now() AS t DELAY OF INTERVAL 1 HOUR"):
        events = EVENTS.replace(LATE, f"WATERMARK {clause}")
        ((severity, reason, _),) = judged(f"SELECT ts FROM {events}")
        assert (severity, reason) == ("notice", "NotJudged")


def test_a_watermark_on_a_column_of_the_query_names_the_way() -> None:
    """And not what follows from it, which leads astray."""
    watermark = {"column": "ts", "delay": "5s"}
    sql = WINDOWS.format("(SELECT CAST(CAST(value AS STRING) AS TIMESTAMP) AS ts FROM source)")
    ((_, _, message),) = judged(sql, transform={"watermark": watermark})
    assert "the source has no column ts" in message
    assert "write FROM (SELECT ...) WATERMARK ts DELAY OF INTERVAL" in message
    assert "withWatermark in transform.python" in message


def test_a_common_table_expression_can_be_a_subquery() -> None:
    ((_, _, message),) = judged("WITH c AS (SELECT key FROM source) SELECT key FROM c", "C")
    assert "write it as a subquery in FROM, or use trigger.realTime" in message


@pytest.mark.parametrize(
    ("sql", "sink", "says"),
    [
        ("SELECT * FROM source", {"topic": "out"}, ["partition"]),
        ("SELECT value, partition FROM (SELECT * FROM source)", {"topic": "out"}, ["partition"]),
        ("SELECT * FROM source", {}, ["partition", "topic"]),
        ("SELECT key, value, topic FROM source", {}, ["topic"]),
        ("SELECT key, value, topic FROM source", {"topic": "out"}, []),
        ("SELECT value, partition + 0 AS partition FROM source", {"topic": "out"}, []),
        ("SELECT * EXCEPT (partition) FROM source", {"topic": "out"}, []),
        ("SELECT value, concat(topic, '-x') AS topic FROM source", {}, []),
    ],
)
def test_the_sources_partition_and_topic_as_destination_are_warnings(
    sql: str, sink: dict[str, str], says: list[str]
) -> None:
    found = judged(sql, sink={"kafka": {"bootstrapServers": "k:9092", **sink}})
    routing = [each for each in found if each[:2] == ("warning", "SinkRouting")]
    assert all(f"column {it}," in each[2] for it, each in zip(says, routing, strict=True))


@pytest.mark.proves("write-a-stream.md#sink")
@pytest.mark.parametrize(
    ("sql", "sink", "says"),
    [
        # The case of a name: SQL ignores it, and Spark's writer does not.
        ("SELECT KEY, CAST(VALUE AS STRING) AS value FROM SOURCE", {"topic": "out"}, ["AS key"]),
        ("SELECT value, key AS Key FROM source", {"topic": "out"}, ["AS key"]),
        ("SELECT value, PARTITION FROM source", {"topic": "out"}, ["AS partition"]),
        ("SELECT value, array() AS Headers FROM source", {"topic": "out"}, ["AS headers"]),
        ("SELECT key, value, key AS `KEY` FROM source", {"topic": "out"}, ["AS key"]),
        # A topic beside that of the sink.
        ("SELECT value, 'x' AS topic FROM source", {"topic": "out"}, ["names the topic of all"]),
        ("SELECT value, 'x' AS Topic FROM source", {"topic": "out"}, ["names the topic of all"]),
        ("SELECT value, 'x' AS topic FROM source", {}, []),
        # Columns that a record has no place for.
        ("SELECT key, value, timestamp FROM source", {"topic": "out"}, ["the time at which it"]),
        ("SELECT value, timestamp, 1 AS n FROM source", {"topic": "out"}, ["timestamp, n are not"]),
        (
            "SELECT value, 1 AS n FROM source",
            {"topic": "out"},
            ["the column n is not written, bec"],
        ),
        ("SELECT * EXCEPT (partition, timestamp) FROM source", {"topic": "out"}, []),
        ("SELECT key, value, headers FROM source", {"topic": "out"}, []),
    ],
)
def test_columns_that_sparks_writer_drops_are_warnings(
    sql: str, sink: dict[str, str], says: list[str]
) -> None:
    """It drops them without a word."""
    source = changed(KAFKA_TO_KAFKA, "source.kafka.includeHeaders", True)["source"]
    found = judged(sql, source=source, sink={"kafka": {"bootstrapServers": "k:9092", **sink}})
    dropped = [each for each in found if each[1] == "SinkColumns"]
    assert all(each[0] == "warning" for each in found)
    assert all(it in each[2] for it, each in zip(says, dropped, strict=True))


@pytest.mark.proves("write-a-stream.md#sink")
@pytest.mark.parametrize("sql", REFUSED_HERE)
@pytest.mark.parametrize("letter", FIELDS)
def test_two_columns_of_one_name_are_refused_in_every_mode(sql: str, letter: str) -> None:
    """Of two columns named value Spark writes the first, where the second is meant."""
    fields = {**FIELDS[letter], "transform": {"sql": sql}}
    spec = StreamSpec.model_validate({**KAFKA_TO_KAFKA, **fields})
    found = [each.message for each in errors(judge_sql(spec)) if each.reason == "SinkColumns"]
    assert any(
        re.search(r"gets two columns named (\w+), .* SELECT \* EXCEPT \(\1\), ... AS \1", it)
        for it in found
    ), found


def test_headers_of_text_are_refused_with_the_cast() -> None:
    """And the names of fields are in the letters in which they must be written."""
    columns = [Column("value", "binary"), Column("headers", "array<struct<key:string,v1:string>>")]
    (said,) = find_column_problems(columns, Sink.model_validate(KAFKA_TO_KAFKA["sink"]))
    assert "ARRAY<STRUCT<key:STRING,value:BINARY>>, not ARRAY<STRUCT<key:STRING,v1:STRING>>" in said
    assert "use array(struct('a' AS key, CAST(... AS BINARY) AS value)) AS headers" in said


WAYS_OUT = [
    ("A", "SELECT row_number() OVER (PARTITION BY key ORDER BY offset) AS r FROM source", "max_by"),
    ("A", "SELECT lag(value) OVER (ORDER BY timestamp) AS v FROM source", "transformWithState"),
    ("A", "SELECT key FROM source QUALIFY row_number() OVER (ORDER BY key) = 1", "max_by"),
    ("U", "SELECT key FROM source LIMIT 3", "slice(sort_array(collect_list(struct(...)), false)"),
    ("A", "SELECT key FROM source ORDER BY key LIMIT 3", "slice(sort_array(collect_list("),
    # A mode that supports it is named too.
    ("U", "SELECT key, count(*) AS n FROM source GROUP BY key LIMIT 3", "outputMode complete"),
    # The clause is called by its own name.
    (
        "A",
        f"SELECT count(*) FROM (SELECT key FROM source) {MARK.replace('timestamp', 'key')}",
        "outputMode append and WATERMARK does not support Aggregate",
    ),
    ("A", "SELECT from_json(value, 'a INT').a AS v FROM source", "write CAST(value AS STRING) in"),
    ("A", "SELECT CAST(key AS BIGINT) AS v FROM source", "CAST(key AS STRING) in place of key"),
    ("A", "-- SELECT key FROM source", "is one comment: remove the --, and write sql: |"),
]


@pytest.mark.proves("ci.md")
@pytest.mark.parametrize(("letter", "sql", "says"), WAYS_OUT)
def test_a_refusal_names_a_way_out(letter: str, sql: str, says: str) -> None:
    found = [message for severity, _, message in judged(sql, letter) if severity == "error"]
    assert any(says in each for each in found), found


@pytest.mark.proves("ci.md")
@pytest.mark.parametrize(
    ("sql", "is_told"),
    [
        # As YAML's > makes it of two lines.
        ("SELECT key, value FROM source -- note WHERE value IS NOT NULL", True),
        ("SELECT key, value -- note FROM source", True),
        ("SELECT key, value FROM source -- a note\nWHERE value IS NOT NULL", False),
        ("SELECT key, value FROM source -- everything", False),
        ("SELECT key, value FROM source\n-- WHERE value IS NOT NULL", False),
        ("SELECT key, '-- where' AS value FROM source", False),
    ],
)
def test_a_comment_that_hides_a_part_of_the_query_is_a_warning(sql: str, is_told: bool) -> None:
    told = [each for each in judged(sql) if each[1] == "CommentedOut"]
    assert bool(told) == is_told
    assert all(each[0] == "warning" and "write sql: |" in each[2] for each in told)


@pytest.mark.proves("guarantees.md#exactly-once")
@pytest.mark.parametrize(
    ("sql", "is_possible"),
    [
        ("SELECT key, value FROM source", True),
        ("SELECT key, max(value) AS value FROM source GROUP BY key", False),
        ("SELECT DISTINCT value FROM source", False),
        ("SELECT value FROM source WHERE offset > (SELECT max(id) FROM range(10))", True),
        ("SELECT value FROM source JOIN (SELECT DISTINCT id FROM range(9)) ON offset = id", True),
    ],
)
def test_a_query_with_state_writes_exactly_once_in_micro_batches_only(
    sql: str, is_possible: bool
) -> None:
    """The driver says the same of Spark's plan."""
    sink = {"kafka": {**KAFKA_TO_KAFKA["sink"]["kafka"], "delivery": "ExactlyOnce"}}
    assert [each for each in judged(sql, "U", sink=sink) if each[0] == "error"] == []
    found = [each for each in judged(sql, "R", sink=sink) if each[0] == "error"]
    assert [each[1] for each in found] == ([] if is_possible else ["ExactlyOnceImpossible"])
    assert is_possible or "use trigger.microBatch" in found[0][2]


@pytest.mark.parametrize("sql", [*DIFFERING_QUERIES, *SAME_QUERIES])
def test_a_batch_with_state_makes_the_same_rows_again(sql: str) -> None:
    """integration/sql/test_differing_calls.py has Spark's plan of each."""
    sink = {"kafka": {**KAFKA_TO_KAFKA["sink"]["kafka"], "delivery": "ExactlyOnce"}}
    found = [each for each in judged(sql, "U", sink=sink) if each[0] == "error"]
    expected = ["ExactlyOnceImpossible"] if sql in DIFFERING_QUERIES else []
    assert [each[1] for each in found] == expected, found
    at_least_once = [each[1] for each in judged(sql, "U") if each[0] == "error"]
    assert at_least_once == []


def test_what_is_not_certain_is_left_to_spark() -> None:
    sink = {"kafka": {**KAFKA_TO_KAFKA["sink"]["kafka"], "delivery": "ExactlyOnce"}}
    with_table = (
        "SELECT s.value FROM source s JOIN (SELECT first(id) AS id FROM range(9)) t "
        "ON s.offset = t.id GROUP BY s.value"
    )
    own = {"functions": [{"name": "uuid", "returns": "STRING", "expression": "'a'"}]}
    for sql, transform in ((with_table, {}), (query("uuid()"), own)):
        said = judged(sql, "U", sink=sink, transform=transform)
        assert [each for each in said if each[1] == "ExactlyOnceImpossible"] == []
    (found,) = judged(query("rand()"), "U", sink=sink)
    assert found[2] == (
        "spec.transform.sql, line 1, column 18: sink.kafka.delivery ExactlyOnce is not possible, "
        "because a batch that runs again has to make the same rows, and RAND() gives another "
        "result each time: write it otherwise, or use AtLeastOnce"
    )


def test_a_function_of_a_package_is_told_with_the_package() -> None:
    """Spark's own words are about its command line."""
    transform = {"sql": "SELECT to_avro(key) AS value, from_protobuf(value, 'm') AS p FROM source"}
    plain = {**KAFKA_TO_KAFKA, "transform": transform}
    package = {"packages": ["org.apache.spark:spark-avro_2.13:4.2.0"]}
    for more in ({}, {"image": "mine"}, {"dependencies": package}):
        found = judge_sql(StreamSpec.model_validate({**plain, **more}))
        told = [each for each in found if each.reason == "DependencyDoubtful"]
        assert [each.severity for each in told] == ([] if more else ["warning"] * 2)
        assert more or "org.apache.spark:spark-avro_2.13:4.2.0 in spec.dep" in told[0].message
