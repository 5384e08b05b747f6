"""Starts the driver.

Exit codes: 0 after a clean stop, RESTART, and FAILED if the driver was to stop anyway.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from penstock.api.quantities import in_cores
from penstock.api.v1alpha1.spec import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.contract.sizing import driver_cpu, driver_memory, may_run_in_driver
from penstock.contract.stream_defaults import StreamDefaults
from penstock.driver import logs
from penstock.driver.checkpoint.storage.access import WriteRight
from penstock.driver.context import DriverContext
from penstock.driver.environment import (
    Environment,
    LocalEnvironment,
    PodEnvironment,
    local_ip,
    pod_environment,
    unknown_uid,
)
from penstock.driver.exceptions.classify import classify_exception
from penstock.driver.failures import DriverError, Failure
from penstock.driver.hang_guard import HangGuard
from penstock.driver.jvm import ENV_JAVA_OPTIONS, Jvm, fast_start_options
from penstock.driver.kubernetes.api import Api, OwnStream
from penstock.driver.kubernetes.followed_stream import FollowedStream, LiveFields, StreamDocument
from penstock.driver.kubernetes.orphan_guard import Answer, Look, OrphanGuard, OwnPod
from penstock.driver.logs import log_event
from penstock.driver.loop import DriverMustExit, DriverOutput
from penstock.driver.process_restart import EarlierProcesses
from penstock.driver.queries import Queries
from penstock.driver.reporting.http_server import Health, metrics_page, probe_pages, serve
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.reporting.publisher import ReportPublisher
from penstock.driver.reporting.report import write_termination_message
from penstock.driver.shutdown import Shutdown
from penstock.driver.spark.session import submit_arguments

RESTART, FAILED = 1, 2
# For the loop to return after its JVM was killed.
_EXIT_SECONDS = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: without arguments in the driver pod, with --checkpoint on a laptop."""
    parser = argparse.ArgumentParser(prog="penstock.driver", description=__doc__)
    default = f"{naming.SPEC_DIR}/{naming.SPEC_FILE}"
    parser.add_argument(
        "file", nargs="?", default=default, help=f"the stream's manifest; default {default}"
    )
    parser.add_argument(
        "--checkpoint", type=Path, help="outside a pod: the folder of the checkpoint"
    )
    parser.add_argument("--class-path", default="", help="additional jars for the JVM")
    parser.add_argument("--http-port", type=int, help="outside a pod: serve probes and metrics")
    parser.add_argument(
        "--secrets", type=Path, default=Path("secrets"), help="outside a pod: NAME/KEY of Secrets"
    )
    parser.add_argument(
        "--config-maps",
        type=Path,
        default=Path("configmaps"),
        help="outside a pod: NAME/KEY of ConfigMaps with Python",
    )
    parser.add_argument(
        "--termination-log", type=Path, help="outside a pod: file for the reason of an exit"
    )
    options = parser.parse_args(arguments)
    logs.set_up()
    defaults = StreamDefaults.from_json(os.environ.get(naming.ENV_STREAM_DEFAULTS, ""))
    document = StreamDocument(Path(options.file).read_text(), defaults)
    in_pod = naming.ENV_POD_NAME in os.environ
    stream = document.stream if in_pod else ContinuousStream.from_yaml(document.text)
    environment: Environment | None = pod_environment(os.environ, stream)
    if environment is None:
        if options.checkpoint is None:
            parser.error(
                "--checkpoint is required outside a pod: the folder for the stream's progress"
            )
        environment = LocalEnvironment(
            options.checkpoint,
            options.class_path,
            options.http_port,
            options.termination_log,
            secrets=options.secrets,
            python=options.config_maps,
            pod_uid=os.environ.get(naming.ENV_POD_UID) or unknown_uid(),
        )
    return run(stream, environment, document=document)


