"""What the latency benchmark measures with, and what it published."""

from __future__ import annotations

import os
import re
import time

import pytest

from benchmarks.latency import page
from benchmarks.latency.cpu import cpu_seconds
from benchmarks.latency.deliveries import Deliveries, Latencies, Received, Sent, percentiles
from benchmarks.latency.result import Result
from benchmarks.latency.variants import VARIANTS
from testkit.paths import CHECKOUT

DOCUMENTS = CHECKOUT / "docs" / "benchmarks"


def published() -> Result:
    return Result.model_validate_json((DOCUMENTS / "latency.json").read_text())


# --- deliveries ---


def sent(number: int, *, phase: int = 1, flagged: bool = True) -> Sent:
    """Sent at NUMBER ms, appended 1 ms later."""
    return Sent(number, phase, flagged, number * 1_000_000, number + 1)


def received(number: int, after_ms: int = 5, *, as_sent: bool = True) -> Received:
    """Received so long after it was sent, and appended 1 ms before."""
    at = number + after_ms
    return Received(number, as_sent, at * 1_000_000, at - 1)


def test_a_record_is_joined_with_its_first_copy_in_the_sink_by_number() -> None:
    """A phase has its own records."""
    deliveries = Deliveries(
        [sent(1), sent(2), sent(3, phase=2)],
        [received(2, 7), received(1, 5), received(1, 900), received(3, 9)],
    )

    assert deliveries.latencies(1) == Latencies((5.0, 7.0), (3.0, 5.0))
    assert deliveries.latencies(2).end_to_end == (9.0,)
    assert (deliveries.lost, deliveries.twice, deliveries.wrong) == (0, 1, 0)


@pytest.mark.parametrize(
    ("arrived", "lost", "wrong"),
    [
        ([received(1)], 1, 0),
        ([received(1), received(2), received(3)], 0, 1),
        ([received(1), received(2), received(9)], 0, 1),
        ([received(1), received(2, as_sent=False)], 0, 1),
    ],
    ids=["lost", "unflagged", "unknown", "changed"],
)
def test_lost_and_wrong_records(arrived: list[Received], lost: int, wrong: int) -> None:
    """Only a flagged payment can be lost."""
    deliveries = Deliveries([sent(1), sent(2), sent(3, flagged=False)], arrived)
    assert (deliveries.lost, deliveries.wrong) == (lost, wrong)


def test_each_percentile_is_the_smallest_value_that_so_many_do_not_exceed() -> None:
    assert percentiles(range(1000, 0, -1)) == {
        "p50": 500, "p90": 900, "p99": 990, "p99.9": 999, "max": 1000
    }  # fmt: skip


def test_percentiles_of_one_value_and_of_none() -> None:
    assert set(percentiles([4.2]).values()) == {4.2}
    with pytest.raises(ValueError, match="no record"):
        percentiles([])


def test_cpu_seconds_include_those_of_this_process() -> None:
    before = cpu_seconds(os.getpid())
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert cpu_seconds(os.getpid()) > before


# --- what is published ---


def test_the_published_run_is_complete_and_drawn() -> None:
    """Every variant and rate, from several rounds, with nothing lost and nothing wrong."""
    result, picture = published(), (DOCUMENTS / "latency.svg").read_text()
    assert [row.name for row in result.variants] == [variant.name for variant in VARIANTS]
    assert sorted(result.rates) == [100, 1000]
    for row in result.variants:
        assert set(row.all_rounds) == {"100", "1000"}
        assert len(row.rounds) > 1
        assert sum(round_.lost + round_.wrong for round_ in row.rounds) == 0
        for figures in row.all_rounds.values():
            assert f">{page.milliseconds(figures.end_to_end_ms['p50'])}</text>" in picture


def test_the_readme_quotes_the_published_figures() -> None:
    """And no difference that is smaller than that of two rounds of one row."""
    result = published()
    text = " ".join((CHECKOUT / "README.md").read_text().split())
    found = re.search(r"takes two to four milliseconds .* differ by up to ([\d.]+) times", text)
    assert found is not None
    assert found[1] == f"{page.widest_spread(result).factor:.1f}"
    medians = [
        row.all_rounds["100"].end_to_end_ms["p50"]
        for row in result.variants
        if row.name in ("real-time", "continuous", "kafka-streams", "flink")
    ]
    assert len(medians) == 4
    assert 1.5 <= min(medians) <= max(medians) < 4.5, medians
