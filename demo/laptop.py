"""`make demo`: a stream on this machine, its driver killed, and the recovery.

A real Kafka broker and a real Spark, and no cluster. The driver is `penstock run`: the same as in a
pod.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from demo.driver import Driver, DriverEnded
from demo.payments import EXAMPLE, PARTITIONS, SINK, SOURCE, Count
from demo.steps import kill_and_count, print_line
from penstock.command_line import CommandError
from penstock.local.kafka.broker import Broker, BrokerError
from penstock.local.tools import class_archive, jars
from penstock.local.tools.java import require_java
from testkit.errors import WaitTimeout
from testkit.kafka.topic_admin import create_topics
from testkit.wait import wait_for

_WATCH_SECONDS = 12.0
_ARCHIVE_SECONDS = 300.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if every flag arrived, and 1 if flags were lost or wrong, or something failed."""
    parser = argparse.ArgumentParser(prog="python -m demo.laptop", description=__doc__)
    parser.add_argument(
        "--watch-seconds",
        type=float,
        default=_WATCH_SECONDS,
        help="how long to show the flags before the kill, and twice as long as after it "
        "(default: %(default)s)",
    )
    watch_seconds: float = parser.parse_args(arguments).watch_seconds
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
            count = _run(Path(folder), watch_seconds)
    except (CommandError, BrokerError, DriverEnded, WaitTimeout) as error:
        print_line(f"The demo cannot continue: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    _print_next_steps()
    return 0 if count.is_right else 1


def find_java() -> str:
    """The java command. A JAVA_HOME that Spark cannot run with is passed over, and named.

    `penstock run` refuses it, because someone has chosen it. But not for the demo.
    """
    try:
        return require_java()
    except CommandError:
        home = os.environ.pop("JAVA_HOME", "")
        if not home:
            raise
    java = require_java()
    print_line(
        f"JAVA_HOME is {home}, with which Spark cannot run: the demo takes "
        f"{shutil.which(java) or java}"
    )
    return java


def _run(folder: Path, watch_seconds: float) -> Count:
    java = find_java()
    broker = Broker(folder / "broker", jars.jar_folder(jars.BROKER, None, print_line), java)
    print_line(f"Starting a Kafka broker on {broker.bootstrap}")
    broker.start_process()
    try:
        jars.jar_folder(jars.CONNECTOR, None, print_line)
        broker.wait_until_ready()
        create_topics(broker.bootstrap, {SOURCE: PARTITIONS, SINK: 1})
        return _run_stream(folder, broker.bootstrap, watch_seconds)
    finally:
        broker.kill()


def _run_stream(folder: Path, bootstrap: str, watch_seconds: float) -> Count:
    driver = Driver(folder, EXAMPLE, bootstrap)
    print_line(f"$ {shlex.join(driver.shown_command)}")
    started = time.monotonic()
    driver.start()
    try:
        driver.wait_running()
        print_line(f"Running after {time.monotonic() - started:.0f} s: {driver.summary()}")
        count = kill_and_count(bootstrap, watch_seconds, lambda: _kill(driver), _wait_for_archive)
        print_line(str(count))
        driver.stop()
        return count
    finally:
        driver.kill()


def _wait_for_archive() -> None:
    if class_archive.is_being_written():
        print_line("Waiting, once on this machine, for an archive of its classes: it starts faster")
        wait_for("the archive", lambda: not class_archive.is_being_written(), _ARCHIVE_SECONDS)


def _kill(driver: Driver) -> None:
    """Kills the driver, starts it again over its checkpoint, and waits until it runs."""
    print_line("Killing the driver: SIGKILL for its process and its JVM")
    killed = time.monotonic()
    driver.kill()
    print_line(
        "Starting it again. (On a cluster the kubelet and the operator do that, without help: "
        "make demo-cluster)"
    )
    driver.start()
    driver.wait_running()
    print_line(
        f"Running again after {time.monotonic() - killed:.0f} s, from its checkpoint: "
        f"{driver.summary()}"
    )


def _print_next_steps() -> None:
    print_line(
        """Try next:
  source .venv/bin/activate
  penstock run --with-kafka --feed examples/data/payments.jsonl --show examples/fraud-flags.yaml
  penstock validate examples/  # and again after you have added `GROUP BY key` to the SQL of one
  penstock run examples/rate-to-console.yaml  # no Kafka; examples/ has all triggers and transforms
  make demo-cluster  # the operator on a kind cluster, where nobody starts the driver again by hand
To read: docs/index.md and docs/concepts.md. To remove it: rm -rf .venv ~/.cache/penstock/run"""
    )


if __name__ == "__main__":
    sys.exit(main())
