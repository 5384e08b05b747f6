"""Finds what a stream's mode or sink does not support in its SQL, before any driver is started.

Names of columns, fields and functions, and types of expressions, are left to Spark's analyzer in
the driver. So is text that the parser cannot read, since a wrong refusal would be worse than a late
one; that is reported as not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.api.modes import EXECUTIONS, Execution, Mode, execution_of
from penstock.api.problem import NOT_JUDGED, Problem, Severity
from penstock.api.v1alpha1 import SqlFunction, StreamSpec
from penstock.api.v1alpha1.transforms import SOURCE_VIEW
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
from penstock.sql.differing_calls import find_differing_call
from penstock.sql.event_time import EventTime, find_event_time
from penstock.sql.function_operations import called_functions
from penstock.sql.query_columns import ColumnReader
from penstock.sql.query_operations import QueryReader
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
from penstock.sql.supported_operations import (
    IN_FUNCTION,
    PIPE,
    REMOVE_IT,
    Operation,
    reason_for_refusal,
)

# The first words of a query; any other statement would run as a command in the driver.
_QUERY_WORDS = ("SELECT", "WITH", "FROM", "TABLE", "VALUES", "(", "MAP", "REDUCE")
_MAX_EXCERPT_LENGTH = 60
# Words that a comment at the end of a text has if it hides a part of the query.
_SQL_WORD = re.compile(
    r"\b(from|where|and|or|group by|having|order by|limit|union|(left |inner )?join)\b",
    re.IGNORECASE,
)
# Functions that SQL calls without parentheses. A column of the same name hides them.
_TIMES = ("current_date", "current_timestamp", "current_time")


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
    message = (
        f": {why}. So Penstock does not judge it: Spark does when the driver plans the query, or "
        "now with `penstock validate --spark`"
    )
    return _problem(NOT_JUDGED, path, place, message, "notice")


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
        self._others = _possible(spec)
        self._watermark = (
            None if spec.transform.watermark is None else spec.transform.watermark.column
        )
        self._source = source_columns(spec.source)
        names = [function.name for function in spec.transform.functions]
        names += [function.name for function in spec.transform.java_functions]
        self._own_functions = frozenset(name.lower() for name in names)
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
        columns = {str(column.name).lower(): column for column in self._source}
        column = columns.get(name.lower())
        if column is None:
            self._watermark_is_unknown = True
            yield Problem(
                "UnknownColumn",
                f"spec.transform.watermark.column: the source has no column {name}: it has "
                f"{', '.join(str(it.name) for it in self._source)}. For a time that the query "
                f"reads from the value, remove transform.watermark, and write FROM (SELECT ...) "
                f"WATERMARK {name} DELAY OF INTERVAL 1 MINUTE in transform.sql, or call "
                "withWatermark in transform.python",
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
        names = [column.name or "" for column in self._source]
        kept = passed_columns(names, self._spec.sink)
        columns = [column for column in self._source if kept is None or column.name in kept]
        self._judge_columns(tuple(columns), ", since the source passes unchanged")

    def _judge_columns(self, columns: Columns, suffix: str = "") -> None:
        self._problems += [
            Problem("SinkColumns", f"{problem}{suffix}")
            for problem in find_column_problems(columns, self._spec.sink)
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
        marked = {tokens[watermark.first + 1].text.lower() for watermark in watermarks}
        reader = QueryReader(self._own_functions, self._event_time(root, marked), self._times(root))
        rows = reader.read(root)
        operations = reader.operations
        is_pipe = any(token.token_type is TokenType.PIPE_GT for token in tokens)
        if is_pipe:
            operations = [(PIPE, root), *operations]
        execution = self._execution
        if watermarks:
            execution = replace(execution, watermark=True, by_clause=self._watermark is None)
            operations.append((op.WATERMARK, exp.var(tokens[watermarks[0].first].text)))
        self._problems += _refuse_unsupported(query, operations, execution, tokens, self._others)
        columns = ColumnReader(self._source, self._own_functions)
        made = columns.read(root, {})
        self._refuse_bytes(query, tokens, columns.bytes_as_text)
        self._refuse_state_in_transactions(query, root, tokens, operations, execution)
        self._warn_of_comment(query, tokens)
        self._warn_of_packages(query.path, called_functions(root))
        self._leave_names_to_spark(query, tokens, reader)
        certain = not (is_pipe or reader.unreadable)
        if certain and rows.is_stream and made is not None:
            self._judge_columns(made)
        if certain and not any(problem.reason == "SinkColumns" for problem in self._problems):
            self._warn_of_columns(query.path, made or ())
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

    def _event_time(self, root: exp.Expr, marked: set[str]) -> EventTime:
        """What may carry the watermark of the spec or of a clause; without one, what could."""
        if self._watermark is not None:
            is_plain = self._watermark.isidentifier() and not self._watermark_is_unknown
            columns = {self._watermark.lower()} if is_plain else None
        elif self._source is None:
            columns = None
        else:
            columns = {str(column.name) for column in self._source if column.type == "timestamp"}
        return replace(
            find_event_time(root, None if columns is None else columns | marked),
            by_clause=bool(marked),
        )

    def _times(self, root: exp.Expr) -> frozenset[str]:
        """The functions without parentheses that certainly no column hides."""
        ctes = {cte.alias.lower() for cte in root.find_all(exp.CTE)}
        tables = {
            table.name.lower()
            for table in root.find_all(exp.Table)
            if not (isinstance(table.this, exp.Anonymous) and table.this.name.lower() == "range")
        }
        if self._source is None or tables - ctes - {SOURCE_VIEW}:
            return frozenset()
        named = {
            each.name.lower()
            for each in root.find_all(exp.Identifier, exp.Literal)
            if not isinstance(each.parent, exp.Column)
        }
        return frozenset(each for each in _TIMES if not any(each in name for name in named))

    def _refuse_bytes(self, text: SqlText, tokens: list[Token], nodes: list[exp.Expr]) -> None:
        if "spark.sql.ansi.enabled" in self._spec.spark_conf:
            return
        for node in nodes[:1]:
            given = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
            name = _excerpt(given)
            message = (
                f": {_excerpt(node)} takes text, and {name} is BINARY: write CAST({name} AS "
                f"STRING) in place of {name}"
            )
            self._problems.append(
                _problem("InvalidSql", text.path, _place(node, text, tokens), message)
            )

    def _refuse_state_in_transactions(
        self,
        text: SqlText,
        root: exp.Expr,
        tokens: list[Token],
        operations: Sequence[tuple[Operation, exp.Expr]],
        execution: Execution,
    ) -> None:
        """Without batches a task has to write all that it has read, and a batch with state has to
        make the same rows again; the driver asks Spark's plan the same.
        """
        if not self._spec.sink.exactly_once:
            return
        state = next(
            (it for it in operations if it[0] in op.WITH_STATE and it[0].supported_by(execution)),
            None,
        )
        if state is None:
            return
        operation, node = state
        why = (
            f"the query keeps state ({operation.description}: {_excerpt(node)}): use "
            "trigger.microBatch, or AtLeastOnce"
        )
        if not self._spec.trigger.mode.has_long_running_tasks:
            call = find_differing_call(root, self._own_functions)
            if call is None:
                return
            node = call.node
            why = (
                "a batch that runs again has to make the same rows, and "
                f"{_excerpt(node)} {call.why}: write it otherwise, or use AtLeastOnce"
            )
        message = f": sink.kafka.delivery ExactlyOnce is not possible, because {why}"
        place = _place(node, text, tokens)
        self._problems.append(_problem("ExactlyOnceImpossible", text.path, place, message))

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
            for name in sorted(called & {f"from_{kind}", f"to_{kind}"} - self._own_functions):
                message = (
                    f"{path}: {name} needs a package that Penstock's image does not have: name "
                    f"org.apache.spark:spark-{kind}_2.13:4.2.0 in spec.dependencies.packages, or "
                    "an image that has it"
                )
                self._problems.append(Problem("DependencyDoubtful", message, "warning"))

    def _warn_of_columns(self, path: str, columns: Columns) -> None:
        by_reason = {
            "SinkColumns": find_dropped_columns(columns, self._spec.sink),
            "SinkRouting": find_routing_warnings(columns, self._spec.sink)
            if self._spec.source.kafka is not None
            else [],
        }
        for reason, warnings in by_reason.items():
            self._problems += [
                Problem(reason, f"{path}: {warning}", "warning") for warning in warnings
            ]

    def _judge_functions(self, called: frozenset[str]) -> None:
        """Judges the functions that the query calls, and those that they call.

        Spark inlines a function where it is called. Of the others it checks only, when it creates
        them, that their bodies can be the bodies of functions.
        """
        declared = {
            function.name.lower(): (i, function)
            for i, function in enumerate(self._transform.functions)
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
            parameters = {parameter.name.lower() for parameter in function.parameters}
            times = frozenset(_TIMES) - parameters
            reader = QueryReader(self._own_functions, EventTime(None), times)
            reader.read_body(root)
            operations = [each for each in reader.operations if is_called or each[0] in IN_FUNCTION]
            self._problems += _refuse_unsupported(
                body, operations, self._execution, tokens, self._others
            )
            self._leave_names_to_spark(body, tokens, reader)
        return called_functions(root)

    def _leave_names_to_spark(
        self, text: SqlText, tokens: list[Token], reader: QueryReader
    ) -> None:
        """Says so at the first name that an expression computes."""
        for node in reader.unreadable[:1]:
            why = "IDENTIFIER stands for a name that Spark resolves"
            self._problems.append(_left_to_spark(text.path, why, _place(node, text, tokens)))

    def _refuse_trailing_comma(self, text: SqlText, tokens: list[Token]) -> None:
        comma = find_trailing_comma(tokens)
        if comma is not None:
            message = ": a comma with nothing after it: remove it"
            self._problems.append(
                _problem("InvalidSql", text.path, _token_place(comma, text), message)
            )


def _check_statement(path: str, tokens: list[Token]) -> Problem | None:
    statements = [
        token
        for before, token in zip([None, *tokens], tokens, strict=False)
        if token.token_type is not TokenType.SEMICOLON
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
    others: Sequence[Execution],
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
        for each in others
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
    """The first alternative of the same mode, or else of the same kind of mode, or of all."""
    mode = execution.mode
    same = [it for it in alternatives if it.mode is mode]
    alike = [
        it for it in alternatives if mode.has_long_running_tasks is it.mode.has_long_running_tasks
    ]
    return (same or alike or alternatives)[0]


def _possible(spec: StreamSpec) -> tuple[Execution, ...]:
    """The executions that the spec's source and sink allow (api/v1alpha1/mode_rules.py)."""
    source, sink = spec.source, spec.sink
    in_real_time = sink.kafka or sink.console or sink.memory
    is_possible = source.kafka and in_real_time
    return tuple(it for it in EXECUTIONS if is_possible or it.mode is not Mode.REAL_TIME)


def _place(node: exp.Expr, text: SqlText, tokens: list[Token]) -> Place | None:
    """The line and column of a node: as the parser noted them, or of the first token like it."""
    noted = next((each for each in _leftmost(node) if "start" in each.meta), None)
    token = None
    if "start" in node.meta and "hint" not in {parent.arg_key for parent in _with_parents(node)}:
        token = next((token for token in tokens if token.start == node.meta["start"]), None)
    elif isinstance(node, exp.Column) and noted is not None:
        token = next((token for token in tokens if token.start == noted.meta["start"]), None)
    else:
        word = re.match(r"\w+|\S", _text_of(node))
        first_word = "" if word is None else word.group().upper()
        token = next(
            (token for token in tokens if token.text.upper().split()[:1] == [first_word]), None
        )
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
