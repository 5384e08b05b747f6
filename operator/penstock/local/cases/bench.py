"""What all cases share: a broker, and a JVM for each kind of stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.command_line import CommandError
from penstock.contract.sizing import driver_memory
from penstock.driver.environment import LocalEnvironment
from penstock.driver.failures import DriverError
from penstock.driver.jvm import Jvm
from penstock.driver.loop import DriverMustExit
from penstock.local.cases.case_file import Case, CaseFile, ModeName
from penstock.local.cases.case_run import CaseRunner, Outcome
from penstock.local.cases.case_topics import CaseTopics
from penstock.local.cases.stream_of_case import NotTestable, prepare
from penstock.local.command import class_path_of, jvm_arguments, pyspark_folder
from penstock.local.errors import print_message
from penstock.local.kafka.broker import Broker, BrokerError
from penstock.local.kafka.clients import KafkaClients, describe
from penstock.local.tools import jars
from penstock.local.tools.java import require_java

# So that streams of all modes share a JVM.
_HEAP_MEBIBYTES = 1024
# What the first session of a JVM takes at most, more than the others.
_START_SECONDS = 60


@dataclass(frozen=True)
class Folders:
    """Where files are: those of a run, and the user's, as for `penstock run`."""

    scratch: Path
    log: Path
    """What the driver and its JVM log."""
    class_path: str
    config_maps: Path
    secrets: Path


class Bench:
    """Runs cases, one at a time."""

    def __init__(self, broker: Broker, folders: Folders) -> None:
        self._broker = broker
        self._folders = folders
        self._cases = 0
        self._jvm: Jvm | None = None
        self._arguments: tuple[object, ...] = ()
        """Those of the JVM that runs."""

    def run(self, file: CaseFile, case: Case, stream: ContinuousStream, mode: ModeName) -> Outcome:
        """Runs a case in a mode; a stream or a file that does not allow it is a difference."""
        paths = {it: str(file.beside(here).absolute()) for it, here in file.cases.paths.items()}
        try:
            run = prepare(stream, mode, self._broker.bootstrap, paths)
            self._cases += 1
            environment = LocalEnvironment(
                self._folders.scratch / f"checkpoint-{self._cases}",
                class_path_of(self._folders.class_path, run.stream.spec, pyspark_folder()),
                secrets=self._folders.secrets.absolute(),
                python=self._folders.config_maps.absolute(),
            )
            before = self._jvm
            jvm = self._jvm_for(run.stream, environment)
            self._broker.wait_until_ready()  # while the JVM starts
            topics = CaseTopics(KafkaClients(jvm.gateway, self._broker.bootstrap))
            start = 0 if jvm is before else _START_SECONDS
            return CaseRunner(jvm, topics, file, environment, start).run(case, run)
        except (NotTestable, CommandError) as error:
            return Outcome((str(error),))
        except Exception as error:  # one case must not hide how the others end
            self.end_jvm()
            if not self._broker.running:
                raise BrokerError(f"the Kafka broker has ended: see {self._broker.log}") from error
            return Outcome((_words(error),))

    def _jvm_for(self, stream: ContinuousStream, environment: LocalEnvironment) -> Jvm:
        """The JVM that runs, if it is one for such a stream."""
        heap = max(driver_memory(stream.spec).heap, _HEAP_MEBIBYTES)
        needed = jvm_arguments(stream.spec, environment, heap)
        if self._jvm is not None and self._jvm.exit_code is None and self._arguments == needed:
            return self._jvm
        self.end_jvm()
        self._arguments = needed
        self._jvm = Jvm.launch(*needed, log=self._folders.log)
        return self._jvm

    def end_jvm(self) -> None:
        """Ends the JVM, if one runs."""
        if self._jvm is not None:
            self._jvm.end()
            _forget_jvm()
        self._jvm = None


@contextlib.contextmanager
def open_bench(folders: Folders, stream: ContinuousStream) -> Iterator[Bench]:
    """Starts the broker; `stream` is the first that will run.

    Raises CommandError without Java, Spark or the broker's jars, and BrokerError.
    """
    pyspark_folder()
    java = require_java()
    of_broker = jars.jar_folder(jars.BROKER, stream.spec.spark_conf, print_message)
    # So that a record for a topic that nobody expects comes, and is seen.
    broker = Broker(folders.scratch / "kafka", of_broker, java, makes_topics=True)
    broker.start_process()
    bench = Bench(broker, folders)
    try:
        yield bench
    finally:
        bench.end_jvm()
        broker.kill()


def _words(error: Exception) -> str:
    if isinstance(error, DriverMustExit | DriverError):
        return f"{error.failure.reason}: {error.failure.message}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return describe(error)


def _forget_jvm() -> None:
    """pyspark keeps its first JVM, and session, for the whole process."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    for name in ("_gateway", "_jvm", "_active_spark_context"):
        setattr(SparkContext, name, None)
    for name in ("_instantiatedSession", "_activeSession"):
        setattr(SparkSession, name, None)
