"""Judges the Python functions of a stream from their texts: syntax, the function, UDFs of a
transform.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import replace

from penstock.api.modes import Mode
from penstock.api.problem import NOT_JUDGED, Problem
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.base import PythonFunction
from penstock.api.v1alpha1.sinks import PythonSink
from penstock.api.v1alpha1.transforms import PythonTransform

_TRANSFORM = "spec.transform.python"
_SINK = "spec.sink.python"
_INLINE = f"{_TRANSFORM}.inline"
# What makes Spark run Python for records (pyspark.sql.functions, DataFrame, GroupedData, catalog).
_UDF_NAMES = frozenset(
    ("udf", "pandas_udf", "arrow_udf", "udtf", "arrow_udtf", "mapInPandas", "mapInArrow",
     "applyInPandas", "applyInPandasWithState", "applyInArrow", "transformWithState",
     "transformWithStateInPandas")
)  # fmt: skip
# Modules that cannot bring a UDF that this text does not show.
_PURE_MODULES = frozenset(
    ("pyspark", "__future__", "typing", "collections", "datetime", "functools", "itertools", "json",
     "math", "os", "re")
)  # fmt: skip
_SLOW = (
    "in trigger.continuous a Python or pandas UDF holds records until the epoch ends (measured: "
    "526 ms with epochs of 1 s; native expressions take a few milliseconds; no Arrow setting "
    "helps, and trigger.realTime refuses such UDFs). Spark's own expressions in the function are "
    "not slowed down. Native alternatives: an expression in transform.sql, transform.functions, "
    "transform.javaFunctions, transform.java"
)
_REFUSED = (
    "trigger.realTime refuses Python and pandas UDFs when its first batch is planned. Native "
    "alternatives: an expression in transform.sql, transform.functions, transform.javaFunctions, "
    "transform.java"
)


def judge_python(spec: StreamSpec) -> list[Problem]:
    """Judges the Python texts of transform and sink, without running them."""
    transform, sink = spec.transform.python, spec.sink.python
    problems: list[Problem] = []
    if transform is not None and transform.inline is not None:
        problems += _judge_text(spec, _TRANSFORM, transform)
    elif transform is not None:
        problems += _warn_unseen(spec, transform)
    if sink is not None and sink.inline is not None:
        problems += _judge_text(spec, _SINK, sink)
    elif sink is not None:
        problems.append(_not_judged(_unseen(_SINK, sink)))
    return problems


def _judge_text(spec: StreamSpec, field: str, python: PythonFunction) -> list[Problem]:
    assert python.inline is not None
    try:
        tree = ast.parse(python.inline)
        problems = list(_judge_function(tree, field, python))
        if not any(problem.severity == "error" for problem in problems):
            problems += _judge_writes(tree, field, python.function.partition(":")[2])
        return problems if field == _SINK else [*problems, *_warn_of_udf(spec, tree)]
    except (SyntaxError, ValueError) as error:  # ValueError: null bytes, integers of 5,000 digits
        return [_unreadable(spec, field, error)]
    except (RecursionError, MemoryError):  # CPython's parser raises MemoryError for deep text
        return [_not_judged(f"{field}.inline nests too deep")]


def _unreadable(spec: StreamSpec, field: str, error: SyntaxError | ValueError) -> Problem:
    line, column, words = 0, 0, str(error)
    if isinstance(error, SyntaxError):
        line, column, words = error.lineno or 0, error.offset or 1, error.msg
    place = f", line {line}, column {column}" if line else ""
    if spec.image is not None:  # an image of the user's own may have a newer Python
        why = f"{field}.inline{place}: the Python of this program cannot read it ({words})"
        return replace(_not_judged(why), text_line=line, text_column=column)
    message = f"{field}.inline{place}: {words}"
    return Problem("PythonFailed", message, text_line=line, text_column=column)


def _not_judged(why: str) -> Problem:
    return Problem(
        NOT_JUDGED, f"{why}. So Penstock does not judge it: the driver runs it", "notice"
    )


def _judge_function(tree: ast.Module, field: str, python: PythonFunction) -> Iterator[Problem]:
    """Why the module certainly has no function that takes a DataFrame and returns one; for a sink,
    that takes a DataFrame and the batch.
    """
    name = python.function.partition(":")[2]
    members = _Members(tree)
    if name not in members.names:
        if members.is_certain:
            near = difflib.get_close_matches(name, members.names, 1)
            listed = f": did you mean {near[0]}?" if near else _listed(members.names)
            yield Problem(
                "PythonFailed", f"{field}.function: the text of inline has no {name}{listed}"
            )
        return
    functions = members.functions.get(name, [])
    if len(functions) != 1 or members.count(name) != 1 or functions[0].decorator_list:
        return
    (function,) = functions
    place = f"{field}.inline, line {function.lineno}: {name}"
    arguments = "one argument, the DataFrame of the source"
    if is_sink := isinstance(python, PythonSink):
        arguments = "two arguments, the DataFrame of a batch's rows, and the batch"
    if not _takes(2 if is_sink else 1, function.args):
        yield Problem("PythonFailed", f"{place} must take {arguments}")
    elif is_sink:
        yield from _warn_of_ignored_errors(function, place)
        if isinstance(function, ast.AsyncFunctionDef) or _yields(function):
            yield Problem(
                "PythonFailed",
                f"{place} must not be async or yield: a call of such a function runs nothing of it",
            )
    elif isinstance(function, ast.AsyncFunctionDef):
        yield Problem("PythonFailed", f"{place} must not be async: it returns a DataFrame")
    elif not _returns(function):
        yield Problem("PythonFailed", f"{place} returns nothing: it must return a DataFrame")


def _warn_of_ignored_errors(
    function: ast.FunctionDef | ast.AsyncFunctionDef, place: str
) -> Iterator[Problem]:
    """Of a handler for any exception with no raise in it or behind it."""
    nodes = list(_walk(function.body, into_functions=False))
    last_raise = max((node.lineno for node in nodes if isinstance(node, ast.Raise)), default=0)
    for node in nodes:
        if not isinstance(node, ast.ExceptHandler) or not _takes_any_error(node.type):
            continue
        if node.lineno > last_raise:
            yield Problem(
                "BatchErrorIgnored",
                f"{place} goes on after any exception (line {node.lineno}). If that is one of the "
                "write, the batch counts as written, and its rows do not come again: end the "
                "handler with raise",
                "warning",
                text_line=node.lineno,
                text_column=node.col_offset + 1,
            )
            return


def _takes_any_error(caught: ast.expr | None) -> bool:
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(
        name is None or (isinstance(name, ast.Name) and name.id in ("Exception", "BaseException"))
        for name in names
    )


RETURN_THE_ROWS = (
    "return the rows, and name their destination in spec.sink. To write each batch with a "
    "function, as foreachBatch does, use spec.sink.python"
)
_WRITE_THE_BATCH = "write the rows of the batch that the function gets, with rows.write"


def _judge_writes(tree: ast.Module, field: str, name: str) -> Iterator[Problem]:
    """Why the module certainly starts a query of its own, as a program for spark-submit does."""
    what, instead = "returns the DataFrame", RETURN_THE_ROWS
    if field == _SINK:
        what, instead = "writes a batch", _WRITE_THE_BATCH
    for node in _walk(_running(tree, name), into_functions=False):
        if isinstance(node, ast.Attribute) and node.attr in ("writeStream", "foreachBatch"):
            yield Problem(
                "PythonFailed",
                f"{field}.inline, line {node.lineno}: the function {what}, and Penstock "
                f"starts the query, so {node.attr} cannot be used here: {instead}",
                text_line=node.lineno,
                text_column=node.col_offset + 1,
            )
            return


def _running(tree: ast.Module, name: str) -> list[ast.stmt]:
    """The statements that run when the module is loaded and the function is called; not the end of
    a program (`if __name__ == "__main__"`).
    """
    statements: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            statements += statement.body
        elif not (isinstance(statement, ast.If) and _compares_name(statement.test)):
            statements.append(statement)
    return statements


def _compares_name(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and any(
        isinstance(part, ast.Name) and part.id == "__name__"
        for part in (test.left, *test.comparators)
    )


class _Members:
    """The names that a module certainly or possibly has."""

    def __init__(self, tree: ast.Module) -> None:
        self.names: dict[str, int] = {}
        self.functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self.is_certain = True
        """False if names can come from elsewhere, such as a star import."""
        for node in _walk(tree.body, into_functions=False):
            self._add(node)

    def count(self, name: str) -> int:
        """How often the text binds the name."""
        return self.names.get(name, 0)

    def _add(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._bind(node.name)
                self.functions.setdefault(node.name, []).append(node)
            case ast.ClassDef():
                self._bind(node.name)
            case ast.Name(ctx=ast.Store()):
                self._bind(node.id)
            case ast.Name(id="globals" | "exec" | "setattr" | "vars" | "locals" | "eval"):
                self.is_certain = False
            case ast.alias():
                self.is_certain = self.is_certain and node.name != "*"
                self._bind(node.asname or node.name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                self._bind(name)
            case ast.Global():
                self.is_certain = False

    def _bind(self, name: str) -> None:
        self.names[name] = self.names.get(name, 0) + 1


_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def _walk(body: list[ast.stmt], into_functions: bool) -> Iterator[ast.AST]:
    """The nodes of a body, without recursion; the bodies of inner functions only if asked for."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        yield node
        if into_functions or not isinstance(node, _INNER):
            pending += ast.iter_child_nodes(node)


