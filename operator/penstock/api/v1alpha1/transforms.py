"""What happens to each record."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from penstock.api.predicates import ValidationRule, not_together
from penstock.api.v1alpha1.base import (
    ClassName,
    Duration,
    Identifier,
    PythonFunction,
    SpecObject,
)

SOURCE_VIEW = "source"
"""The name under which SQL reads the source."""
_BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


def _twice(names: list[str]) -> str | None:
    """The first name that stands there before, in any case of letters."""
    return next(
        (name for n, name in enumerate(names) if name.lower() in map(str.lower, names[:n])), None
    )


class FunctionParameter(SpecObject):
    """A parameter of a SQL function."""

    name: Identifier = Field(description="The parameter's name.", examples=["paymentId"])
    type: str = Field(
        min_length=1,
        max_length=1024,
        description="The parameter's Spark SQL type.",
        examples=["BIGINT"],
    )


class SqlFunction(SpecObject):
    """A Spark SQL function. Spark inlines it, so that it runs at native speed in every mode."""

    name: Identifier = Field(
        description="The function's name in SQL.", examples=["isPaymentFlagged"]
    )
    parameters: list[FunctionParameter] = Field(
        [], max_length=64, description="The parameters, in order. Default: none."
    )
    returns: str = Field(
        min_length=1,
        max_length=1024,
        description="The Spark SQL type of the result.",
        examples=["BOOLEAN"],
    )

    @field_validator("parameters")
    @classmethod
    def _one_parameter_a_name(cls, parameters: list[FunctionParameter]) -> list[FunctionParameter]:
        repeated = _twice([parameter.name for parameter in parameters])
        if repeated is not None:
            raise ValueError(f"two parameters are named {repeated}: rename one")
        return parameters

    expression: str = Field(
        min_length=1,
        max_length=16384,
        description="A Spark SQL expression over the parameters.",
        examples=["paymentId % 100 = 7"],
    )


class JavaFunction(SpecObject):
    """A Java or Scala user-defined function (org.apache.spark.sql.api.java.UDF0 ... UDF22)."""

    name: Identifier = Field(description="The function's name in SQL.")
    class_name: ClassName = Field(
        description="The class, in the image or in spec.dependencies.",
        examples=["com.example.IsPaymentFlagged"],
    )
    returns: str | None = Field(
        None,
        min_length=1,
        max_length=1024,
        description="The Spark SQL type of the result. Default: what the class declares.",
    )


class PythonTransform(PythonFunction):
    """A Python function that takes the DataFrame of the source and returns another."""


class Watermark(SpecObject):
    """How late records may be. Spark closes windows and drops state after that time."""

    column: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        description="The column of `source` that holds the event time, a timestamp.",
        examples=["timestamp"],
    )
    delay: Duration = Field(
        description="How late a record may be, as a number and a unit.", examples=["3 seconds"]
    )


class JavaTransform(SpecObject):
    """A Java or Scala class that maps the source's rows (Dataset<Row>) to others."""

    class_name: ClassName = Field(
        description="A public class, in the image or in spec.dependencies, that implements "
        "java.util.function.Function<Dataset<Row>, Dataset<Row>> and has a public constructor "
        "without arguments.",
        examples=["com.example.Payments"],
    )


class Transform(SpecObject):
    """What happens to each record."""

    rules = (
        ValidationRule(
            not_together("sql", "python", "java"),
            "sql, python and java exclude each other: keep one. A function in Python or Java can "
            "call spark.sql",
        ),
    )

    @model_validator(mode="after")
    def _one_function_a_name(self) -> Transform:
        """Spark ignores the case of names, and would keep the last one without a word."""
        names = [function.name for function in self.functions]
        names += [function.name for function in self.java_functions]
        repeated = _twice(names)
        if repeated is not None:
            raise ValueError(
                f"two functions are named {repeated}: rename one. Spark ignores the case of letters"
            )
        return self

    sql: str | None = Field(
        None,
        min_length=1,
        max_length=65536,
        description=(
            "One SELECT over the view `source`. Continuous mode takes map-like operations only: "
            "projections and filters. Default: records pass unchanged."
        ),
        examples=["SELECT key, value FROM source WHERE value IS NOT NULL"],
    )
    functions: list[SqlFunction] = Field(
        [],
        max_length=64,
        description="Spark SQL functions that `sql`, `python` and `java` can call.",
        json_schema_extra=_BY_NAME,  # type: ignore[arg-type]
    )
    java_functions: list[JavaFunction] = Field(
        [],
        max_length=64,
        description="Java functions that `sql`, `python` and `java` can call, at native speed.",
        json_schema_extra=_BY_NAME,  # type: ignore[arg-type]
    )
    python: PythonTransform | None = Field(
        None,
        description="A Python function that takes a DataFrame and returns one. What it builds of "
        "Spark's own expressions runs at native speed. In continuous mode a Python UDF in it holds "
        "records until the epoch ends.",
    )
    java: JavaTransform | None = Field(
        None,
        description="A Java or Scala class that takes a Dataset and returns one. It can call map, "
        "flatMap and mapPartitions, which continuous mode takes as well.",
    )
    deterministic: bool = Field(
        False,
        description="Your promise that functions of your own, in Python or Java, give the same "
        "result for the same input, in whatever order the records of a key come. A query with "
        "state and sink.kafka.delivery ExactlyOnce needs it if it calls one. Default: false.",
    )
    watermark: Watermark | None = Field(
        None,
        description="A watermark on `source`, for aggregates in micro-batch mode.",
    )
