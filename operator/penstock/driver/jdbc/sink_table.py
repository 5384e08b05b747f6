"""The table that a stream writes: asked about before each start, and taken over from its drivers.

A batch and its number are written in one transaction (connector/, package jdbc), so a batch that
runs again is not written again. Each start is a run of its own, and fences the ones before.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from penstock.api.v1alpha1.jdbc_sink import JdbcSink
from penstock.contract.remedies import REMEDIES
from penstock.driver.calls_with_deadline import CallsWithDeadline
from penstock.driver.failures import (
    DATABASE_AUTHORIZATION,
    DATABASE_IS_OLDER,
    DATABASE_NOT_AVAILABLE,
    TABLE_MISSING,
    TABLE_TAKEN_OVER,
    DriverError,
    Failure,
    refuse_older_copy,
)
from penstock.driver.jdbc.admin import DatabaseAdmin, LedgerRow, Place, Table, database
from penstock.driver.jdbc.ledger_note import LedgerNote
from penstock.driver.jdbc.table_columns import (
    DELETED,
    WrittenRows,
    find_missing_right,
    find_place_problem,
)
from penstock.driver.jvm import java_class

T = TypeVar("T")
# A frozen session of an earlier driver is waited for and ended.
_SECONDS = 40.0
_NO_ANSWER = Failure(DATABASE_NOT_AVAILABLE, "Neither the database nor the name server answered")


@dataclass(frozen=True)
class OwnTable:
    """A table that this run alone writes for the stream."""

    table: Table
    stream: str
    """In the ledger."""
    schema: str
    """Of the ledger, quoted."""
    run: int
    newest: int | None
    """The newest batch that it has; -1: none."""


class SinkTable:
    """The table of spec.sink.jdbc."""

    def __init__(self, gateway: Any, sink: JdbcSink, secrets: Path) -> None:
        self._gateway = gateway
        self._sink = sink
        self._secrets = secrets
        self._calls = CallsWithDeadline("sink-table", _SECONDS, _NO_ANSWER)

    def signs_of_life(self) -> int:
        """Another number as long as a database brings a batch into its table, without a task."""
        return int(java_class(self._gateway, "dev.penstock.spark.jdbc.Ledger").signsOfLife())

    def check(self) -> Table:
        """The table; raises DriverError if it is missing or the user lacks a right."""
        return self._ask(lambda admin: _checked(admin, self._sink)[0])

    def take_over(
        self,
        stream: str,
        planned: Callable[[], int | None],
        noted: Mapping[str, LedgerNote],
        note: Callable[[str, LedgerNote], None],
    ) -> OwnTable:
        """Makes this run the only one that writes for the stream.

        `planned`: the newest batch of the checkpoint. `noted`: what the checkpoint knows of rows of
        ledgers, by their ids, which `note` replaces before the database does. Raises as `check`,
        and if the table was written with another copy of the checkpoint, or has lost batches.
        """

        def take(admin: DatabaseAdmin) -> OwnTable:
            table, place = _checked(admin, self._sink)
            # A batch is planned before it is written, so it is asked for in this order.
            known = admin.ledger(place.schema_, stream)
            if known is not None:
                refuse_older_copy(known.batch, planned())
            row = known or LedgerRow(id=_new_token(), token=None, run=int(time.time()), batch=-1)
            written = admin.newest_written(stream) if row.id in noted else -1
            before = noted.get(row.id, LedgerNote())
            before = replace(before, batch=max(before.batch, written))
            if known is not None and noted:
                if before.batch > known.batch:
                    note(row.id, before)  # also for the next process
                _refuse_other_row(known, before)
            token, following = _new_token(), row.model_copy(update={"run": row.run + 1})
            batch = max(before.batch, row.batch)
            note(row.id, LedgerNote(row.token, token, batch))
            if not admin.take_over(place.schema_, stream, following, token):
                raise _other_copy()
            after = admin.ledger(place.schema_, stream)
            newest = None if after is None else after.batch
            refuse_older_copy(newest, planned())
            return OwnTable(table, stream, place.schema_, following.run, newest)

        return self._ask(take)

    def _ask(self, question: Callable[[DatabaseAdmin], T]) -> T:
        def ask() -> T:
            with closing(DatabaseAdmin(self._gateway, self._sink, self._secrets)) as admin:
                return question(admin)

        return self._calls.call(ask)

    def options(self, own: OwnTable, rows: WrittenRows) -> dict[str, str]:
        """Of the data source: Java's Database and Target."""
        names = java_class(self._gateway, "dev.penstock.spark.jdbc.Target")
        target = {
            "table": rows.table,
            "columns": [asdict(column) for column in rows.columns],
            "keys": rows.keys,
            "deleted": DELETED if rows.deletes else None,
            "latest": rows.latest and asdict(rows.latest),
            "constraints": rows.constraints,
            "shape": own.table.shape or "",
            "schema": own.schema,
            "stream": own.stream,
            "run": own.run,
        }
        application = f"{names.prefix(own.stream)}{own.run}"
        return {
            "database": json.dumps(database(self._sink, self._secrets, application)),
            "target": json.dumps(target),
        }


def _checked(admin: DatabaseAdmin, sink: JdbcSink) -> tuple[Table, Place]:
    place = admin.place(sink.ledger_schema)
    if place.is_read_only:
        raise DriverError(
            Failure(
                DATABASE_NOT_AVAILABLE,
                "The database is read-only: it is a standby, or default_transaction_read_only is "
                "on. With several hosts in sink.jdbc.url, add targetServerType=primary.",
            )
        )
    table = admin.table(sink.table)
    if table is None:
        message = (
            f"The database {place.database} has no table {sink.table}, or the user {place.user} "
            f"may not see it. {REMEDIES[TABLE_MISSING].action}"
        )
        raise DriverError(Failure(TABLE_MISSING, message, permanent=True, recoverable=True))
    grant = find_missing_right(table, sink, place.user)
    missing = f"The user {place.user} lacks rights on the table: {grant}" if grant else None
    if problem := missing or find_place_problem(place):
        raise DriverError(
            Failure(DATABASE_AUTHORIZATION, problem, permanent=True, recoverable=True)
        )
    return table, place


def _refuse_other_row(row: LedgerRow, noted: LedgerNote) -> None:
    """Raises if the row is older than the checkpoint, or was taken over by a driver with another
    copy. This one's own may have ended after it has noted a token, before or after it took over.
    """
    if row.batch < noted.batch:
        message = (
            f"The table had batch {noted.batch} of this stream, and has those up to {row.batch}. "
            f"{REMEDIES[DATABASE_IS_OLDER].action}"
        )
        raise DriverError(Failure(DATABASE_IS_OLDER, message, permanent=True, recoverable=True))
    if row.token not in (noted.token, noted.pending):
        raise _other_copy()


def _new_token() -> str:
    return uuid.uuid4().hex


def _other_copy() -> DriverError:
    return DriverError(
        Failure(
            TABLE_TAKEN_OVER,
            "A driver with another copy of this checkpoint has written the table since. "
            f"{REMEDIES[TABLE_TAKEN_OVER].action}",
            permanent=True,
            recoverable=True,
        )
    )
