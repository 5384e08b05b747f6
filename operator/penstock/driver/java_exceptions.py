"""Reads exceptions of the JVM through Py4J into the values that failures.py classifies."""

from __future__ import annotations

from typing import Any

from penstock.driver.failures import DriverError, ExceptionInfo, Failure, classify

_MAX_CAUSES = 20


def classify_exception(error: BaseException) -> Failure:
    """The failure behind any Python exception, from the JVM or not."""
    if isinstance(error, DriverError):
        return error.failure
    throwable = _throwable(error)
    return classify(read_chain(throwable) if throwable is not None else _python_chain(error))


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
    return ExceptionInfo(
        classes=tuple(classes),
        message=throwable.getMessage() or "",
        condition=throwable.getCondition() if has_condition else None,
    )


def _python_chain(error: BaseException) -> list[ExceptionInfo]:
    chain: list[ExceptionInfo] = []
    current: BaseException | None = error
    while current is not None and len(chain) < _MAX_CAUSES:
        classes = tuple(f"{each.__module__}.{each.__qualname__}" for each in type(current).__mro__)
        chain.append(ExceptionInfo(classes, str(current)))
        current = current.__cause__
    return chain
