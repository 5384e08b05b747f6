"""sink.jdbc with a real PostgreSQL: what gets into a table, and what is refused, and how."""

from __future__ import annotations

import datetime
import json
import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.driver_report import QueryState
from penstock.driver.environment import LocalEnvironment
from penstock.driver.jvm import Jvm
from testkit.driver.checkpoints import undo_commit
from testkit.driver.in_process_driver import InProcessDriver, running
from testkit.kafka.topics import Topics
from testkit.paths import CHECKOUT
from testkit.postgres import Tables
from testkit.streams.streams import AVAILABLE_NOW, kafka_to_kafka, stream

_N = "CAST(CAST(value AS STRING) AS INT)"
_OF_SPEC = {"trigger", "outputMode"}
_BATCHES: dict[str, Any] = {"microBatch": {"interval": "100ms"}}


@pytest.fixture
def source(topics: Topics) -> str:
    return topics.make()


class Flow:
    """Streams of a test from its topic into tables, over one checkpoint."""

    def __init__(self, topics: Topics, source: str, tables: Tables, folder: Path, jvm: Jvm) -> None:
        self.topics, self.source, self.tables = topics, source, tables
        self.folder, self.jvm = folder, jvm

    def stream(self, sql: str, table: str, **more: Any) -> ContinuousStream:
        spec = kafka_to_kafka(self.topics.bootstrap, self.source, "none", transform={"sql": sql})
        of_sink = {it: more.pop(it) for it in list(more) if it not in _OF_SPEC}
        sink = self.tables.sink(table, self.folder / "secrets", **of_sink)
        return stream(**{**spec, "trigger": AVAILABLE_NOW, **more, "sink": sink})

    def driver(self, flow: ContinuousStream) -> AbstractContextManager[InProcessDriver]:
        where = LocalEnvironment(self.folder / "checkpoint", secrets=self.folder / "secrets")
        return running(flow, self.jvm, where)

    def run(self, sql: str, table: str, **more: Any) -> None:
        """Writes all that is in the topic."""
        self.complete(self.stream(sql, table, **more))

    def complete(self, flow: ContinuousStream) -> None:
        """The same, by a stream that ends then."""
        with self.driver(flow) as driver:
            driver.wait("written", lambda report: report.state is QueryState.COMPLETED)

    def send(self, values: Sequence[str]) -> None:
        """To one partition, in this order."""
        producer = Producer({"bootstrap.servers": self.topics.bootstrap})
        for value in values:
            producer.produce(self.source, value.encode(), partition=0)
        assert producer.flush(30) == 0


@pytest.fixture
def flow(topics: Topics, source: str, tables: Tables, tmp_path: Path, jvm: Jvm) -> Flow:
    return Flow(topics, source, tables, tmp_path, jvm)


@pytest.mark.proves("guarantees.md#exactly-once-into-a-table")
def test_each_type_is_read_back_as_it_was(flow: Flow) -> None:
    flow.tables.run(
        "CREATE TABLE kinds (b boolean, s smallint, i integer, l bigint, f real, d double "
        "precision, n numeric(20,4), free numeric, t text, v varchar(20), bytes bytea, day date, "
        "at timestamptz, local timestamp, j jsonb, u uuid, list integer[], texts text[], "
        "missing text)"
    )
    flow.topics.send(flow.source, range(1))
    flow.run(
        "SELECT true AS b, CAST(-7 AS SMALLINT) AS s, 1 AS i, -9223372036854775808L AS l, "
        "CAST(1.5 AS FLOAT) AS f, CAST(0.1 AS DOUBLE) AS d, CAST(1234567890.5 AS DECIMAL(14,4)) "
        "AS n, CAST(0.1 AS DOUBLE) AS free, 'tab\\there \\\\N \\n ü' AS t, '\\\\.' AS v, "
        "X'00FF5C' AS bytes, DATE '2026-11-30' AS day, TIMESTAMP '2026-03-29 02:30:00.123456Z' "
        "AS at, TIMESTAMP_NTZ '1066-10-14 09:00:00' AS local, to_json(named_struct('a', 1)) AS j, "
        "'6ba7b810-9dad-11d1-80b4-00c04fd430c8' AS u, array(1, NULL, 3) AS list, "
        "array('a,b', '\"', 'NULL', '{}') AS texts, CAST(NULL AS STRING) AS missing FROM source",
        "kinds",
    )
    (row,) = flow.tables.run("SELECT * FROM kinds")
    assert [str(it) if type(it).__name__ == "UUID" else it for it in row] == [
        True, -7, 1, -(2**63), 1.5, 0.1, Decimal("1234567890.5000"), Decimal("0.1"),
        "tab\there \\N \n ü", "\\.", b"\x00\xff\x5c", datetime.date(2026, 11, 30),
        datetime.datetime(2026, 3, 29, 2, 30, 0, 123456, tzinfo=datetime.UTC),
        datetime.datetime(1066, 10, 14, 9), {"a": 1}, "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        [1, None, 3], ["a,b", '"', "NULL", "{}"], None,
    ]  # fmt: skip


