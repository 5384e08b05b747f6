"""The options of `penstock run`."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = """
Runs a ContinuousStream on this machine: the driver that a pod runs, with a task slot for each
partition in one JVM. Ctrl-C stops it in good order. A second run goes on from the checkpoint.
Needs Java 17 and pip install 'penstock[local]'.
"""
EPILOG = """
examples:
  penstock run examples/rate-to-console.yaml
  penstock run --with-kafka --feed examples/data/payments.jsonl --show examples/fraud-flags.yaml
  penstock run --bootstrap-servers localhost:9092 stream.yaml

exit codes: 0 stopped, or an availableNow stream has read what there was; 1 the stream was refused
or has failed for good; 2 wrong usage, or something is missing on this machine.
"""

# Each is a few calls into the JVM.
_MOST_LINES = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything that the command line takes."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a manifest with one stream")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="where progress is kept (default: .penstock/NAME/checkpoint, or "
        ".penstock/NAME-with-kafka/checkpoint); delete it to begin anew",
    )
    parser.add_argument(
        "--plain", action="store_true", help="log lines (JSON) instead of the live view"
    )
    parser.add_argument(
        "--class-path", default="", metavar="JARS", help="further jars for the JVM, as java -cp"
    )
    parser.add_argument(
        "--http-port", type=int, metavar="PORT", help="serve /metrics, /livez and /readyz"
    )
    parser.add_argument(
        "--secrets",
        type=Path,
        default=Path("secrets"),
        metavar="DIR",
        help="files NAME/KEY for the Secrets that the stream names (default: secrets)",
    )
    parser.add_argument(
        "--config-maps",
        type=Path,
        default=Path("configmaps"),
        metavar="DIR",
        help="files NAME/KEY for the ConfigMaps that it names (default: configmaps)",
    )
    parser.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT",
        help="use these brokers instead of those that the file names",
    )
    _add_kafka(parser.add_argument_group("a Kafka of its own"))


def _add_kafka(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--with-kafka",
        action="store_true",
        help="start a Kafka broker on loopback, make the topics, and use it instead of the brokers "
        "that the file names; its records are kept beside the checkpoint",
    )
    group.add_argument(
        "--partitions",
        type=_count,
        default=4,
        metavar="N",
        help="partitions of the topics it makes (default: 4)",
    )
    group.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME",
        help="a further topic to make; may be repeated",
    )
    group.add_argument(
        "--feed", type=Path, metavar="FILE", help="send the lines of this file to the source topic"
    )
    group.add_argument(
        "--rate",
        type=_rate,
        default=10.0,
        metavar="N",
        help="lines a second (default: 10)",
    )
    group.add_argument("--once", action="store_true", help="feed the file once, not over and over")
    group.add_argument(
        "--show", action="store_true", help="print what arrives in the sink topic (stdout)"
    )


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than one")
    return number


def _rate(text: str) -> float:
    if not 0 < (number := float(text)) <= _MOST_LINES:
        raise argparse.ArgumentTypeError(f"{text} is not more than 0 and at most {_MOST_LINES}")
    return number
