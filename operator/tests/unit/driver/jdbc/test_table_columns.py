"""Which rows a table takes: rules over facts. Integration tests ask a real server."""

from __future__ import annotations

import re
from typing import Any

import pytest

from penstock.api.v1alpha1.jdbc_sink import JdbcSink
from penstock.driver.jdbc.admin import Place, Table, TableColumn
from penstock.driver.jdbc.table_columns import (
    DELETED,
    WrittenColumn,
    find_missing_right,
    find_place_problem,
    find_problems,
    fits,
    written_rows,
)
from penstock.sql.columns import Column


def column(name: str, of_type: str = "text", **more: Any) -> TableColumn:
    facts = {
        "name": name,
        "quoted": f'"{name}"',
        "type": of_type,
        "plain": of_type,
        "base": re.sub(r"\([^)]*\)", "", of_type),
        "collation": None,
        "notNull": False,
        "hasDefault": False,
        "isGenerated": False,
    }
    return TableColumn.model_validate({**facts, **more})


def table(*columns: TableColumn, keys: list[list[str]] | None = None, **more: Any) -> Table:
    facts: dict[str, Any] = {
        "table": "public.orders",
        "kind": "r",
        "shape": "1",
        "isInsertable": True,
        "changesRows": False,
        "rights": ["SELECT", "INSERT", "UPDATE"],
        "mayDelete": True,
        "columns": columns,
        "checks": [],
        "uniqueKeys": keys or [],
    }
    return Table.model_validate({**facts, **more})


def sink(**more: Any) -> JdbcSink:
    fields = {"url": "jdbc:postgresql://db/shop", "table": "orders", **more}
    return JdbcSink.model_validate(fields)


def upsert(**more: Any) -> JdbcSink:
    return sink(**{"write": "Upsert", "keys": ["id"], **more})


def rows(**types: str) -> list[Column]:
    return [Column(name, of_type) for name, of_type in types.items()]


ID = column("id", "integer", notNull=True)


@pytest.mark.parametrize(
    ("of_row", "of_table", "fitting"),
    [
        ("int", "integer", True),
        ("int", "bigint", True),
        ("int", "numeric(3,0)", True),  # one that is too large is refused aloud
        ("int", "double precision", True),
        ("int", "smallint", False),
        ("int", "real", False),
        ("int", "text", False),
        ("bigint", "integer", False),
        ("bigint", "double precision", False),
        ("tinyint", "smallint", True),
        ("float", "real", True),
        ("double", "real", False),
        ("double", "numeric", True),
        ("double", "numeric(10,2)", False),  # rounds without a word
        ("decimal(10,2)", "numeric(5,2)", True),
        ("decimal(10,2)", "numeric(10,1)", False),
        ("decimal(10,2)", "double precision", False),
        ("decimal(10,0)", "bigint", True),
        ("string", "text", True),
        ("string", "character varying(3)", True),
        ("string", "jsonb", True),
        ("string", "uuid", True),
        ("string", "integer", False),
        ("string", "timestamp with time zone", False),
        ("string", "text[]", False),
        ("string collate UNICODE", "text", True),
        ("varchar(3)", "text", True),
        ("timestamp", "timestamp with time zone", True),
        ("timestamp", "timestamp without time zone", False),
        ("timestamp_ntz", "timestamp without time zone", True),
        ("timestamp", "timestamp(6) with time zone", True),
        ("timestamp", "timestamp(3) with time zone", False),
        ("array<timestamp>", "timestamp(0) with time zone[]", False),
        ("string", "time(0) without time zone", False),
        ("string", "interval", True),
        ("string", '"char"', False),
        ("bigint", "numeric(5,-2)", False),
        ("date", "date", True),
        ("binary", "bytea", True),
        ("boolean", "boolean", True),
        ("array<int>", "integer[]", True),
        ("array<string>", "integer[]", False),
        ("array<int>", "integer", False),
        ("struct<a:int>", "jsonb", False),
        ("map<string,int>", "text", False),
    ],
)
def test_fits(of_row: str, of_table: str, fitting: bool) -> None:
    assert fits(of_row, column("a", of_table)) is fitting


