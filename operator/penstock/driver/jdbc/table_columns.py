"""Whether a table takes the rows of a query, and how. Pure.

The types are compared before a row is written: PostgreSQL would refuse some values only, and round
others without a word (numeric(5,2) takes 1.555 as 1.56).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from penstock.api.v1alpha1.jdbc_sink import JdbcSink
from penstock.driver.jdbc.admin import Place, Table, TableColumn
from penstock.sql.columns import Column

DELETED = "penstock_deleted"
"""The column of a row that says whether sink.jdbc.deleteWhen holds."""
_KINDS = {"r", "p", "v"}
_WHOLE = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
_WHOLE_OF_TABLE = {"smallint": 2, "integer": 4, "bigint": 8}
# How long a whole number may be in these types.
_EXACT_BYTES = {**_WHOLE_OF_TABLE, "real": 2, "double precision": 4}
_SAME = {
    "boolean": "boolean",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
# Types whose texts are something else than a text.
_NO_TEXT = {
    *_WHOLE_OF_TABLE, *_SAME.values(), "numeric", "real", "double precision", "money", "oid",
    '"char"', "name",
}  # fmt: skip
_CASTS = {
    "smallint": "SMALLINT", "integer": "INT", "bigint": "BIGINT", "real": "FLOAT",
    "double precision": "DOUBLE", "boolean": "BOOLEAN", "bytea": "BINARY", "date": "DATE",
    "timestamp with time zone": "TIMESTAMP", "timestamp without time zone": "TIMESTAMP_NTZ",
}  # fmt: skip
_DECIMAL = re.compile(r"(?:decimal|numeric)\((\d+),(-?\d+)\)")
# Of times and intervals, with fewer digits than Spark has.
_COARSE = re.compile(r"(?:time|timestamp|interval)\b.*\([0-5]\).*")
_COLLATED = re.compile(r"(string|varchar|char)\b.*")
# What PostgreSQL makes of a column of the row that tells the newest one.
_OF_LATEST = {
    "tinyint": "smallint", "smallint": "smallint", "int": "integer", "bigint": "bigint",
    "float": "real", "double": "double precision", "date": "date",
    "timestamp": "timestamp with time zone", "timestamp_ntz": "timestamp without time zone",
    "string": 'text COLLATE "C"',
}  # fmt: skip


@dataclass(frozen=True)
class WrittenColumn:
    """As Java's Target.Column has it."""

    name: str
    """In the row."""
    target: str | None
    """In the table, quoted; None if it is not written there."""
    type: str


@dataclass(frozen=True)
class WrittenRows:
    """How the rows of a query become those of the table."""

    table: str
    columns: tuple[WrittenColumn, ...]
    keys: tuple[str, ...] = ()
    """Quoted."""
    deletes: bool = False
    latest: WrittenColumn | None = None
    constraints: tuple[str, ...] = ()
    """What the table asks of each row, for a row is copied to another one first."""


def find_missing_right(table: Table, sink: JdbcSink, user: str) -> str | None:
    """The statement that grants what the user lacks on the table; None if nothing."""
    needed = {"INSERT"} if sink.write == "Append" else {"SELECT", "INSERT", "UPDATE"}
    missing = sorted(needed - set(table.rights or ()))
    if sink.delete_when is not None and not table.may_delete:
        missing.append("DELETE")
    return f"GRANT {', '.join(missing)} ON {table.table} TO {user}" if missing else None


def find_place_problem(place: Place) -> str | None:
    """Why Penstock's own tables cannot be there, with the statements that help; None if nothing."""
    schema, user = place.schema_, place.user
    if not place.may_write_ledger:
        return (
            f"The user {user} may not write the table {schema}.ledger, which another one has made: "
            f"GRANT SELECT, INSERT, UPDATE ON {schema}.ledger TO {user}"
        )
    if place.may_create_in or (not place.has_schema and place.may_create_schema):
        return None
    create = "" if place.has_schema else f"CREATE SCHEMA {schema}; "
    return (
        f"The user {user} cannot create Penstock's own tables, which sink.jdbc.ledgerSchema "
        f"places in the schema {schema} of the database {place.database}. Let an administrator "
        f"run: {create}GRANT USAGE, CREATE ON SCHEMA {schema} TO {user}"
    )


