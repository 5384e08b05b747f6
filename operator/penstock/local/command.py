"""`penstock run`: from the command line to a running driver, and back to the prompt."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import signal
from pathlib import Path

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.environment import Local
from penstock.local.errors import Refused
from penstock.local.kafka.broker import BrokerError
from penstock.local.kafka.redirect import rewired, uses_kafka
from penstock.local.kafka.with_kafka import with_kafka
from penstock.local.manifest import load
from penstock.local.messages import tell
from penstock.local.run import drive
from penstock.local.secret_files import require_files
from penstock.local.tools import jars
from penstock.local.tools.java import require_java
from penstock.local.workspace import hide_from_git, home_of


def run(options: argparse.Namespace) -> int:
    """Runs one stream until it is told to stop; the result is the exit code.

    Until the driver takes the signals over, they end the command at once.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(options)
    except KeyboardInterrupt:
        tell("stopped before the stream had started")
        raise
    except BrokerError as error:
        raise Refused(str(error)) from error


def _run(options: argparse.Namespace) -> int:
    stream, warnings = load(options.file)
    check(options, stream)
    for warning in warnings:
        tell(warning)
    pyspark = _pyspark()
    java = require_java()
    home = home_of(stream.metadata.name, options.checkpoint, options.with_kafka)
    if options.checkpoint is None:
        hide_from_git()
    with home.held(), contextlib.ExitStack() as undo:
        class_path = _class_path(options, stream, pyspark)
        company = None
        if options.with_kafka:
            stream, company = undo.enter_context(with_kafka(options, stream, home, java))
        elif options.bootstrap_servers:
            stream = rewired(stream, options.bootstrap_servers, keep_security=True).stream
        require_files(stream.spec, options.secrets, options.config_maps)
        environment = Local(
            home.checkpoint,
            class_path,
            options.http_port,
            secrets=options.secrets.absolute(),
            python=options.config_maps.absolute(),
        )
        return drive(stream, environment, home, company, plain=options.plain)


def check(options: argparse.Namespace, stream: ContinuousStream) -> None:
    """Raises Refused if the options do not go together, or not with this stream."""
    spec = stream.spec
    if options.with_kafka and options.bootstrap_servers:
        raise Refused("--with-kafka and --bootstrap-servers exclude each other", code=2)
    for name in ("feed", "show", "topic", "once"):
        if getattr(options, name) and not options.with_kafka:
            raise Refused(f"--{name} needs --with-kafka", code=2)
    if (options.with_kafka or options.bootstrap_servers) and not uses_kafka(spec):
        raise Refused(
            f"{stream.metadata.name} has no Kafka in its source or sink: run it without "
            "--with-kafka and --bootstrap-servers",
            code=2,
        )
    if options.feed and spec.source.kafka is None:
        raise Refused("--feed fills a Kafka topic, and the stream's source is another", code=2)
    if options.show and (spec.sink.kafka is None or spec.sink.kafka.topic is None):
        raise Refused("--show prints spec.sink.kafka.topic, and the stream names none", code=2)


def _pyspark() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise Refused("Spark is not installed here: pip install 'penstock[local]'", code=2)
    return Path(found.origin).parent


def _class_path(options: argparse.Namespace, stream: ContinuousStream, pyspark: Path) -> str:
    given: str = options.class_path
    everything = os.pathsep.join([f"{pyspark}/jars/*", given])
    if not jars.lacks_connector(stream.spec, everything):
        return given
    connector = jars.folder_of(jars.CONNECTOR, stream.spec.spark_conf, tell)
    return os.pathsep.join(part for part in (given, f"{connector}/*") if part)