def _takes(count: int, arguments: ast.arguments) -> bool:
    """Whether a call with so many positional arguments fits."""
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    keywords_have_defaults = all(default is not None for default in arguments.kw_defaults)
    takes_all = arguments.vararg is not None or len(positional) >= count
    return takes_all and required <= count and keywords_have_defaults


def _returns(function: ast.FunctionDef) -> bool:
    """Whether a function may return a value, and not a generator; True if it always raises."""
    if _yields(function):
        return False
    nodes = list(_walk(function.body, into_functions=False))
    returns = [node for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    return bool(returns) or any(isinstance(node, ast.Raise) for node in nodes)


def _yields(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    nodes = _walk(function.body, into_functions=False)
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes)


def _unseen(field: str, python: PythonFunction) -> str:
    where = "a ConfigMap" if python.config_map is not None else "the image"
    return f"{field}: its text is in {where}"


def _warn_unseen(spec: StreamSpec, python: PythonTransform) -> Iterator[Problem]:
    text = _unseen(_TRANSFORM, python)
    match spec.trigger.mode:
        case Mode.CONTINUOUS:
            yield Problem("PythonInContinuousMode", f"{text}: if it has a UDF, {_SLOW}", "warning")
        case Mode.REAL_TIME:
            yield Problem("PythonInRealTimeMode", f"{text}: if it has a UDF, {_REFUSED}", "warning")
        case _:
            yield _not_judged(text)


def _warn_of_udf(spec: StreamSpec, tree: ast.Module) -> Iterator[Problem]:
    mode, kafka = spec.trigger.mode, spec.source.kafka
    if kafka is not None and kafka.dead_letters is not None:
        lines = [node.lineno for node in _walk(tree.body, into_functions=True) if _is_udf(node)]  # type: ignore[attr-defined]
        if lines:
            yield Problem(
                "DeadLettersNotPossible",
                f"{_INLINE}, line {min(lines)}: this makes a UDF, which gets many records at once, "
                "so that nobody knows which one failed: the driver refuses the query with "
                "spec.source.kafka.deadLetters: remove them, or use Spark's own expressions",
                "warning",
            )
    if mode not in (Mode.CONTINUOUS, Mode.REAL_TIME):
        return
    nodes = list(_walk(tree.body, into_functions=True))
    line = min((node.lineno for node in nodes if _is_udf(node)), default=None)  # type: ignore[attr-defined]
    what = f"{_INLINE}, line {line}: this makes a UDF, and " if line is not None else ""
    if line is None:
        foreign = sorted(set(_foreign_modules(nodes)))
        if not foreign:
            return
        what = f"{_INLINE}: it imports {', '.join(foreign)}, which may bring a UDF, and "
    if mode is Mode.CONTINUOUS:
        yield Problem("PythonInContinuousMode", f"{what}{_SLOW}", "warning")
    else:
        yield Problem("PythonInRealTimeMode", f"{what}{_REFUSED}", "warning")


def _is_udf(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
            return name.rpartition(".")[2] in _UDF_NAMES
    return False


def _foreign_modules(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Import():
                roots = [name.name.partition(".")[0] for name in node.names]
            case ast.ImportFrom(module=str(module)):
                roots = [module.partition(".")[0]]
            case _:
                continue
        yield from (root for root in roots if root not in _PURE_MODULES)


def _listed(names: dict[str, int]) -> str:
    return f": it has {', '.join(sorted(names)[:10])}" if names else ""