def recipe() -> tuple[str, dict[str, Any]]:
    """The query and the sink's fields of the feed of changes on the page, but for the table."""
    page = (CHECKOUT / "docs/how-to/write-to-a-table.md").read_text()
    feed = page[page.index("## A feed of changes") :]
    spec = yaml.safe_load(feed.split("```yaml")[1].split("```")[0])
    fields = ("write", "keys", "latestBy", "deleteWhen")
    return spec["transform"]["sql"], {field: spec["sink"]["jdbc"][field] for field in fields}


def change(op: str, key: int, at: int, name: str | None = None) -> str:
    row = {"id": key, "name": name}
    sides = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return json.dumps({**sides, "op": op, "ts_ms": at})


@pytest.mark.proves("guarantees.md#exactly-once-into-a-table")
@pytest.mark.parametrize("columns", ["", ", ts_ms bigint"])
def test_a_feed_of_changes_becomes_the_table_that_it_is_of(flow: Flow, columns: str) -> None:
    """As Debezium sends it. A change that comes late does not win, in a batch or, if the table
    keeps its time, in a later one.
    """
    flow.tables.run(f"CREATE TABLE people (id integer PRIMARY KEY, name text{columns})")
    sql, how = recipe()
    flow.send(
        [
            change("c", 1, 10, "Ada"), change("c", 2, 11, "Ben"), change("c", 3, 12, "Cy"),
            change("u", 1, 30, "Ada L"), change("u", 1, 20, "late"), change("d", 2, 40),
        ]
    )  # fmt: skip
    flow.run(sql, "people", **how)
    assert flow.tables.run("SELECT id, name FROM people ORDER BY id") == [(1, "Ada L"), (3, "Cy")]
    flow.send([change("u", 1, 25, "later"), change("d", 3, 50), change("c", 2, 60, "Ben again")])
    flow.run(sql, "people", **how)
    name = "Ada L" if columns else "later"
    assert flow.tables.run("SELECT id, name FROM people ORDER BY id") == [
        (1, name), (2, "Ben again"),
    ]  # fmt: skip


def test_names_are_names_and_no_statements(flow: Flow) -> None:
    strange = 'a"; DROP TABLE other; --'
    quoted = strange.replace('"', '""')
    flow.tables.run("CREATE TABLE other (n integer)")
    flow.tables.run(f'CREATE TABLE "{quoted}" ("{quoted}" integer PRIMARY KEY, "Großes B" text)')
    flow.topics.send(flow.source, range(3))
    sql = f"SELECT {_N} AS `{strange}`, 'x' AS `Großes B` FROM source"
    table = f'"{quoted}"'
    flow.run(sql, table, write="Upsert", keys=[strange])
    assert flow.tables.run(f'SELECT "{quoted}" FROM "{quoted}" ORDER BY 1') == [(0,), (1,), (2,)]
    assert flow.tables.run("SELECT * FROM other") == []


