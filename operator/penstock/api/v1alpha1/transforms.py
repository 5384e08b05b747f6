"""What happens to each record."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from penstock.api.rules import Rule
from penstock.api.v1alpha1.base import Duration, Identifier, KeyRef, SpecObject

_BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


class FunctionParameter(SpecObject):
    """A parameter of a SQL function."""

    name: Identifier = Field(description="The parameter's name.", examples=["paymentId"])
    type: str = Field(
        min_length=1, max_length=1024, description="Its Spark SQL type.", examples=["BIGINT"]
    )


class SqlFunction(SpecObject):
    """A Spark SQL function. Spark inlines it, so it runs at native speed in every mode."""

    name: Identifier = Field(
        description="The name the SQL calls it by.", examples=["isPaymentFlagged"]
    )
    parameters: list[FunctionParameter] = Field(
        [], max_length=64, description="Its parameters in order. Default: none."
    )
    returns: str = Field(
        min_length=1,
        max_length=1024,
        description="The Spark SQL type of its result.",
        examples=["BOOLEAN"],
    )
    expression: str = Field(
        min_length=1,
        max_length=16384,
        description="A Spark SQL expression over its parameters.",
        examples=["paymentId % 100 = 7"],
    )


class JavaFunction(SpecObject):
    """A Java or Scala user-defined function (org.apache.spark.sql.api.java.UDF0 ... UDF22)."""

    name: Identifier = Field(description="The name the SQL calls it by.")
    class_name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_$][A-Za-z0-9_.$]{0,511}$")] = (
        Field(
            description="Its class, in the image or in spec.dependencies.",
            examples=["com.example.IsPaymentFlagged"],
        )
    )
    returns: str | None = Field(
        None,
        min_length=1,
        max_length=1024,
        description="The Spark SQL type of its result. Default: what the class declares.",
    )


class PythonTransform(SpecObject):
    """A Python function that takes the DataFrame of the source and returns another."""

    rules = (
        Rule(
            cel="!(has(self.inline) && has(self.configMap))",
            message="inline and configMap exclude each other: keep one",
            holds=lambda it: it.inline is None or it.config_map is None,
        ),
    )
    function: Annotated[
        str,
        StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,253}:[A-Za-z_][A-Za-z0-9_]{0,127}$"),
    ] = Field(
        description="module:function. The module comes from the image unless inline or configMap "
        "gives its text.",
        examples=["transforms:clean"],
    )
    inline: str | None = Field(
        None, min_length=1, max_length=65536, description="The module's text."
    )
    config_map: KeyRef | None = Field(
        None, description="A ConfigMap's key that holds the module's text."
    )


class Watermark(SpecObject):
    """How late records may be, so that Spark can close windows and forget state."""

    column: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        description="The event time: a timestamp column of `source`.", examples=["timestamp"]
    )
    delay: Duration = Field(
        description="How late a record may be: a number and a unit.", examples=["3 seconds"]
    )


class Transform(SpecObject):
    """What happens to each record on its way."""

    rules = (
        Rule(
            cel="!(has(self.sql) && has(self.python))",
            message="sql and python exclude each other: call spark.sql in the Python function, or "
            "keep one",
            holds=lambda it: it.sql is None or it.python is None,
        ),
    )
    sql: str | None = Field(
        None,
        min_length=1,
        max_length=65536,
        description=(
            "One SELECT over the view `source`. In continuous mode only map-like operations: "
            "projections and filters. Default: records pass unchanged."
        ),
        examples=["SELECT key, value FROM source WHERE value IS NOT NULL"],
    )
    functions: list[SqlFunction] = Field(
        [],
        max_length=64,
        description="Spark SQL functions that `sql` may call.",
        json_schema_extra=_BY_NAME,  # type: ignore[arg-type]
    )
    java_functions: list[JavaFunction] = Field(
        [],
        max_length=64,
        description="Java functions that `sql` may call, at native speed.",
        json_schema_extra=_BY_NAME,  # type: ignore[arg-type]
    )
    python: PythonTransform | None = Field(
        None,
        description="A Python function over DataFrames. What it builds of Spark's own expressions "
        "runs at native speed; a Python UDF in it holds records until the epoch ends.",
    )
    watermark: Watermark | None = Field(
        None,
        description="A watermark on `source`, for aggregates in micro-batch mode.",
    )
