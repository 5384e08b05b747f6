"""A table of a database as a sink."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from penstock.api.predicates import (
    Predicate,
    ValidationRule,
    is_one_of,
    is_set,
    matches,
)
from penstock.api.v1alpha1.base import DataKey, KeyRef, ObjectName, SpecObject, text_like

Column = Annotated[str, StringConstraints(min_length=1, max_length=128)]
# A login before the host, or among the properties.
_LOGIN = r"(//[^/?]*@|[?&](user|password|sslpassword)=)"
_UPSERT = is_set("write") & is_one_of("write", "Upsert")


class Login(SpecObject):
    """A Secret of the type kubernetes.io/basic-auth, or one with other keys."""

    name: ObjectName = Field(description="Name of the Secret.")
    username_key: DataKey = Field(
        "username", description="Its key with the user's name. Default: username."
    )
    password_key: DataKey = Field(
        "password", description="Its key with the password. Default: password."
    )


class DatabaseTls(SpecObject):
    """TLS to the database, whose certificate is verified, with its host's name."""

    ca_secret: KeyRef | None = Field(
        None,
        description="PEM certificates of the authority that signed the server's certificate. "
        "Default: the authorities that the image's Java trusts.",
    )


class JdbcSink(SpecObject):
    """Writes each batch to a table once, in one transaction: appended, or by its keys.

    A column of a row goes to the column of the same name. The types have to fit.
    """

    rules = (
        ValidationRule(
            ~matches("url", _LOGIN),
            "url cannot hold a login in plain text: put it into a Secret, and name that in "
            "credentialsSecret",
        ),
        ValidationRule(
            ~matches("url", r"[?&](applicationname|sockettimeout|readonly)="),
            "url cannot set ApplicationName, socketTimeout or readOnly, which Penstock sets "
            "itself: remove it",
        ),
        ValidationRule(
            ~is_set("tls") | ~matches("url", r"[?&]ssl"),
            "url says how to use TLS, which wins over tls: remove its options that begin with ssl",
        ),
        ValidationRule(
            ~_UPSERT | is_set("keys"),
            "write Upsert needs keys: name the columns of a primary key or a unique constraint",
        ),
        *(
            ValidationRule(
                ~is_set(field) | _UPSERT,
                f"{field} is for rows that replace others: set write to Upsert, or remove it",
            )
            for field in ("keys", "latestBy", "deleteWhen")
        ),
        ValidationRule(
            Predicate(
                "!has(self.keys) || self.keys.all(k, self.keys.exists_one(other, other == k))",
                lambda it: len(set(it.keys)) == len(it.keys),
            ),
            "keys has a column twice: remove one",
        ),
    )
    url: Annotated[
        str,
        text_like(
            r"^jdbc:postgresql://[^\s]+/[^\s/?]+(\?[^\s]*)?$",
            "takes the URL of a PostgreSQL database: write for example "
            "jdbc:postgresql://db.shop:5432/shop",
            max_length=2048,
        ),
    ] = Field(
        description="The database, without user and password. Options of PostgreSQL's driver "
        "follow a question mark.",
        examples=["jdbc:postgresql://db.shop:5432/shop"],
    )
    credentials_secret: Login | None = Field(
        None,
        description="User and password. They are read for each connection, so a new password "
        "restarts nothing. Default: none.",
    )
    tls: DatabaseTls | None = Field(
        None,
        description="TLS to the database. `tls: {}` trusts the authorities that the image's Java "
        "trusts. Default: what the URL says; without sslmode in it TLS is used if the server "
        "offers it, and its certificate is not verified.",
    )
    table: Annotated[str, StringConstraints(min_length=1, max_length=260)] = Field(
        description="The table, as SQL writes it: with its schema, and with double quotes where "
        "a name has capital letters. It has to exist.",
        examples=["public.orders"],
    )
    write: Literal["Append", "Upsert"] = Field(
        "Append",
        description="Append: each row is one more row of the table. Upsert: a row replaces the "
        "one with the same keys. Default: Append.",
    )
    keys: Annotated[list[Column], Field(max_length=16)] = Field(
        [],
        description="With Upsert, the columns of a primary key, or of a unique constraint without "
        "nulls.",
        examples=[["id"]],
    )
    latest_by: Column | None = Field(
        None,
        description="With Upsert, the column whose greatest value tells the newest row of a key: "
        "in a batch, and in the table if that has the column. Default: in a batch the last row of "
        "the partition that was read; a row of a later batch replaces any other.",
        examples=["changed_at"],
    )
    delete_when: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = Field(
        None,
        description="With Upsert, a condition in SQL over a row: if it holds, the row of these "
        "keys is deleted. A column that only the condition needs is not written.",
        examples=["op = 'd'"],
    )
    ledger_schema: Annotated[
        str,
        text_like(r"^[a-z_][a-z0-9_]{0,62}$", "takes at most 63 small letters, digits and _"),
    ] = Field(
        "penstock",
        description="The schema for Penstock's own tables: `ledger`, with the newest batch of each "
        "stream, and those in which a batch waits for its commit. It is created if the user may "
        "create it. Default: penstock.",
    )