@pytest.mark.full
def test_a_large_batch_leaves_nothing_behind(flow: Flow) -> None:
    """A hundred thousand rows: what was staged is gone, and the next batch is written, too."""
    flow.tables.run("CREATE TABLE numbers (n integer PRIMARY KEY)")
    sql = f"SELECT {_N} AS n FROM source"
    for many in (range(100_000), range(100_000, 100_010)):
        flow.topics.send(flow.source, many)
        flow.run(sql, "numbers")
    assert flow.tables.run("SELECT count(*), max(n) FROM numbers") == [(100_010, 100_009)]
    staged = flow.tables.run(
        "SELECT relname FROM pg_class WHERE relname LIKE 'penstock\\_%' AND relkind = 'r' AND "
        f"relnamespace = '{flow.tables.name}'::regnamespace"
    )
    assert [flow.tables.run(f"SELECT count(*) FROM {name}") for (name,) in staged] == [[(0,)]]


_SQL = f"SELECT {_N} AS n FROM source"


@pytest.mark.parametrize(
    ("before", "sql", "more", "reason", "says"),
    [
        ([], _SQL, {}, "TableMissing", "has no table"),
        (["CREATE TABLE a (n integer)"], _SQL, {"ledgerSchema": "penstock"},
         "DatabaseAuthorization", "run: CREATE SCHEMA penstock; GRANT"),
        (["CREATE TABLE a (n integer)", "REVOKE INSERT ON a FROM CURRENT_USER"], _SQL, {},
         "DatabaseAuthorization", "GRANT INSERT ON"),
        (["CREATE TABLE a (m integer)"], _SQL, {}, "SinkColumns", "has no column n (it has m)"),
        (["CREATE TABLE a (n smallint)"], _SQL, {}, "SinkColumns", "CAST(n AS SMALLINT)"),
        (["CREATE TABLE a (n integer, m text NOT NULL)"], _SQL, {}, "SinkColumns", "takes no null"),
        (["CREATE TABLE a (n integer GENERATED ALWAYS AS IDENTITY)"], _SQL, {}, "SinkColumns",
         "makes the values of n itself"),
        (["CREATE TABLE a (n integer)"], _SQL, {"write": "Upsert", "keys": ["n"]}, "SinkColumns",
         "ADD UNIQUE (n)"),
        (["CREATE TABLE a (n integer UNIQUE)"], _SQL, {"write": "Upsert", "keys": ["n"]},
         "SinkColumns", "SET NOT NULL"),
        (["CREATE TABLE a (n integer PRIMARY KEY)"], _SQL,
         {"write": "Upsert", "keys": ["n"], "deleteWhen": "op = 'd'"}, "UnresolvedColumn", "op"),
        (["CREATE TABLE a (n integer)",
          "ALTER ROLE CURRENT_USER SET default_transaction_read_only = on"], _SQL, {},
         "DatabaseNotAvailable", "is read-only"),
        (["CREATE TABLE a (n integer CONSTRAINT small CHECK (n < 5))"], _SQL, {}, "RowNotWritable",
         "SQLSTATE 23514 (constraint small)"),
        (["CREATE TABLE a (n integer PRIMARY KEY)", "INSERT INTO a VALUES (7)"], _SQL, {},
         "RowNotWritable", "constraint a_pkey"),
        (["CREATE TABLE a (n varchar(1))"], f"SELECT CAST({_N} AS STRING) AS n FROM source", {},
         "RowNotWritable", "SQLSTATE 22001 (column n)"),
    ],
)  # fmt: skip
def test_says_what_is_wrong_and_writes_nothing(
    before: Sequence[str], sql: str, more: dict[str, Any], reason: str, says: str, flow: Flow
) -> None:
    """And shows no value: the topic has the numbers 0 to 99."""
    for statement in before:
        flow.tables.run(statement)
    flow.topics.send(flow.source, range(100))
    with flow.driver(flow.stream(sql, "a", **more)) as driver:
        failure = driver.wait_failure(reason).last_failure
    assert failure is not None
    assert says in failure.message
    if before:
        assert flow.tables.run("SELECT count(*) FROM a") in ([(0,)], [(1,)])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"password": "other"}, "DatabaseAuthentication"),
        ({"server": "jdbc:postgresql://127.0.0.1:1/postgres"}, "DatabaseNotAvailable"),
        ({"server": "{url}-of-nobody"}, "TableMissing"),
    ],
)
def test_a_login_or_a_server_that_is_wrong(change: dict[str, str], reason: str, flow: Flow) -> None:
    flow.tables.run("CREATE TABLE a (n integer)")
    url = flow.tables.server.url
    spec = flow.stream(_SQL, "a", url=change.get("server", url).format(url=url))
    if "password" in change:
        secret = flow.folder / "secrets" / flow.tables.name / "password"
        secret.write_text(change["password"])
    with flow.driver(spec) as driver:
        driver.wait_failure(reason)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("RAISE EXCEPTION 'the card number is %', NEW.n", "RowNotWritable"),
        ("RAISE insufficient_privilege USING MESSAGE = 'card'", "DatabaseAuthorization"),
        ("EXECUTE 'INSERT INTO card_' || NEW.n || ' VALUES (1)'", "TableMissing"),
    ],
)
def test_a_trigger_that_quotes_the_row_is_not_quoted(action: str, reason: str, flow: Flow) -> None:
    flow.tables.run("CREATE TABLE a (n integer)")
    flow.tables.run(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN {action}; RETURN NEW; END $$"
    )
    flow.tables.run("CREATE TRIGGER no BEFORE INSERT ON a FOR EACH ROW EXECUTE FUNCTION refuse()")
    flow.topics.send(flow.source, range(1))
    with flow.driver(flow.stream(_SQL, "a")) as driver:
        failure = driver.wait_failure(reason).last_failure
    assert failure is not None
    assert "SQLSTATE" in failure.message
    assert "card" not in failure.message