def find_problems(
    columns: Sequence[Column], sink: JdbcSink, table: Table, needed: Collection[str] = ()
) -> list[str]:
    """Why the table does not take rows of these columns.

    `needed` are those that only deleteWhen needs: the table may lack them.
    """
    if table.kind == "f":
        return [
            f"{table.table} is a foreign table, which commits beside this database's own tables"
        ]
    if table.kind not in _KINDS:
        return [f"{table.table} is no table"]
    if not table.is_insertable:
        return [f"{table.table} is a view that takes no rows"]
    problems = [*_key_problems(sink, table)]
    by_target: dict[str, str] = {}
    for column in columns:
        name = str(column.name)
        if name == DELETED:
            continue
        target = _find(name, table)
        if target is None:
            if name not in needed and name.lower() != (sink.latest_by or "").lower():
                listed = ", ".join(it.name for it in (table.columns or ())[:20])
                problems.append(
                    f"the table has no column {name} (it has {listed}): add it there, or select "
                    "only what it has"
                )
            continue
        if target.name in by_target:
            problems.append(f"two columns of a row are for {target.name}: keep one")
        elif target.is_generated:
            problems.append(f"the database makes the values of {name} itself: leave it out")
        elif column.type is not None and not fits(column.type, target):
            problems.append(
                f"the column {name} is {column.type.upper()}, and the table's is {target.type}: "
                f"{_remedy(name, target)}"
            )
        by_target[target.name] = name
    problems += [
        f"the table's column {it.name} takes no null and has no default: select it"
        for it in table.columns or ()
        if it.not_null and not it.has_default and not it.is_generated and it.name not in by_target
        if not table.changes_rows
    ]
    if sink.latest_by is not None:
        problems += _latest_problems(sink.latest_by, columns, table)
    return problems


def written_rows(columns: Sequence[Column], sink: JdbcSink, table: Table) -> WrittenRows:
    """How rows without such a problem are written."""
    found = [(str(it.name), _find(str(it.name), table)) for it in columns if it.name != DELETED]
    deletes = sink.delete_when is not None
    # Of a row that deletes, only the keys are needed; and a trigger may fill in or correct others.
    is_checked_later = deletes or table.changes_rows
    written = tuple(
        WrittenColumn(name, it.quoted, _staged_type(it, is_checked_later=is_checked_later))
        for name, it in found
        if it is not None
    )
    keys = tuple(it.quoted for key in sink.keys if (it := _find(key, table)) is not None)
    latest = None
    if sink.latest_by is not None:
        (row,) = [it for it in columns if str(it.name).lower() == sink.latest_by.lower()]
        of, own = _find(str(row.name), table), _type_of_latest(str(row.type))
        of_type = own if of is None else _staged_type(of, is_checked_later=True)
        assert of_type is not None
        latest = WrittenColumn(str(row.name), of.quoted if of else None, of_type)
    constraints = (
        () if is_checked_later else _constraints({it.name for _, it in found if it}, table)
    )
    return WrittenRows(table.table, written, keys, deletes, latest, constraints)


def _staged_type(column: TableColumn, *, is_checked_later: bool) -> str:
    """Of a domain, which may take no null, the type behind it, where only the merge checks rows."""
    collated = f" COLLATE {column.collation}" if column.collation is not None else ""
    if is_checked_later:
        return f"{column.plain}{collated}"
    return f"{column.type}{collated}{' NOT NULL' if column.not_null else ''}"


def _constraints(written: set[str], table: Table) -> tuple[str, ...]:
    return tuple(
        f"CONSTRAINT {it.name} CHECK ({it.condition})"
        for it in table.checks
        if written.issuperset(it.columns or ())
    )


def fits(of_row: str, target: TableColumn) -> bool:
    """Whether a column takes all values of a type of Spark as they are, or refuses some aloud.

    `of_row` is Spark's simple name of the type.
    """
    return _fits(_plain(of_row), target.base, target.plain)


