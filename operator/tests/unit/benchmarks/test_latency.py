"""The latency benchmark without its processes: joining, percentiles, phases, page, picture."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.latency import page
from benchmarks.latency.cpu import cpu_seconds
from benchmarks.latency.deliveries import Deliveries, Latencies, Received, Sent, percentiles
from benchmarks.latency.measurement import Plan, order, phases
from benchmarks.latency.picture import by_median, draw
from benchmarks.latency.result import Figures, Machine, Result, Round, Row
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


def test_the_files_of_the_load_generator_are_read(tmp_path: Path) -> None:
    (tmp_path / "sent.csv").write_text("number,phase,flagged,sent_ns,appended_ms\n1,2,1,5,6\n")
    (tmp_path / "received.csv").write_text("number,as_sent,received_ns,appended_ms\n1,0,7,8\n")

    assert Deliveries.read(tmp_path) == Deliveries(
        [Sent(1, 2, True, 5, 6)], [Received(1, False, 7, 8)]
    )


def test_each_percentile_is_the_smallest_value_that_so_many_do_not_exceed() -> None:
    assert percentiles(range(1000, 0, -1)) == {
        "p50": 500, "p90": 900, "p99": 990, "p99.9": 999, "max": 1000
    }  # fmt: skip


def test_percentiles_of_one_value_and_of_none() -> None:
    assert set(percentiles([4.2]).values()) == {4.2}
    with pytest.raises(ValueError, match="no record"):
        percentiles([])


# --- the run ---


PLAN = Plan((1000, 100), 10, 15, 2, thorough=True)


def test_a_run_starts_slowly_warms_up_fast_and_settles_between_two_rates() -> None:
    steps = phases(PLAN, batch_seconds=0)
    assert steps.steps == ((100, 0), (1000, 10), (1000, 15), (100, 1), (100, 15))
    assert steps.measured == {1000: 2, 100: 4}
    assert steps.batch_end is None


def test_the_end_of_a_long_batch_comes_after_the_measured_seconds() -> None:
    """A quick run does not wait for it."""
    steps = phases(PLAN, batch_seconds=60)
    before = sum(seconds for _, seconds in steps.steps[:-1])
    assert steps.batch_end == len(steps.steps) - 1
    assert before < 60 < before + steps.steps[-1][1]
    assert phases(replace(PLAN, thorough=False), batch_seconds=60).batch_end is None


def test_the_order_changes_from_round_to_round() -> None:
    first, second = order(VARIANTS, 1), order(VARIANTS, 2)
    assert first != second
    assert set(first) == set(second)


def test_cpu_seconds_include_those_of_this_process() -> None:
    before = cpu_seconds(os.getpid())
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert cpu_seconds(os.getpid()) > before


# --- what is published ---


NAMES = (
    "real-time",
    "kafka-streams",
    "flink",
    "micro-batch",
    "continuous",
    "dead-letters",
    "exactly-once",
)


def figures(median: float) -> Figures:
    return Figures.of(Latencies((median, median * 3), (1.0, 2.0)), 0.5)


def row(name: str, median: float) -> Row:
    once = Round(
        round=1, first_record_seconds=2.0, lost=0, twice=3, wrong=0, rates={"100": figures(median)}
    )
    again = once.model_copy(update={"rates": {"100": figures(median + 1)}, "batch_end_ms": 250.4})
    return Row(
        name=name,
        title=name.title(),
        penstock=name == "continuous",
        rounds=[once, again],
        all_rounds={"100": figures(median)},
    )


@pytest.fixture
def result() -> Result:
    return Result(
        date="2026-01-02", command="c", commit="abc",
        machine=Machine(processor="cpu", cores=2, memory_gib=4, kernel="Linux 6"),
        versions={"Spark": "4"}, partitions=2, flagged_share=0.8, rates=[100], warm_up_seconds=1,
        measured_seconds=2, load_average_before=0.1,
        variants=[row(name, 2.0 + number) for number, name in enumerate(NAMES)],
    )  # fmt: skip


MARKS = ("caution", "run", "start", "ratios", "end-to-end-100", "append-to-append-100")


def document(*marks: str) -> str:
    return "".join(f"<!-- generated: {mark} -->\nold\n<!-- end -->\n" for mark in marks)


def test_the_tables_of_the_page_are_written_from_the_result(result: Result) -> None:
    text = page.with_figures(document(*MARKS), result)

    assert "old" not in text
    assert "| **Continuous** | 6.00 | 18.0 | 18.0 | 18.0 | 18.0 | 6.00 to 7.00 | 2 | 0.50 |" in text
    assert "| Kafka-Streams | 1 | 2 | 2 | 2 | 2 |" in text
    assert "| **Continuous** | 2.0 to 2.0 | 0 | 6 | 250 |" in text
    assert "| Continuous / Flink | 1.4 (1.4 to 1.5) | 1.4 (1.4 to 1.5) |" in text
    assert page.with_figures(text, result) == text


def test_the_page_says_when_the_machine_changed_its_speed(result: Result) -> None:
    quiet = result.model_copy(update={"variants": [row(name, 50.0) for name in NAMES]})

    assert page.widest_spread(quiet).factor == pytest.approx(51 / 50)
    assert "changed meanwhile" not in page.with_figures(document(*MARKS), quiet)
    assert page.widest_spread(result).factor == pytest.approx(3 / 2)
    said = page.with_figures(document(*MARKS), result)
    assert "**The speed of the machine changed meanwhile**" in said
    assert "a factor of up to 1.5 (Real-Time, at 100 records a second)" in said


def test_a_page_without_a_place_for_a_table_is_refused(result: Result) -> None:
    with pytest.raises(ValueError, match="end-to-end-100"):
        page.with_figures(document(*MARKS[:4]), result)


def test_the_picture_shows_each_variant_and_is_the_same_again(
    result: Result, tmp_path: Path
) -> None:
    for name in ("one.svg", "two.svg"):
        draw(result, tmp_path / name)
    text = (tmp_path / "one.svg").read_text()

    assert text == (tmp_path / "two.svg").read_text()
    for variant in result.variants:
        assert f">{variant.title}</text>" in text
    assert by_median(result, 100)[0].name == "real-time"


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
