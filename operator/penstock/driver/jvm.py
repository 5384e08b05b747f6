"""The driver's JVM: started directly, monitored, and ended with the driver.

pyspark itself starts a shell script, which starts a JVM that prints the command line of a second
JVM. Starting the second one directly saves about two seconds of each recovery (measured), gives its
exit code, and bounds the wait. The main class and the file that it writes its port to are those of
pyspark.java_gateway.launch_gateway.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil

from penstock.contract.remedies import REMEDIES
from penstock.driver.failures import (
    CHECKPOINT_TAKEN_OVER,
    IMAGE_NOT_USABLE,
    OBJECT_STORE_NOT_ACCESSIBLE,
    DriverError,
    Failure,
)
from penstock.driver.logs import leave_out_noise

# Of the driver's and the executors' JVMs: both files are at the same place in the image.
COMMON_OPTIONS = (
    # C2 compiles what has run ten times as often as by default: starting Spark runs very much code
    # a few thousand times (docs/capacity.md, "The driver's JVM", has the figures).
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
    # Otherwise a thread may die of it alone: without the one that sends for Kafka's producer, a
    # task's flush waits for ever.
    "-XX:+ExitOnOutOfMemoryError",
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}",
    f"-Djava.security.properties={Path(__file__).with_name('java.security')}",
)

_MAIN_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
# For a stream with dependencies, which may have to be downloaded (session.submit_arguments).
_SUBMIT_CLASS = "org.apache.spark.deploy.SparkSubmit"
_START_SECONDS = 60.0
_FETCH_SECONDS = 240.0
# JavaModuleOptions of Spark 4.3: the packages that Spark needs opened, and what Java 24 and newer
# would warn of. Java 25 has no sun.security.action, which no jar uses, and would warn of it.
# Executors have them from images/spark/java-options.
_OPENED = (
    "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect",
    "java.base/java.io", "java.base/java.net", "java.base/java.nio", "java.base/java.util",
    "java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref", "java.base/sun.nio.ch", "java.base/sun.nio.cs",
    "java.base/sun.util.calendar", "java.security.jgss/sun.security.krb5",
)  # fmt: skip
_ALLOWED = ("--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED")
# The JVM's own exit code under -XX:+ExitOnOutOfMemoryError.
EXIT_OUT_OF_MEMORY = 3
# Those of connector/CheckpointLease.
EXIT_TAKEN_OVER = 90
EXIT_NOT_RENEWED = 91
ENV_JAVA_OPTIONS = "PENSTOCK_JAVA_OPTIONS"
# The data source, which needs Spark's connector too. It is with all else of connector/ in one jar.
_CONNECTOR = "dev.penstock.spark.KafkaProvider"
_COMPILED_FOR = "dev.penstock.spark.SparkVersion"


# From one core on, the driver is given more than a fast start needs.
_WHOLE_CORE = 1
# From this heap on, the JVM chooses its collector: G1 if it has two cores.
_LARGE_HEAP_MEBIBYTES = 2048


def fast_start_options(
    options: Sequence[str], heap_mebibytes: int, cores: Decimal | int, *, runs_tasks: bool = False
) -> list[str]:
    """JVM options for a fast start of the driver, followed by the user's own options.

    `cores` are those that its pod asks for; 0 for a JVM that has little to do.

    C1 alone takes half the processor time to the first commit, where records pass through the
    executors only. What it encrypts for them takes ten times as much as with C2, so a driver that
    asks for a whole core gets both (docs/capacity.md, "The driver's JVM", has the figures). The
    serial collector needs the least memory, and stops the JVM for all that it does. The JVM refuses
    two collectors, so a collector of the user replaces this one.
    """
    has_collector = any(re.fullmatch(r"-XX:\+Use\w+GC", option) for option in options)
    is_small = heap_mebibytes < _LARGE_HEAP_MEBIBYTES and not has_collector
    collector = ["-XX:+UseSerialGC"] if is_small else []
    compiler = ["-XX:TieredStopAtLevel=1"] if cores < _WHOLE_CORE and not runs_tasks else []
    return [*compiler, *collector, *options]


def _jars(folder: Path) -> list[Path]:
    """The jars in their order on the class path, Spark's first.

    Spark reads its own classes again as files for each batch (ClosureCleaner, 4.3): a fifth of the
    processor time of the query's thread went by in the index of every jar before them.
    """
    return sorted(
        folder.glob("*.jar"), key=lambda jar: (not jar.name.startswith("spark-"), jar.name)
    )


def command(
    heap_mebibytes: int, class_path: str, options: Sequence[str], submit: Sequence[str] = ()
) -> list[str]:
    """The command line of the driver's JVM; `options` come last and take precedence.

    `submit` are arguments for SparkSubmit; without any, the JVM starts without SparkSubmit.
    """
    # Found, not imported: the JVM starts while Python imports.
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    java_home = os.environ.get("JAVA_HOME")
    # Sorted: an archive of classes works only with the exact class path that it was created with
    # (images/spark/class_archive.py).
    jars = os.pathsep.join(map(str, _jars(Path(pyspark.origin).parent / "jars")))
    return [
        f"{java_home}/bin/java" if java_home else "java",
        f"-Xmx{heap_mebibytes}m",
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
        *_ALLOWED,
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        *COMMON_OPTIONS,
        *options,
        "-cp",
        os.pathsep.join(part for part in (jars, class_path) if part),
        *([_SUBMIT_CLASS, *submit, "pyspark-shell"] if submit else [_MAIN_CLASS]),
    ]


def environment(inherited: Mapping[str, str], address: str) -> dict[str, str]:
    """The JVM's environment, with a user name: the numeric user of a container has none."""
    user = inherited.get("SPARK_USER") or inherited.get("USER") or "spark"
    return {
        "HADOOP_USER_NAME": user,
        **inherited,
        "SPARK_USER": user,
        "SPARK_LOCAL_IP": address,
        "SPARK_CONNECT_MODE": "0",
    }


