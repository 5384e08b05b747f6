"""Specs for tests: small, valid, and easy to spoil."""

import copy
from typing import Any

from penstock.api.v1alpha1 import StreamSpec

RATE_TO_CONSOLE: dict[str, Any] = {
    "source": {"rate": {}},
    "sink": {"console": {}},
    "trigger": {"continuous": {"checkpointInterval": "1s"}},
}

KAFKA_TO_KAFKA: dict[str, Any] = {
    "source": {"kafka": {"bootstrapServers": "kafka.kafka:9092", "topics": ["payments"]}},
    "transform": {
        "functions": [
            {
                "name": "isPaymentFlagged",
                "parameters": [{"name": "paymentId", "type": "BIGINT"}],
                "returns": "BOOLEAN",
                "expression": "paymentId % 100 = 7",
            }
        ],
        "sql": "SELECT key, value FROM source "
        "WHERE isPaymentFlagged(CAST(CAST(key AS STRING) AS BIGINT))",
    },
    "sink": {"kafka": {"bootstrapServers": "kafka.kafka:9092", "topic": "flags"}},
    "trigger": {"continuous": {"checkpointInterval": "1 second"}},
}


def changed(spec: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with the field at the dotted path set, or removed where the value is `...`."""
    result = copy.deepcopy(spec)
    *parents, last = path.split(".")
    at = result
    for step in parents:
        at = at.setdefault(step, {})
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return result


def spec(**fields: Any) -> StreamSpec:
    """The rate-to-console spec with some top-level fields set."""
    return StreamSpec.model_validate({**RATE_TO_CONSOLE, **fields})
