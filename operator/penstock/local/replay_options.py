"""The options of `penstock replay`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path

from penstock.driver.record_position import Position

DESCRIPTION = """
Run one record through a stream's query on this machine, and show the rows that come out of it, or
the failure. Nothing is written, and the stream's checkpoint is not touched.

This command shows the record. The query runs as one micro-batch with this record alone: what it
does with several, such as an aggregate, is not shown. Requires what penstock run requires.
"""
EPILOG = """
examples:
  # What a failure names: topic/partition@offset
  penstock replay stream.yaml --at payments/3@1234

  # With the stream as it is in the cluster, and other brokers
  kubectl get cstream fraud-flags -o yaml |
    penstock replay - --at payments/3@1234 --bootstrap-servers localhost:9092

  # A record in the topic of dead letters
  penstock replay stream.yaml --at payments-dead-letters/0@7

exit codes:
  0  the query has processed the record
  1  the query fails over it
  2  wrong usage, or there is no such record
"""


@dataclass(frozen=True)
class ReplayOptions:
    file: Path
    at: Position
    bootstrap_servers: str | None
    class_path: str
    secrets: Path
    config_maps: Path

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> ReplayOptions:
        """The options that argparse has read."""
        given = vars(arguments)
        return cls(**{each.name: given[each.name] for each in fields(cls)})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a manifest with one stream, or - for stdin"
    )
    parser.add_argument(
        "--at",
        type=_position,
        required=True,
        metavar="TOPIC/PARTITION@OFFSET",
        help="the record; its topic need not be one that the stream reads",
    )
    parser.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT",
        help="use these Kafka brokers instead of those in the manifest",
    )
    parser.add_argument(
        "--class-path", default="", metavar="JARS", help="additional jars, as for penstock run"
    )
    for name, what in (("config-maps", "ConfigMap"), ("secrets", "Secret")):
        parser.add_argument(
            f"--{name}",
            type=Path,
            default=Path(name.replace("-", "")),
            metavar="DIR",
            help=f"folder with a file NAME/KEY for each {what} key, as for penstock run",
        )


def _position(text: str) -> Position:
    try:
        return Position.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
