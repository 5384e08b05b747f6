"""The transform: functions registered with the session, then SQL, Python or Java."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1 import SqlFunction, StreamSpec
from penstock.api.v1alpha1.transforms import (
    SOURCE_VIEW,
    JavaTransform,
    PythonTransform,
    Transform,
)
from penstock.driver.background_threads import repeat_in_background
from penstock.driver.exceptions.chain import read_chain, read_python_chain
from penstock.driver.failures import DriverError, Failure
from penstock.driver.spark import user_python
from penstock.sql.columns import passed_columns
from penstock.validation.python_functions import RETURN_THE_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FUNCTION = "java.util.function.Function"
_DATASET = "org.apache.spark.sql.Dataset"
# What Class.forName throws for a class that is missing, or that needs a missing one.
_NOT_LOADED = ("java.lang.ClassNotFoundException", "java.lang.NoClassDefFoundError")
_LOOK_SECONDS = 0.1


def create_function(function: SqlFunction) -> str:
    """The statement that registers a function with the session."""
    parameters = ", ".join(
        f"{parameter.name} {parameter.type}" for parameter in function.parameters
    )
    return (
        f"CREATE OR REPLACE TEMPORARY FUNCTION {function.name}({parameters}) "
        f"RETURNS {function.returns} RETURN {function.expression}"
    )


def apply_transform(
    spark: SparkSession, source: DataFrame, spec: StreamSpec, texts: Path
) -> DataFrame:
    """The source with the transform applied. SQL, Python and Java can call the functions."""
    transform = spec.transform
    if transform.watermark is not None:
        delay = f"{milliseconds(transform.watermark.delay)} milliseconds"
        source = source.withWatermark(transform.watermark.column, delay)
    source.createOrReplaceTempView(SOURCE_VIEW)
    _register(spark, transform)
    if transform.sql is not None:
        return spark.sql(transform.sql)
    if transform.python is not None:
        with _no_query_of_its_own(spark, "PythonFailed", transform.python.function):
            return _by_python(transform.python, source, texts)
    if transform.java is not None:
        with _no_query_of_its_own(spark, "JavaTransformFailed", transform.java.class_name):
            return _by_java(transform.java, source)
    kept = passed_columns(source.columns, spec.sink)
    return source if kept is None else source.select(*kept)


def _register(spark: SparkSession, transform: Transform) -> None:
    for java in transform.java_functions:
        spark.udf.registerJavaFunction(java.name, java.class_name, java.returns)
    for function in transform.functions:
        spark.sql(create_function(function))


@contextlib.contextmanager
def _no_query_of_its_own(spark: SparkSession, reason: str, code: str) -> Iterator[None]:
    """Stops the queries that user code starts instead of returning the rows, and refuses it.

    They would write beside the stream's own query, from a checkpoint that is lost.
    """
    before = {query.id for query in spark.streams.active}
    started: list[str] = []

    def stop_others() -> None:
        for query in spark.streams.active:
            if query.id not in before:
                started.append(query.id)
                query.stop()

    def look() -> None:
        with contextlib.suppress(Exception):  # the user's code hears of a JVM that has ended
            stop_others()

    try:
        # Code that waits for the end of its query would never return.
        with repeat_in_background(look, _LOOK_SECONDS, "queries"):
            yield
    finally:
        stop_others()
        if started:
            raise _starts_a_query(reason, code)


def _starts_a_query(reason: str, code: str) -> DriverError:
    words = f"{code} starts a query, and Penstock starts it: {RETURN_THE_ROWS}."
    return DriverError(Failure(reason, words, permanent=True))


def _by_python(transform: PythonTransform, source: DataFrame, texts: Path) -> DataFrame:
    from py4j.protocol import Py4JError
    from pyspark.errors.exceptions.captured import CapturedException
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    function = user_python.load_function(transform, texts)
    try:
        result: Any = function(source)
    except (CapturedException, Py4JError):
        raise  # Spark's own exception
    except (Exception, SystemExit) as error:
        if any(cause.in_task for cause in read_python_chain(error)):
            raise  # it may quote what a job has read
        raise user_python.python_error(error, transform.function) from error
    if isinstance(result, StreamingQuery):  # it may have ended already
        raise _starts_a_query("PythonFailed", transform.function)
    if not isinstance(result, DataFrame) or not result.isStreaming:
        raise DriverError(
            Failure(
                "PythonFailed",
                f"{transform.function} must return a streaming DataFrame made of the one that it "
                f"gets, not {type(result).__name__}.",
                permanent=True,
            )
        )
    return result


def _by_java(transform: JavaTransform, source: DataFrame) -> DataFrame:
    """The DataFrame that the class makes of the source.

    Raises DriverError if the class does not fit or throws an exception of its own, and leaves
    Spark's exceptions as they are. The class runs while the query is planned, so its messages can
    be shown unless a job has failed.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import DataFrame

    spark = source.sparkSession
    function = _java_instance(spark._jvm, spark._sc._gateway, transform.class_name)
    try:
        result: Any = function.apply(source._jdf)
    except Py4JJavaError as error:  # Spark's AnalysisException is a CapturedException, not this
        thrown = error.java_exception
        if thrown.getClass().getName().startswith("org.apache."):
            raise  # of Spark or of Kafka's client: it may be transient
        if any(cause.in_task for cause in read_chain(thrown)):
            raise  # it may quote what a job has read
        raise _java_error(transform.class_name, thrown) from error
    if not _is_dataset(spark._jvm, result) or not result.isStreaming():
        raise _java_failure(
            f"{transform.class_name} must return a streaming Dataset made of the one that it gets"
        )
    return DataFrame(result.toDF(), spark)


