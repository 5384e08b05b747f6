"""The function of sink.python, which Spark calls with each batch (foreachBatch).

The call comes by Py4J, in a thread of this process. While the function runs, nothing else shows
whether the batch advances; and when it fails, the JVM knows no more of it than a text.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.environment import Environment
from penstock.driver.exceptions.chain import ExceptionInfo, read_python_chain
from penstock.driver.exceptions.classify import classify, classify_exception
from penstock.driver.exceptions.malformed_records import SchemaField
from penstock.driver.exceptions.python_traceback import ERRORS_OF_CODE, place_of
from penstock.driver.failures import Failure
from penstock.driver.secret_values import redacted_output, values_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REASON = "PythonSinkFailed"
_SQL_STATE = re.compile("[0-9A-Z]{5}")
# Attributes of a database's exceptions: of psycopg, and of psycopg2.
_SQL_STATES = ("sqlstate", "pgcode")
# Of the time between two looks. One that only waits, with a look at a clock now and then, takes
# less processor time, and one that computes or sends takes more.
_WORKS = 0.1


class Batch(int):
    """What the function gets beside the rows: the batch's number, and whose it is.

    A number, as Spark gives it to a function of foreachBatch.
    """

    # So that it is pickled by value where a function hands it to tasks.
    __module__ = "__main__"

    stream: str
    namespace: str
    generation: int
    """Of the checkpoint. Another one may have another batch with this number."""
    options: Mapping[str, str]
    """Those of the spec, with the values of Secrets."""


class FunctionFailedError(Exception):
    """The function has raised an exception, of which this one quotes and keeps nothing."""


class BatchFunction:
    """The function, as one query calls it."""

    def __init__(
        self,
        function: Callable[[DataFrame, Batch], object],
        stream: ContinuousStream,
        environment: Environment,
        *,
        keeps_state: bool,
        fields: Collection[SchemaField] = (),
    ) -> None:
        """`fields`: of the schemas that the query reads records with."""
        sink = stream.spec.sink.python
        assert sink is not None
        self._function = function
        self._file = _file_of(function)
        self._sink = sink
        self._stream = stream
        self._environment = environment
        self._keeps_state = keeps_state
        self._fields = fields
        self._values: dict[str, str] = {}
        self._thread: int | None = None
        """In which it runs now."""
        self._clock = 0
        """That of the thread's processor time."""
        self._look: tuple[object, float, float] | None = None
        """The newest: where it stood, and when, by both clocks."""
        self._steps = 0
        self._connection: Any = None
        self.failure: Failure | None = None
        """Why the query ends."""

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Raises FunctionFailedError if the function raises any exception."""
        client = rows.sparkSession.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
        self._connection = client.get_thread_connection()
        # macOS has none for a thread.
        clock_of = getattr(time, "pthread_getcpuclockid", lambda thread: -1)
        self._clock = clock_of(threading.get_ident())
        self._thread = threading.get_ident()
        try:
            failure = self._write(rows, number)
        finally:
            self._thread = self._look = None
        if failure is not None:
            self.failure = failure
            # Where no exception is being handled: else this one would keep that, with all rows in
            # its frames, as long as Py4J keeps this function.
            raise FunctionFailedError(failure.message)

    def close(self) -> None:
        """Ends the thread that has called it, after its query: Py4J would let it wait for ever."""
        with contextlib.suppress(OSError, AttributeError):  # it has ended
            self._connection.socket.shutdown(socket.SHUT_RDWR)

    def steps(self) -> int:
        """How often a look has found that it works: it stands elsewhere in its own file than at the
        look before, in any thread, or has computed.
        """
        threads, now = sys._current_frames(), time.monotonic()
        threads.pop(threading.get_ident(), None)  # which looks
        if self._thread not in threads:
            self._look = None
            return self._steps
        used = self._processor_time()
        stands_at = [(it, it.f_lasti) for each in threads.values() for it in self._own(each)]
        if self._look is not None:
            stood_at, at, had_used = self._look
            self._steps += stands_at != stood_at or used - had_used > _WORKS * (now - at)
        self._look = stands_at, now, used
        return self._steps

    def stands_at(self) -> str | None:
        """File, line and function of its own file; None while it does not run."""
        innermost = None if self._thread is None else sys._current_frames().get(self._thread)
        for frame in self._own(innermost):
            return place_of(self._file, frame.f_lineno, frame.f_code.co_name)
        return None

    def _own(self, innermost: FrameType | None) -> list[FrameType]:
        """The calls of the function's own file that are under way, innermost first."""
        own, frame = [], innermost
        while frame is not None:
            if frame.f_code.co_filename == self._file:
                own.append(frame)
            frame = frame.f_back
        return own

    def _processor_time(self) -> float:
        try:
            return time.clock_gettime(self._clock)
        except OSError:  # there is none, or the thread has ended
            return 0.0

    def _write(self, rows: DataFrame, number: int) -> Failure | None:
        """Why the batch is not written."""
        if not self._keeps_state:
            return self._call(rows, number)
        # All rows are made, once. Otherwise Spark writes no state for a partition that the function
        # does not read, and cannot commit the batch (StateStoreWriter, "CheckpointInfo length",
        # 4.3); and it makes state and rows again each time that they are read.
        rows.persist()
        try:
            # Another DataFrame, whose unpersist() leaves this one.
            failure = self._call(rows.select("*"), number)
            if failure is None:
                rows.count()
        except Exception as error:
            failure = classify_exception(error)
        finally:
            rows.unpersist()
        return failure

    def _call(self, rows: DataFrame, number: int) -> Failure | None:
        output = redacted_output() if self._sink.secret_options else contextlib.nullcontext()
        try:
            with output:
                result = self._function(rows, self._batch(number))
        except BaseException as error:  # also SystemExit, which would end only this thread
            return failure_of(error, self._sink.function, self._file, self._fields)
        if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
            name = self._sink.function
            message = f"{name} must not be async or a generator: a call of it runs nothing of it."
            return Failure(_REASON, message, permanent=True, recoverable=True)
        return None

    def _batch(self, number: int) -> Batch:
        # A Secret that is gone may come back: what it held counts until then.
        self._values |= values_of(self._sink.secret_options, self._environment.secrets)
        batch = Batch(number)
        batch.stream = self._stream.metadata.name
        batch.namespace = self._stream.metadata.namespace
        batch.generation = self._stream.spec.checkpoint.generation
        batch.options = {**self._sink.options, **self._values}
        return batch


