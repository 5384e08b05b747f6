"""The SQL functions' statements, and the columns that pass without a transform, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.driver.spark.transforms import create_function
from penstock.sql.columns import passed_columns
from testkit.streams.streams import CONSOLE, kafka_sink, stream


@pytest.mark.parametrize(
    ("sink", "passed"),
    [
        # `topic` or `partition` would send records back to their own topic.
        (kafka_sink(), ["key", "value"]),
        (CONSOLE, None),
    ],
)
def test_passed_columns(sink: dict[str, Any], passed: list[str] | None) -> None:
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert passed_columns(columns, stream(sink=sink).spec.sink) == passed


def test_functions_are_plain_sql() -> None:
    flagged = {
        "name": "isPaymentFlagged",
        "parameters": [{"name": "paymentId", "type": "BIGINT"}],
        "returns": "BOOLEAN",
        "expression": "paymentId % 100 = 7",
    }
    spec = stream(transform={"functions": [flagged]}).spec
    assert create_function(spec.transform.functions[0]) == (
        "CREATE OR REPLACE TEMPORARY FUNCTION isPaymentFlagged(paymentId BIGINT) "
        "RETURNS BOOLEAN RETURN paymentId % 100 = 7"
    )
