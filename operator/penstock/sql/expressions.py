"""What an expression makes, where the text of a query tells it: type, name and event time.

Also whether the keys of an aggregate carry event time, so that a watermark ends its groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sqlglot import exp

from penstock.sql.columns import Column, Columns, unsure_of_event_time
from penstock.sql.statement import type_name
from penstock.sql.struct_fields import declared_value
from penstock.sql.time_windows import WINDOW_COLUMNS, is_time_window
from penstock.sql.visible_columns import UNKNOWN, Scope, field_of, names_of

# In the order in which Spark widens them.
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")
_MAX_INT, _MAX_BIGINT = 2**31 - 1, 2**63 - 1
# What Spark's functions return, whatever their arguments are.
_RETURNED: tuple[tuple[tuple[type[exp.Expr], ...], str], ...] = (
    ((exp.Count, exp.CountIf, exp.ApproxDistinct, exp.IntDiv), "bigint"),
    ((exp.Length, exp.Year, exp.Month, exp.Day, exp.DayOfWeek, exp.ArraySize), "int"),
    ((exp.Hour, exp.Minute), "int"),
    ((exp.Rand, exp.Stddev, exp.Variance), "double"),
    ((exp.CurrentTimestamp, exp.TimestampTrunc), "timestamp"),
    ((exp.CurrentDate, exp.TsOrDsToDate), "date"),
    ((exp.Array, exp.ArrayAgg, exp.ArrayUniqueAgg, exp.RegexpSplit), "array"),
    ((exp.VarMap, exp.Map), "map"),
    ((exp.Struct,), "struct"),
    ((exp.Null,), "void"),
    ((exp.Interval,), "interval"),
    ((exp.Boolean, exp.Predicate, exp.Not, exp.And, exp.Or), "boolean"),
)
_BY_NAME = {
    "cardinality": "int", "crc32": "bigint", "hash": "int", "mean": "double", "now": "timestamp",
    "session_window": "struct", "std": "double", "window": "struct", "xxhash64": "bigint",
}  # fmt: skip
_WITHOUT_PARENTHESES = {"current_date": "date", "current_timestamp": "timestamp"}
_FIELDS_OF_WINDOW = tuple(Column(name, "timestamp", False) for name in ("start", "end"))
# Stars in nested queries multiply.
_MAX_COLUMNS = 5_000
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Div)
_LIKE_ITS_ARGUMENT = (exp.Abs, exp.AnyValue, exp.ArgMax, exp.ArgMin, exp.First, exp.Last, exp.Max,
                      exp.Min, exp.Neg)  # fmt: skip


def type_of(node: exp.Expr, scope: Scope) -> str | None:
    """Spark's name for the type of an expression, without parameters; None if not certain."""
    declared = _declared_type(node, scope)
    if declared is not None:
        return declared[0]
    match node:
        case exp.Alias() | exp.Paren() | exp.Filter():
            return type_of(node.this, scope)
        case exp.Column():
            found = scope.find(node)
            return _type_without_column(node, scope) if found is None else found.type
        case exp.Dot() | exp.Bracket() | exp.FromJson():
            return value_of(node, scope).type
        case exp.Cast():
            return type_name(node.to)
        case exp.Literal():
            return "string" if node.is_string else _number(node.name)
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            return _common([node.this, *node.expressions], scope)
        case exp.If():
            return _common([node.args.get("true"), node.args.get("false")], scope)
        case exp.Case():
            results = [each.args.get("true") for each in node.args["ifs"]]
            return _common([*results, node.args.get("default")], scope)
        case exp.Sum():
            return _sum(type_of(node.this, scope))
        case exp.Avg():
            return {"decimal": "decimal", None: None}.get(type_of(node.this, scope), "double")
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod() | exp.Div():
            return _arithmetic(node, scope)
        case exp.Anonymous():
            return _BY_NAME.get(node.name.lower())
    if isinstance(node, _LIKE_ITS_ARGUMENT):
        return type_of(node.this, scope)
    return next((name for kinds, name in _RETURNED if isinstance(node, kinds)), None)


# What takes text, and no bytes (asked of Spark 4.2, which takes bytes in other functions: split).
_TEXT_ONLY = (exp.FromJson, exp.JSONExtractScalar, exp.ParseJSON, exp.ParseUrl)
_TEXT_ONLY_BY_NAME = (
    "from_csv", "from_xml", "json_array_length", "json_object_keys", "json_tuple", "try_parse_json",
)  # fmt: skip
_NOT_OF_BYTES = (*_NUMBERS, "boolean", "date", "timestamp")


