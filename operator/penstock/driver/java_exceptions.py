"""Reads exceptions of the JVM through Py4J into the values that failures.py classifies."""

from __future__ import annotations

from typing import Any

from penstock.driver.failures import DriverError, ExceptionInfo, Failure, classify

_MAX_CAUSES = 20
# A task runs in the lowest frames of its thread: TaskRunner, the thread pool and the thread itself.
_LOWEST_FRAMES = 8
# The scheduler's own exception about a task repeats the task's message.
_OF_TASKS = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.Task",
    "org.apache.spark.scheduler.DAGScheduler",
)


def classify_exception(error: BaseException) -> Failure:
    """The failure behind any Python exception, from the JVM or not. Never raises.

    The JVM may exit while its exception is read: then the class of the Python exception decides.
    """
    if isinstance(error, DriverError):
        return error.failure
    try:
        return classify(_read_python_chain(error))
    except Exception:
        # Its text may contain the JVM's stack trace, and with it a record.
        return classify([ExceptionInfo(_classes(error), "")])


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
            each.getName() == "org.apache.spark.SparkThrowable" for each in a_class.getInterfaces()
        )
        a_class = a_class.getSuperclass()
    frames = throwable.getStackTrace()
    count = len(frames)
    top = frames[0].getClassName() if count else ""
    lowest = [frames[n].getClassName() for n in range(max(0, count - _LOWEST_FRAMES), count)]
    return ExceptionInfo(
        classes=tuple(classes),
        message=throwable.getMessage() or "",
        condition=throwable.getCondition() if has_condition else None,
        thrown_by=top,
        in_task=any(name.startswith(_OF_TASKS) for name in (top, *lowest)),
    )


def _read_python_chain(error: BaseException) -> list[ExceptionInfo]:
    chain: list[ExceptionInfo] = []
    current: BaseException | None = error
    while current is not None and len(chain) < _MAX_CAUSES:
        throwable = _throwable(current)
        if throwable is not None:
            return [*chain, *read_chain(throwable)]
        chain.append(ExceptionInfo(_classes(current), str(current)))
        current = current.__cause__
    return chain


def _classes(error: BaseException) -> tuple[str, ...]:
    return tuple(f"{each.__module__}.{each.__qualname__}" for each in type(error).__mro__)
