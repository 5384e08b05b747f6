"""Finds what a stream's mode does not support in its SQL, before any driver is started.

Text that the parser cannot read is left to Spark's analyzer in the driver, since a wrong refusal
would be worse than a late one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.api.modes import EXECUTIONS, Execution, execution_of
from penstock.api.v1alpha1 import StreamSpec
from penstock.sql.operations import PIPE, REMOVE_IT, Operation, reason_for_refusal
from penstock.sql.reader import QueryReader
from penstock.sql.spark_functions import called_functions

# The first words of a query; any other statement would run as a command in the driver.
_QUERY_WORDS = ("SELECT", "WITH", "FROM", "TABLE", "VALUES", "(", "MAP", "REDUCE")
# sqlglot mistakes the window of GROUP BY window(...) for the WINDOW clause.
_WINDOW_FUNCTION = re.compile(r"\b(window)(?=\s*\()", re.IGNORECASE)
_MAX_EXCERPT_LENGTH = 60


@dataclass(frozen=True)
class Refusal:
    """Why a query cannot run in its mode."""

    reason: str
    message: str


@dataclass(frozen=True)
class _SqlText:
    """A text of SQL and its path in the resource."""

    path: str
    text: str
    prefix_length: int = 0
    """How many characters of the text the user did not write."""


def find_refusals(spec: StreamSpec) -> list[Refusal]:
    """What the stream's mode certainly does not support in its SQL."""
    if spec.transform.sql is None:
        return []
    execution, watermark = execution_of(spec), spec.transform.watermark
    functions = spec.transform.functions
    own_functions = frozenset(
        name.lower()
        for name in (
            *(each.name for each in functions),
            *(each.name for each in spec.transform.java_functions),
        )
    )
    query = _SqlText("spec.transform.sql", spec.transform.sql)
    tokens = _tokenize(query.text)
    if tokens is None:
        return []
    if not_one_select := _check_statement(query.path, tokens):
        return [not_one_select]
    watermark_column = None if watermark is None else watermark.column

    root = _parse(query.text)
    if root is None:
        return []
    reader = QueryReader(watermark_column, own_functions)
    reader.read(root)
    operations = reader.operations
    if any(each.token_type is TokenType.PIPE_GT for each in tokens):
        operations = [(PIPE, root), *operations]
    refusals = _refuse_unsupported(query, operations, execution, tokens)

    called = called_functions(root)
    for i, function in enumerate(functions):
        if function.name.lower() not in called:
            continue  # Spark checks a function only where it is called
        body = _SqlText(
            f"spec.transform.functions[{i}].expression", f"SELECT {function.expression}", 7
        )
        select = _parse(body.text)
        if isinstance(select, exp.Select):
            reader = QueryReader(watermark_column, own_functions)
            reader.read_expression(select)
            body_tokens = _tokenize(body.text) or []
            refusals += _refuse_unsupported(body, reader.operations, execution, body_tokens)
    return refusals


def is_parsable(text: str) -> bool:
    """Whether the parser can read the text as a query."""
    return _parse(text) is not None


def _tokenize(text: str) -> list[Token] | None:
    try:
        return list(Spark().tokenize(text))
    except SqlglotError:
        return None


def _parse(text: str) -> exp.Expr | None:
    """The syntax tree of a query; None if the parser cannot read it as one."""
    for attempt in (text, _WINDOW_FUNCTION.sub(r"`\1`", text)):
        try:
            (root,) = [each for each in sqlglot.parse(attempt, read="spark") if each is not None]
        except Exception:  # noqa: S112  sqlglot raises more than its own errors
            continue
        return root if isinstance(root, exp.Query | exp.Values) else None
    return None


def _check_statement(path: str, tokens: list[Token]) -> Refusal | None:
    statements = [
        each
        for before, each in zip([None, *tokens], tokens, strict=False)
        if each.token_type is not TokenType.SEMICOLON
        and (before is None or before.token_type is TokenType.SEMICOLON)
    ]
    if len(statements) != 1:
        return Refusal(
            "NotOneSelect", f"{path} takes one SELECT, not {len(statements)}: keep only one"
        )
    word = statements[0].text.upper()
    if word not in _QUERY_WORDS:
        return Refusal(
            "NotOneSelect",
            f"{path} takes one SELECT over the view source, not {word}: select the rows to write, "
            f"and name their destination in spec.sink",
        )
    return None


def _refuse_unsupported(
    text: _SqlText,
    operations: Iterable[tuple[Operation, exp.Expr]],
    execution: Execution,
    tokens: list[Token],
) -> list[Refusal]:
    """One refusal for each kind of unsupported operation, at its first place in the text."""
    operations = list(operations)
    unsupported = {
        operation.name: (operation, node)
        for operation, node in reversed(operations)
        if not operation.supported_by(execution)
    }
    alternatives = [
        each
        for each in EXECUTIONS
        if each != execution and all(operation.supported_by(each) for operation, _ in operations)
    ]
    return [
        Refusal(
            "UnsupportedOperation",
            _message(text, operation, node, execution, alternatives, tokens),
        )
        for operation, node in reversed(unsupported.values())
    ]


def _message(
    text: _SqlText,
    operation: Operation,
    node: exp.Expr,
    execution: Execution,
    alternatives: list[Execution],
    tokens: list[Token],
) -> str:
    remedy = operation.remedy
    if alternatives and remedy == REMOVE_IT:
        remedy += f", or use {_nearest(alternatives, execution)}"
    return (
        f"{text.path}{_place(node, text, tokens)}: {execution} does not support {operation.name} "
        f"({operation.description}: {_excerpt(node)}), because "
        f"{reason_for_refusal(operation, execution)}: {remedy}"
    )


def _nearest(alternatives: list[Execution], execution: Execution) -> Execution:
    """The first alternative of the same mode, or else the first of all."""
    same_mode = [each for each in alternatives if each.mode is execution.mode]
    return (same_mode or alternatives)[0]


def _place(node: exp.Expr, text: _SqlText, tokens: list[Token]) -> str:
    """The line and column of a node: as the parser noted them, or of the first token like it."""
    if "start" in node.meta and "hint" not in {each.arg_key for each in _with_parents(node)}:
        token = next((each for each in tokens if each.start == node.meta["start"]), None)
    else:
        word = re.match(r"\w+|\S", node.sql(dialect="spark"))
        wanted = "" if word is None else word.group().upper()
        token = next((each for each in tokens if each.text.upper().split()[:1] == [wanted]), None)
    if token is None:
        return ""
    column = token.col - (token.end - token.start) - (text.prefix_length if token.line == 1 else 0)
    return f", line {token.line}, column {column}"


def _with_parents(node: exp.Expr) -> list[exp.Expr]:
    nodes: list[exp.Expr] = []
    current: exp.Expr | None = node
    while current is not None:
        nodes.append(current)
        current = current.parent
    return nodes


def _excerpt(node: exp.Expr) -> str:
    text = " ".join(node.sql(dialect="spark").split())
    if len(text) <= _MAX_EXCERPT_LENGTH:
        return text
    return f"{text[: _MAX_EXCERPT_LENGTH - 3]}..."