def failure_of_exit(exit_code: int) -> Failure:
    """The failure for an exit code of the JVM; a negative code is the signal that ended it."""
    if exit_code == -signal.SIGKILL:
        return Failure(
            "DriverKilled",
            "The driver's JVM was killed (exit code 137), most often because it used more memory "
            "than the container's limit. If it happens again, raise "
            "spec.driver.resources.limits.memory and spec.driver.memoryOverhead.",
        )
    if exit_code == EXIT_OUT_OF_MEMORY:
        return Failure(
            "DriverOutOfMemory",
            "The driver's JVM ran out of heap. Raise spec.driver.resources.limits.memory.",
        )
    if exit_code == EXIT_TAKEN_OVER:
        return Failure(
            CHECKPOINT_TAKEN_OVER,
            "Another driver has taken over the checkpoint, so this one has ended at once.",
        )
    if exit_code == EXIT_NOT_RENEWED:
        return Failure(
            OBJECT_STORE_NOT_ACCESSIBLE,
            "The lease of the checkpoint could not be renewed for 20 s, so the driver has ended, "
            "as another one may take it over. It starts again when the object store answers.",
        )
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        return Failure("DriverCrashed", f"The driver's JVM was ended by {name}.")
    return Failure("DriverExited", f"The driver's JVM ended with exit code {exit_code}.")


