"""Where from_json makes nulls of a bad record, and the query then drops it without a word.

By default from_json never fails: what is not JSON, and a field of another type, gives nulls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

_CORRUPT = "_corrupt_record"
# What a query does about a null itself.
_CHECKS = (exp.Is, exp.Coalesce, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Nvl2)
_CHECKING_FUNCTIONS = frozenset({"isnull", "isnotnull", "raise_error", "assert_true"})

Names = frozenset[str]
_NONE: Names = frozenset()


@dataclass(frozen=True)
class Swallowed:
    """A place where bad records vanish."""

    node: exp.Expr
    by: str
    """What drops them, as words in a sentence."""


def find_swallowed(root: exp.Expr) -> Swallowed | None:
    """The first place where a bad record vanishes; None also if the query looks for bad records.

    >>> import sqlglot
    >>> row = "from_json(CAST(value AS STRING), 'a INT')"
    >>> swallowed = find_swallowed(sqlglot.parse_one(
    ...     f"SELECT p.a FROM (SELECT {row} AS p FROM source) WHERE p.a > 1", dialect="spark"))
    >>> swallowed.by
    'WHERE drops it'
    """
    if _looks_for_them(root):
        return None
    swallowed: list[Swallowed] = []
    _names_made(root, {}, swallowed)
    return swallowed[0] if swallowed else None


def _looks_for_them(root: exp.Expr) -> bool:
    for node in root.walk():
        if isinstance(node, _CHECKS) or (isinstance(node, exp.Literal) and _CORRUPT in node.name):
            return True
        if isinstance(node, exp.Func) and _function_name(node) in _CHECKING_FUNCTIONS:
            return True
    return False


def _function_name(node: exp.Func) -> str:
    return (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()


def _names_made(node: exp.Expr, ctes: Mapping[str, Names], swallowed: list[Swallowed]) -> Names:
    """The names of the columns that a query makes of from_json, with those of their fields."""
    if isinstance(node, exp.Query):
        ctes = dict(ctes)
        for cte in node.ctes:
            ctes[cte.alias.lower()] = _names_made(cte.this, ctes, swallowed)
    match node:
        case exp.Subquery():
            return _names_made(node.this, ctes, swallowed)
        case exp.SetOperation():
            left = _names_made(node.left, ctes, swallowed)
            return left | _names_made(node.right, ctes, swallowed)
        case exp.Select():
            return _names_of_select(node, ctes, swallowed)
    return _NONE


def _names_of_select(
    select: exp.Select, ctes: Mapping[str, Names], swallowed: list[Swallowed]
) -> Names:
    names = _NONE
    for relation in select.find_all(exp.Subquery, exp.Table):
        if relation.parent_select is not select or not isinstance(
            relation.parent, exp.From | exp.Join
        ):
            continue
        is_table = isinstance(relation, exp.Table)
        names |= (
            ctes.get(relation.name.lower(), _NONE)
            if is_table
            else _names_made(relation, ctes, swallowed)
        )
    for clause, by in (
        ("where", "WHERE drops it"),
        ("joins", "the join drops it"),
        ("having", "HAVING drops it"),
        ("group", "GROUP BY puts it under null"),
    ):
        for node in _as_list(select.args.get(clause)):
            if isinstance(node, exp.Join):
                _note(None if node.side == "LEFT" else node.args.get("on"), names, by, swallowed)
            else:
                _note(node, names, by, swallowed)
    made = _NONE
    for projection in select.expressions:
        for aggregate in projection.find_all(exp.AggFunc):
            _note(aggregate, names, "the aggregate leaves it out", swallowed)
        made |= _names_of_column(projection, names)
    return made


def _as_list(node: object) -> Iterable[exp.Expr]:
    return node if isinstance(node, list) else [node] if isinstance(node, exp.Expr) else []


def _note(node: exp.Expr | None, names: Names, by: str, swallowed: list[Swallowed]) -> None:
    culprit = None if node is None else _parsed(node, names)
    if culprit is not None:
        swallowed.append(Swallowed(culprit, by))


def _parsed(node: exp.Expr, names: Names) -> exp.Expr | None:
    """The first part of an expression that is made of from_json without a mode."""
    for part in node.walk():
        if _may_make_nulls(part):
            return part
        if isinstance(part, exp.Column) and any(
            identifier.name.lower() in names for identifier in part.find_all(exp.Identifier)
        ):
            return part
    return None


def _may_make_nulls(node: exp.Expr) -> bool:
    """Whether it is a from_json that gives nulls for what it cannot read."""
    if not isinstance(node, exp.FromJson):
        return False
    options = node.args.get("options")
    if options is None:
        return True
    if not isinstance(options, exp.VarMap | exp.Map):
        return False
    keys = [literal.name.lower() for literal in options.find_all(exp.Literal)]
    return "mode" not in keys


def _names_of_column(projection: exp.Expr, names: Names) -> Names:
    if isinstance(projection, exp.Star):
        return names
    if _parsed(projection, names) is None and not (
        isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star)
    ):
        return _NONE
    if isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star):
        return names  # p.*: the fields of p, which are among them
    value = projection.this if isinstance(projection, exp.Alias) else projection
    fields = _fields_of(value.expression) if isinstance(value, exp.FromJson) else ()
    return frozenset(name.lower() for name in (projection.alias_or_name, *fields) if name)


def _fields_of(schema: exp.Expr | None) -> list[str]:
    """The fields of a schema: text in DDL (a type, or columns), or an example of JSON."""
    if isinstance(schema, exp.Anonymous) and schema.name.lower() == "schema_of_json":
        try:
            return list(json.loads(schema.expressions[0].name))
        except (ValueError, LookupError, RecursionError, TypeError):
            return []
    for text in (schema.name, f"STRUCT<{schema.name}>") if isinstance(schema, exp.Literal) else ():
        try:
            declared = exp.DataType.build(text, dialect="spark")
        except (SqlglotError, ValueError, RecursionError):
            continue
        definitions = [it for it in declared.expressions if isinstance(it, exp.ColumnDef)]
        if definitions:
            return [definition.name for definition in definitions]
    return []
