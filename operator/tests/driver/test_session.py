"""Spark's configuration, as a table: each trap that needs a cluster to spring is held here."""

from pathlib import Path

import pytest

from penstock.driver.place import Kubernetes, Local
from penstock.driver.session import executor_template, spark_conf
from penstock.stream.sizing import Size
from tests.driver.streams import stream

POD = Kubernetes("numbers-driver-0", "10.1.2.3", "payments", "hash")
LAPTOP = Local(Path("/checkpoints/numbers"))
SIZE = Size(partitions=5, executors=3, cores_per_executor=2)


@pytest.mark.parametrize(
    ("conf", "value"),
    [
        # A lost task is not tried again by the scheduler, which would hide the cause.
        ("spark.task.maxFailures", "1"),
        # Executors dial the pod's own address on ports that a network policy can name.
        ("spark.driver.host", "10.1.2.3"),
        ("spark.driver.port", "7078"),
        ("spark.driver.blockManager.port", "7079"),
        ("spark.blockManager.port", "7079"),
        # An executor lost to memory does not come back with one core.
        ("spark.kubernetes.allocation.recoveryMode.enabled", "false"),
        # The session does not wait for executors: the supervisor does, and says so.
        ("spark.scheduler.minRegisteredResourcesRatio", "0"),
        # Lost executors are no lifetime budget.
        ("spark.executor.maxNumFailures", "2147483647"),
        ("spark.dynamicAllocation.enabled", "false"),
        ("spark.speculation", "false"),
        ("spark.ui.enabled", "false"),
        ("spark.kubernetes.executor.disableConfigMap", "true"),
        ("spark.kubernetes.executor.podNamePrefix", "numbers"),
        ("spark.kubernetes.namespace", "payments"),
        ("spark.kubernetes.container.image", "penstock/spark:test"),
        ("spark.kubernetes.authenticate.executor.serviceAccountName", "numbers-driver"),
        ("spark.executor.instances", "3"),
        ("spark.executor.cores", "2"),
        ("spark.kubernetes.executor.request.cores", "300m"),
        ("spark.executor.memory", "768m"),
        ("spark.executor.memoryOverhead", "400m"),
        ("spark.kubernetes.executor.label.penstock.dev/stream", "numbers"),
        ("spark.kubernetes.executor.label.app.kubernetes.io/component", "executor"),
        ("spark.local.dir", "/tmp/penstock"),
    ],
)
def test_on_kubernetes(conf: str, value: str) -> None:
    executor = {
        "cores": 2, "coreRequest": "300m", "memory": "768Mi", "memoryOverhead": "400Mi"
    }  # fmt: skip
    assert spark_conf(stream(executor=executor), POD, SIZE)[conf] == value


@pytest.mark.parametrize(
    "conf",
    [
        # Executors would dial it.
        "spark.driver.bindAddress",
        # Spark would wait for the driver's pod to be Ready before it asks for executors.
        "spark.kubernetes.driver.pod.name",
    ],
)
def test_what_must_not_be_set_in_the_pod(conf: str) -> None:
    assert conf not in spark_conf(stream(), POD, SIZE)


def test_cores_are_requested_whole_unless_said_otherwise() -> None:
    conf = spark_conf(stream(executor={"cores": 2}), POD, SIZE)
    assert conf["spark.kubernetes.executor.request.cores"] == "2"
    assert "spark.executor.memoryOverhead" not in conf


def test_executors_silence_the_warning_for_each_record() -> None:
    conf = spark_conf(
        stream(sparkConf={"spark.executor.extraJavaOptions": "-XX:+UseZGC"}), POD, SIZE
    )
    options = conf["spark.executor.extraJavaOptions"].split()
    (log4j2,) = [each for each in options if each.startswith("-Dlog4j2.configurationFile=")]
    configured = Path(log4j2.partition("file://")[2]).read_text()
    assert "org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer" in configured
    assert "-XX:+UseZGC" in options


def test_a_laptop_has_a_slot_for_each_partition_on_loopback() -> None:
    conf = spark_conf(stream(), LAPTOP, Size(5, 5, 1))
    assert conf["spark.master"] == "local[5]"
    assert conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.task.maxFailures"] == "1"
    assert not any(name.startswith("spark.kubernetes.") for name in conf)


def test_the_users_conf_wins_over_defaults_only() -> None:
    conf = spark_conf(
        stream(sparkConf={"spark.locality.wait": "1s", "spark.ui.enabled": "true"}), POD, SIZE
    )
    assert conf["spark.locality.wait"] == "1s"
    assert conf["spark.ui.enabled"] == "false"


def test_executors_are_owned_and_meet_the_restricted_pod_security_standard() -> None:
    template = executor_template("numbers-driver-0", "uid")
    (owner,) = template["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "numbers-driver-0", "uid")
    spec = template["spec"]
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"spark-local-dir-1": "/tmp", "work": "/opt/spark/work-dir"}
    assert {volume["name"] for volume in spec["volumes"]} == set(mounted)