class Jvm:
    """A running JVM and the gateway into it."""

    def __init__(
        self, process: subprocess.Popen[bytes], info: Path, start_timeout: float = _START_SECONDS
    ) -> None:
        self._process = process
        self._start_timeout = start_timeout
        self._info = info
        self._gateway: Any = None
        self._address: tuple[int, str] | None = None
        """The gateway's port and secret, once it is connected."""
        self._why_killed: Failure | None = None

    @classmethod
    def launch(
        cls,
        heap_mebibytes: int,
        class_path: str,
        address: str,
        options: Sequence[str] = (),
        submit: Sequence[str] = (),
        inherits: Sequence[int] = (),
        log: Path | None = None,
    ) -> Jvm:
        """Starts the process and returns at once; `gateway` waits for it.

        `inherits` are descriptors that the process keeps open until it exits. `log` gets what it
        logs, in place of this process's stderr.
        """
        # For pyspark and for the JVM. They otherwise use the first python3 of the path, which may
        # not have pyspark.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        info = Path(tempfile.mkdtemp(prefix="penstock-jvm-")) / "gateway"
        with contextlib.nullcontext() if log is None else log.open("ab") as stderr:
            process = subprocess.Popen(
                command(heap_mebibytes, class_path, options, submit),
                env={
                    **environment(os.environ, address),
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
                },
                stdin=subprocess.PIPE,  # the JVM exits when this closes: it cannot outlive us
                stderr=stderr,
                pass_fds=inherits,
                start_new_session=True,  # Ctrl-C reaches only the driver, which stops cleanly
            )
        return cls(process, info, _FETCH_SECONDS if submit else _START_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs; a negative number is the signal that ended it."""
        return self._process.poll()

    @property
    def exit_failure(self) -> Failure | None:
        """The failure that its exit means; None while the process runs."""
        exit_code = self.exit_code
        return None if exit_code is None else self._why_killed or failure_of_exit(exit_code)

    @property
    def gateway(self) -> Any:
        """Py4J's gateway. Waits until the JVM answers; raises DriverStartTimeout if it does not."""
        if self._gateway is None:
            self._gateway = self._connect()
        return self._gateway

    def wait_for_exit(self, seconds: float) -> int | None:
        """The exit code if the JVM exits within the time: often the cause of a lost connection."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def is_gone_after(self, error: BaseException) -> bool:
        """Whether the JVM has exited, which may be the cause of this error.

        Py4J loses its connection when the JVM exits; then this waits for the exit code.
        """
        from py4j.protocol import Py4JError, Py4JJavaError

        lost_connection: tuple[type[BaseException], ...] = (Py4JError, ConnectionError)
        if isinstance(error, Py4JJavaError) or not isinstance(error, lost_connection):
            return self.exit_code is not None
        return self.wait_for_exit(5.0) is not None

    def answers(self, timeout: float) -> bool:
        """Whether the JVM answers within `timeout` seconds; True until `gateway` is connected.

        The kernel accepts connections for a frozen process, so this waits for Py4J's answer to the
        handshake of a new connection. That needs a thread of the JVM and none of Py4J's locks.
        """
        if self._address is None:
            return True
        port, secret = self._address
        try:
            with socket.create_connection(("127.0.0.1", port), timeout) as connection:
                connection.settimeout(timeout)
                connection.sendall(f"A\n{secret}\ne\n".encode())
                return connection.recv(1) != b""
        except OSError:
            return False

    def cpu_seconds(self) -> float:
        """The processor time that it has used; 0 after its end."""
        try:
            used = psutil.Process(self.pid).cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        return float(used.user + used.system)

    def end(self, timeout: float = 5.0) -> None:
        """Ends the JVM by closing its stdin; kills it if it still runs after `timeout` seconds."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        if self.wait_for_exit(timeout) is None:
            self._process.kill()
            self._process.wait()

    def kill(self, why: Failure | None = None) -> None:
        """Kills the JVM; `exit_failure` is then `why`."""
        self._why_killed = why
        self._process.kill()

    def _connect(self) -> Any:
        import pyspark.sql
        from pyspark.java_gateway import launch_gateway

        assert pyspark.sql
        leave_out_noise()
        port, secret = self._await_info()
        # pyspark's documented way to connect to a JVM that it has not started. Only for this call:
        # a Spark session in a process that this one starts would connect to this JVM too.
        variables = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
        os.environ.update(variables)
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
        for name in variables:
            del os.environ[name]
        self._address = port, secret
        return gateway

    def _await_info(self) -> tuple[int, str]:
        deadline = time.monotonic() + self._start_timeout
        while not self._info.exists():
            if self.exit_code is not None:
                raise DriverError(failure_of_exit(self.exit_code))
            if time.monotonic() > deadline:
                raise DriverError(
                    Failure(
                        "DriverStartTimeout",
                        f"The JVM did not start within {self._start_timeout:.0f} s.",
                    )
                )
            time.sleep(0.02)
        # DataOutputStream: a four-byte port, then a four-byte length and that many bytes.
        written = self._info.read_bytes()
        port, length = struct.unpack_from("!ii", written)
        self._info.unlink()
        self._info.parent.rmdir()
        return port, written[8 : 8 + length].decode()


def java_class(gateway: Any, name: str) -> Any:
    """The Java class with this full name; whether it exists shows when it is used.

    `gateway.jvm.java.util.HashMap` asks the JVM at each dot, since each part may be a package or a
    class. Threads that ask Kafka every second would do little else.
    """
    from py4j.java_gateway import JavaClass

    return JavaClass(name, gateway._gateway_client)


def check_connector(gateway: Any) -> None:
    """Raises DriverError if the class path lacks connector/, or has that of another Spark."""
    from py4j.protocol import Py4JJavaError

    package = java_class(gateway, "org.apache.spark.package$")
    spark = str(getattr(package, "MODULE$").SPARK_VERSION())
    try:
        classes = java_class(gateway, "java.lang.Class")
        classes.forName(_CONNECTOR)
        needed = str(classes.forName(_COMPILED_FOR).getField("COMPILED_FOR").get(None))
    except Py4JJavaError as error:  # no such class, or one that Spark's connector should have
        raise _image_not_usable(f"the JVM says {error.java_exception.toString()}") from None
    if not is_for(needed, spark):
        raise _image_not_usable(f"it is for Spark {needed}, and this is Spark {spark}")


def is_for(needed: str, spark: str) -> bool:
    """Whether this Spark has the version that connector/ needs; a vendor may have added to it.

    >>> [is_for("4.3.0", spark) for spark in ("4.3.0", "4.3.0-vendor-1", "4.3.1", "4.2.0")]
    [True, True, False, False]
    """
    return spark.partition("-")[0] == needed


def _image_not_usable(why: str) -> DriverError:
    message = f"The class path has no penstock-kafka.jar that can be used: {why}."
    return DriverError.permanent(IMAGE_NOT_USABLE, f"{message} {REMEDIES[IMAGE_NOT_USABLE].action}")


@dataclass(frozen=True)
class JvmMetrics:
    """Heap and garbage collection of the driver's own JVM. Sizes in bytes."""

    heap_used: int
    heap_max: int
    gc_seconds: float
    """Since the JVM's start, over all collectors. A concurrent collector counts its work, not only
    its pauses (GarbageCollectorMXBean.getCollectionTime)."""


def jvm_metrics(gateway: Any) -> JvmMetrics:
    """From the management beans that every JVM has; executors report theirs to Spark."""
    beans = java_class(gateway, "java.lang.management.ManagementFactory")
    heap = beans.getMemoryMXBean().getHeapMemoryUsage()
    # Of a collector that does not know its time it is -1.
    times = (
        max(0, int(collector.getCollectionTime()))
        for collector in beans.getGarbageCollectorMXBeans()
    )
    return JvmMetrics(int(heap.getUsed()), int(heap.getMax()), sum(times) / 1000)
