"""Start, wire, exit codes: 0 after a clean stop, 1 if the process must be made anew."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport
from penstock.contract.sizing import driver_memory
from penstock.driver import logs
from penstock.driver.checkpoint import lock
from penstock.driver.environment import (
    Environment,
    LocalEnvironment,
    PodEnvironment,
    pod_environment,
)
from penstock.driver.failures import DriverError, Failure
from penstock.driver.java_exceptions import classify_exception
from penstock.driver.jvm import ENV_JAVA_OPTIONS, Jvm, fast_start_options
from penstock.driver.kubernetes_api import Api
from penstock.driver.logs import log_event
from penstock.driver.reporting.http_server import Health, serve
from penstock.driver.reporting.metrics import Metrics
from penstock.driver.reporting.publisher import ReportPublisher
from penstock.driver.reporting.report import write_termination_message
from penstock.driver.reporting.sampler import Sampler
from penstock.driver.spark.dependencies import submit_arguments
from penstock.driver.spark.session import SCRATCH
from penstock.driver.supervision import hang_guard
from penstock.driver.supervision.failure_count import FailureCount
from penstock.driver.supervision.loop import DriverMustExit, Loop
from penstock.driver.supervision.restart_policy import RestartPolicy
from penstock.driver.supervision.runtime import QueryRuntime

# Within the kubelet's default grace period of 30 s.
_STOP_SECONDS = 25.0
# For a loop whose JVM was taken from it to come back.
_LAST_SECONDS = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The driver's command line: without arguments in its pod, with --checkpoint on a laptop."""
    parser = argparse.ArgumentParser(prog="penstock.driver", description=__doc__)
    default = f"{naming.SPEC_DIR}/{naming.SPEC_FILE}"
    parser.add_argument("file", nargs="?", default=default, help=f"the stream; {default}")
    parser.add_argument("--checkpoint", type=Path, help="outside a pod: the checkpoint's folder")
    parser.add_argument("--class-path", default="", help="further jars for the JVM")
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
    parser.add_argument("--termination-log", type=Path, help="outside a pod: where to say why")
    given = parser.parse_args(arguments)
    logs.set_up()
    stream = ContinuousStream.from_yaml(Path(given.file).read_text())
    environment: Environment | None = pod_environment(os.environ, stream)
    if environment is None:
        if given.checkpoint is None:
            parser.error("outside a pod, --checkpoint says where progress is kept")
        environment = LocalEnvironment(
            given.checkpoint,
            given.class_path,
            given.http_port,
            given.termination_log,
            secrets=given.secrets,
            python=given.config_maps,
        )
    return run(stream, environment)


def run(
    stream: ContinuousStream,
    environment: Environment,
    watch: Callable[[DriverReport], None] | None = None,
    beside: Callable[[Jvm], AbstractContextManager[object]] | None = None,
    stop: threading.Event | None = None,
    metrics: Metrics | None = None,
) -> int:
    """Runs one stream in one place until it is told to stop: by a signal, or by `stop`.

    `watch` sees every report, and `metrics` holds the numbers of it. What `beside` makes of the JVM
    is open while the query is looked after, and closed while the JVM still lives.
    """
    health, metrics = Health(), metrics or Metrics()
    if environment.http_port is not None:
        # A pod's probes come from the kubelet; a laptop's numbers are its own.
        at = environment.address if isinstance(environment, LocalEnvironment) else ""
        serve(environment.http_port, health, metrics, at)
    stop = stop or threading.Event()
    try:
        held = lock.acquire(environment.checkpoint)
    except DriverError as error:
        return _give_up(environment, error.failure)
    jvm = _launch(stream, environment, [] if held is None else [held])
    _stop_on_signals(stop, jvm)
    try:
        publish, flush = _publisher(environment, watch)
        api = (
            Api.in_cluster(environment.namespace)
            if isinstance(environment, PodEnvironment)
            else None
        )
        runtime = QueryRuntime(stream, environment, jvm, api)
        policy = RestartPolicy.from_spec(stream.spec)
        hang_guard.watch(health, lambda failure: _end_hung(environment, jvm, failure))
        measurer = Sampler(runtime, jvm, stream.spec, environment.secrets, metrics)
        ended = (
            FailureCount(environment.checkpoint, environment.spec_hash)
            if policy.max_attempts
            else None
        )
        loop = Loop(runtime, jvm, policy, environment.spec_hash, health, metrics, publish, ended)
        with beside(jvm) if beside else nullcontext():
            loop.run(stop)
        measurer.end()
        flush()
        jvm.end()
    except DriverMustExit as end:
        return _give_up(environment, end.failure, jvm)
    except Exception as error:
        log_event("the driver failed", level=40, error=repr(error))
        return _give_up(environment, classify_exception(error), jvm)
    finally:
        lock.release(held)
    return 0


def _launch(stream: ContinuousStream, environment: Environment, inherits: Sequence[int]) -> Jvm:
    spec = stream.spec
    options = [
        *os.environ.get(ENV_JAVA_OPTIONS, "").split(),
        *spec.spark_conf.get("spark.driver.extraJavaOptions", "").split(),
        *spec.driver.java_options,
    ]
    if isinstance(environment, PodEnvironment):
        options = fast_start_options(options)
    class_path = [environment.class_path, spec.spark_conf.get("spark.driver.extraClassPath", "")]
    joined = os.pathsep.join(part for part in class_path if part)
    return Jvm.launch(
        driver_memory(spec).heap,
        joined,
        environment.address,
        options,
        submit_arguments(spec, SCRATCH),
        inherits,
    )


def _stop_on_signals(stop: threading.Event, jvm: Jvm) -> None:
    """A stop that takes too long is cut short: a checkpoint can take that, a grace period not.

    So does one that a person has no patience for, with a second Ctrl-C.
    """
    asked = threading.Event()

    def cut_short() -> None:
        log_event("the stop took too long and was cut short", level=40)
        jvm.kill()
        os._exit(1)

    def on_signal(number: int, frame: object) -> None:
        if asked.is_set():
            if number == signal.SIGINT:
                cut_short()
        else:
            asked.set()
            stop.set()
            timer = threading.Timer(_STOP_SECONDS, cut_short)
            timer.daemon = True
            timer.start()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)


def _publisher(
    environment: Environment, watch: Callable[[DriverReport], None] | None
) -> tuple[Callable[[DriverReport], None], Callable[[], None]]:
    seen = watch or (lambda report: None)
    if not isinstance(environment, PodEnvironment):
        return seen, lambda: None
    reporter = ReportPublisher(Api.in_cluster(environment.namespace), environment.pod_name)

    def publish(report: DriverReport) -> None:
        reporter.publish(report)
        seen(report)

    return publish, lambda: reporter.flush(2.0)


def _end_hung(environment: Environment, jvm: Jvm, failure: Failure) -> None:
    """Without its JVM the loop comes back, and ends the process; if not, it is ended here."""
    log_event("the driver hangs", level=40, reason=failure.reason, cause=failure.message)
    jvm.kill(failure)
    timer = threading.Timer(_LAST_SECONDS, lambda: os._exit(_give_up(environment, failure, jvm)))
    timer.daemon = True
    timer.start()


def _give_up(environment: Environment, failure: Failure, jvm: Jvm | None = None) -> int:
    log_event("the driver ends", level=40, reason=failure.reason, cause=failure.message)
    write_termination_message(environment.termination_log, failure.to_status(datetime.now(UTC)))
    if jvm is not None:
        jvm.kill()
    return 1
