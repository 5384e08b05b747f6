"""The options of `penstock run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from penstock.command_line import option

# Each line takes a few calls into the JVM.
_MAX_RATE = 1000

BootstrapServers = Annotated[
    str | None, option("use these Kafka brokers instead of those in the manifest", "HOST:PORT")
]
ClassPath = Annotated[str, option("additional jars for the JVM, as for java -cp", "JARS")]
Secrets = Annotated[
    Path, option("folder with a file NAME/KEY for each Secret key of the stream", "DIR")
]
ConfigMaps = Annotated[
    Path, option("folder with a file NAME/KEY for each ConfigMap key of the stream", "DIR")
]


@Parameter(name="*", group=Group("Local Kafka options", sort_key=1))
@dataclass(frozen=True)
class LocalKafkaOptions:
    """The options of --with-kafka, and those that need it."""

    with_kafka: Annotated[
        bool,
        option(
            "start a Kafka broker on this machine, create the stream's topics and use it instead "
            "of the brokers in the manifest; its data is kept next to the checkpoint"
        ),
    ] = False
    feed: Annotated[
        Path | None,
        option(
            "send the lines of this file (UTF-8) to the source topic, again and again; empty lines "
            "are left out",
            "FILE",
        ),
    ] = None
    once: Annotated[
        bool,
        option(
            "send the lines of --feed only once; before the query starts if the trigger is "
            "availableNow"
        ),
    ] = False
    partitions: Annotated[int, option("partitions of each topic", "N", validator=Number(gte=1))] = 4
    rate: Annotated[
        float,
        option(
            "lines per second that --feed sends; not for an availableNow stream",
            "N",
            validator=Number(gt=0, lte=_MAX_RATE),
        ),
    ] = 10.0
    show: Annotated[
        bool,
        option(
            "print the records of the sink topic on stdout: the key, if any, a tab and the value, "
            "or null without one"
        ),
    ] = False
    topic: Annotated[tuple[str, ...], option("create this topic too; may be repeated", "NAME")] = ()


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions:
    bootstrap_servers: BootstrapServers = None
    checkpoint: Annotated[
        Path | None,
        option(
            "folder of the checkpoint; delete it to start from the beginning (default: "
            ".penstock/NAME/checkpoint, or .penstock/NAME-with-kafka/checkpoint)",
            "DIR",
        ),
    ] = None
    class_path: ClassPath = ""
    config_maps: ConfigMaps = Path("configmaps")
    http_port: Annotated[
        int | None,
        option(
            "serve /metrics, /livez and /readyz on this port (default: not served)",
            "PORT",
            validator=Number(gte=1, lte=65535),
        ),
    ] = None
    plain: Annotated[bool, option("print log lines (JSON) instead of the live view")] = False
    secrets: Secrets = Path("secrets")
    wait: Annotated[
        bool,
        option(
            "wait for what may come by itself, such as a missing topic, as the stream's pod does "
            "(default: exit with 1)"
        ),
    ] = False
