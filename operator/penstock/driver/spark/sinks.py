"""The options of Spark's data source for the spec's sink."""

from __future__ import annotations

from pathlib import Path

from penstock.api.v1alpha1 import Sink
from penstock.driver.kafka.security import security_options
from penstock.driver.spark.custom import custom_sink
from penstock.driver.spark.sources import KAFKA

# The data source in connector/, package jdbc.
PENSTOCK_JDBC = "penstock-jdbc"
_KAFKA_DEFAULTS = {"kafka.linger.ms": "0"}


def sink_options(sink: Sink, secrets: Path, kafka: str = KAFKA) -> tuple[str, dict[str, str]]:
    """The sink's format and options; `kafka` is the data source for Kafka."""
    if sink.kafka is not None:
        options = {
            **_KAFKA_DEFAULTS,
            **sink.kafka.options,
            **security_options(sink.kafka, secrets),
            "kafka.bootstrap.servers": sink.kafka.bootstrap_servers,
        }
        topic = {} if sink.kafka.topic is None else {"topic": sink.kafka.topic}
        return kafka, {**options, **topic}
    if sink.jdbc is not None:
        return PENSTOCK_JDBC, {}  # sink_table.py has them
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
        return custom_sink(sink.custom, secrets)
    raise ValueError("spec.sink has no data source")
