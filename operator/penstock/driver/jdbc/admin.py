"""What the driver asks a database: its table, its rights, and what it has of a stream.

The connection is that of the query's own tasks (connector/, package jdbc), so that both get the
same answers. PostgreSQL 12 and later.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from penstock.api.v1alpha1.jdbc_sink import JdbcSink
from penstock.driver.jvm import java_class

_CLASS = "dev.penstock.spark.jdbc.DatabaseAdmin"


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, frozen=True)


class TableColumn(_Model):
    """A column, with its types as PostgreSQL's format_type writes them."""

    name: str
    quoted: str
    """The name, as SQL has to write it."""
    type: str
    """With its length or precision."""
    plain: str
    """The same, and of a domain the type that is behind it."""
    base: str
    """The same without length or precision."""
    collation: str | None
    """If it is not that of the type, quoted."""
    not_null: bool
    has_default: bool
    is_generated: bool
    """The database makes its values, and takes no others."""


class Check(_Model):
    """A CHECK constraint."""

    name: str
    """Quoted."""
    condition: str
    columns: list[str] | None


class Table(_Model):
    """What the sink's name stands for."""

    table: str
    """Its name with its schema, quoted."""
    kind: str
    """pg_class.relkind: r for a table, p for one with partitions, v for a view, f for a foreign
    table, or one with a foreign partition."""
    shape: str | None
    """Another one once the table is altered; None without columns."""
    is_insertable: bool
    changes_rows: bool
    """By a trigger, before it looks whether they keep its constraints."""
    rights: list[str] | None
    """Of SELECT, INSERT and UPDATE, those that the user has on a column of it at least."""
    may_delete: bool
    columns: list[TableColumn] | None
    checks: list[Check]
    unique_keys: list[list[str]]
    """The columns of each index that allows a key once, now and for all rows."""


class Place(_Model):
    """Where Penstock's own tables are to be, and who asks."""

    schema_: str
    user: str
    database: str
    is_read_only: bool
    has_schema: bool
    may_create_in: bool
    may_create_schema: bool
    may_write_ledger: bool
    """Or there is none yet."""

    model_config = ConfigDict(alias_generator=lambda name: to_camel(name.rstrip("_")), frozen=True)


class LedgerRow(_Model):
    """What the database knows of a stream."""

    id: str
    """Tells it from a row that was there before somebody deleted it."""
    token: str | None
    """Of the driver that has taken it over last."""
    run: int
    """Of that driver; a later one has a larger number."""
    batch: int
    """The newest one; -1 before the first."""


def database(sink: JdbcSink, secrets: Path, application: str = "penstock") -> dict[str, Any]:
    """Java's Database: the paths of Secrets' files and not what is in them."""
    login, tls = sink.credentials_secret, sink.tls
    certificates = None
    if tls is not None:
        of = tls.ca_secret
        certificates = "" if of is None else str(secrets / of.name / of.key)
    return {
        "url": sink.url,
        "username": login and str(secrets / login.name / login.username_key),
        "password": login and str(secrets / login.name / login.password_key),
        "certificates": certificates,
        "application": application,
    }


class DatabaseAdmin:
    """One connection. Raises Py4J's errors with a DatabaseException, which classify.py reads."""

    def __init__(self, gateway: Any, sink: JdbcSink, secrets: Path) -> None:
        self._java = java_class(gateway, _CLASS)(json.dumps(database(sink, secrets)))

    def table(self, name: str) -> Table | None:
        """The table of this name; None if there is none."""
        told = self._java.table(name)
        return None if told is None else Table.model_validate_json(told)

    def place(self, schema: str) -> Place:
        """What is known of the schema for Penstock's own tables."""
        return Place.model_validate_json(self._java.place(schema))

    def ledger(self, schema: str, stream: str) -> LedgerRow | None:
        """What the database knows of the stream; None if nothing."""
        told = self._java.ledger(schema, stream)
        return None if told is None else LedgerRow.model_validate_json(told)

    def newest_written(self, stream: str) -> int:
        """The newest batch that this process has written for the stream; -1: none."""
        return int(self._java.newestWritten(stream))

    def take_over(self, schema: str, stream: str, row: LedgerRow, token: str) -> bool:
        """Makes no run but the row's write any more; False if another driver was faster.

        `row` is the next one, still with the token of the one before.
        """
        before = row.token or ""
        return bool(self._java.takeOver(schema, stream, row.id, before, token, row.run))

    def close(self) -> None:
        self._java.close()
