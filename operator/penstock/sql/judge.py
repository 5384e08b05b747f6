"""Finds what a stream's mode or sink does not support in its SQL, before any driver is started.

Text that the parser cannot read is left to Spark's analyzer in the driver, since a wrong refusal
would be worse than a late one. It is reported as not judged.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.api.modes import EXECUTIONS, Execution, execution_of
from penstock.api.problem import NOT_JUDGED, Problem, Severity
from penstock.api.v1alpha1 import SqlFunction, StreamSpec
from penstock.sql import supported_operations as op
from penstock.sql.bad_records import find_swallowed
from penstock.sql.columns import (
    Columns,
    find_column_problems,
    find_dropped_columns,
    find_routing_warnings,
    passed_columns,
    source_columns,
)
from penstock.sql.query_operations import QueryReader
from penstock.sql.spark_function_names import SPARK_FUNCTIONS
from penstock.sql.spark_functions import called_functions
from penstock.sql.statement import (
    MAX_TOKENS,
    Place,
    SqlText,
    TextTooLarge,
    UnreadableText,
    find_trailing_comma,
    find_watermarks,
    parse,
    tokenize,
)
from penstock.sql.struct_fields import value_of_declared
from penstock.sql.supported_operations import (
    IN_FUNCTION,
    PIPE,
    REMOVE_IT,
    Operation,
    reason_for_refusal,
)
from penstock.sql.unknown_names import UnknownName

# The first words of a query; any other statement would run as a command in the driver.
_QUERY_WORDS = ("SELECT", "WITH", "FROM", "TABLE", "VALUES", "(", "MAP", "REDUCE")
_MAX_EXCERPT_LENGTH = 60
# Words that a comment at the end of a text has if it hides a part of the query.
_SQL_WORD = re.compile(
    r"\b(from|where|and|or|group by|having|order by|limit|union|(left |inner )?join)\b",
    re.IGNORECASE,
)
# Configuration that may bring functions of its own.
_MORE_FUNCTIONS = ("spark.sql.extensions", "spark.sql.catalog", "spark.plugins", "spark.jars")


def judge_sql(spec: StreamSpec) -> list[Problem]:
    """Judges the query, the functions that it calls, and the columns that it makes.

    Errors are certain; what only Spark can judge is a notice, NotJudged. Raises only MemoryError.
    May use a lot of time: `validation/text_sandbox.py` sets a limit to both.
    """
    try:
        return _Judge(spec).judge()
    except RecursionError:
        return [_left_to_spark("spec.transform.sql", "it nests too deep")]


def _left_to_spark(path: str, why: str, place: Place | None = None) -> Problem:
    said = (
        f": {why}. So Penstock does not judge it: Spark does when the driver plans the query, or "
        "now with `penstock validate --spark`"
    )
    return _problem(NOT_JUDGED, path, place, said, "notice")


def _problem(
    reason: str, path: str, place: Place | None, text: str, severity: Severity = "error"
) -> Problem:
    if place is None:
        return Problem(reason, f"{path}{text}", severity)
    message = f"{path}{place}{text}"
    return Problem(reason, message, severity, text_line=place.line, text_column=place.column)


class _Judge:
    def __init__(self, spec: StreamSpec) -> None:
        self._spec = spec
        self._transform = spec.transform
        self._execution = execution_of(spec)
        self._watermark = (
            None if spec.transform.watermark is None else spec.transform.watermark.column
        )
        self._source = source_columns(spec.source, self._watermark)
        self._function_types: dict[str, str | None] = {
            **{
                each.name.lower(): value_of_declared(each.returns).type
                for each in spec.transform.functions
            },
            **{each.name.lower(): None for each in spec.transform.java_functions},
        }
        self._tokens_left = MAX_TOKENS
        self._watermark_is_unknown = False
        self._problems = [*self._judge_watermark()]

    def judge(self) -> list[Problem]:
        transform = self._transform
        if transform.sql is not None:
            try:
                self._judge_query(transform.sql)
            except TextTooLarge as error:
                return [Problem("QueryTooLarge", str(error))]
        elif transform.python is None and transform.java is None:
            self._judge_pass_through()
        return self._problems

    def _judge_watermark(self) -> Iterable[Problem]:
        if self._watermark is None or self._source is None or "." in self._watermark:
            return
        name = self._watermark.strip("`")
        column = next((c for c in self._source if (c.name or "").lower() == name.lower()), None)
        if column is None:
            self._watermark_is_unknown = True
            yield Problem(
                "UnknownColumn",
                f"spec.transform.watermark.column: the source has no column {name}"
                f"{_suggestion(name, self._source)}. For a time that the query reads from the "
                f"value, remove transform.watermark, and write FROM (SELECT ...) WATERMARK {name} "
                "DELAY OF INTERVAL 1 MINUTE in transform.sql, or call withWatermark in "
                "transform.python",
            )
        elif column.type not in (None, "timestamp"):
            yield Problem(
                "UnknownColumn",
                f"spec.transform.watermark.column: {name} is not a TIMESTAMP but "
                f"{str(column.type).upper()}: use a column of that type",
            )

    def _judge_pass_through(self) -> None:
        if self._source is None:
            return
        names = [each.name or "" for each in self._source]
        kept = passed_columns(names, self._spec.sink)
        columns = [each for each in self._source if kept is None or each.name in kept]
        self._judge_columns(tuple(columns), ", since the source passes unchanged")

    def _judge_columns(self, columns: Columns, suffix: str = "") -> None:
        self._problems += [
            Problem("SinkColumns", f"{each}{suffix}")
            for each in find_column_problems(columns, self._spec.sink)
        ]

    def _judge_query(self, sql: str) -> None:
        query = SqlText("spec.transform.sql", sql)
        try:
            tokens = tokenize(query)
            self._tokens_left -= len(tokens)
            if not_one_select := _check_statement(query.path, tokens):
                self._problems.append(not_one_select)
                return
            self._refuse_trailing_comma(query, tokens)
            root = parse(query, tokens)
        except UnreadableText as error:
            self._problems.append(_left_to_spark(query.path, str(error), error.place))
            return
        watermarks = find_watermarks(tokens)
        marked = frozenset(tokens[each.first + 1].text.lower() for each in watermarks)
        reader = QueryReader(self._source, self._function_types, marked)
        rows = reader.read(root)
        operations = reader.operations
        is_pipe = any(each.token_type is TokenType.PIPE_GT for each in tokens)
        if is_pipe:
            operations = [(PIPE, root), *operations]
        execution = self._execution
        if watermarks:
            execution = replace(execution, watermark=True, by_clause=self._watermark is None)
            operations = [(op.IF_CLAUSE.get(each, each), node) for each, node in operations]
            operations.append((op.WATERMARK, exp.var(tokens[watermarks[0].first].text)))
        if self._watermark_is_unknown:
            operations = [(op.IF_EVENT_TIME.get(each, each), node) for each, node in operations]
        self._problems += _refuse_unsupported(query, operations, execution, tokens)
        self._refuse_bytes(query, tokens, reader.bytes_as_text)
        self._refuse_state_in_transactions(query, tokens, operations, execution)
        self._warn_of_comment(query, tokens)
        self._warn_of_packages(query.path, called_functions(root))
        self._refuse_unknown_columns(query, tokens, reader.unknown_columns)
        is_known = not self._refuse_unknown_functions(query, tokens, root)
        self._leave_names_to_spark(query, tokens, reader, is_known)
        certain = not (is_pipe or reader.unreadable or reader.unknown_columns)
        if certain and rows.is_stream and rows.columns is not None:
            self._judge_columns(rows.columns)
        if certain and not any(each.reason == "SinkColumns" for each in self._problems):
            self._warn_of_columns(query.path, rows.columns or ())
        if certain and (swallowed := find_swallowed(root)):
            message = (
                ": by default from_json makes nulls of a record that is not JSON, or has another "
                f"type, and {swallowed.by} without a word: give map('mode', 'FAILFAST') as its "
                "third argument, with deadLetters to go on without such records, or look for them "
                "with IS NULL or _corrupt_record"
            )
            place = _place(swallowed.node, query, tokens)
            self._problems.append(
                _problem("BadRecordsVanish", query.path, place, message, "warning")
            )
        self._judge_functions(called_functions(root))

    def _refuse_bytes(self, text: SqlText, tokens: list[Token], found: list[exp.Expr]) -> None:
        if "spark.sql.ansi.enabled" in self._spec.spark_conf:
            return
        for node in found[:1]:
            given = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
            name = _excerpt(given)
            said = (
                f": {_excerpt(node)} takes text, and {name} is BINARY: write CAST({name} AS "
                f"STRING) in place of {name}"
            )
            self._problems.append(
                _problem("InvalidSql", text.path, _place(node, text, tokens), said)
            )

    def _refuse_state_in_transactions(
        self,
        text: SqlText,
        tokens: list[Token],
        operations: Sequence[tuple[Operation, exp.Expr]],
        execution: Execution,
    ) -> None:
        """A task has to write all that it has read; the driver asks Spark's plan the same."""
        if not self._spec.sink.exactly_once:
            return
        for operation, node in operations:
            if operation in op.WITH_STATE and operation.supported_by(execution):
                said = (
                    ": sink.kafka.delivery ExactlyOnce is not possible, because the query keeps "
                    f"state ({operation.description}: {_excerpt(node)}): remove it, or use "
                    "AtLeastOnce"
                )
                place = _place(node, text, tokens)
                self._problems.append(_problem("ExactlyOnceImpossible", text.path, place, said))
                return

    def _warn_of_comment(self, text: SqlText, tokens: list[Token]) -> None:
        """YAML's > makes one line of a text, and then a comment hides what follows it."""
        sql = text.text.strip()
        last = text.text[tokens[-1].end + 1 :].strip() if tokens else ""
        hidden = _SQL_WORD.search(last)
        if "\n" not in sql and last.startswith("--") and hidden:
            self._problems.append(
                Problem(
                    "CommentedOut",
                    f"{text.path}: the text is one line, so that {hidden[0].upper()} and all else "
                    "behind -- is a comment: write sql: | and not >, which makes one line of "
                    "several",
                    "warning",
                )
            )

    def _warn_of_packages(self, path: str, called: frozenset[str]) -> None:
        spec = self._spec
        if spec.image is not None or spec.dependencies.jars or spec.dependencies.packages:
            return
        for kind in ("avro", "protobuf"):
            for name in sorted(
                called & {f"from_{kind}", f"to_{kind}"} - self._function_types.keys()
            ):
                said = (
                    f"{path}: {name} needs a package that Penstock's image does not have: name "
                    f"org.apache.spark:spark-{kind}_2.13:4.2.0 in spec.dependencies.packages, or "
                    "an image that has it"
                )
                self._problems.append(Problem("DependencyDoubtful", said, "warning"))

    def _warn_of_columns(self, path: str, columns: Columns) -> None:
        found = {
            "SinkColumns": find_dropped_columns(columns, self._spec.sink),
            "SinkRouting": find_routing_warnings(columns, self._spec.sink)
            if self._spec.source.kafka is not None
            else [],
        }
        for reason, warnings in found.items():
            self._problems += [Problem(reason, f"{path}: {each}", "warning") for each in warnings]

    def _judge_functions(self, called: frozenset[str]) -> None:
        """Judges the functions that the query calls, and those that they call.

        Spark inlines a function where it is called. Of the others it checks only, when it creates
        them, that their bodies can be the bodies of functions.
        """
        declared = {
            each.name.lower(): (i, each) for i, each in enumerate(self._transform.functions)
        }
        seen: set[str] = set()
        pending = [name for name in declared if name in called]
        while pending:
            name = pending.pop(0)
            if name in seen:
                continue
            seen.add(name)
            called = self._judge_body(*declared[name])
            pending += [each for each in declared if each in called]
        for name in declared.keys() - seen:
            self._judge_body(*declared[name], is_called=False)

    def _judge_body(self, i: int, function: SqlFunction, is_called: bool = True) -> frozenset[str]:
        """Judges the body of a function, and returns the names of those that it calls."""
        body = SqlText(
            f"spec.transform.functions[{i}].expression", f"SELECT {function.expression}", 7
        )
        try:
            tokens = tokenize(body, self._tokens_left)
            self._tokens_left -= len(tokens)
            root = parse(body, tokens)
        except UnreadableText as error:
            self._problems.append(_left_to_spark(body.path, str(error), error.place))
            return frozenset()
        if isinstance(root, exp.Select):
            reader = QueryReader(self._source, self._function_types)
            parameters = tuple(
                replace(value_of_declared(each.type), name=each.name, event_time=None)
                for each in function.parameters
            )
            reader.read_body(function.name, root, parameters)
            operations = [each for each in reader.operations if is_called or each[0] in IN_FUNCTION]
            self._problems += _refuse_unsupported(body, operations, self._execution, tokens)
            self._refuse_unknown_columns(body, tokens, reader.unknown_columns, parameters)
            is_known = not self._refuse_unknown_functions(body, tokens, root)
            self._leave_names_to_spark(body, tokens, reader, is_known)
        return called_functions(root)

    def _leave_names_to_spark(
        self, text: SqlText, tokens: list[Token], reader: QueryReader, functions_known: bool
    ) -> None:
        """Says so at the first name of a kind; of a field, if no name before it is wrong.

        An unknown function has no fields either.
        """
        for node in reader.unreadable[:1]:
            why = "IDENTIFIER stands for a name that Spark resolves"
            self._problems.append(_left_to_spark(text.path, why, _place(node, text, tokens)))
        is_first = functions_known and not reader.unknown_columns
        for name in reader.unknown_structs[:1] if is_first else ():
            why = f"the text does not show which fields the struct of {_excerpt(name.node)} has"
            self._problems.append(_left_to_spark(text.path, why, _place(name.node, text, tokens)))

    def _refuse_unknown_columns(
        self,
        text: SqlText,
        tokens: list[Token],
        unknown: Sequence[UnknownName],
        known: Columns | None = None,
    ) -> None:
        reported: set[str] = set()
        for each in unknown:
            node = each.node
            name = node.sql(dialect="spark")
            if name.lower() in reported:
                continue
            reported.add(name.lower())
            where = "the query has" if known is None else "the function has"
            columns = each.beside or (self._source if known is None else known)
            message = f": {where} no column {name} here{_suggestion(each.name, columns or ())}"
            place = _place(node, text, tokens)
            self._problems.append(_problem("UnknownColumn", text.path, place, message))

    def _refuse_trailing_comma(self, text: SqlText, tokens: list[Token]) -> None:
        comma = find_trailing_comma(tokens)
        if comma is not None:
            message = ": a comma with nothing after it: remove it"
            self._problems.append(
                _problem("InvalidSql", text.path, _token_place(comma, text), message)
            )

    def _refuse_unknown_functions(self, text: SqlText, tokens: list[Token], root: exp.Expr) -> bool:
        """Parameters, which nobody binds, and functions that are neither declared nor Spark's.

        Returns whether there is such a function.
        """
        known = SPARK_FUNCTIONS | self._function_types.keys()
        reported: set[str] = set()
        for node in root.find_all(exp.Anonymous, exp.Placeholder, exp.Parameter):
            name = node.name.lower()
            if not isinstance(node, exp.Anonymous):
                message = f": {_excerpt(node)} is a parameter, and nothing gives it a value"
                place = _place(node, text, tokens)
                self._problems.append(_problem("InvalidSql", text.path, place, message))
            elif name not in known | reported | {"identifier"} and _is_call_by_name(node):
                reported.add(name)
                self._problems.append(self._unknown_function(node, text, tokens, known))
        return bool(reported)

    def _unknown_function(
        self, node: exp.Anonymous, text: SqlText, tokens: list[Token], known: Collection[str]
    ) -> Problem:
        """An error only for a misspelled name, and if Spark can have no functions but its own.

        An image, a jar and an extension may register more.
        """
        declared = [each.name for each in self._transform.functions]
        declared += [each.name for each in self._transform.java_functions]
        names = {name: name for name in known} | {name.lower(): name for name in declared}
        near = difflib.get_close_matches(node.name.lower(), names, 1, cutoff=0.8)
        spec = self._spec
        may_have_more = (
            spec.image is not None
            or bool(spec.dependencies.jars or spec.dependencies.packages)
            or any(name.startswith(_MORE_FUNCTIONS) for name in spec.spark_conf)
        )
        hint = f"did you mean {names[near[0]]}?" if near else "declare it in transform.functions"
        return _problem(
            "UnknownFunction",
            text.path,
            _place(node, text, tokens),
            f": {node.name} is neither a function of Spark nor declared: {hint}",
            "error" if near and not may_have_more else "warning",
        )