def takes_bytes_for_text(node: exp.Expr, scope: Scope) -> bool:
    """Whether a function of text, or a cast to a number or a time, is certainly given bytes.

    Kafka's key and value are bytes.
    """
    if _declared_type(node, scope) is not None:
        return False
    if isinstance(node, exp.Anonymous):
        is_one = node.name.lower() in _TEXT_ONLY_BY_NAME and bool(node.expressions)
        return is_one and type_of(node.expressions[0], scope) == "binary"
    if isinstance(node, exp.Cast):
        return type_name(node.to) in _NOT_OF_BYTES and type_of(node.this, scope) == "binary"
    return isinstance(node, _TEXT_ONLY) and type_of(node.this, scope) == "binary"


def carries_event_time(node: exp.Expr, scope: Scope) -> bool | None:
    """Whether an expression carries the watermark, as a column or a window over one does.

    Spark keeps the watermark in the column's metadata, and in that of a struct's field made of it.
    So no function of it does, not even a cast or window.start (measured with 4.2).
    """
    match node:
        case exp.Alias() | exp.Paren():
            return carries_event_time(node.this, scope)
        case exp.Column():
            found = scope.find(node)
            if found is None:
                return False if _is_field_of_window(node) else None
            return found.event_time
        case exp.Dot() | exp.Bracket():
            return value_of(node, scope).event_time
        case exp.Star():
            columns = scope.columns
            return None if columns is None else _any(each.event_time for each in columns)
        case exp.Anonymous():
            if is_time_window(node) and node.expressions:
                return carries_event_time(node.expressions[0], scope)
    return False


def may_carry_event_time(columns: Columns | None) -> bool:
    """False only if certainly none of the columns carries the watermark."""
    return columns is None or any(each.event_time is not False for each in columns)


def _is_field_of_window(node: exp.Column) -> bool:
    """Whether a node is window.start, where GROUP BY makes the column `window`."""
    return len(node.parts) > 1 and node.parts[0].name.lower() in WINDOW_COLUMNS


def value_of(node: exp.Expr, scope: Scope) -> Column:
    """What is known of a value; found once, or nested structs would take for ever.

    Its name says nothing.
    """
    key = id(node)
    if key not in scope.values:
        scope.values[key] = UNKNOWN  # for an alias of itself
        scope.values[key] = _value_of(node, scope)
    return scope.values[key]


def _value_of(node: exp.Expr, scope: Scope) -> Column:
    match node:
        case exp.Alias() | exp.Paren():
            return value_of(node.this, scope)
        case exp.Identifier():
            return _element(node, scope)
        case exp.Column():
            found = scope.find(node)
            return _unresolved(node, scope) if found is None else found
        case exp.Dot() | exp.Bracket():
            name = field_name(node)
            if name is not None:
                return field_of(value_of(node.this, scope), [name]) or UNKNOWN
    event_time, fields = carries_event_time(node, scope), _fields_of(node, scope)
    if _declared_type(node, scope) is not None:
        return Column(None, type_of(node, scope), event_time, fields)
    match node:
        case exp.Struct():
            declared = fields if _are_named(node) else None
            return Column(None, "struct", False, fields, declared)
        case exp.Bracket() | exp.Explode() | exp.ArrayFilter():
            declared = unsure_of_event_time(value_of(node.this, scope).declared)
            return Column(None, None, False, fields, declared)
        case exp.Anonymous() if is_time_window(node):
            declared = None if node.name.lower() == "window_time" else _FIELDS_OF_WINDOW
            return Column(None, type_of(node, scope), event_time, fields, declared)
    if isinstance(node, _LIKE_ITS_ARGUMENT):
        declared = unsure_of_event_time(value_of(node.this, scope).declared)
        return Column(None, type_of(node, scope), event_time, fields, declared)
    told = declared_value(node)
    return Column(None, told.type or type_of(node, scope), event_time, fields, told.declared)


def _unresolved(node: exp.Column, scope: Scope) -> Column:
    """What looks like a column and is none: an alias of the SELECT, or window.start."""
    found = field_of(aliased(node, scope), names_of(node)[1:])
    declared = None if found is None else found.declared
    of_type, event_time = _type_without_column(node, scope), carries_event_time(node, scope)
    return Column(None, of_type, event_time, None, declared)


