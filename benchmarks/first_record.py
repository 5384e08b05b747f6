"""Measures `penstock run --with-kafka` from the command to the first record that it shows.

    python -m benchmarks.first_record --rounds 3

Every round measures a run without an archive of classes, whose clean stop writes one, and a run
with it. Quote the ratios within a round, not the seconds. The stream is examples/fraud-flags.yaml.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from testkit.kafka.jars import connector_jars, kafka_jars
from testkit.paths import CHECKOUT

EXAMPLES = CHECKOUT / "examples"
OPTIONS = ["--plain", "--with-kafka", "--rate", "100", "--show", "--feed"]
STOP_SECONDS = 120.0


def seconds_to_first_record(folder: Path, cache: Path) -> float:
    """Runs in a new workspace, and stops cleanly after the first record."""
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(cache),
        "PENSTOCK_CONNECTOR_JARS": str(connector_jars()),
        "PENSTOCK_KAFKA_JARS": str(kafka_jars()),
    }
    files = [EXAMPLES / "data" / "payments.jsonl", EXAMPLES / "fraud-flags.yaml"]
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", "run", *OPTIONS, *files],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline(), "the command has ended without a record"
        return time.monotonic() - begun
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=STOP_SECONDS)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.first_record", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    ratios = []
    for number in range(1, parser.parse_args().rounds + 1):
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
            cache = Path(name) / "cache"
            runs = []
            for each in ("without", "with"):
                folder = Path(name) / each
                folder.mkdir()
                runs.append(seconds_to_first_record(folder, cache))
        ratios.append(runs[1] / runs[0])
        print(f"round {number}: {runs[0]:.1f} s without the archive, {runs[1]:.1f} s with it")
    spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
    print(f"with the archive / without it: {statistics.median(ratios):.2f} ({spread})")


if __name__ == "__main__":
    main()
