"""sink.kafka.delivery ExactlyOnce with as many partitions as topics have: how long what takes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from penstock.driver.jvm import Jvm
from penstock.driver.kafka.admin import Admin
from testkit.driver.in_process_driver import running
from testkit.kafka.brokers import several_brokers
from testkit.kafka.topics import Topics
from testkit.plugins.figures import RecordFigure
from testkit.streams.streams import CONTINUOUS, kafka_to_kafka, stream
from testkit.wait import wait_for

pytestmark = [pytest.mark.full, pytest.mark.timeout(3000)]

_BATCHES: dict[str, Any] = {"trigger": {"microBatch": {"interval": "1s"}}}


@pytest.mark.proves("guarantees.md#exactly-once")
@pytest.mark.parametrize(
    ("partitions", "more"),
    [
        pytest.param(100, {"trigger": CONTINUOUS}, id="100"),
        pytest.param(100, _BATCHES, id="100 in batches"),
        pytest.param(1000, _BATCHES, id="1000 in batches"),
    ],
)
@pytest.mark.parametrize("brokers", [1, 3])
def test_exactly_once_with_many_partitions(
    brokers: int,
    partitions: int,
    more: dict[str, Any],
    jvm: Jvm,
    tmp_path: Path,
    record_figure: RecordFigure,
) -> None:
    """Each time until the records that were sent at its beginning are in the sink, once."""
    with several_brokers(brokers) as nodes:
        topics = Topics(nodes[0].bootstrap)
        source, sink = topics.make(partitions), topics.make(1)
        spec = kafka_to_kafka(topics.bootstrap, source, sink, **more)
        spec["source"]["kafka"]["startingOffsets"] = "earliest"
        spec["sink"]["kafka"]["delivery"] = "ExactlyOnce"
        edited = {**spec, "transform": {"sql": "SELECT key, value FROM source WHERE true"}}
        flow, sent = stream(**spec), 0

        def more_records() -> range:
            nonlocal sent
            topics.send(source, range(sent, sent + 5 * partitions))  # by their keys
            sent += 5 * partitions
            return range(sent)

        def seconds(what: str, numbers: range) -> None:
            wait_for(what, lambda: set(numbers) <= set(topics.received(sink)), 1200, every=0.25)
            record_figure(f"{what}, s", time.monotonic() - began)

        numbers, began = more_records(), time.monotonic()
        with running(flow, jvm, tmp_path) as driver:
            seconds("start of Spark and the query", numbers)
            driver.wait_ready()
            assert driver.runtime.session is not None
            (query,) = driver.runtime.session.streams.active
            query.stop()
            numbers, began = more_records(), time.monotonic()
            seconds("restart of the query", numbers)
            driver.wait("restarted once", lambda report: report.query_restarts == 1)
            assert flow.spec.sink.kafka is not None
            admin, began = (
                Admin(jvm.gateway, flow.spec.sink.kafka, tmp_path),
                time.monotonic(),
            )
            admin.fence([f"others/{number}" for number in range(partitions)])
            record_figure("so many ids fenced, s", time.monotonic() - began)
            admin.close()
        numbers, began = more_records(), time.monotonic()
        with running(stream(**edited), jvm, tmp_path):
            seconds("the edited query, with Spark anew", numbers)
            received = topics.received(sink)
        assert set(received) == set(range(sent))
        assert max(received.values()) == 1
