"""The generated parts of docs/benchmarks/latency.md, and the figures of README.md. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.latency.deliveries import PERCENTILES
from benchmarks.latency.result import Result, Row
from benchmarks.latency.variants import Query

# A row's rounds differ by a smaller factor on a machine that does nothing else.
_QUIET_SPREAD = 1.5
_COMPARED = ("p50", "p99")
QUERIES: Mapping[Query, str] = {"flags": "Filter", "counts": "Count by key"}
_PAIRS = (
    ("real-time", "kafka-streams"),
    ("real-time", "flink"),
    ("long-real-time", "kafka-streams"),
    ("long-real-time", "flink"),
    ("continuous", "kafka-streams"),
    ("continuous", "flink"),
    ("exactly-once", "continuous"),
    ("real-time-exactly-once", "exactly-once"),
    ("micro-batch", "real-time"),
    ("real-time-count", "kafka-streams-count"),
    ("real-time-count", "flink-count"),
    ("long-real-time-count", "kafka-streams-count"),
    ("long-real-time-count", "flink-count"),
    ("micro-batch-count", "real-time-count"),
)
_PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_figures(document: str, result: Result) -> str:
    """The document, with what is between its marks written anew.

    Raises ValueError if a mark names something unknown, or one is missing.
    """
    made = _parts(result)
    marks = [name for _, name, _ in _PART.findall(document)]
    if sorted(marks) != sorted(made):
        raise ValueError(f"the page must mark a place for each of: {', '.join(made)}")
    return _PART.sub(lambda found: f"{found[1]}\n{made[found[2]]}\n{found[3]}", document)


def milliseconds(value: float) -> str:
    """With two digits below 10 ms, none from 100 ms on."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _parts(result: Result) -> dict[str, str]:
    return {
        "caution": _caution(result),
        "ratios": _ratios(result),
        "end-to-end": _by_query_and_rate(result, _end_to_end),
        "append-to-append": _by_query_and_rate(result, _append_to_append),
        "start": _start(result),
        "run": _run(result),
    }


def _run(result: Result) -> str:
    machine = result.machine
    versions = ", ".join(f"{name} {value}" for name, value in result.versions.items())
    rounds = len(result.variants[0].rounds)
    rates = " and ".join(f"{rate:,}" for rate in result.rates)
    stolen = (
        ""
        if result.stolen_share is None
        else f"; the hypervisor withheld {result.stolen_share:.0%} of the CPU time"
    )
    share = f"{result.flagged_share:.0%}".removesuffix("%")
    return (
        f"- **When**: {result.date}, commit {result.commit}; load average before it "
        f"{result.load_average_before:.2f}{stolen}.\n"
        f"- **Machine**: {machine.cores} cores of {machine.processor}, {machine.memory_gib} GiB, "
        f"{machine.kernel}; the broker, the load generator and the variant share them.\n"
        f"- **Versions**: {versions}.\n"
        f"- **Load**: {rates} records a second over {result.partitions} partitions; the filter "
        f"lets {share} of 100 pass.\n"
        f"- **Rounds**: {rounds}; each starts every variant anew, one after another. A run warms "
        f"up for {result.warm_up_seconds} s at {result.rates[0]:,} records a second after its first"
        f" record, then measures {result.measured_seconds} s at each rate.\n"
    )


def rows(result: Result, query: Query) -> list[Row]:
    """Those of a query."""
    return [row for row in result.variants if row.query == query]


def _by_query_and_rate(result: Result, table: Callable[[list[Row], int], str]) -> str:
    return "\n".join(
        f"{title}, {rate:,} records a second:\n\n{table(rows(result, query), rate)}"
        for query, title in QUERIES.items()
        for rate in sorted(result.rates)
    )


