"""The schemas that a query reads JSON with, from Spark's plan: also those of Python and Java."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.driver.exceptions.malformed_records import SchemaField

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


def fields_of(frame: DataFrame) -> frozenset[SchemaField]:
    """The fields of all schemas of from_json in a plan, also the nested ones."""
    from pyspark.sql.types import StructType

    jvm: Any = frame.sparkSession._jvm
    pattern = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.JSON_TO_STRUCT()
    java: Any = frame._jdf
    pending = [java.queryExecution().analyzed()]
    fields: set[SchemaField] = set()
    while pending:
        node = pending.pop()
        if not node.containsPattern(pattern):
            continue
        if node.getClass().getSimpleName() == "JsonToStructs":
            field = {"name": "", "type": json.loads(node.schema().json()), "nullable": True}
            fields |= set(_fields(StructType.fromJson({"fields": [{**field, "metadata": {}}]})))
        pending += [*_sequence(node.children()), *_expressions(node)]
    return frozenset(field for field in fields if field.name)


def _expressions(node: Any) -> list[Any]:
    """Those of an operator of the plan; an expression has children only."""
    try:
        return _sequence(node.expressions())
    except Exception:  # Py4J: there is no such method
        return []


def _fields(of_type: DataType) -> Iterator[SchemaField]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    match of_type:
        case StructType():
            for field in of_type:
                yield SchemaField(field.name, field.dataType.simpleString().upper())
                yield from _fields(field.dataType)
        case ArrayType():
            yield from _fields(of_type.elementType)
        case MapType():
            yield from _fields(of_type.valueType)


def _sequence(of_scala: Any) -> list[Any]:
    return [of_scala.apply(i) for i in range(of_scala.length())]
