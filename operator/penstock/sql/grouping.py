"""Whether the keys of an aggregate carry event time, so that a watermark ends its groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from penstock.sql.expressions import carries_event_time
from penstock.sql.scope import Scope

_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


def grouping_keys(select: exp.Select) -> list[exp.Expr]:
    """The grouping expressions, also those within ROLLUP, CUBE and GROUPING SETS."""
    group = select.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        return list(select.expressions)
    keys = list(_flat(group.expressions))
    for kind in ("cube", "rollup", "grouping_sets"):
        keys += _flat(group.args.get(kind) or ())
    return keys


def may_group_by_event_time(select: exp.Select, scope: Scope) -> bool:
    """False only if certainly no key of GROUP BY carries the watermark."""
    aliases = {each.alias.lower(): each for each in select.expressions if each.alias}
    keys = grouping_keys(select)
    return any(_carries(key, select.expressions, aliases, scope) is not False for key in keys)


def _carries(
    key: exp.Expr, selected: list[exp.Expr], aliases: dict[str, exp.Expr], scope: Scope
) -> bool | None:
    if isinstance(key, exp.Literal):  # GROUP BY 1 is the first column
        number = int(key.name) if not key.is_string and key.name.isdigit() else 0
        return _key_carries(selected[number - 1], scope) if _is_ordinal(number, selected) else None
    if isinstance(key, exp.Column) and len(key.parts) == 1 and scope.find(key) is None:
        aliased = aliases.get(key.name.lower())
        return None if aliased is None else _key_carries(aliased, scope)
    return _key_carries(key, scope)


def _key_carries(key: exp.Expr, scope: Scope) -> bool | None:
    """Spark looks for the watermark in keys that are columns, so not in fields of a struct."""
    while isinstance(key, exp.Alias | exp.Paren):
        key = key.this
    if isinstance(key, exp.Dot) or (isinstance(key, exp.Column) and scope.is_field(key)):
        return False
    return carries_event_time(key, scope)


def _is_ordinal(number: int, selected: list[exp.Expr]) -> bool:
    return 0 < number <= len(selected)


def _flat(nodes: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    for node in nodes:
        if isinstance(node, (*_SETS, exp.Tuple)):
            yield from _flat(node.expressions)
        elif isinstance(node, exp.Paren):
            yield from _flat([node.this])
        else:
            yield node
