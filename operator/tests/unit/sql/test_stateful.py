"""A query is taken for stateless only where that is certain."""

from typing import Any

import pytest

from penstock.sql.stateful import may_keep_state
from testkit.streams.specs import spec

MICRO_BATCH: dict[str, Any] = {"trigger": {"microBatch": {}}}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        (MICRO_BATCH, False),
        ({"trigger": {"availableNow": {}}}, False),
        ({**MICRO_BATCH, "transform": {"sql": "SELECT upper(value) AS v FROM source"}}, False),
        ({**MICRO_BATCH, "transform": {"sql": "SELECT count(*) AS n FROM source"}}, True),
        ({**MICRO_BATCH, "transform": {"sql": "SELECT DISTINCT value FROM source"}}, True),
        ({**MICRO_BATCH, "transform": {"sql": "SELECT (( what is this"}}, True),
        ({**MICRO_BATCH, "transform": {"python": {"function": "a:b"}}}, True),
        (
            {**MICRO_BATCH, "transform": {"watermark": {"column": "timestamp", "delay": "3s"}}},
            True,
        ),
        ({"transform": {"python": {"function": "a:b"}}}, False),
    ],
)
def test_state(fields: dict[str, Any], expected: bool) -> None:
    """Its executors have to be able to write into the checkpoint."""
    assert may_keep_state(spec(**fields)) is expected
