"""The latency benchmark as `python -m benchmarks.latency --quick` runs it. No time is asserted."""

from __future__ import annotations

import pytest

from benchmarks.latency.__main__ import QUICK_PLAN, measure
from benchmarks.latency.deliveries import PERCENTILES
from benchmarks.latency.variants import QUICK
from testkit.driver.class_archive import driver_environment
from testkit.kafka.jars import connector_jars

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
        assert once.idle_cores > 0
        for figures in (once.rates["100"], variant.all_rounds["100"]):
            # Four of five payments in two seconds.
            assert figures.records == 160
            assert set(figures.end_to_end_ms) == set(figures.append_to_append_ms)
            assert set(figures.end_to_end_ms) == set(PERCENTILES)
            assert figures.end_to_end_ms["p50"] > 0
    assert all(result.versions.values())