@pytest.mark.proves(
    "guarantees.md#exactly-once-into-a-table",
    "failures.md#somebody-alters-the-table",
)
def test_goes_on_when_somebody_has_altered_the_table_and_it_fits_again(flow: Flow) -> None:
    flow.tables.run("CREATE TABLE a (n integer, kind text)")
    sql = f"SELECT {_N} AS n, 'x' AS kind FROM source"
    with flow.driver(flow.stream(sql, "a", trigger=_BATCHES)) as driver:
        driver.wait_ready()
        flow.topics.send(flow.source, range(10))
        driver.wait_committed(10)
        flow.tables.run("ALTER TABLE a DROP COLUMN kind")
        flow.topics.send(flow.source, range(10, 20))
        failure = driver.wait_failure("SinkColumns").last_failure
        assert failure is not None
        assert "kind" in failure.message
        flow.tables.run("ALTER TABLE a ADD COLUMN kind text")
        driver.wait_committed(20)
    assert flow.tables.run("SELECT n FROM a ORDER BY n") == [(n,) for n in range(20)]


@pytest.mark.proves("guarantees.md#exactly-once-into-a-table")
def test_a_new_password_restarts_nothing(flow: Flow) -> None:
    """The sessions of the old one are ended, too, as a server's restart does."""
    flow.tables.run("CREATE TABLE a (n integer)")
    name, server = flow.tables.name, flow.tables.server
    with flow.driver(flow.stream(_SQL, "a", trigger=_BATCHES)) as driver:
        driver.wait_ready()
        flow.topics.send(flow.source, range(10))
        driver.wait_committed(10)
        server.rows(f"ALTER ROLE {name} PASSWORD 'another'")
        (flow.folder / "secrets" / name / "password").write_text("another\n")
        server.rows(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{name}'"
        )
        flow.topics.send(flow.source, range(10, 20))
        driver.wait_committed(20)
        assert driver.last.last_failure is None
        assert driver.last.query_restarts == 0
        server.rows(f"ALTER ROLE {name} PASSWORD '{name}'")
    assert flow.tables.run("SELECT n FROM a ORDER BY n") == [(n,) for n in range(20)]


@pytest.mark.proves("guarantees.md#exactly-once-into-a-table")
def test_waits_for_who_holds_a_lock_on_the_table(flow: Flow) -> None:
    flow.tables.run("CREATE TABLE a (n integer)")
    with flow.driver(flow.stream(_SQL, "a", trigger=_BATCHES)) as driver:
        driver.wait_ready()
        with flow.tables.server.connect() as other:
            other.autocommit = False
            other.execute(f"LOCK TABLE {flow.tables.name}.a".encode())
            flow.topics.send(flow.source, range(10))
            time.sleep(3)
            assert driver.last.last_failure is None
            other.commit()
        driver.wait_committed(10)
    assert flow.tables.run("SELECT count(*) FROM a") == [(10,)]