def run(
    stream: ContinuousStream,
    environment: Environment,
    on_report: Callable[[DriverReport], None] | None = None,
    side_tasks: Callable[[Jvm], AbstractContextManager[object]] | None = None,
    stop: threading.Event | None = None,
    metrics: Metrics | None = None,
    document: StreamDocument | None = None,
) -> int:
    """Runs one stream until a signal or `stop`; returns the exit code.

    `on_report` gets every report, and `metrics` has its numbers. The context that `side_tasks`
    returns for the JVM is open while the loop runs, and closed before the JVM ends. `document` is
    where the stream is from; in a pod, newer ones take its place.
    """
    health, metrics = Health(), metrics or Metrics()
    _serve_pages(environment, health, metrics)
    stop = stop or threading.Event()
    write_right = WriteRight(stream, environment)
    try:
        inherited = write_right.acquire_on_volume()
    except DriverError as error:
        return _exit_with(environment, error.failure)
    jvm = _launch(stream, environment, inherited)
    shutdown = Shutdown(stop, jvm)
    exit_code = 0

    def failed(failure: Failure) -> int:
        code = _exit_with(environment, failure, jvm)
        return FAILED if stop.is_set() else code

    def end_without_pod(failure: Failure) -> None:
        nonlocal exit_code
        _exit_with(environment, failure)  # it may take too long, and be killed
        exit_code = FAILED
        shutdown.request()

    try:
        publish, flush, check_published = _publisher(environment, on_report)
        begun = document or StreamDocument("")
        earlier = EarlierProcesses.of(os.environ)
        waiting = _Waiting(begun.spec_hash, earlier, publish)
        limit, health.iteration_timeout = health.iteration_timeout, math.inf
        may_write = write_right.acquire_in_store(jvm, stop, waiting)
        health.last_iteration_at, health.iteration_timeout = time.monotonic(), limit
        if not may_write:
            jvm.end()
            return exit_code
        shutdown.before_end = write_right.release_in_store
        api = (
            Api.in_cluster(environment.api_server, environment.namespace)
            if isinstance(environment, PodEnvironment)
            else None
        )
        followed = FollowedStream(LiveFields.of(stream.spec), begun.defaults)
        if api is not None and isinstance(environment, PodEnvironment):
            followed.follow(OwnStream(api, stream.metadata.name, environment.pod_hash))
            # The kubelet may have mounted an earlier one, before a process that has ended.
            if followed.next_document is not None:
                begun = followed.next_document
                stream = begun.stream
        context = DriverContext.of(stream, environment, jvm, followed, api)
        queries = Queries(begun, stream, context, DriverOutput(health, metrics, publish), earlier)
        guard = HangGuard().watch(
            health,
            jvm.answers,
            jvm.cpu_seconds,
            lambda failure: _end_hung(environment, jvm, failure),
        )
        shutdown.may_end_at_once = lambda: queries.may_end_at_once

        def before_end() -> None:
            queries.note_clean_stop()
            write_right.release_in_store()

        shutdown.before_end = before_end
        if api is not None and isinstance(environment, PodEnvironment):
            look = _look(environment, api, health, queries, write_right, check_published)
            OrphanGuard().watch(look, end_without_pod)
        with _without_time_limit(health, side_tasks(jvm) if side_tasks else nullcontext()):
            queries.run(stop)
        flush()
        write_right.release_in_store()
        guard.set()
        shutdown.close()  # nothing is left to lose, and the JVM's end has its own limit
        jvm.end()
    except (DriverMustExit, DriverError) as end:
        if not shutdown.ended_at_once:
            return failed(end.failure)
    except Exception as error:
        if not shutdown.ended_at_once:
            # The exception's text may contain a trace of the JVM, and with it a record.
            log_event("the driver failed", level=40, at=traceback.format_tb(error.__traceback__))
            gone = jvm.exit_failure if jvm.is_gone_after(error) else None
            return failed(gone or classify_exception(error))
    finally:
        shutdown.close()
        write_right.release_on_volume()
    return exit_code


class _Waiting:
    """Says what the driver waits for before it may begin: each reason once."""

    def __init__(
        self,
        spec_hash: str,
        earlier: EarlierProcesses,
        publish: Callable[[DriverReport], None],
    ) -> None:
        self._spec_hash = spec_hash
        self._earlier = earlier
        self._publish = publish
        self._said = ""

    def __call__(self, failure: Failure) -> None:
        if failure.reason == self._said:
            return
        self._said = failure.reason
        level = logging.WARNING if failure.permanent else logging.INFO
        log_event("the driver waits", level, reason=failure.reason, cause=failure.message)
        state = QueryState.FAILED if failure.permanent else QueryState.STARTING
        status = failure.to_status(datetime.now(UTC)) if failure.permanent else None
        self._publish(
            DriverReport(
                spec_hash=self._spec_hash,
                state=state,
                message=failure.message,
                process_restarts=self._earlier.restarts,
                last_failure=status or self._earlier.failure,
            )
        )