@pytest.mark.parametrize(
    ("of_sink", "of_table", "columns", "says"),
    [
        (sink(), table(ID), rows(id="int", more="int"), "the table has no column more (it has id)"),
        (sink(), table(ID, column("a")), rows(a="string"), "column id takes no null and has no"),
        (sink(), table(ID), rows(id="bigint"), "CAST(id AS INT) AS id"),
        (sink(), table(column("a", "jsonb")), rows(a="struct<b:int>"), "to_json(a) AS a"),
        (
            sink(),
            table(column("a", "numeric(10,2)")),
            rows(a="double"),
            "DOUBLE, and the table's is numeric(10,2): use CAST(a AS DECIMAL(10, 2)) AS a",
        ),
        (sink(), table(column("a", isGenerated=True)), rows(a="string"), "makes the values of a"),
        (sink(), table(column("a")), [Column("a", "string"), Column("A", "string")], "two columns"),
        (sink(), table(kind="S"), [], "is no table"),
        (sink(), table(kind="v", isInsertable=False), [], "is a view that takes no rows"),
        (sink(), table(kind="f"), [], "is a foreign table"),
        (upsert(), table(ID), rows(id="int"), "ADD UNIQUE"),
        (upsert(), table(ID, keys=[["id", "b"]]), rows(id="int"), "(it has id, b)"),
        (
            upsert(),
            table(column("id", "integer"), keys=[["id"]]),
            rows(id="int"),
            'ALTER COLUMN "id" SET NOT NULL',
        ),
        (upsert(keys=["of"]), table(ID, keys=[["id"]]), rows(id="int"), "no column of"),
        (
            upsert(latestBy="at"),
            table(ID, keys=[["id"]]),
            rows(id="int", at="struct<b:int>"),
            "has no greatest value",
        ),
    ],
)
def test_says_what_the_table_does_not_take(
    of_sink: JdbcSink, of_table: Table, columns: list[Column], says: str
) -> None:
    (problem,) = find_problems(columns, of_sink, of_table)
    assert says in problem


def test_takes_what_the_database_fills_in() -> None:
    of_table = table(
        column("id", "integer", notNull=True, hasDefault=True),
        column("made", notNull=True, isGenerated=True),
        column("note"),
        column("a", "integer"),
    )
    assert find_problems(rows(a="int"), sink(), of_table) == []


def test_a_name_in_another_case_is_meant_if_it_is_the_only_one() -> None:
    one, two = column("orderid"), column("orderId")
    assert written_rows(rows(ORDERID="string"), sink(), table(one)).columns == (
        WrittenColumn("ORDERID", '"orderid"', "text"),
    )
    assert find_problems(rows(ORDERID="string"), sink(), table(one, two)) != []
    assert find_problems(rows(orderId="string"), sink(), table(one, two)) == []


def test_what_only_a_condition_needs_is_not_written() -> None:
    of_sink = upsert(latestBy="at", deleteWhen="op = 'd'")
    of_table = table(ID, keys=[["id"]])
    columns = rows(id="int", op="string", at="timestamp", **{DELETED: "boolean"})
    assert find_problems(columns, of_sink, of_table, ["op"]) == []
    found = written_rows(columns, of_sink, of_table)
    assert [it.name for it in found.columns] == ["id"]
    assert found.deletes
    assert found.latest == WrittenColumn("at", None, "timestamp with time zone")


def test_a_row_is_copied_to_where_the_tables_constraints_hold() -> None:
    checks = [
        {"name": "small", "condition": "(id < 5)", "columns": ["id"]},
        {"name": "other", "condition": "(id < note)", "columns": ["id", "note"]},
    ]
    of_table = table(ID, column("note", "integer"), keys=[["id"]], checks=checks)
    found = written_rows(rows(id="int"), upsert(), of_table)
    assert found.constraints == ("CONSTRAINT small CHECK ((id < 5))",)
    assert found.columns[0].type == "integer NOT NULL"
    of_deletes = written_rows(rows(id="int"), upsert(deleteWhen="true"), of_table)
    assert of_deletes.constraints == ()
    assert of_deletes.columns[0].type == "integer"


@pytest.mark.parametrize(
    ("of_sink", "facts", "grant"),
    [
        (sink(), {"rights": None}, "GRANT INSERT ON public.orders TO shop"),
        (sink(), {"rights": ["INSERT"], "mayDelete": False}, None),
        (upsert(), {"rights": ["INSERT"]}, "GRANT SELECT, UPDATE ON public.orders TO shop"),
        (
            upsert(deleteWhen="a"),
            {"mayDelete": False},
            "GRANT DELETE ON public.orders TO shop",
        ),
    ],
)
def test_says_which_right_is_missing(
    of_sink: JdbcSink, facts: dict[str, Any], grant: str | None
) -> None:
    assert find_missing_right(table(ID, **facts), of_sink, "shop") == grant


def test_says_how_an_administrator_makes_the_schema() -> None:
    facts = {
        "schema": "penstock", "user": "shop", "database": "db", "isReadOnly": False,
        "hasSchema": False, "mayCreateIn": False, "mayCreateSchema": False,
        "mayWriteLedger": True,
    }  # fmt: skip
    problem = find_place_problem(Place.model_validate(facts))
    assert problem is not None
    assert "run: CREATE SCHEMA penstock; GRANT USAGE, CREATE ON SCHEMA penstock TO shop" in problem
    assert find_place_problem(Place.model_validate({**facts, "mayCreateSchema": True})) is None
    has_it = {**facts, "hasSchema": True, "mayCreateIn": True}
    assert find_place_problem(Place.model_validate(has_it)) is None
    of_another = Place.model_validate({**has_it, "mayWriteLedger": False})
    problem = find_place_problem(of_another)
    assert problem is not None
    assert "GRANT SELECT, INSERT, UPDATE ON penstock.ledger TO shop" in problem