@pytest.mark.proves("guarantees.md#exactly-once-into-a-table")
def test_a_batch_that_runs_again_and_makes_other_rows_is_said(flow: Flow) -> None:
    """The table keeps those that it has."""
    flow.tables.run("CREATE TABLE a (n integer, chance double precision)")
    flow.topics.send(flow.source, range(10))
    sql = f"SELECT {_N} AS n, rand() AS chance FROM source"
    flow.run(sql, "a")
    before = flow.tables.run("SELECT * FROM a ORDER BY n")
    undo_commit(flow.folder / "checkpoint")
    with flow.driver(flow.stream(sql, "a", trigger=_BATCHES)) as driver:
        warning = driver.wait_failure("ReplayDiffers").last_failure
    assert warning is not None
    assert "it had written 10 rows with hash" in warning.message
    assert flow.tables.run("SELECT * FROM a ORDER BY n") == before


@pytest.mark.proves("guarantees.md#exactly-once-into-a-table")
def test_rows_that_the_table_has_are_not_read_again_when_a_topic_goes(flow: Flow) -> None:
    """The batch cannot run again as it was planned."""
    flow.tables.run("CREATE TABLE a (n integer)")
    second = flow.topics.make()

    def of(topics: Sequence[str]) -> ContinuousStream:
        spec = flow.stream(_SQL, "a").model_dump(by_alias=True, exclude_unset=True)["spec"]
        spec["source"]["kafka"] |= {"topics": list(topics), "failOnDataLoss": False}
        return stream(**spec)

    for numbers in (range(10), range(10, 20)):
        for topic in (flow.source, second):
            flow.topics.send(topic, numbers)
        flow.complete(of([flow.source, second]))
    undo_commit(flow.folder / "checkpoint")
    flow.topics.send(flow.source, range(20, 30))
    flow.complete(of([flow.source]))
    found = [n for (n,) in flow.tables.run("SELECT n FROM a ORDER BY n")]
    assert found == sorted([*range(20), *range(20), *range(20, 30)])


@pytest.mark.proves("guarantees.md#exactly-once-into-a-table")
def test_another_user_goes_on(flow: Flow) -> None:
    """As with credentials that change: it may not drop what the first one has staged."""
    flow.tables.run("CREATE TABLE a (n integer)")
    flow.topics.send(flow.source, range(10))
    flow.run(_SQL, "a")
    name, other = flow.tables.name, f"{flow.tables.name}.B"
    flow.tables.server.rows(f"CREATE ROLE \"{other}\" LOGIN PASSWORD '{name}'")
    for grant in (
        f"USAGE, CREATE ON SCHEMA {name}", f"INSERT ON {name}.a",
        f"SELECT, INSERT, UPDATE ON {name}.ledger",
    ):  # fmt: skip
        flow.tables.run(f'GRANT {grant} TO "{other}"')
    flow.topics.send(flow.source, range(10, 20))
    spec = flow.stream(_SQL, "a")
    (flow.folder / "secrets" / name / "username").write_text(other)
    flow.complete(spec)
    assert flow.tables.run("SELECT count(*), count(DISTINCT n) FROM a") == [(20, 20)]


def test_a_table_that_another_role_has_prepared_gets_no_row(flow: Flow) -> None:
    """It knows the name of the next staging table, and may have put a trigger on it."""
    flow.tables.run("CREATE TABLE a (n integer)")
    name, server = flow.tables.name, flow.tables.server
    flow.topics.send(flow.source, range(10))
    flow.run(_SQL, "a")
    ((staged,),) = flow.tables.run("SELECT relname FROM pg_class WHERE relname LIKE 'penstock\\_%'"
        f" AND relkind = 'r' AND relnamespace = '{name}'::regnamespace")  # fmt: skip
    before, run = staged.rsplit("_", 1)
    trap = f"{before}_{int(run) + 1}"
    server.rows(
        f"CREATE TABLE {name}.{trap} (penstock_task bigint, penstock_row bigint, n integer)"
    )
    server.rows(f"GRANT ALL ON {name}.{trap} TO {name}")
    flow.topics.send(flow.source, range(10, 20))
    with flow.driver(flow.stream(_SQL, "a")) as driver:
        driver.wait_failure("DatabaseNotAvailable")
        driver.wait("by the next run", lambda report: report.state is QueryState.COMPLETED)
    assert flow.tables.run("SELECT count(*), count(DISTINCT n) FROM a") == [(20, 20)]


