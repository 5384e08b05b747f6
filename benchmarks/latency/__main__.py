"""Measures two queries in each mode beside a librdkafka loop, Kafka Streams and Flink.

    make bench-latency
    python -m benchmarks.latency --rounds 1 --variants librdkafka continuous --json FILE

Without --json it writes docs/benchmarks: the figures, the picture and the tables of the page.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.latency.cpu import machine_seconds
from benchmarks.latency.measurement import PARTITIONS, Bench, Plan
from benchmarks.latency.result import Machine, Result
from benchmarks.latency.variants import QUICK, VARIANTS
from penstock import __version__
from testkit.commands import run
from testkit.kafka.broker import running_broker
from testkit.kafka.jars import connector_jars, kafka_jars
from testkit.kafka.stream_programs import stream_programs
from testkit.paths import CHECKOUT

DOCUMENTS = CHECKOUT / "docs" / "benchmarks"
# Of load/Load.java.
FLAGGED_SHARE = 0.8
QUICK_PLAN = Plan(
    rates=(100,), warm_up_seconds=1, measured_seconds=2, idle_seconds=1, rounds=1, thorough=False
)


def main() -> None:
    options = _parser().parse_args()
    if options.quick:
        plan, names = QUICK_PLAN, QUICK
    else:
        names = options.variants
        plan = Plan(
            tuple(sorted(options.rates, reverse=True)),
            options.warm_up,
            options.seconds,
            options.idle,
            options.rounds,
            thorough=True,
        )
    result = measure(plan, names)
    if options.json is not None:
        options.json.write_text(result.model_dump_json(indent=1) + "\n")
        return
    from benchmarks.latency.picture import draw

    DOCUMENTS.mkdir(parents=True, exist_ok=True)
    (DOCUMENTS / "latency.json").write_text(result.model_dump_json(indent=1) + "\n")
    draw(result, DOCUMENTS / "latency.svg")
    print("written to docs/benchmarks; now run `make generate`")


def measure(plan: Plan, names: tuple[str, ...]) -> Result:
    variants = [variant for variant in VARIANTS if variant.name in names]
    programs = stream_programs()
    load_average, before = os.getloadavg()[0], machine_seconds()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-latency-") as folder,
        running_broker() as broker,
    ):
        bench = Bench(plan, broker.bootstrap, Path(folder), programs, _print)
        rows = bench.rows(variants)
    return Result(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        command=shlex.join(["python", "-m", "benchmarks.latency", *sys.argv[1:]]),
        commit=run(["git", "-C", CHECKOUT, "rev-parse", "--short", "HEAD"]).strip(),
        machine=_machine(),
        versions=_versions(),
        partitions=PARTITIONS,
        flagged_share=FLAGGED_SHARE,
        rates=list(plan.rates),
        warm_up_seconds=plan.warm_up_seconds,
        measured_seconds=plan.measured_seconds,
        idle_seconds=plan.idle_seconds,
        load_average_before=round(load_average, 2),
        stolen_share=_stolen(before, machine_seconds()),
        variants=rows,
    )


def _stolen(before: tuple[float, float] | None, after: tuple[float, float] | None) -> float | None:
    if before is None or after is None:
        return None
    return round((after[0] - before[0]) / max(1.0, after[1] - before[1]), 3)


def _print(line: str) -> None:
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    names = tuple(variant.name for variant in VARIANTS)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latency",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=2, help="starts of each (default: 2)")
    parser.add_argument(
        "--warm-up",
        type=int,
        default=10,
        metavar="SECONDS",
        help="at the highest rate, after the first record (default: 10)",
    )
    parser.add_argument(
        "--seconds", type=int, default=20, help="measured at each rate (default: 20)"
    )
    parser.add_argument(
        "--idle", type=int, default=10, metavar="SECONDS", help="without a record (default: 10)"
    )
    parser.add_argument(
        "--rates",
        type=int,
        nargs="+",
        default=[100, 1000],
        metavar="N",
        help="records a second (default: 100 1000)",
    )
    parser.add_argument(
        "--variants", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument(
        "--quick", action="store_true", help="one short round of a few variants, as in the tests"
    )
    parser.add_argument("--json", type=Path, help="write the figures there, and nothing else")
    return parser


def _machine() -> Machine:
    processor = "unknown"
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [
            line.partition(":")[2].strip()
            for line in information.read_text().splitlines()
            if line.startswith("model name")
        ]
        processor = names[0] if names else os.uname().machine
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        processor=processor,
        cores=os.cpu_count() or 1,
        memory_gib=round(pages / 2**30),
        kernel=f"{os.uname().sysname} {os.uname().release.split('-')[0]}",
    )


def _versions() -> dict[str, str]:
    from confluent_kafka import libversion

    programs = stream_programs()
    return {
        "Penstock": __version__,
        "Spark": version("pyspark"),
        "Spark's kafka-clients": _jar(connector_jars(), "kafka-clients"),
        "Kafka broker": _jar(kafka_jars(), "kafka_2.13"),
        "Kafka Streams": _jar(programs.kafka_streams_jars, "kafka-streams"),
        "Flink": _jar(programs.flink_jars, "flink-runtime"),
        "Flink's Kafka connector": _jar(programs.flink_jars, "flink-connector-kafka"),
        "librdkafka": libversion()[0],
        "Java": run(["java", "--version"]).split()[1],
        "Python": sys.version.split()[0],
    }


def _jar(folder: Path, name: str) -> str:
    (jar,) = folder.glob(f"{name}-[0-9]*.jar")
    return jar.stem.removeprefix(f"{name}-")


if __name__ == "__main__":
    main()
