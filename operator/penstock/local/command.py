"""`penstock run`: checks the options, prepares the machine and runs the driver."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.sizing import driver_memory
from penstock.driver import jvm, main
from penstock.driver.environment import LocalEnvironment
from penstock.local.errors import CommandError, refusing
from penstock.local.kafka.broker import BrokerError
from penstock.local.kafka.redirect import redirect, uses_kafka
from penstock.local.kafka.with_kafka import check_feed, with_kafka
from penstock.local.manifest import load_stream
from penstock.local.messages import print_message
from penstock.local.run import run_driver
from penstock.local.secret_files import require_files
from penstock.local.tools import jars
from penstock.local.tools.class_archive import ClassArchive, archive_for
from penstock.local.tools.java import require_java
from penstock.local.tools.proxies import proxy_options
from penstock.local.workspace import hide_from_git, workspace_for

# For a JVM that writes its archive of classes at its end.
_ARCHIVE_SECONDS = 60.0


def run(options: argparse.Namespace) -> int:
    """Runs one stream until it is stopped, and returns the exit code.

    SIGINT and SIGTERM end the command at once until the driver installs its own handlers.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(options)
    except KeyboardInterrupt:
        print_message("stopped before the stream started")
        raise
    except BrokerError as error:
        raise CommandError(str(error), code=2) from error


def _run(options: argparse.Namespace) -> int:
    stream, warnings = load_stream(options.file)
    check_options(options, stream)
    require_port(options.http_port)
    for warning in warnings:
        print_message(warning)
    pyspark = _pyspark_folder()
    java = require_java()
    workspace = workspace_for(stream.metadata.name, options.checkpoint, options.with_kafka)
    if options.checkpoint is None:
        hide_from_git()
    with workspace.locked(), contextlib.ExitStack() as undo:
        class_path = _class_path(options, stream, pyspark)
        side_tasks = None
        if options.with_kafka:
            stream, side_tasks = undo.enter_context(with_kafka(options, stream, workspace, java))
        elif options.bootstrap_servers:
            stream = redirect(stream, options.bootstrap_servers, keep_security=True).stream
        require_files(stream.spec, options.secrets, options.config_maps)
        environment = LocalEnvironment(
            workspace.checkpoint,
            class_path,
            options.http_port,
            secrets=options.secrets.absolute(),
            python=options.config_maps.absolute(),
        )
        archive = _class_archive(stream, environment)
        environment = replace(
            environment,
            java_options=(*_proxies_for_dependencies(stream.spec), *archive.options),
            exit_seconds=_ARCHIVE_SECONDS if archive.is_missing else environment.exit_seconds,
        )
        code = run_driver(stream, environment, workspace, side_tasks, plain=options.plain)
        archive.keep()
        return code


def check_options(options: argparse.Namespace, stream: ContinuousStream) -> None:
    """Raises CommandError if the options contradict each other or do not fit the stream."""
    spec = stream.spec
    if options.with_kafka and options.bootstrap_servers:
        raise CommandError(
            "--with-kafka and --bootstrap-servers cannot be used together: remove one", code=2
        )
    for name in ("feed", "show", "topic", "once"):
        if getattr(options, name) and not options.with_kafka:
            raise CommandError(f"--{name} needs --with-kafka: add it", code=2)
    if (options.with_kafka or options.bootstrap_servers) and not uses_kafka(spec):
        raise CommandError(
            f"{stream.metadata.name} has no Kafka source or sink: remove --with-kafka and "
            "--bootstrap-servers",
            code=2,
        )
    if options.feed:
        check_feed(spec, options.once)
    if options.show and (spec.sink.kafka is None or spec.sink.kafka.topic is None):
        raise CommandError("--show needs spec.sink.kafka.topic, and the stream has none", code=2)


def require_port(port: int | None) -> None:
    """Raises CommandError if the driver could not listen there."""
    if port is None:
        return
    address = LocalEnvironment.address, port
    with refusing(f"--http-port {port}", "choose another --http-port"), socket.socket() as probe:
        # As the driver's server: a connection that has just been closed does not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


def _pyspark_folder() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise CommandError(
            "Spark is not installed: install penstock[local] "
            "(in a checkout: pip install '.[local]')",
            code=2,
        )
    return Path(found.origin).parent


def _class_archive(stream: ContinuousStream, environment: LocalEnvironment) -> ClassArchive:
    spec = stream.spec
    jars_of_spec = main.class_path(spec, environment)
    return archive_for(jvm.command(driver_memory(spec).heap, jars_of_spec, main.java_options(spec)))


def _proxies_for_dependencies(spec: StreamSpec) -> tuple[str, ...]:
    """Options for the JVM that downloads them."""
    has_some = spec.dependencies.packages or spec.dependencies.jars
    return proxy_options(os.environ) if has_some else ()


def _class_path(options: argparse.Namespace, stream: ContinuousStream, pyspark: Path) -> str:
    given: str = options.class_path
    with_pyspark = os.pathsep.join([f"{pyspark}/jars/*", given])
    if not jars.needs_connector(stream.spec, with_pyspark):
        return given
    connector = jars.jar_folder(jars.CONNECTOR, stream.spec.spark_conf, print_message)
    return os.pathsep.join(part for part in (given, f"{connector}/*") if part)