def _look(
    environment: PodEnvironment,
    api: Api,
    health: Health,
    queries: Queries,
    write_right: WriteRight,
    check_published: Callable[[str | None], None],
) -> Callable[[], Look]:
    """What the driver sees of its own pod; at the checkpoint only when the API server is no help:
    a volume may not answer.

    `check_published` gets the report that is on the pod.
    """
    own_pod = OwnPod(api, environment.pod_name)

    def look() -> Look:
        answer = own_pod.ask()
        if answer is Answer.EXISTS:
            check_published(own_pod.report)
        doubtful = answer is Answer.UNAUTHORIZED
        return Look(
            now=time.monotonic(),
            answer=answer,
            token=api.token(),
            probed_at=health.probed_at,
            successor_waits=doubtful and write_right.is_awaited(),
            needs_executors=queries.needs_executors,
        )

    return look


@contextmanager
def _without_time_limit(health: Health, tasks: AbstractContextManager[object]) -> Iterator[None]:
    """Opens and closes the context without the limit of a step of the loop, which runs inside.

    A broker has two minutes to start, and a whole file may be sent before the query starts. The
    context has its own limits and reasons, which the hang guard would cut short.
    """
    limit, health.iteration_timeout = health.iteration_timeout, math.inf
    with tasks:
        health.last_iteration_at, health.iteration_timeout = time.monotonic(), limit
        try:
            yield
        finally:
            health.iteration_timeout = math.inf


def _serve_pages(environment: Environment, health: Health, metrics: Metrics) -> None:
    """Probes and metrics: a port each in a pod, one port on a laptop, which serves only itself."""
    if isinstance(environment, PodEnvironment):
        serve(naming.PROBES_PORT, probe_pages(health))
        serve(naming.METRICS_PORT, metrics_page(metrics))
    elif environment.http_port is not None:
        pages = {**probe_pages(health), **metrics_page(metrics)}
        serve(environment.http_port, pages, environment.address)


def java_options(spec: StreamSpec) -> list[str]:
    """The JVM options that the image and the spec ask for."""
    return [
        *os.environ.get(ENV_JAVA_OPTIONS, "").split(),
        *spec.driver.java_options,
    ]


def class_path(spec: StreamSpec, environment: Environment) -> str:
    """The JVM's class path beyond pyspark's own jars."""
    parts = [environment.class_path, spec.spark_conf.get("spark.driver.extraClassPath", "")]
    return os.pathsep.join(part for part in parts if part)


def _launch(stream: ContinuousStream, environment: Environment, inherits: Sequence[int]) -> Jvm:
    spec = stream.spec
    options, heap = java_options(spec), driver_memory(spec).heap
    if isinstance(environment, PodEnvironment):
        cores = in_cores(driver_cpu(spec).request)
        options = fast_start_options(options, heap, cores, runs_tasks=may_run_in_driver(spec))
    else:
        options = [*environment.java_options, *options]
    return Jvm.launch(
        heap,
        class_path(spec, environment),
        local_ip(environment, spec.observability),
        options,
        submit_arguments(spec, environment.scratch),
        inherits,
    )


def _publisher(
    environment: Environment, on_report: Callable[[DriverReport], None] | None
) -> tuple[Callable[[DriverReport], None], Callable[[], None], Callable[[str | None], None]]:
    """What publishes a report, waits for the last one, and gets the one that is on the pod."""
    notify = on_report or (lambda report: None)
    if not isinstance(environment, PodEnvironment):
        return notify, lambda: None, lambda annotation: None
    publisher = ReportPublisher(
        Api.in_cluster(environment.api_server, environment.namespace), environment.pod_name
    )

    def publish(report: DriverReport) -> None:
        publisher.publish(report)
        notify(report)

    return publish, lambda: publisher.flush(2.0), publisher.check_published


def _end_hung(environment: Environment, jvm: Jvm, failure: Failure) -> None:
    """Kills the JVM, so that the blocked loop returns and exits; if it does not, exits here."""
    log_event("the driver is hung", level=40, reason=failure.reason, cause=failure.message)
    jvm.kill(failure)
    timer = threading.Timer(_EXIT_SECONDS, lambda: os._exit(_exit_with(environment, failure, jvm)))
    timer.daemon = True
    timer.start()


def _exit_with(environment: Environment, failure: Failure, jvm: Jvm | None = None) -> int:
    # A process that exits is restarted, so no exit is for ever.
    failure = replace(failure, permanent=False)
    log_event("the driver exits", level=40, reason=failure.reason, cause=failure.message)
    write_termination_message(environment.termination_log, failure.to_status(datetime.now(UTC)))
    if jvm is not None:
        jvm.kill()
    return RESTART