def failure_of(
    error: BaseException, function: str, file: str, fields: Collection[SchemaField] = ()
) -> Failure:
    """The failure for an exception of the function, whose code is in `file`. Never raises.

    It is not known what the function did when it raised it, and messages of databases and parsers
    quote rows. So it shows the exception's class, where it was raised, and an SQLSTATE; only what
    Spark says of a task's exception is known to be harmless.
    """
    try:
        return _failure_of(error, function, file, fields)
    except Exception:  # of a method of the exception, or the JVM has ended
        return Failure(_REASON, f"{function} raised an exception.")


def _failure_of(
    error: BaseException, function: str, file: str, fields: Collection[SchemaField]
) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    own = [place_of(it.filename, it.lineno, it.name) for it in frames if it.filename == file][-1:]
    chain = read_python_chain(error)
    if any(exception.in_task for exception in chain):
        failure = classify(chain, reads_ahead=True, fields=fields)
        message = " ".join([failure.message, *(f"{function} was at {place}." for place in own)])
        return replace(failure, message=message)
    raised = [place_of(it.filename, it.lineno, it.name) for it in frames[-1:]]
    name, states = type(error).__qualname__, [getattr(error, it, None) for it in _SQL_STATES]
    if any("java.lang.Throwable" in exception.classes for exception in chain):
        raised = []  # in Py4J
        name, states = _name_in_java(chain), [it.sql_state for it in chain]
    told = (it for it in states if isinstance(it, str) and _SQL_STATE.fullmatch(it))
    state = "".join(f" (SQLSTATE {it})" for it in list(told)[:1])
    where = "".join(f", in {place}" for place in dict.fromkeys(own + raised))
    is_of_code = name in ERRORS_OF_CODE
    return Failure(
        _REASON,
        f"{function} raised {name}{state}{where}.",
        permanent=is_of_code,
        recoverable=is_of_code,
    )


def _name_in_java(chain: list[ExceptionInfo]) -> str:
    cause = next((it for it in reversed(chain) if it.condition), chain[-1])
    return cause.condition or cause.classes[0]


def _file_of(function: Any) -> str:
    """Where a function, a decorated or partial one, or a callable object has its code."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__code__"):
        function = getattr(type(function), "__call__", None)  # noqa: B004 - not whether it can
    code = getattr(function, "__code__", None)
    return code.co_filename if code is not None else ""