def aliased(node: exp.Column, scope: Scope) -> Column | None:
    """What the SELECT itself calls by the first name of a path; None if it gives no such name."""
    name = names_of(node)[0]
    if name not in scope.aliases:
        return None
    made = scope.aliases[name]
    if made is None:
        return Column(None, "struct", None, None, _FIELDS_OF_WINDOW)
    return value_of(made, scope)


def _element(node: exp.Identifier, scope: Scope) -> Column:
    """The parameter of a lambda: an element of the array that the function is given."""
    name, inner = node.name.lower(), node.parent
    while inner is not None and not _has_parameter(inner, name):
        inner = inner.parent
    function = None if inner is None else inner.parent
    is_first = inner is not None and inner.expressions[0].name.lower() == name
    if is_first and isinstance(function, exp.Transform | exp.ArrayFilter | exp.Exists):
        return replace(value_of(function.this, scope), type=None, event_time=False)
    return UNKNOWN


def _has_parameter(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Lambda) and any(
        parameter.name.lower() == name for parameter in node.expressions
    )


def field_name(node: exp.Dot | exp.Bracket) -> str | None:
    """The field, or key of a map, that a node takes out of a value; None if it takes no such."""
    if isinstance(node, exp.Dot):
        name = node.expression
        return name.name.lower() if isinstance(name, exp.Identifier) else None
    (key, *others) = node.expressions
    is_name = isinstance(key, exp.Literal) and key.is_string and not others
    return key.name.lower() if is_name else None


def _fields_of(node: exp.Expr, scope: Scope) -> Columns | None:
    """The fields of an expression that may carry the watermark; None if they are unknown."""
    match node:
        case exp.Struct():
            return _struct_fields(node, scope)
        case exp.Cast() | exp.FromJson():
            return ()
    if isinstance(node, exp.Anonymous) and is_time_window(node):
        return _FIELDS_OF_WINDOW
    columns = [scope.find(each) for each in node.find_all(exp.Column)]
    hidden = any(each is None or each.event_time is not False or each.fields for each in columns)
    return None if hidden or any(each and each.fields is None for each in columns) else ()


def _field(node: exp.Expr, scope: Scope) -> Column:
    """The field of a struct, or the column of a SELECT, that an expression makes."""
    name, value = node.alias_or_name, node
    if isinstance(node, exp.PropertyEQ):
        name, value = node.this.name, node.expression
    return replace(value_of(value, scope), name=name)


def _struct_fields(node: exp.Struct, scope: Scope) -> Columns | None:
    made: list[Column] = []
    for value in node.expressions:
        columns = _outputs(value, scope) if value.is_star else (_field(value, scope),)
        if columns is None or len(made) > _MAX_COLUMNS:
            return None
        made += columns
    return tuple(made)


def _are_named(node: exp.Struct) -> bool:
    """Whether the fields have the names that sqlglot gives them.

    Where Spark knows better, such as for struct((a)), sqlglot calls the first one col1.
    """
    return all(
        value.is_star
        or (
            isinstance(value, exp.PropertyEQ)
            and (
                value.this.name != f"col{number}"
                or isinstance(value.expression, exp.Literal | exp.Func)
            )
        )
        for number, value in enumerate(node.expressions, 1)
    )


def output_columns(select: exp.Select, scope: Scope) -> Columns | None:
    """The columns that a SELECT makes; None if they cannot be told."""
    made: list[Column] = []
    for each in select.expressions:
        columns = _outputs(each, scope)
        if columns is None or len(made) > _MAX_COLUMNS:
            return None
        made += columns
    return tuple(made)


def _outputs(node: exp.Expr, scope: Scope) -> Columns | None:
    if isinstance(node, exp.Star):
        return _star(node, scope.columns)
    if isinstance(node, exp.Column | exp.Dot) and node.is_star:
        return _star(
            node.this if isinstance(node, exp.Column) else node.expression,
            starred_columns(node, scope),
        )
    if isinstance(node, exp.Inline):
        rows = node.this.expressions if isinstance(node.this, exp.Array) else ()
        if rows:
            return value_of(rows[0], scope).fields or None if len(rows) == 1 else None
        return value_of(node.this, scope).declared
    if isinstance(node, exp.Aliases | exp.Explode | exp.Inline | exp.Stack | exp.UDTF):
        return None
    if isinstance(node, exp.QueryTransform):
        return None
    if isinstance(node, exp.Anonymous) and not node.name.isidentifier():
        return None
    made = _field(node, scope)
    return (replace(made, name=_name_of(node)),)


