"""The latency benchmark as `python -m benchmarks.latency --quick` runs it. No time is asserted."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from benchmarks.latency.__main__ import QUICK_PLAN, measure
from benchmarks.latency.deliveries import PERCENTILES
from benchmarks.latency.load_generator import LoadError, LoadGenerator
from benchmarks.latency.variants import QUICK
from testkit.driver.class_archive import driver_environment
from testkit.kafka.jars import connector_jars
from testkit.kafka.stream_programs import stream_programs
from testkit.kafka.topics import Topics

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


def test_each_variant_delivers_every_record_as_filtered_and_the_result_has_every_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One mode of Penstock, because each starts Spark; other tests run the others."""
    # No JVM lives long enough to earn back what C2's compilations cost.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
    for name, value in driver_environment(f"{connector_jars()}/*").items():
        monkeypatch.setenv(name, value)

    result = measure(QUICK_PLAN, QUICK)

    assert {variant.name for variant in result.variants} == set(QUICK)
    for variant in result.variants:
        (once,) = variant.rounds
        assert (once.lost, once.wrong) == (0, 0), variant.title
        assert once.first_record_seconds > 0
        for figures in (once.rates["100"], variant.all_rounds["100"]):
            # Four of five payments in two seconds.
            assert figures.records == 160
            assert set(figures.end_to_end_ms) == set(figures.append_to_append_ms)
            assert set(figures.end_to_end_ms) == set(PERCENTILES)
            assert figures.end_to_end_ms["p50"] > 0
    assert all(result.versions.values())


def test_a_payment_that_the_broker_refuses_is_not_counted_as_lost(
    topics: Topics, tmp_path: Path
) -> None:
    """The benchmark ends, because what never came in says nothing about a stream."""
    source, sink = topics.make(config={"max.message.bytes": "1"}), topics.make()
    with LoadGenerator(stream_programs(), topics.bootstrap) as load:
        load.start(source, sink, tmp_path, [(100, 0), (100, 1)])
        producer = Producer({"bootstrap.servers": topics.bootstrap})
        producer.produce(sink, '{"paymentId": 13, "amount": 9.5}', "1")
        assert producer.flush(30) == 0
        load.expect("phase 1")
        load.expect("phase 2")
        with pytest.raises(LoadError, match="instead of 'done'"):
            load.expect("done")