def _fits(of_row: str, base: str, of_table: str) -> bool:
    if _COARSE.fullmatch(of_table):
        return False
    if of_row.startswith("array<"):
        is_array = base.endswith("[]")
        element = of_table.removesuffix("[]")
        return is_array and _fits(_plain(of_row[6:-1]), base.removesuffix("[]"), element)
    if of_row == "string":
        return not base.endswith("[]") and base not in _NO_TEXT
    if of_row in _WHOLE:
        is_long = _EXACT_BYTES.get(base, 0) >= _WHOLE[of_row]
        return is_long or (base == "numeric" and _takes_scale(0, base, of_table))
    if of_row in ("float", "double"):
        scaled = _DECIMAL.fullmatch(of_table)
        wide = base == "double precision" or (of_row == "float" and base == "real")
        return wide or (base == "numeric" and scaled is None)
    if decimal := _DECIMAL.fullmatch(of_row):
        return _takes_scale(int(decimal[2]), base, of_table)
    return _SAME.get(of_row) == base


def _takes_scale(scale: int, base: str, of_table: str) -> bool:
    """Whether a decimal is not rounded; one that is too large is refused."""
    if base == "numeric":
        limited = _DECIMAL.fullmatch(of_table)
        return limited is None or scale <= int(limited[2])
    return scale == 0 and base in _WHOLE_OF_TABLE


def _type_of_latest(of_row: str) -> str | None:
    plain = _plain(of_row)
    return plain.replace("decimal", "numeric") if _DECIMAL.match(plain) else _OF_LATEST.get(plain)


def _plain(of_row: str) -> str:
    """Without collation and length."""
    return "string" if _COLLATED.fullmatch(of_row) else of_row


def _remedy(name: str, target: TableColumn) -> str:
    if target.base in ("json", "jsonb"):
        return f"use to_json({name}) AS {name}"
    if limited := _DECIMAL.fullmatch(target.type):
        return f"use CAST({name} AS DECIMAL({limited[1]}, {limited[2]})) AS {name}"
    if target.base == "numeric":
        return f"use CAST({name} AS DECIMAL(38, 10)) AS {name}, or another scale"
    if target.base.endswith("[]"):
        return "select an array of its type"
    return f"use CAST({name} AS {_CASTS.get(target.base, 'STRING')}) AS {name}"


def _find(name: str, table: Table) -> TableColumn | None:
    """The table's column of this name; as Spark, in any case if it is the only one."""
    columns = table.columns or ()
    exact = [it for it in columns if it.name == name]
    near = exact or [it for it in columns if it.name.lower() == name.lower()]
    return near[0] if len(near) == 1 else None


def _key_problems(sink: JdbcSink, table: Table) -> list[str]:
    if not sink.keys:
        return []
    keys = [(key, _find(key, table)) for key in sink.keys]
    if missing := [key for key, it in keys if it is None]:
        return [f"keys: the table has no column {', '.join(missing)}: correct keys, or the table"]
    names = {it.name for _, it in keys if it is not None}
    if not any(set(unique) == names for unique in table.unique_keys):
        listed = ", ".join(it.quoted for _, it in keys if it is not None)
        has = "; ".join(", ".join(unique) for unique in table.unique_keys)
        return [
            f"keys: the table may have a row of {listed} twice, so none can replace another: "
            f"{f'name the columns of a unique key (it has {has}), or run' if has else 'run'} "
            f"ALTER TABLE {table.table} ADD UNIQUE ({listed})"
        ]
    return [
        f"keys: {it.name} may be null, and rows with a null are never the same: run ALTER TABLE "
        f"{table.table} ALTER COLUMN {it.quoted} SET NOT NULL"
        for _, it in keys
        if it is not None and not it.not_null
    ]


def _latest_problems(name: str, columns: Sequence[Column], table: Table) -> list[str]:
    of_row = [it for it in columns if str(it.name).lower() == name.lower()]
    if len(of_row) != 1:
        return []  # sql/columns.py says so
    of_type = _plain(str(of_row[0].type))
    if _find(name, table) is None and _type_of_latest(of_type) is None:
        return [f"latestBy: {of_type.upper()} has no greatest value that a table could keep"]
    return []
