"""Reads exceptions of Python, and through Py4J those of the JVM, into chains of causes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.driver.record_position import Position
from penstock.driver.secret_values import redact

_MAX_CAUSES = 20
# Frames of a task, and of what waits for its job. Spark throws the exception of a task again on the
# driver, without an exception of its own, and adds the frames of the caller to the trace
# (DAGScheduler.runJob, 4.2): so the task may be anywhere in it.
_OF_TASKS = (
    "org.apache.spark.executor.Executor$TaskRunner",
    "org.apache.spark.scheduler.DAGScheduler",
)
# Confluent's schema registry answers with an error.
REGISTRY_CLIENT = "io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException"
_DATABASE = "dev.penstock.spark.jdbc.DatabaseException"
_JDBC = "java.sql.SQLException"
# Its exceptions have no trace on purpose (ApiException.fillInStackTrace).
_KAFKA = "org.apache.kafka."
# Of the conditions that from_json fails with (malformed_records.py). fieldName may be the key of a
# map in the record, and is compared with the query's own names before it is shown.
_HARMLESS_PARAMETERS = ("fieldName", "jsonType", "dataType", "targetType", "precision", "scale")
# What a reader of connector/ adds to the exception of its task, as a suppressed one.
_FAILED_RECORD = "dev.penstock.spark.FailedRecord"


@dataclass(frozen=True)
class ExceptionInfo:
    """One exception in a chain of causes."""

    classes: tuple[str, ...]
    """Its class and the superclasses, fully qualified, nearest first."""
    message: str
    condition: str | None = None
    """Spark's error condition, such as UNRESOLVED_COLUMN.WITH_SUGGESTION, if it has one."""
    sql_state: str | None = None
    """The condition's SQLSTATE, if it has one, or that of a database."""
    thrown_by: str = ""
    """The class whose method threw it; empty if unknown."""
    in_task: bool = False
    """Thrown in a task, about a task, or at an unknown place: its message may quote a record."""
    http_status: int | None = None
    """The status that a schema registry has answered with."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Those of the condition that name a field or a type, and quote no record."""
    in_hand: Position | None = None
    """Of the record that the task had read last, and was to process, when it failed."""


def read_chain(throwable: Any) -> list[ExceptionInfo]:
    """A Throwable and its causes, outermost first."""
    chain: list[ExceptionInfo] = []
    while throwable is not None and len(chain) < _MAX_CAUSES:
        chain.append(_exception_info(throwable))
        throwable = throwable.getCause()
    return chain


def _throwable(error: BaseException) -> Any | None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    if isinstance(error, Py4JJavaError):
        return error.java_exception
    if isinstance(error, CapturedException):
        return error._origin
    return None


def _exception_info(throwable: Any) -> ExceptionInfo:
    classes = []
    a_class = throwable.getClass()
    # SparkThrowable is an interface; every class that implements it has the method.
    has_condition = False
    while a_class is not None:
        classes.append(a_class.getName())
        has_condition = has_condition or any(
            interface.getName() == "org.apache.spark.SparkThrowable"
            for interface in a_class.getInterfaces()
        )
        a_class = a_class.getSuperclass()
    frames = [frame.getClassName() for frame in throwable.getStackTrace()]
    top = frames[0] if frames else ""
    return ExceptionInfo(
        classes=tuple(classes),
        message=redact(throwable.getMessage() or ""),
        condition=throwable.getCondition() if has_condition else None,
        sql_state=_sql_state(throwable, classes, has_condition=has_condition),
        thrown_by=top,
        in_task=any(name.startswith(_OF_TASKS) for name in frames)
        or not (frames or classes[0].startswith(_KAFKA)),
        parameters=_parameters(throwable) if has_condition else {},
        http_status=throwable.getStatus() if REGISTRY_CLIENT in classes else None,
        in_hand=_in_hand(throwable),
    )


def _sql_state(throwable: Any, classes: list[str], *, has_condition: bool) -> str | None:
    if has_condition or _DATABASE in classes:
        return throwable.getSqlState()  # type: ignore[no-any-return]
    return throwable.getSQLState() if _JDBC in classes else None


def _parameters(throwable: Any) -> dict[str, str]:
    given = throwable.getMessageParameters()
    return {name: str(given.get(name)) for name in _HARMLESS_PARAMETERS if given.get(name)}


def _in_hand(throwable: Any) -> Position | None:
    # The last one: code may throw the same exception again and again.
    for added in reversed(list(throwable.getSuppressed())):
        if added.getClass().getName() == _FAILED_RECORD:
            return Position(str(added.topic()), int(added.partition()), int(added.offset()))
    return None


def read_python_chain(error: BaseException) -> list[ExceptionInfo]:
    chain: list[ExceptionInfo] = []
    current: BaseException | None = error
    while current is not None and len(chain) < _MAX_CAUSES:
        throwable = _throwable(current)
        if throwable is not None:
            return [*chain, *read_chain(throwable)]
        chain.append(ExceptionInfo(python_classes(current), redact(str(current))))
        current = current.__cause__
    return chain


def python_classes(error: BaseException) -> tuple[str, ...]:
    return tuple(f"{a_class.__module__}.{a_class.__qualname__}" for a_class in type(error).__mro__)
