"""The result of a run: what docs/benchmarks/latency.json holds."""

from __future__ import annotations

from pydantic import BaseModel

from benchmarks.latency.deliveries import Latencies, percentiles
from benchmarks.latency.variants import Query

Percentiles = dict[str, float]
"""Milliseconds by name: p50, p90, p99, p99.9, max."""


class Figures(BaseModel):
    """At one rate: of one round, or of all."""

    records: int
    """How many latencies the percentiles are taken of."""
    end_to_end_ms: Percentiles
    append_to_append_ms: Percentiles
    cpu_cores: float
    """Cores that the variant's processes used."""

    @classmethod
    def of(cls, latencies: Latencies, cpu_cores: float) -> Figures:
        return cls(
            records=len(latencies.end_to_end),
            end_to_end_ms=percentiles(latencies.end_to_end),
            append_to_append_ms=percentiles(latencies.append_to_append),
            cpu_cores=cpu_cores,
        )


class Round(BaseModel):
    round: int
    first_record_seconds: float
    """From the start of its process until the first record arrived."""
    lost: int
    twice: int
    wrong: int
    idle_cores: float
    """Cores that the variant's processes used while no record came."""
    rates: dict[str, Figures]
    """By records a second."""


class Row(BaseModel):
    name: str
    title: str
    penstock: bool
    """Whether it is a mode of Penstock."""
    query: Query
    rounds: list[Round]
    all_rounds: dict[str, Figures]
    """By records a second: percentiles of the latencies of all rounds together."""
    idle_cores: float
    """The mean of the rounds."""


class Machine(BaseModel):
    processor: str
    cores: int
    memory_gib: int
    kernel: str


class Result(BaseModel):
    date: str
    command: str
    commit: str
    machine: Machine
    versions: dict[str, str]
    partitions: int
    flagged_share: float
    """Of the payments: the share that the filter lets pass."""
    rates: list[int]
    """In the order in which they are measured."""
    warm_up_seconds: int
    measured_seconds: int
    """At each rate, in each round."""
    idle_seconds: int
    load_average_before: float
    stolen_share: float | None = None
    """Of the machine's CPU time during the run: what its hypervisor withheld. None: not known."""
    variants: list[Row]
