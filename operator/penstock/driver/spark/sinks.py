"""The options of Spark's data source for the spec's sink."""

from __future__ import annotations

from pathlib import Path

from penstock.api.v1alpha1 import Sink
from penstock.driver.kafka.security import security_options

_KAFKA_DEFAULTS = {"kafka.linger.ms": "0"}


def sink_options(sink: Sink, secrets: Path) -> tuple[str, dict[str, str]]:
    """The sink's format and options."""
    if sink.kafka is not None:
        kafka = sink.kafka
        options = {
            **_KAFKA_DEFAULTS,
            **kafka.options,
            **security_options(kafka, secrets),
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
        }
        return "kafka", options if kafka.topic is None else {**options, "topic": kafka.topic}
    if sink.console is not None:
        options = {
            "numRows": str(sink.console.num_rows),
            "truncate": str(sink.console.truncate).lower(),
        }
        return "console", options
    if sink.noop is not None:
        return "noop", {}
    if sink.memory is not None:
        return "memory", {}
    if sink.custom is not None:
        return sink.custom.format, dict(sink.custom.options)
    raise ValueError("spec.sink has no sink")