def _java_instance(jvm: Any, gateway: Any, name: str) -> Any:
    from py4j.protocol import Py4JJavaError

    try:
        # The loader that knows spec.dependencies; Class.forName would ask Py4J's own.
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        java_class = jvm.java.lang.Class.forName(name, True, loader)
    except Py4JJavaError as error:
        thrown = error.java_exception
        if thrown.getClass().getName() not in _NOT_LOADED:
            raise _java_error(name, thrown) from error
        missing = str(thrown.getMessage()).replace("/", ".")
        needs = "" if missing == name else f", which {name} needs,"
        raise _java_failure(
            f"the class {missing}{needs} is not on the class path: put its jar into the image or "
            "into spec.dependencies, or correct spec.transform.java.className"
        ) from error
    if not jvm.java.lang.Class.forName(_FUNCTION).isAssignableFrom(java_class):
        raise _java_failure(
            f"{name} does not implement {_FUNCTION}: implement Function<Dataset<Row>, Dataset<Row>>"
        )
    modifiers = jvm.java.lang.reflect.Modifier
    constructors = [
        constructor
        for constructor in java_class.getConstructors()
        if constructor.getParameterCount() == 0
    ]
    is_open = modifiers.isPublic(java_class.getModifiers())
    if not constructors or not is_open or modifiers.isAbstract(java_class.getModifiers()):
        raise _java_failure(
            f"{name} has no public constructor without arguments: make the class public and not "
            "abstract, and add one"
        )
    try:
        return constructors[0].newInstance(gateway.new_array(jvm.java.lang.Object, 0))
    except Py4JJavaError as error:
        raise _java_error(name, error.java_exception) from error


def _is_dataset(jvm: Any, value: Any) -> bool:
    from py4j.java_gateway import JavaObject

    dataset = jvm.java.lang.Class.forName(_DATASET)
    return isinstance(value, JavaObject) and bool(dataset.isInstance(value))


def _java_error(name: str, throwable: Any) -> DriverError:
    """The failure for an exception of the class: the same class would throw it again."""
    if throwable.getClass().getName() == "java.lang.reflect.InvocationTargetException":
        throwable = throwable.getCause()
    frames = [frame for frame in throwable.getStackTrace() if frame.getClassName().startswith(name)]
    where = f" ({frames[0].getFileName()}, line {frames[0].getLineNumber()})" if frames else ""
    lines = str(throwable.getMessage() or "").splitlines()[:1]
    words = ": ".join([throwable.getClass().getName(), *lines])
    return _java_failure(f"{name} failed: {words}{where}")


def _java_failure(message: str) -> DriverError:
    return DriverError(Failure("JavaTransformFailed", message, permanent=True))