def _end_to_end(rows: list[Row], rate: int) -> str:
    heads = [*PERCENTILES, "p50 by round", "records", "cores"]
    lines = [f"| ms | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for row in rows:
        whole = row.all_rounds[str(rate)]
        medians = sorted(round_.rates[str(rate)].end_to_end_ms["p50"] for round_ in row.rounds)
        cells = [
            *(milliseconds(whole.end_to_end_ms[name]) for name in PERCENTILES),
            f"{milliseconds(medians[0])} to {milliseconds(medians[-1])}",
            f"{whole.records:,}",
            f"{whole.cpu_cores:.2f}",
        ]
        lines.append(f"| {_title(row)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _append_to_append(rows: list[Row], rate: int) -> str:
    lines = [f"| ms | {' | '.join(PERCENTILES)} |", f"|---|{'---:|' * len(PERCENTILES)}"]
    for row in rows:
        figures = row.all_rounds[str(rate)].append_to_append_ms
        cells = " | ".join(f"{figures[name]:,.0f}" for name in PERCENTILES)
        lines.append(f"| {_title(row)} | {cells} |")
    return "\n".join(lines) + "\n"


def _start(result: Result) -> str:
    lines = [
        "| | first record out after, s | lost | twice | idle, cores |",
        "|---|---:|---:|---:|---:|",
    ]
    for query, title in QUERIES.items():
        lines.append(f"| {title}: | | | | |")
        for row in rows(result, query):
            seconds = sorted(round_.first_record_seconds for round_ in row.rounds)
            cells = [
                f"{seconds[0]:.1f} to {seconds[-1]:.1f}",
                str(sum(round_.lost for round_ in row.rounds)),
                str(sum(round_.twice for round_ in row.rounds)),
                f"{row.idle_cores:.2f}",
            ]
            lines.append(f"| {_title(row)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def ratios(result: Result, slower: str, faster: str, rate: int, percentile: str) -> list[float]:
    """Of the percentiles of two variants, round by round: a round slows both alike."""
    rounds = {row.name: row.rounds for row in result.variants}
    return [
        one.rates[str(rate)].end_to_end_ms[percentile]
        / other.rates[str(rate)].end_to_end_ms[percentile]
        for one, other in zip(rounds[slower], rounds[faster], strict=True)
    ]


@dataclass(frozen=True)
class Spread:
    """The medians of a variant's rounds at one rate: the largest over the smallest."""

    factor: float
    row: Row
    rate: int


def widest_spread(result: Result) -> Spread:
    """That of the variant and rate whose rounds differ most."""
    spreads = []
    for row in result.variants:
        for rate in row.all_rounds:
            medians = [round_.rates[rate].end_to_end_ms["p50"] for round_ in row.rounds]
            spreads.append(Spread(max(medians) / min(medians), row, int(rate)))
    return max(spreads, key=lambda spread: spread.factor)


def _caution(result: Result) -> str:
    """How far the milliseconds hold."""
    widest = widest_spread(result)
    if widest.factor < _QUIET_SPREAD:
        return (
            f"The medians of the rounds of a row differ by a factor of up to {widest.factor:.1f}.\n"
        )
    return (
        "**The speed of the machine changed meanwhile**: the medians of the rounds of a row differ "
        f"by a factor of up to {widest.factor:.1f} ({QUERIES[widest.row.query].lower()}, "
        f"{widest.row.title}, at {widest.rate:,} records a "
        "second). So compare rows, and read the ratios, which are taken within each round.\n"
    )


def _ratios(result: Result) -> str:
    rates = sorted(result.rates)
    heads = " | ".join(f"{name} at {rate:,}" for rate in rates for name in _COMPARED)
    lines = [
        f"| median of the rounds (least to most) | {heads} |",
        f"|---|{'---:|' * len(rates) * len(_COMPARED)}",
    ]
    titles = {row.name: row.title for row in result.variants}
    for slower, faster in _PAIRS:
        cells = " | ".join(
            _range(ratios(result, slower, faster, rate, name))
            for rate in rates
            for name in _COMPARED
        )
        query = "count: " if slower.endswith("-count") else ""
        lines.append(f"| {query}{titles[slower]} / {titles[faster]} | {cells} |")
    return "\n".join(lines) + "\n"


def _range(values: Sequence[float]) -> str:
    shown = [f"{value:.1f}" for value in (median(values), min(values), max(values))]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"


def _title(row: Row) -> str:
    return f"**{row.title}**" if row.penstock else row.title