def _is_call_by_name(node: exp.Anonymous) -> bool:
    """Not with a schema before its name, and not a hint. A field of its result may follow."""
    has_schema = isinstance(node.parent, exp.Dot) and node is not node.parent.this
    return (
        not has_schema
        and not isinstance(node.parent, exp.Hint)
        and not (isinstance(node.parent, exp.Table) and bool(node.parent.db))
    )


def _suggestion(name: str, columns: Columns) -> str:
    names = [each.name for each in columns if each.name]
    near = difflib.get_close_matches(name.lower(), [each.lower() for each in names], 1)
    if near:
        return f": did you mean {next(each for each in names if each.lower() == near[0])}?"
    return f": it has {', '.join(names)}" if names else ""


def _check_statement(path: str, tokens: list[Token]) -> Problem | None:
    statements = [
        each
        for before, each in zip([None, *tokens], tokens, strict=False)
        if each.token_type is not TokenType.SEMICOLON
        and (before is None or before.token_type is TokenType.SEMICOLON)
    ]
    if not tokens:
        return Problem(
            "NotOneSelect",
            f"{path} is one comment: remove the --, and write sql: | and not >, which makes one "
            "line of several, so that all behind -- is a comment",
        )
    if len(statements) != 1:
        return Problem(
            "NotOneSelect", f"{path} takes one SELECT, not {len(statements)}: keep only one"
        )
    word = statements[0].text.upper()
    if word not in _QUERY_WORDS:
        return Problem(
            "NotOneSelect",
            f"{path} takes one SELECT over the view source, not {word}: select the rows to write, "
            f"and name their destination in spec.sink",
        )
    return None