def _name_of(node: exp.Expr) -> str | None:
    """The name that Spark gives to a column; None if it is not a plain word."""
    if isinstance(node, exp.Cast | exp.Paren):
        return _name_of(node.this)  # Spark omits a cast in the name
    return node.output_name or None


def starred_columns(node: exp.Expr, scope: Scope) -> Columns | None:
    """The columns of a relation, or the fields of a struct, that `name.*` stands for.

    None if they are unknown.
    """
    if not isinstance(node, exp.Column):
        return value_of(node.this, scope).declared
    names = names_of(node)[:-1]
    if relations := scope.relations_called(names):
        return relations[0].columns if len(relations) == 1 else None
    found = field_of(*scope.split(names))
    return None if found is None else found.declared


def _star(star: exp.Star, columns: Columns | None) -> Columns | None:
    if columns is None or star.args.get("replace") or star.args.get("rename"):
        return None
    excluded = star.args.get("except_") or ()
    if any(len(each.parts) > 1 for each in excluded):
        return None  # a field of a column
    names = {each.name.lower() for each in excluded}
    return tuple(each for each in columns if (each.name or "").lower() not in names)


def _type_without_column(node: exp.Column, scope: Scope) -> str | None:
    """The type of what looks like a column: window.start, or a function without parentheses."""
    if _is_field_of_window(node):
        return "timestamp"
    name = node.name.lower()
    hidden = len(node.parts) > 1 or name in scope.aliases
    return None if hidden else _WITHOUT_PARENTHESES.get(name)


def _declared_type(node: exp.Expr, scope: Scope) -> tuple[str | None] | None:
    """The type of a function that the stream declares, which hides Spark's of that name."""
    if not isinstance(node, exp.Func):
        return None
    names = [node.name] if isinstance(node, exp.Anonymous) else node.sql_names()
    found = [each.lower() for each in names if each.lower() in scope.function_types]
    return (scope.function_types[found[0]],) if found else None


def _common(nodes: Iterable[exp.Expr | None], scope: Scope) -> str | None:
    """The type of a value that is one of several."""
    given = [each for each in nodes if each is not None and not isinstance(each, exp.Null)]
    types = {type_of(each, scope) for each in given}
    if len(types) == 1:
        return types.pop()
    return _wider(types)


def _wider(types: Iterable[str | None]) -> str | None:
    """The number type that holds all of them; None if one of them is no number."""
    listed = list(types)
    if not listed or any(each not in _NUMBERS for each in listed):
        return None
    return max((str(each) for each in listed), key=_NUMBERS.index)


def _arithmetic(node: exp.Expr, scope: Scope) -> str | None:
    """The type of a chain of + - * / %, which may be long: without recursion to the left."""
    types: list[str | None] = []
    divides = False
    while isinstance(node, _ARITHMETIC):
        divides = divides or isinstance(node, exp.Div)
        types.append(type_of(node.right, scope))
        node = node.left
    wider = _wider([*types, type_of(node, scope)])
    return "double" if divides and wider not in (None, "decimal") else wider


def _sum(of_type: str | None) -> str | None:
    if of_type in ("float", "double"):
        return "double"
    return "decimal" if of_type == "decimal" else ("bigint" if of_type in _NUMBERS else None)


def _number(text: str) -> str | None:
    if text.isdigit():
        value = int(text) if len(text) < 20 else _MAX_BIGINT + 1
        return "int" if value <= _MAX_INT else ("bigint" if value <= _MAX_BIGINT else "decimal")
    return "double" if "e" in text.lower() else "decimal"


def _any(values: Iterable[bool | None]) -> bool | None:
    listed = list(values)
    if True in listed:
        return True
    return None if None in listed else False


_GROUPING_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


def _grouping_keys(select: exp.Select) -> list[exp.Expr]:
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
    keys = _grouping_keys(select)
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
    if isinstance(key, exp.Dot | exp.Bracket) or (
        isinstance(key, exp.Column) and scope.is_field(key)
    ):
        return False
    return carries_event_time(key, scope)


def _is_ordinal(number: int, selected: list[exp.Expr]) -> bool:
    return 0 < number <= len(selected)


def _flat(nodes: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    for node in nodes:
        if isinstance(node, (*_GROUPING_SETS, exp.Tuple)):
            yield from _flat(node.expressions)
        elif isinstance(node, exp.Paren):
            yield from _flat([node.this])
        else:
            yield node
