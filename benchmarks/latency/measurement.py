"""Runs the variants one after another, round by round, over one broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from benchmarks.latency.cpu import cpu_seconds
from benchmarks.latency.deliveries import Deliveries, Latencies
from benchmarks.latency.load_generator import LoadGenerator
from benchmarks.latency.result import Figures, Round, Row
from benchmarks.latency.variants import Place, Variant, environment
from penstock.local.tools import class_archive
from penstock.local.tools.child_process import ChildProcess
from testkit.kafka.stream_programs import StreamPrograms
from testkit.kafka.topic_admin import create_topics
from testkit.wait import wait_for

PARTITIONS = 2
# Between two rates: what the faster one left in flight has arrived.
_SETTLE_SECONDS = 1
# Before the idle seconds: the last commits are written.
_SETTLE_IDLE_SECONDS = 3
_STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Plan:
    """How long to measure."""

    rates: tuple[int, ...]
    """Records a second, in the order in which they are measured."""
    warm_up_seconds: int
    """At the first rate, after the first record has arrived."""
    measured_seconds: int
    """At each rate."""
    idle_seconds: int
    """At the end, without a record."""
    rounds: int
    thorough: bool
    """Whether to warm up the load generator first."""


@dataclass(frozen=True)
class Phases:
    """What the load generator does in one run, and which of it is measured."""

    steps: tuple[tuple[int, int], ...]
    """Records a second, and seconds; the first lasts until the first record arrives."""
    measured: dict[int, int]
    """By rate, the index of the step that measures it."""
    idle: int
    """The index of the step without a record."""


def phases(plan: Plan) -> Phases:
    """Start, warm up, and for each rate settle and measure; then be idle."""
    slowest = min(plan.rates)
    steps = [(slowest, 0), (plan.rates[0], plan.warm_up_seconds)]
    measured: dict[int, int] = {}
    for rate in plan.rates:
        if measured:
            steps.append((rate, _SETTLE_SECONDS))
        measured[rate] = len(steps)
        steps.append((rate, plan.measured_seconds))
    steps += [(0, _SETTLE_IDLE_SECONDS), (0, plan.idle_seconds)]
    return Phases(tuple(steps), measured, len(steps) - 1)


def order(variants: Sequence[Variant], number: int) -> list[Variant]:
    """Every other round goes backwards, so that none is always the first after the same one."""
    return list(variants) if number % 2 == 1 else list(reversed(variants))


class Bench:
    def __init__(
        self,
        plan: Plan,
        bootstrap: str,
        folder: Path,
        programs: StreamPrograms,
        progress: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._bootstrap = bootstrap
        self._folder = folder
        self._programs = programs
        self._progress = progress

    def rows(self, variants: Sequence[Variant]) -> list[Row]:
        rounds: dict[str, list[Round]] = {variant.name: [] for variant in variants}
        everything: dict[tuple[str, int], Latencies] = {}
        nothing = Latencies((), ())
        with LoadGenerator(self._programs, self._bootstrap) as load:
            if self._plan.thorough:
                # Or the first variant is measured while the load generator's code is compiled, or
                # while another process writes the archive of classes.
                ours = [variant for variant in variants if variant.penstock]
                for variant in dict.fromkeys([variants[0], *ours[:1]]):
                    self._run(load, variant, 0)
                wait_for("the archive", lambda: not class_archive.is_being_written(), 300)
            for number in range(1, self._plan.rounds + 1):
                for variant in order(variants, number):
                    result, latencies = self._run(load, variant, number)
                    rounds[variant.name].append(result)
                    for rate, of_rate in latencies.items():
                        key = variant.name, rate
                        everything[key] = everything.get(key, nothing) + of_rate
        return [
            Row(
                name=variant.name,
                title=variant.title,
                penstock=variant.penstock,
                query=variant.query,
                rounds=rounds[variant.name],
                all_rounds={
                    str(rate): Figures.of(
                        everything[variant.name, rate],
                        _mean(it.rates[str(rate)].cpu_cores for it in rounds[variant.name]),
                    )
                    for rate in self._plan.rates
                },
                idle_cores=_mean(it.idle_cores for it in rounds[variant.name]),
            )
            for variant in variants
        ]

    def _run(
        self, load: LoadGenerator, variant: Variant, number: int
    ) -> tuple[Round, dict[int, Latencies]]:
        name = f"{variant.name}-{number}"
        folder = self._folder / name
        (folder / "work").mkdir(parents=True)
        source, sink = f"payments-{name}", f"flags-{name}"
        config = {"message.timestamp.type": "LogAppendTime"}
        create_topics(self._bootstrap, {source: PARTITIONS, sink: PARTITIONS}, config=config)
        place = Place(self._bootstrap, source, sink, folder / "work", self._programs)
        command = variant.command(place)
        steps = phases(self._plan)
        used: list[float] = []

        load.start(source, sink, folder, variant.query, steps.steps)
        begun = time.monotonic()
        process = ChildProcess(command, log=folder / "log", env=environment())
        try:
            load.expect("phase 1")
            first_record = time.monotonic() - begun
            used.append(cpu_seconds(process.pid))
            for index in range(2, len(steps.steps) + 1):
                load.expect(f"phase {index}")
                used.append(cpu_seconds(process.pid))
            load.expect("done")
        except Exception as error:
            error.add_note(f"{variant.title}; the end of its log:\n{process.last_lines()}")
            raise
        finally:
            process.stop(_STOP_SECONDS)
        deliveries = Deliveries.read(folder)
        latencies = {rate: deliveries.latencies(step) for rate, step in steps.measured.items()}
        result = Round(
            round=number,
            first_record_seconds=round(first_record, 2),
            lost=deliveries.lost,
            twice=deliveries.twice,
            wrong=deliveries.wrong,
            idle_cores=_cores(used, steps.idle, self._plan.idle_seconds),
            rates={
                str(rate): Figures.of(
                    latencies[rate], _cores(used, step, self._plan.measured_seconds)
                )
                for rate, step in steps.measured.items()
            },
        )
        self._progress(_line(variant, result))
        return result, latencies


def _cores(used: Sequence[float], step: int, seconds: int) -> float:
    """During a step; `used`: the processor time until the end of each step."""
    return round((used[step] - used[step - 1]) / seconds, 3)


def _mean(values: Iterable[float]) -> float:
    return round(mean(values), 3)


def _line(variant: Variant, result: Round) -> str:
    shown = "  ".join(
        f"{rate}/s: p50 {figures.end_to_end_ms['p50']:.2f} ms, "
        f"p99 {figures.end_to_end_ms['p99']:.1f} ms"
        for rate, figures in result.rates.items()
    )
    return (
        f"round {result.round}  {variant.name:<22} "
        f"first record {result.first_record_seconds:5.1f} s  {shown}  "
        f"lost {result.lost}, twice {result.twice}, wrong {result.wrong}, "
        f"idle {result.idle_cores:.3f}"
    )
