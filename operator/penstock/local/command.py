"""`penstock run`: checks that the run can work, prepares the machine and runs the driver."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from penstock import how_to_install
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.command_line import CommandError, files
from penstock.contract.sizing import driver_memory
from penstock.driver import jvm, main
from penstock.driver.environment import LocalEnvironment
from penstock.driver.spark import session
from penstock.local.driver_run import run_driver
from penstock.local.errors import print_message, refusing
from penstock.local.kafka.broker import BrokerError
from penstock.local.kafka.local_kafka import with_kafka
from penstock.local.kafka.stream_on_broker import (
    check_feed,
    redirect,
    without_consumer_group,
)
from penstock.local.manifest import load_stream, require_files
from penstock.local.options import LocalKafkaOptions, RunOptions
from penstock.local.tools import jars
from penstock.local.tools.class_archive import ClassArchive, archive_for
from penstock.local.tools.java import require_java
from penstock.local.tools.maven import proxy_options
from penstock.local.workspace import hide_from_git, workspace_for

_DEFAULTS, _NO_KAFKA = RunOptions(), LocalKafkaOptions()


def run(
    file: Annotated[Path, files("a manifest with one stream, or - for stdin", "FILE")],
    /,
    *,
    options: RunOptions = _DEFAULTS,
    kafka: LocalKafkaOptions = _NO_KAFKA,
) -> int:
    """Run a stream on this machine, in one JVM with a task slot for each partition.

    This is the same driver that runs in a pod. Ctrl-C stops it cleanly; the next run continues from
    the checkpoint. Requires penstock-streams[local] and Java 17 or newer, which the extra `java`
    brings too (in a checkout: pip install '.[local,java]').

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
    # SIGINT and SIGTERM end the command at once until the driver installs its own handlers.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    use_utc()
    try:
        return _run(file, options, kafka)
    except KeyboardInterrupt:
        print_message("stopped before the stream started")
        raise
    except BrokerError as error:
        raise CommandError(str(error), code=2) from error


def use_utc() -> None:
    """Gives this process, its JVM and Spark's Python workers the time zone of the image.

    Spark's SQL has the JVM's, unless spark.sql.session.timeZone says otherwise.
    """
    os.environ["TZ"] = "UTC"
    time.tzset()


def _run(file: Path, options: RunOptions, kafka_options: LocalKafkaOptions) -> int:
    local_kafka = kafka_options if kafka_options.with_kafka else None
    check_together(options, kafka_options)
    stream, warnings = load_stream(file)
    check_options(options, local_kafka, stream)
    require_port(options.http_port)
    for warning in warnings:
        print_message(warning)
    pyspark = pyspark_folder()
    java = require_java()
    workspace = workspace_for(stream.metadata.name, options.checkpoint, local_kafka is not None)
    if options.checkpoint is None:
        hide_from_git()
    with workspace.locked(), contextlib.ExitStack() as undo:
        class_path = class_path_of(options.class_path, stream.spec, pyspark)
        kafka = None
        if local_kafka is not None:
            stream, kafka = undo.enter_context(with_kafka(local_kafka, stream, workspace, java))
        else:
            stream = without_consumer_group(stream)
        if options.bootstrap_servers:
            stream = redirect(stream, options.bootstrap_servers, keep_security=True).stream
        require_files(stream.spec, options.secrets, options.config_maps)
        environment = LocalEnvironment(
            workspace.checkpoint,
            class_path,
            options.http_port,
            secrets=options.secrets.absolute(),
            python=options.config_maps.absolute(),
        )
        archive = class_archive(stream.spec, environment)
        environment = replace(
            environment,
            java_options=(*_proxies_for_dependencies(stream.spec), *archive.options),
        )
        code = run_driver(stream, environment, workspace, kafka, archive.write, options)
        archive.keep()
        return code


def check_together(options: RunOptions, kafka: LocalKafkaOptions) -> None:
    """Raises CommandError if the options contradict each other."""
    if kafka.with_kafka and options.bootstrap_servers:
        raise CommandError(
            "--with-kafka and --bootstrap-servers cannot be used together: remove one", code=2
        )
    for name in ("feed", "show", "topic", "once"):
        if getattr(kafka, name) and not kafka.with_kafka:
            raise CommandError(f"--{name} needs --with-kafka: add it", code=2)


def check_options(
    options: RunOptions, local_kafka: LocalKafkaOptions | None, stream: ContinuousStream
) -> None:
    """Raises CommandError if the options do not fit the stream."""
    spec = stream.spec
    if (local_kafka or options.bootstrap_servers) and not spec.uses_kafka:
        raise CommandError(
            f"{stream.metadata.name} has no Kafka source or sink: remove --with-kafka and "
            "--bootstrap-servers",
            code=2,
        )
    if local_kafka is None:
        return
    if local_kafka.feed:
        check_feed(spec, local_kafka.once)
    if local_kafka.show and (spec.sink.kafka is None or spec.sink.kafka.topic is None):
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


def pyspark_folder() -> Path:
    """Where pyspark is; raises CommandError if it is not installed."""
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise CommandError(
            f"Spark is not installed: {how_to_install('local')}",
            code=2,
        )
    return Path(pyspark.origin).parent


def class_archive(spec: StreamSpec, environment: LocalEnvironment) -> ClassArchive:
    """The archive of the classes that a stream's driver loads on this machine."""
    class_path, options = main.class_path(spec, environment), main.java_options(spec)
    return archive_for(jvm.command(driver_memory(spec).heap, class_path, options))


def jvm_arguments(
    spec: StreamSpec, environment: LocalEnvironment, heap: int
) -> tuple[int, str, str, list[str], list[str]]:
    """Those of Jvm.launch, for a command that ends with its work.

    Its archive of classes is that of `penstock run`. One that such a command writes would lack
    classes that `run` loads.
    """
    archive = class_archive(spec, environment).options_if_written
    options = jvm.fast_start_options((*archive, *main.java_options(spec)), heap, cores=0)
    submit = session.submit_arguments(spec, environment.scratch)
    return heap, main.class_path(spec, environment), environment.address, options, submit


def _proxies_for_dependencies(spec: StreamSpec) -> tuple[str, ...]:
    """Options for the JVM that downloads them."""
    has_some = spec.dependencies.packages or spec.dependencies.jars
    return proxy_options(os.environ) if has_some else ()


def class_path_of(given: str, spec: StreamSpec, pyspark: Path) -> str:
    """What the JVM needs besides pyspark's jars, with those that are `given`."""
    parts = [given]
    if spec.needs_connector:
        there = os.pathsep.join([f"{pyspark}/jars/*", given])
        parts += jars.kafka_class_path(there, spec, print_message)
    return os.pathsep.join(part for part in parts if part)