def _refuse_unsupported(
    text: SqlText,
    operations: Iterable[tuple[Operation, exp.Expr]],
    execution: Execution,
    tokens: list[Token],
) -> list[Problem]:
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
        _problem(
            "UnsupportedOperation",
            text.path,
            _place(node, text, tokens),
            _message(operation, node, execution, alternatives),
        )
        for operation, node in reversed(unsupported.values())
    ]


def _message(
    operation: Operation, node: exp.Expr, execution: Execution, alternatives: list[Execution]
) -> str:
    remedy = operation.remedy
    if alternatives and (remedy == REMOVE_IT or operation in op.WITH_ALTERNATIVES):
        remedy += f", or use {_nearest(alternatives, execution)}"
    return (
        f": {execution} does not support {operation.name} "
        f"({operation.description}: {_excerpt(node)}), because "
        f"{reason_for_refusal(operation, execution)}: {remedy}"
    )


def _nearest(alternatives: list[Execution], execution: Execution) -> Execution:
    """The first alternative of the same mode, or else the first of all."""
    same_mode = [each for each in alternatives if each.mode is execution.mode]
    return (same_mode or alternatives)[0]


def _place(node: exp.Expr, text: SqlText, tokens: list[Token]) -> Place | None:
    """The line and column of a node: as the parser noted them, or of the first token like it."""
    noted = next((each for each in _leftmost(node) if "start" in each.meta), None)
    token = None
    if "start" in node.meta and "hint" not in {each.arg_key for each in _with_parents(node)}:
        token = next((each for each in tokens if each.start == node.meta["start"]), None)
    elif isinstance(node, exp.Column) and noted is not None:
        token = next((each for each in tokens if each.start == noted.meta["start"]), None)
    else:
        word = re.match(r"\w+|\S", _text_of(node))
        wanted = "" if word is None else word.group().upper()
        token = next((each for each in tokens if each.text.upper().split()[:1] == [wanted]), None)
    if token is None:
        return None
    return _token_place(token, text)


def _token_place(token: Token, text: SqlText) -> Place:
    return Place(token.line, text.column(token.line, token.col - (token.end - token.start)))


def _leftmost(node: exp.Expr) -> list[exp.Expr]:
    return list(node.parts) if isinstance(node, exp.Column) else [node]


def _with_parents(node: exp.Expr) -> list[exp.Expr]:
    nodes: list[exp.Expr] = []
    current: exp.Expr | None = node
    while current is not None:
        nodes.append(current)
        current = current.parent
    return nodes


def _text_of(node: exp.Expr) -> str:
    """The node as SQL; only its kind if it nests too deep for that."""
    try:
        return " ".join(node.sql(dialect="spark").split())
    except RecursionError:
        return node.key.upper()


def _excerpt(node: exp.Expr) -> str:
    text = _text_of(node)
    if len(text) <= _MAX_EXCERPT_LENGTH:
        return text
    return f"{text[: _MAX_EXCERPT_LENGTH - 3]}..."