@pytest.mark.proves("guarantees.md#exactly-once-into-a-table")
def test_a_take_over_that_fails_again_and_again_is_tried_again(flow: Flow) -> None:
    """Somebody holds a lock on the stream's row of the ledger."""
    flow.tables.run("CREATE TABLE a (n integer)")
    flow.topics.send(flow.source, range(10))
    flow.run(_SQL, "a")
    flow.topics.send(flow.source, range(10, 20))
    with flow.tables.server.connect() as other:
        other.autocommit = False
        other.execute(f"SELECT * FROM {flow.tables.name}.ledger FOR UPDATE".encode())
        with flow.driver(flow.stream(_SQL, "a")) as driver:
            driver.wait_failure("DatabaseNotAvailable")
            time.sleep(14)  # two more attempts, of five seconds each
            other.commit()
            driver.wait("written", lambda report: report.state is QueryState.COMPLETED)
    assert flow.tables.run("SELECT count(*), count(DISTINCT n) FROM a") == [(20, 20)]


@pytest.mark.proves("guarantees.md#exactly-once-into-a-table")
def test_another_name_of_the_server_and_back(flow: Flow) -> None:
    flow.tables.run("CREATE TABLE a (n integer)")
    url = flow.tables.server.url
    for number, at in enumerate((url, url.replace("127.0.0.1", "localhost"), url)):
        flow.topics.send(flow.source, range(number * 10, number * 10 + 10))
        flow.run(_SQL, "a", url=at)
    assert flow.tables.run("SELECT count(*), count(DISTINCT n) FROM a") == [(30, 30)]


def test_a_trigger_fills_in_what_the_table_asks_for(flow: Flow) -> None:
    flow.tables.run("CREATE TABLE a (n integer, id text NOT NULL, c text CHECK (c = lower(c)))")
    flow.tables.run(
        "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.id := 'x' || NEW.n; NEW.c := lower(NEW.c); RETURN NEW; END $$"
    )
    flow.tables.run("CREATE TRIGGER f BEFORE INSERT ON a FOR EACH ROW EXECUTE FUNCTION fill()")
    flow.topics.send(flow.source, range(2))
    flow.run(f"SELECT {_N} AS n, 'C' AS c FROM source", "a")
    assert flow.tables.run("SELECT * FROM a ORDER BY n") == [(0, "x0", "c"), (1, "x1", "c")]


@pytest.mark.proves("guarantees.md#exactly-once-into-a-table")
def test_a_database_that_has_lost_batches_is_refused(flow: Flow) -> None:
    """As after a restore, or when a standby without the newest commits takes over."""
    flow.tables.run("CREATE TABLE a (n integer)")
    flow.topics.send(flow.source, range(10))
    for _ in range(3):
        flow.run(_SQL, "a")
    flow.tables.run("UPDATE ledger SET run = 1, batch = -1")
    flow.tables.run("DELETE FROM a")
    with flow.driver(flow.stream(_SQL, "a")) as driver:
        driver.wait_failure("DatabaseIsOlder")
    assert flow.tables.run("SELECT count(*) FROM a") == [(0,)]


@pytest.mark.proves("guarantees.md#exactly-once-into-a-table")
def test_a_type_that_somebody_narrows_rounds_nothing(flow: Flow) -> None:
    """The batch that would be rounded is not written, and the columns are compared anew."""
    flow.tables.run("CREATE TABLE a (n numeric(10,2))")
    sql = f"SELECT CAST({_N} + 0.25 AS DECIMAL(10,2)) AS n FROM source"
    with flow.driver(flow.stream(sql, "a", trigger=_BATCHES)) as driver:
        driver.wait_ready()
        flow.topics.send(flow.source, range(10))
        driver.wait_committed(10)
        flow.tables.run("TRUNCATE a")
        flow.tables.run("ALTER TABLE a ALTER COLUMN n TYPE numeric(10,1)")
        flow.topics.send(flow.source, range(10, 20))
        driver.wait_failure("SinkColumns")
        flow.tables.run("ALTER TABLE a ALTER COLUMN n TYPE numeric(10,2)")
        driver.wait_committed(20)
    assert flow.tables.run("SELECT n FROM a ORDER BY n") == [
        (Decimal(f"{n}.25"),) for n in range(10, 20)
    ]


