"""A query counts as stateless only where that is certain."""

from typing import Any

import pytest

from penstock.sql.stateful import may_keep_state
from testkit.streams.streams import spec

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
        ({**MICRO_BATCH, "transform": {"java": {"className": "a.B"}}}, True),
        ({"transform": {"java": {"className": "a.B"}}}, False),
        ({"transform": {"python": {"function": "a:b"}}}, False),
    ],
)
def test_whether_a_query_may_keep_state(fields: dict[str, Any], expected: bool) -> None:
    """The executors of one that does must be able to write to the checkpoint."""
    assert may_keep_state(spec(**fields)) is expected
