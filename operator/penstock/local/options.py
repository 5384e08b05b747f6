"""The options of `penstock run`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from penstock import DISTRIBUTION
from penstock.local.errors import CommandError

DESCRIPTION = f"""
Run a stream on this machine, in one JVM with a task slot for each partition.

This is the same driver that runs in a pod. Ctrl-C stops it cleanly; the next run continues from
the checkpoint. Requires {DISTRIBUTION}[local] and Java 17 or newer, which the extra `java` brings
too (in a checkout: pip install '.[local,java]').
"""
EPILOG = """
examples:
  # Run a stream that needs no broker
  penstock run examples/rate-to-console.yaml

  # Start a Kafka broker, send it the lines of a file and print the results
  penstock run --with-kafka --feed examples/data/payments.jsonl --show examples/fraud-flags.yaml

  # Use brokers other than those in the manifest
  penstock run --bootstrap-servers localhost:9092 stream.yaml

exit codes:
  0  stopped, or an availableNow stream has read all input
  1  the stream was refused or has failed permanently
  2  wrong usage, or something is missing on this machine
"""

# Each line takes a few calls into the JVM.
_MAX_RATE = 1000
_MAX_PORT = 65535


@dataclass(frozen=True)
class LocalKafkaOptions:
    """The options of --with-kafka, and those that need it."""

    partitions: int
    """Of each topic."""
    topics: tuple[str, ...]
    """To create too."""
    feed: Path | None
    """The file whose lines are sent to the source topic."""
    rate: float
    """Lines per second."""
    once: bool
    show: bool


@dataclass(frozen=True)
class RunOptions:
    file: Path
    bootstrap_servers: str | None
    """Of the brokers to use instead of those in the manifest."""
    checkpoint: Path | None
    class_path: str
    secrets: Path
    config_maps: Path
    http_port: int | None
    plain: bool
    wait: bool
    """Whether to go on after a permanent failure whose cause may go away by itself."""
    local_kafka: LocalKafkaOptions | None
    """None: no broker is started."""

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> RunOptions:
        """The options that argparse has read; raises CommandError if they contradict each other."""
        if arguments.with_kafka and arguments.bootstrap_servers:
            raise CommandError(
                "--with-kafka and --bootstrap-servers cannot be used together: remove one", code=2
            )
        for name in ("feed", "show", "topic", "once"):
            if getattr(arguments, name) and not arguments.with_kafka:
                raise CommandError(f"--{name} needs --with-kafka: add it", code=2)
        return cls(
            file=arguments.file,
            bootstrap_servers=arguments.bootstrap_servers,
            checkpoint=arguments.checkpoint,
            class_path=arguments.class_path,
            secrets=arguments.secrets,
            config_maps=arguments.config_maps,
            http_port=arguments.http_port,
            plain=arguments.plain,
            wait=arguments.wait,
            local_kafka=LocalKafkaOptions(
                partitions=arguments.partitions,
                topics=tuple(arguments.topic),
                feed=arguments.feed,
                rate=arguments.rate,
                once=arguments.once,
                show=arguments.show,
            )
            if arguments.with_kafka
            else None,
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a manifest with one stream")
    parser.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT",
        help="use these Kafka brokers instead of those in the manifest",
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="folder of the checkpoint; delete it to start from the beginning (default: "
        ".penstock/NAME/checkpoint, or .penstock/NAME-with-kafka/checkpoint)",
    )
    parser.add_argument(
        "--class-path",
        default="",
        metavar="JARS",
        help="additional jars for the JVM, as for java -cp",
    )
    parser.add_argument(
        "--config-maps",
        type=Path,
        default=Path("configmaps"),
        metavar="DIR",
        help="folder with a file NAME/KEY for each ConfigMap key of the stream (default: "
        "configmaps)",
    )
    parser.add_argument(
        "--http-port",
        type=_port,
        metavar="PORT",
        help="serve /metrics, /livez and /readyz on this port (default: not served)",
    )
    parser.add_argument(
        "--plain", action="store_true", help="print log lines (JSON) instead of the live view"
    )
    parser.add_argument(
        "--secrets",
        type=Path,
        default=Path("secrets"),
        metavar="DIR",
        help="folder with a file NAME/KEY for each Secret key of the stream (default: secrets)",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait for what may come by itself, such as a missing topic, as the stream's pod does "
        "(default: exit with 1)",
    )
    _add_kafka(parser.add_argument_group("local Kafka options"))


def _add_kafka(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--with-kafka",
        action="store_true",
        help="start a Kafka broker on this machine, create the stream's topics and use it instead "
        "of the brokers in the manifest; its data is kept next to the checkpoint",
    )
    group.add_argument(
        "--feed",
        type=Path,
        metavar="FILE",
        help="send the lines of this file (UTF-8) to the source topic, again and again; empty "
        "lines are left out",
    )
    group.add_argument(
        "--once",
        action="store_true",
        help="send the lines of --feed only once; before the query starts if the trigger is "
        "availableNow",
    )
    group.add_argument(
        "--partitions",
        type=_count,
        default=4,
        metavar="N",
        help="partitions of each topic (default: 4)",
    )
    group.add_argument(
        "--rate",
        type=_rate,
        default=10.0,
        metavar="N",
        help="lines per second that --feed sends (default: 10); not for an availableNow stream",
    )
    group.add_argument(
        "--show",
        action="store_true",
        help="print the records of the sink topic on stdout: the key, if any, a tab and the value, "
        "or null without one",
    )
    group.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME",
        help="create this topic too; may be repeated",
    )


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text}")
    return number


def _port(text: str) -> int:
    if not 1 <= (number := int(text)) <= _MAX_PORT:
        raise argparse.ArgumentTypeError(f"must be 1 to {_MAX_PORT}, not {text}")
    return number


def _rate(text: str) -> float:
    if not 0 < (number := float(text)) <= _MAX_RATE:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most {_MAX_RATE}, not {text}")
    return number
