"""The Java or Scala class of a stream's transform: loaded, checked, and called with a Dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.api.v1alpha1.transforms import JavaTransform
from penstock.driver.failures import DriverError, Failure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REASON = "JavaTransformFailed"
_FUNCTION = "java.util.function.Function"
_DATASET = "org.apache.spark.sql.Dataset"
# Exceptions of the module system and of reflection when a class cannot be loaded or linked.
_NOT_LOADED = ("java.lang.ClassNotFoundException", "java.lang.NoClassDefFoundError")


def apply_java(transform: JavaTransform, source: DataFrame) -> DataFrame:
    """The DataFrame that the class makes of the source.

    Raises DriverError if the class does not fit or throws an exception of its own, and leaves
    Spark's exceptions as they are. The class runs while the query is planned, before any record is
    read, so its messages can be shown.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import DataFrame

    spark = source.sparkSession
    function = _instance(spark._jvm, spark._sc._gateway, transform.class_name)
    try:
        made: Any = function.apply(source._jdf)
    except Py4JJavaError as error:  # Spark's AnalysisException is a CapturedException, not this
        raise _thrown(transform.class_name, error.java_exception) from error
    if not _is_a(spark._jvm, _DATASET, made) or not made.isStreaming():
        raise _failure(
            f"{transform.class_name} must return a streaming Dataset made of the one that it gets"
        )
    return DataFrame(made.toDF(), spark)


def _instance(jvm: Any, gateway: Any, name: str) -> Any:
    from py4j.protocol import Py4JJavaError

    try:
        # The loader that knows spec.dependencies; Class.forName would ask Py4J's own.
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        java_class = jvm.java.lang.Class.forName(name, True, loader)
    except Py4JJavaError as error:
        thrown = error.java_exception
        if thrown.getClass().getName() not in _NOT_LOADED:
            raise _thrown(name, thrown) from error
        missing = str(thrown.getMessage()).replace("/", ".")
        needs = "" if missing == name else f", which {name} needs,"
        raise _failure(
            f"the class {missing}{needs} is not on the class path: put its jar into the image or "
            "into spec.dependencies, or correct spec.transform.java.className"
        ) from error
    if not jvm.java.lang.Class.forName(_FUNCTION).isAssignableFrom(java_class):
        raise _failure(
            f"{name} does not implement {_FUNCTION}: implement Function<Dataset<Row>, Dataset<Row>>"
        )
    modifiers = jvm.java.lang.reflect.Modifier
    constructors = [each for each in java_class.getConstructors() if each.getParameterCount() == 0]
    is_open = modifiers.isPublic(java_class.getModifiers())
    if not constructors or not is_open or modifiers.isAbstract(java_class.getModifiers()):
        raise _failure(
            f"{name} has no public constructor without arguments: make the class public and not "
            "abstract, and add one"
        )
    try:
        return constructors[0].newInstance(gateway.new_array(jvm.java.lang.Object, 0))
    except Py4JJavaError as error:
        raise _thrown(name, error.java_exception) from error


def _is_a(jvm: Any, class_name: str, value: Any) -> bool:
    from py4j.java_gateway import JavaObject

    return isinstance(value, JavaObject) and bool(
        jvm.java.lang.Class.forName(class_name).isInstance(value)
    )


def _thrown(name: str, throwable: Any) -> DriverError:
    """The failure for an exception of the class: the same class would throw it again."""
    if throwable.getClass().getName() == "java.lang.reflect.InvocationTargetException":
        throwable = throwable.getCause()
    frames = [each for each in throwable.getStackTrace() if each.getClassName().startswith(name)]
    where = f" ({frames[0].getFileName()}, line {frames[0].getLineNumber()})" if frames else ""
    lines = str(throwable.getMessage() or "").splitlines()[:1]
    words = ": ".join([throwable.getClass().getName(), *lines])
    return _failure(f"{name} failed: {words}{where}")


def _failure(message: str) -> DriverError:
    return DriverError(Failure(_REASON, message, permanent=True))