@pytest.mark.proves(
    "guarantees.md#exactly-once-into-a-table", "failures.md#the-table-refuses-a-row"
)
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("varchar(2)", "CAST(value AS STRING)"),
        ("text CHECK (length(c) < 3)", "CAST(value AS STRING)"),
        ("text NOT NULL", "nullif(CAST(value AS STRING), '777')"),
        ("jsonb", "replace(CAST(value AS STRING), '777', '{')"),
    ],
)
def test_a_record_that_the_table_refuses_is_set_aside(column: str, value: str, flow: Flow) -> None:
    """Among others of its batch, and by its position."""
    flow.tables.run(f"CREATE TABLE a (c {column})")
    letters = flow.topics.make()
    for number in (*range(10), 777, *range(10, 20)):
        flow.topics.send(flow.source, range(number, number + 1), 1)
    sql = f"SELECT {value} AS c FROM source"
    spec = flow.stream(sql, "a").model_dump(by_alias=True, exclude_unset=True)["spec"]
    spec["source"]["kafka"] |= {"deadLetters": {"topic": letters}}
    flow.complete(stream(**spec))
    assert flow.topics.received(letters) == {777: 1}
    assert {int(c) for (c,) in flow.tables.run("SELECT c FROM a")} == set(range(20))


@pytest.mark.proves(
    "guarantees.md#exactly-once-into-a-table",
    "failures.md#the-table-is-written-with-another-copy-of-the-checkpoint",
)
def test_an_older_copy_of_the_checkpoint_is_refused(flow: Flow) -> None:
    flow.tables.run("CREATE TABLE a (n integer)")
    checkpoint, copy = flow.folder / "checkpoint", flow.folder / "copy"
    for sent in range(2):
        flow.topics.send(flow.source, range(sent * 10, sent * 10 + 10))
        flow.run(_SQL, "a")
        if sent == 0:
            shutil.copytree(checkpoint, copy)
    shutil.rmtree(checkpoint)
    copy.rename(checkpoint)
    with flow.driver(flow.stream(_SQL, "a")) as driver:
        failure = driver.wait_failure("ExactlyOnceImpossible").last_failure
    assert failure is not None
    assert "an older copy" in failure.message
    assert flow.tables.run("SELECT count(*) FROM a") == [(20,)]


@pytest.mark.proves("guarantees.md#exactly-once-into-a-table")
def test_streams_of_one_table_and_one_name_do_not_take_each_other_for_their_own(
    flow: Flow, jvm: Jvm, tmp_path: Path
) -> None:
    """Such as those of two clusters, which have checkpoints of their own."""
    flow.tables.run("CREATE TABLE a (n integer)")
    flow.topics.send(flow.source, range(10))
    other = tmp_path / "other"
    other.mkdir()
    beside = Flow(flow.topics, flow.source, flow.tables, other, jvm)
    for each in (flow, beside, flow):
        each.run(_SQL, "a")
    assert flow.tables.run("SELECT count(*), count(DISTINCT n) FROM a") == [(20, 10)]


@pytest.mark.proves("guarantees.md#exactly-once-into-a-table")
def test_another_table_gets_what_follows(flow: Flow) -> None:
    """An edit of the table's name, of one that has a batch which is not committed."""
    for table in ("a", "b"):
        flow.tables.run(f"CREATE TABLE {table} (n integer)")
    for table in ("a", "a", "b"):
        flow.topics.send(flow.source, range(10))
        flow.run(_SQL, table)
        if table == "a" and flow.tables.run("SELECT count(*) FROM a") == [(20,)]:
            undo_commit(flow.folder / "checkpoint")
    assert flow.tables.run("SELECT count(*) FROM a") == [(20,)]
    assert flow.tables.run("SELECT n FROM b ORDER BY n") == [(n,) for n in range(10)]
