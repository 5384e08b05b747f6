"""The JVM's command line, environment and exit codes, without a JVM."""

from decimal import Decimal
from pathlib import Path

import pytest

from penstock.driver import jvm
from penstock.driver.environment import PodEnvironment, pod_environment
from testkit.streams.streams import stream


def test_command() -> None:
    command = jvm.command(768, "/jars/*", ["-XX:SharedArchiveFile=/x.jsa"])
    assert "-Xmx768m" in command
    # A driver without free heap exits, so that the kubelet restarts it.
    assert "-XX:+ExitOnOutOfMemoryError" in command
    assert "-XX:SharedArchiveFile=/x.jsa" in command
    *jars, further = command[command.index("-cp") + 1].split(":")
    assert further == "/jars/*"
    # Always in the same order, because an archive of classes works only with that order.
    names = [Path(jar).name for jar in jars]
    of_spark = [name for name in names if name.startswith("spark-")]
    others = [name for name in names if not name.startswith("spark-")]
    assert names == [*sorted(of_spark), *sorted(others)]
    assert any("spark-core" in name for name in of_spark)


def test_fast_start_options_keep_the_users_collector() -> None:
    assert "-XX:+UseSerialGC" in jvm.fast_start_options([], 512, 0)
    assert "-XX:+UseSerialGC" not in jvm.fast_start_options(["-XX:+UseZGC"], 512, 0)


@pytest.mark.parametrize(
    ("heap", "cores", "expected"),
    [
        (1024, "0.5", ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]),
        (1024, "1", ["-XX:+UseSerialGC"]),
        (2048, "0.5", ["-XX:TieredStopAtLevel=1"]),
        (16384, "4", []),
    ],
)
def test_a_large_driver_gets_all_compilers_and_the_jvms_own_collector(
    heap: int, cores: str, expected: list[str]
) -> None:
    assert jvm.fast_start_options([], heap, Decimal(cores)) == expected


def test_a_numeric_user_gets_a_name() -> None:
    environment = jvm.environment({}, "10.1.2.3")
    assert environment["SPARK_USER"] == environment["HADOOP_USER_NAME"] == "spark"
    assert environment["SPARK_LOCAL_IP"] == "10.1.2.3"
    assert jvm.environment({"USER": "ada"}, "::1")["SPARK_USER"] == "ada"


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (-9, "DriverKilled", "137"),
        (3, "DriverOutOfMemory", "spec.driver.resources.limits.memory"),
        (-6, "DriverCrashed", "SIGABRT"),
        (1, "DriverExited", "exit code 1"),
        (90, "CheckpointTakenOver", "Another driver"),
        (91, "ObjectStoreNotAccessible", "20 s"),
    ],
)
def test_failure_of_an_exit_code(code: int, reason: str, words: str) -> None:
    failure = jvm.failure_of_exit(code)
    assert failure.reason == reason
    assert words in failure.message


def test_the_pod_environment_comes_from_environment_variables() -> None:
    assert pod_environment({}, stream()) is None
    variables = {
        "PENSTOCK_POD_NAME": "numbers-driver-0",
        "PENSTOCK_POD_IP": "10.1.2.3",
        "PENSTOCK_POD_HASH": "abc",
        "PENSTOCK_POD_UID": "uid",
    }
    environment = pod_environment(variables, stream())
    assert environment == PodEnvironment("numbers-driver-0", "10.1.2.3", "payments", "abc")
    assert environment is not None
    assert environment.pod_uid == "uid"
    assert str(environment.checkpoint) == "/var/lib/penstock/checkpoint/generation-0"
