"""Which SQL the stream's mode takes, judged from the text before any driver is started.

Text that the parser cannot read is left to Spark's own analyser in the driver: a wrong refusal
would be worse than a late one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.api.modes import EXECUTIONS, Execution, execution_of
from penstock.api.v1alpha1 import StreamSpec
from penstock.sql.operations import PIPE, TAKE_IT_OUT, Operation, why_not
from penstock.sql.reader import Reading
from penstock.sql.spark_functions import called

# How a query begins; whatever begins otherwise would run as a command in the driver.
_QUERY_WORDS = ("SELECT", "WITH", "FROM", "TABLE", "VALUES", "(", "MAP", "REDUCE")
# sqlglot takes the window of GROUP BY window(...) for the clause of that name.
_WINDOW_FUNCTION = re.compile(r"\b(window)(?=\s*\()", re.IGNORECASE)


@dataclass(frozen=True)
class Refusal:
    """Why a query cannot run in its mode."""

    reason: str
    message: str


@dataclass(frozen=True)
class _Text:
    """A text of SQL and where in the spec it stands."""

    path: str
    text: str
    shift: int = 0  # characters put before what the user wrote


def refusals(spec: StreamSpec) -> list[Refusal]:
    """Everything in the stream's SQL that its mode cannot run; empty if nothing is known to be."""
    if spec.transform.sql is None:
        return []
    execution, watermark = execution_of(spec), spec.transform.watermark
    functions = spec.transform.functions
    own = frozenset(
        name.lower()
        for name in (
            *(each.name for each in functions),
            *(each.name for each in spec.transform.java_functions),
        )
    )
    query = _Text("spec.transform.sql", spec.transform.sql)
    tokens = _tokens(query.text)
    if tokens is None:
        return []
    if not_a_query := _not_a_query(query.path, tokens):
        return [not_a_query]
    column = None if watermark is None else watermark.column

    root = _parsed(query.text)
    if root is None:
        return []
    reading = Reading(column, own)
    reading.read(root)
    found = reading.found
    if any(each.token_type is TokenType.PIPE_GT for each in tokens):
        found = [(PIPE, root), *found]
    refused = _refusals(query, found, execution, tokens)

    in_use = called(root)
    for i, function in enumerate(functions):
        if function.name.lower() not in in_use:
            continue  # Spark judges a function where it is used
        body = _Text(
            f"spec.transform.functions[{i}].expression", f"SELECT {function.expression}", 7
        )
        select = _parsed(body.text)
        if isinstance(select, exp.Select):
            reading = Reading(column, own)
            reading.read_expression(select)
            refused += _refusals(body, reading.found, execution, _tokens(body.text) or [])
    return refused


def is_readable(text: str) -> bool:
    """Whether the parser can read the text at all."""
    return _parsed(text) is not None


def _tokens(text: str) -> list[Token] | None:
    try:
        return list(Spark().tokenize(text))
    except SqlglotError:
        return None


def _parsed(text: str) -> exp.Expr | None:
    """The query that the text is; None if the parser cannot read it as one."""
    for attempt in (text, _WINDOW_FUNCTION.sub(r"`\1`", text)):
        try:
            (root,) = [each for each in sqlglot.parse(attempt, read="spark") if each is not None]
        except Exception:  # noqa: S112  also what the parser's own makers of nodes stumble over
            continue
        return root if isinstance(root, exp.Query | exp.Values) else None
    return None


def _not_a_query(path: str, tokens: list[Token]) -> Refusal | None:
    statements = [
        each
        for before, each in zip([None, *tokens], tokens, strict=False)
        if each.token_type is not TokenType.SEMICOLON
        and (before is None or before.token_type is TokenType.SEMICOLON)
    ]
    if len(statements) != 1:
        return Refusal("NotOneSelect", f"{path} takes one SELECT, not {len(statements)}: keep one")
    word = statements[0].text.upper()
    if word not in _QUERY_WORDS:
        return Refusal(
            "NotOneSelect",
            f"{path} takes one SELECT over the view source, not {word}: write what becomes of "
            f"each record, and the sink in spec.sink",
        )
    return None


def _refusals(
    text: _Text,
    found: Iterable[tuple[Operation, exp.Expr]],
    execution: Execution,
    tokens: list[Token],
) -> list[Refusal]:
    found = list(found)
    refused = {
        operation.name: (operation, node)
        for operation, node in reversed(found)
        if not operation.taken_by(execution)
    }
    others = [
        each
        for each in EXECUTIONS
        if each != execution and all(operation.taken_by(each) for operation, _ in found)
    ]
    return [
        Refusal("UnsupportedOperation", _message(text, operation, node, execution, others, tokens))
        for operation, node in reversed(refused.values())
    ]


def _message(
    text: _Text,
    operation: Operation,
    node: exp.Expr,
    execution: Execution,
    others: list[Execution],
    tokens: list[Token],
) -> str:
    remedy = operation.remedy
    if others and remedy == TAKE_IT_OUT:
        remedy += f", or use {_nearest(others, execution)}"
    return (
        f"{text.path}{_place(node, text, tokens)}: {execution} does not support {operation.name} "
        f"({operation.what}: {_excerpt(node)}), because {why_not(operation, execution)}: {remedy}"
    )


def _nearest(others: list[Execution], execution: Execution) -> str:
    """The first engine of the same mode that takes the query, else the first of all."""
    same: Callable[[Execution], bool] = lambda each: each.mode is execution.mode  # noqa: E731
    return str(next(filter(same, others), others[0]))


def _place(node: exp.Expr, text: _Text, tokens: list[Token]) -> str:
    """Where it stands: by the parser's own note, or by the first token that begins like it."""
    if "start" in node.meta and "hint" not in {each.arg_key for each in _parents(node)}:
        token = next((each for each in tokens if each.start == node.meta["start"]), None)
    else:
        word = re.match(r"\w+|\S", node.sql(dialect="spark"))
        wanted = "" if word is None else word.group().upper()
        token = next((each for each in tokens if each.text.upper().split()[:1] == [wanted]), None)
    if token is None:
        return ""
    column = token.col - (token.end - token.start) - (text.shift if token.line == 1 else 0)
    return f", line {token.line}, column {column}"


def _parents(node: exp.Expr) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    at: exp.Expr | None = node
    while at is not None:
        found.append(at)
        at = at.parent
    return found


def _excerpt(node: exp.Expr) -> str:
    text = " ".join(node.sql(dialect="spark").split())
    return text if len(text) <= 60 else f"{text[:57]}..."
