"""The warning that bad records vanish: where it comes, and where it does not."""

from __future__ import annotations

import pytest

from penstock.sql.judge import judge_sql
from testkit.streams.streams import kafka_sink, kafka_source, stream

SCHEMA = "shop STRING, amount DOUBLE, at TIMESTAMP"
JSON = f"from_json(CAST(value AS STRING), '{SCHEMA}')"
STRICT = f"from_json(CAST(value AS STRING), '{SCHEMA}', map('mode', 'FAILFAST'))"
LENIENT = f"from_json(CAST(value AS STRING), '{SCHEMA}', map('mode', 'PERMISSIVE'))"
MARKED = f"from_json(CAST(value AS STRING), '{SCHEMA}, _corrupt_record STRING')"
SHOPS = "(VALUES ('a')) AS t(shop)"


def of(row: str, rest: str, columns: str = "to_json(p) AS value") -> str:
    return f"SELECT {columns} FROM (SELECT key, {row} AS p FROM source) {rest}"


def warnings(sql: str) -> list[str]:
    spec = stream(
        kafka_source(),
        kafka_sink(),
        trigger={"microBatch": {}},
        outputMode="update" if "GROUP BY" in sql else "append",
        transform={"sql": sql},
    ).spec
    found = judge_sql(spec)
    assert [each for each in found if each.severity == "error"] == []
    return [each.message for each in found if each.reason == "BadRecordsVanish"]


@pytest.mark.proves("ci.md")
@pytest.mark.parametrize(
    ("sql", "by"),
    [
        (of(JSON, "WHERE p.amount > 1000"), "WHERE drops it"),
        (f"SELECT value FROM source WHERE {JSON}.amount > 1000", "WHERE drops it"),
        (
            f"SELECT value FROM (SELECT value, {JSON}.amount AS a FROM source) WHERE a > 1",
            "WHERE drops it",
        ),
        (
            f"WITH x AS (SELECT {JSON} AS p FROM source), y AS (SELECT p.shop AS s FROM x) "
            "SELECT s AS value FROM y WHERE s = 'Oslo'",
            "WHERE drops it",
        ),
        (of(JSON, f"JOIN {SHOPS} ON p.shop = t.shop"), "the join drops it"),
        (
            f"SELECT shop AS key, to_json(struct(count(*), sum(amount))) AS value FROM "
            f"(SELECT p.* FROM (SELECT {JSON} AS p FROM source)) GROUP BY shop",
            "GROUP BY puts it under null",
        ),
        (
            of(JSON, "GROUP BY key", "key, CAST(sum(p.amount) AS STRING) AS value"),
            "the aggregate leaves it out",
        ),
    ],
)  # fmt: skip
def test_bad_records_that_vanish_are_warned_of(sql: str, by: str) -> None:
    (message,) = warnings(sql)
    assert by in message
    assert "map('mode', 'FAILFAST')" in message
    assert warnings(sql.replace(JSON, STRICT)) == []


@pytest.mark.proves("ci.md")
@pytest.mark.parametrize(
    "sql",
    [
        of(JSON, ""),
        of(JSON, "WHERE key = 'x'"),
        of(JSON, f"LEFT JOIN {SHOPS} ON p.shop = t.shop"),
        of(JSON, "WHERE p.amount IS NOT NULL AND p.amount > 1000"),
        of(JSON, "WHERE coalesce(p.amount, raise_error('no amount')) > 1000"),
        of(MARKED, "WHERE p._corrupt_record IS NULL AND p.amount > 1000"),
        of(LENIENT, "WHERE p.amount > 1000"),  # which somebody has written on purpose
        of(JSON, "GROUP BY key", "key, CAST(count(*) AS STRING) AS value"),
        # The value of the inner query is another one.
        f"SELECT {JSON}.shop AS value FROM source WHERE CAST(value AS STRING) LIKE '%x%'",
    ],
)
def test_a_query_that_drops_none_or_looks_for_them_is_not_warned_of(sql: str) -> None:
    assert warnings(sql) == []
