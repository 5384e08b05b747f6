"""The transform: functions registered with the session, then SQL, Python or Java."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1 import SqlFunction, StreamSpec
from penstock.api.v1alpha1.transforms import PythonTransform, Transform
from penstock.driver.failures import DriverError, Failure
from penstock.driver.spark import user_python
from penstock.driver.spark.java_transform import apply_java
from penstock.driver.spark.sinks import passed_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE_VIEW = "source"


def create_function(function: SqlFunction) -> str:
    """The statement that registers a function with the session."""
    parameters = ", ".join(f"{each.name} {each.type}" for each in function.parameters)
    return (
        f"CREATE OR REPLACE TEMPORARY FUNCTION {function.name}({parameters}) "
        f"RETURNS {function.returns} RETURN {function.expression}"
    )


def transformed(spark: SparkSession, source: DataFrame, spec: StreamSpec, texts: Path) -> DataFrame:
    """The source with the spec's transform applied. SQL, Python and Java can call the functions."""
    transform = spec.transform
    if transform.watermark is not None:
        delay = f"{milliseconds(transform.watermark.delay)} milliseconds"
        source = source.withWatermark(transform.watermark.column, delay)
    source.createOrReplaceTempView(SOURCE_VIEW)
    _register(spark, transform)
    if transform.sql is not None:
        return spark.sql(transform.sql)
    if transform.python is not None:
        return _by_python(transform.python, source, texts)
    if transform.java is not None:
        return apply_java(transform.java, source)
    kept = passed_columns(source.columns, spec.sink)
    return source if kept is None else source.select(*kept)


def _register(spark: SparkSession, transform: Transform) -> None:
    for java in transform.java_functions:
        spark.udf.registerJavaFunction(java.name, java.class_name, java.returns)
    for function in transform.functions:
        spark.sql(create_function(function))


def _by_python(transform: PythonTransform, source: DataFrame, texts: Path) -> DataFrame:
    from py4j.protocol import Py4JError
    from pyspark.errors.exceptions.captured import CapturedException
    from pyspark.sql import DataFrame

    function = user_python.load_function(transform, texts)
    try:
        made: Any = function(source)
    except (CapturedException, Py4JError):
        raise  # Spark's own exception
    except Exception as error:
        raise user_python.failed(error, transform.function) from error
    if not isinstance(made, DataFrame) or not made.isStreaming:
        raise DriverError(
            Failure(
                "PythonFailed",
                f"{transform.function} must return a streaming DataFrame made of the one that it "
                f"gets, not {type(made).__name__}",
                permanent=True,
            )
        )
    return made
