"""Spark's configuration as a table, for the settings whose effect only a cluster would show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from penstock.contract import naming
from penstock.contract.sizing import Size
from penstock.driver.environment import LocalEnvironment, PodEnvironment, local_ip
from penstock.driver.jvm import Jvm
from penstock.driver.spark.application import SparkApplication
from penstock.driver.spark.executor_template import executor_template
from penstock.driver.spark.session import (
    MIN_STATE_PARTITIONS,
    LogLevel,
    spark_conf,
)
from testkit.streams.streams import (
    CONTINUOUS,
    MICRO_BATCH,
    REAL_TIME,
    kafka_sink,
    kafka_source,
    stream,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POD = PodEnvironment("numbers-driver-0", "10.1.2.3", "payments", "hash")
LAPTOP = LocalEnvironment(Path("/checkpoints/numbers"))
SIZE = Size(partitions=5, executors=3, cores_per_executor=2, slots=5)


def test_an_address_of_ipv6_has_the_brackets_that_spark_wants() -> None:
    pod = PodEnvironment("numbers-driver-0", "fd00::5", "payments", "hash")
    assert spark_conf(stream(), pod, SIZE)["spark.driver.host"] == "[fd00::5]"


@pytest.mark.parametrize(
    ("conf", "value"),
    [
        # The scheduler does not retry a lost task, which would hide the cause.
        ("spark.task.maxFailures", "1"),
        # A frozen executor is found within twelve seconds, and one that is cut off gives up.
        ("spark.executor.heartbeatInterval", "2s"),
        ("spark.storage.blockManagerHeartbeatTimeoutMs", "10s"),
        ("spark.network.timeoutInterval", "2s"),
        ("spark.executor.heartbeat.maxFailures", "5"),
        # Executors connect to the pod's own address, on ports that a network policy can name.
        ("spark.driver.host", "10.1.2.3"),
        ("spark.driver.port", "7078"),
        ("spark.driver.blockManager.port", "7079"),
        ("spark.blockManager.port", "7079"),
        # An executor that ran out of memory does not come back with one core.
        ("spark.kubernetes.allocation.recoveryMode.enabled", "false"),
        # The session does not wait for executors: the supervisor does, and reports it.
        ("spark.scheduler.minRegisteredResourcesRatio", "0"),
        # Spark does not stop the driver after a number of lost executors.
        ("spark.executor.maxNumFailures", "2147483647"),
        ("spark.dynamicAllocation.enabled", "false"),
        ("spark.speculation", "false"),
        ("spark.ui.enabled", "false"),
        ("spark.ui.killEnabled", "false"),
        ("spark.kubernetes.executor.disableConfigMap", "true"),
        # Spark's RPC: authenticated with a secret from a file, encrypted, nothing less.
        ("spark.authenticate", "true"),
        ("spark.authenticate.secret.file", "/etc/penstock-rpc/secret"),
        ("spark.network.crypto.enabled", "true"),
        ("spark.network.crypto.cipher", "AES/GCM/NoPadding"),
        ("spark.network.crypto.saslFallback", "false"),
        ("spark.kubernetes.executor.podNamePrefix", "numbers"),
        ("spark.kubernetes.namespace", "payments"),
        ("spark.kubernetes.container.image", "penstock/spark:test"),
        ("spark.kubernetes.authenticate.executor.serviceAccountName", "numbers-driver"),
        ("spark.executor.instances", "3"),
        ("spark.executor.cores", "2"),
        ("spark.kubernetes.executor.request.cores", "300m"),
        ("spark.executor.memory", "768m"),
        ("spark.executor.memoryOverhead", "400m"),
        ("spark.kubernetes.executor.limit.cores", "3"),
        ("spark.driver.memory", "1536m"),
        ("spark.kubernetes.executor.label.penstock.dev/stream", "numbers"),
        ("spark.kubernetes.executor.label.penstock.dev/class", "blue"),
        ("spark.kubernetes.executor.label.app.kubernetes.io/component", "executor"),
    ],
)
def test_on_kubernetes(conf: str, value: str) -> None:
    executor = {
        "cores": 2,
        "resources": {"requests": {"cpu": "300m"}, "limits": {"cpu": 3, "memory": "1168Mi"}},
        "memoryOverhead": "400Mi",
    }
    driver = {"resources": {"limits": {"memory": "2Gi"}}}
    blue = stream(className="blue", executor=executor, driver=driver)
    assert spark_conf(blue, POD, SIZE)[conf] == value


def test_the_web_ui_and_the_event_log_on_request() -> None:
    conf = spark_conf(stream(), POD, SIZE)
    assert "spark.eventLog.enabled" not in conf
    asked = stream(observability={"ui": True, "eventLog": "s3a://logs/spark"})
    conf = spark_conf(asked, POD, SIZE)
    assert conf["spark.ui.enabled"] == conf["spark.eventLog.enabled"] == "true"
    assert conf["spark.eventLog.dir"] == "s3a://logs/spark"
    assert conf["spark.ui.killEnabled"] == "false"


def test_the_web_ui_listens_on_loopback_only() -> None:
    """It has no password, and every pod of the cluster could reach it otherwise."""
    assert local_ip(POD, stream().spec.observability) == POD.address
    assert local_ip(POD, stream(observability={"ui": True}).spec.observability) == "127.0.0.1"


@pytest.mark.parametrize(
    "conf",
    [
        # Executors would connect to it.
        "spark.driver.bindAddress",
        # Spark would wait for the driver's pod to be Ready before it requests executors.
        "spark.kubernetes.driver.pod.name",
    ],
)
def test_a_conf_that_must_not_be_set_in_the_pod(conf: str) -> None:
    assert conf not in spark_conf(stream(), POD, SIZE)


def test_an_executor_has_its_cores_and_one_gibibyte_of_heap_by_default() -> None:
    conf = spark_conf(stream(executor={"cores": 2}), POD, SIZE)
    assert conf["spark.kubernetes.executor.request.cores"] == "2"
    assert conf["spark.executor.memory"] == "1024m"
    assert conf["spark.executor.memoryOverhead"] == "384m"
    assert "spark.kubernetes.executor.limit.cores" not in conf


def test_executors_log_and_resolve_names_as_the_driver_does() -> None:
    conf = spark_conf(
        stream(executor={"javaOptions": ["-XX:+UseZGC", "-Dwords=one two"]}), POD, SIZE
    )
    options = conf["spark.executor.extraJavaOptions"].split()
    assert "-XX:+ExitOnOutOfMemoryError" in options
    (log4j2,) = [each for each in options if each.startswith("-Dlog4j2.configurationFile=")]
    # One warning at each start of a query with state would be logged otherwise.
    assert "Disabling AQE" in Path(log4j2.partition("file://")[2]).read_text()
    (security,) = [each for each in options if each.startswith("-Djava.security.properties=")]
    assert "networkaddress.cache.negative.ttl=1" in Path(security.partition("=")[2]).read_text()
    assert "-XX:+UseZGC" in options
    assert '"-Dwords=one two"' in conf["spark.executor.extraJavaOptions"]


def test_a_laptop_has_a_slot_for_each_partition_on_loopback() -> None:
    conf = spark_conf(stream(), LAPTOP, Size(5, 0, 5, 5))
    assert conf["spark.master"] == "local[16]"  # with room for partitions to come
    assert conf["spark.driver.memory"] == "512m"
    assert conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.task.maxFailures"] == "1"
    assert not any(name.startswith("spark.kubernetes.") for name in conf)
    # The executor is the driver: no pause of the machine is the loss of one of them.
    assert "spark.storage.blockManagerHeartbeatTimeoutMs" not in conf


@pytest.mark.parametrize("trigger", [MICRO_BATCH, {"realTime": {"batchDuration": "5s"}}])
def test_spark_retries_the_tasks_of_a_batch(trigger: dict[str, Any]) -> None:
    """One lost pod costs its tasks, and not the batch."""
    batches = stream(kafka_source(), kafka_sink(), trigger=trigger)
    assert "spark.task.maxFailures" not in spark_conf(batches, POD, SIZE)


def test_the_users_conf_overrides_defaults() -> None:
    own = {"spark.locality.wait": "1s", "spark.executor.heartbeat.maxFailures": "60"}
    conf = spark_conf(stream(sparkConf=own), POD, SIZE)
    assert own.items() <= conf.items()


def test_state_has_a_partition_for_each_core_and_some_for_growth() -> None:
    """The checkpoint keeps the number of the first start."""
    one = Size(partitions=1, executors=1, cores_per_executor=1, slots=1)
    for trigger, size, partitions in [
        (CONTINUOUS, SIZE, 6),
        (CONTINUOUS, one, 1),
        (MICRO_BATCH, SIZE, 6),
        (MICRO_BATCH, one, MIN_STATE_PARTITIONS),
        # Each is a task that keeps its core.
        (REAL_TIME, SIZE, MIN_STATE_PARTITIONS),
        (REAL_TIME, one, 2),
    ]:
        conf = spark_conf(stream(kafka_source(), kafka_sink(), trigger=trigger), POD, size)
        assert conf["spark.sql.shuffle.partitions"] == str(partitions)
    own = stream(sparkConf={"spark.sql.shuffle.partitions": "50"})
    assert spark_conf(own, POD, SIZE)["spark.sql.shuffle.partitions"] == "50"


@pytest.mark.parametrize(
    ("partitions", "heap", "consumers"),
    [(4, 1024, 64), (100, 1024, 100), (1000, 1024, 512), (1000, 480, 240), (1000, 3072, 1000)],
)
def test_an_executor_keeps_a_consumer_for_each_partition_that_its_heap_has_room_for(
    partitions: int, heap: int, consumers: int
) -> None:
    spec = stream(executor={"resources": {"requests": {"memory": f"{heap + 384}Mi"}}})
    conf = spark_conf(spec, POD, Size(partitions, 1, 4, partitions))
    assert conf["spark.executor.memory"] == f"{heap}m"
    assert conf["spark.kafka.consumer.cache.capacity"] == str(consumers)


def test_a_socket_is_read_with_one_partition() -> None:
    """Spark would create a partition for each core of the session."""
    socket = stream({"socket": {"host": "lines", "port": 9999}})
    assert spark_conf(socket, POD, SIZE)["spark.default.parallelism"] == "1"
    assert "spark.default.parallelism" not in spark_conf(stream(), POD, SIZE)


def test_executors_use_the_users_service_account() -> None:
    conf = spark_conf(stream(serviceAccountName="mine"), POD, SIZE)
    assert conf["spark.kubernetes.authenticate.executor.serviceAccountName"] == "mine"


def test_the_users_template_adds_to_ours() -> None:
    template = executor_template(
        POD,
        "uid",
        stream(
            imagePullSecrets=[{"name": "registry"}],
            executor={
                "podTemplate": {
                    "metadata": {"labels": {"team": "fraud"}, "name": "not-this"},
                    "spec": {
                        "nodeSelector": {"disk": "ssd"},
                        "automountServiceAccountToken": True,
                        "containers": [
                            {"name": "executor", "env": [{"name": "A", "value": "b"}]},
                            {"name": "sidecar", "image": "sidecar"},
                        ],
                        "volumes": [{"name": "data", "emptyDir": {}}],
                    },
                }
            },
        ),
        "rpc",
        keeps_state=False,
    )
    assert template["metadata"]["labels"] == {"team": "fraud"}
    assert "name" not in template["metadata"]
    spec = template["spec"]
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["automountServiceAccountToken"] is False
    assert [each["name"] for each in spec["containers"]] == ["executor", "sidecar"]
    assert spec["containers"][0]["env"] == [{"name": "A", "value": "b"}]
    assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"data", "work"} <= {each["name"] for each in spec["volumes"]}
    assert spec["imagePullSecrets"] == [{"name": "registry"}]


def test_executors_that_write_state_mount_the_checkpoint_where_its_volume_can_be_mounted() -> None:
    for shared in (False, True):
        pod = replace(POD, shared_checkpoint=shared)
        spec = executor_template(pod, "uid", stream(), "rpc", keeps_state=True)["spec"]
        claim = {"claimName": "numbers-checkpoint"}
        assert {"name": "checkpoint", "persistentVolumeClaim": claim} in spec["volumes"]
        mounts = {each["name"]: each["mountPath"] for each in spec["containers"][0]["volumeMounts"]}
        assert mounts["checkpoint"] == "/var/lib/penstock/checkpoint"
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert ("affinity" in spec) is not shared
        if not shared:
            rules = spec["affinity"]["podAffinity"]
            (near,) = rules["requiredDuringSchedulingIgnoredDuringExecution"]
            assert near["labelSelector"]["matchLabels"]["penstock.dev/stream"] == "numbers"
            assert near["topologyKey"] == "kubernetes.io/hostname"


def test_the_volume_belongs_to_the_group_of_the_image_unless_the_cluster_chooses_it() -> None:
    for fixed, group in ((True, 185), (False, None)):
        pod = replace(POD, fixed_user=fixed)
        spec = executor_template(pod, "uid", stream(), "rpc", keeps_state=True)["spec"]
        assert spec["securityContext"].get("fsGroup") == group


def test_in_an_object_store_executors_write_state_on_any_node() -> None:
    """With the keys that the driver has; and no setting holds one."""
    secrets = {"name": "keys", "key": "id"}, {"name": "keys", "key": "key"}
    store = {
        "location": "s3a://bucket/prefix/",
        "endpoint": "http://store:9000",
        "accessKeyIdSecret": secrets[0],
        "secretAccessKeySecret": secrets[1],
    }
    flow = stream(checkpoint={"objectStore": store})
    spec = executor_template(POD, "uid", flow, "rpc", keeps_state=True)["spec"]
    assert "affinity" not in spec
    assert "persistentVolumeClaim" not in {key for volume in spec["volumes"] for key in volume}
    mounts = {each["mountPath"] for each in spec["containers"][0]["volumeMounts"]}
    assert f"{naming.SECRETS_DIR}/keys" in mounts
    user = {"spark.hadoop.fs.s3a.bucket.bucket.endpoint": "https://elsewhere"}
    conf = spark_conf(stream(checkpoint={"objectStore": store}, sparkConf=user), POD, SIZE)
    of_bucket = "spark.hadoop.fs.s3a.bucket.bucket."
    assert conf[f"{of_bucket}endpoint"] == "http://store:9000"
    assert conf[f"{of_bucket}penstock.access.key.id.file"] == (f"{naming.SECRETS_DIR}/keys/id")
    location = "s3a://bucket/prefix/payments/numbers"
    assert conf["spark.hadoop.penstock.checkpoint.location"] == location
    application = SparkApplication(flow, POD, cast(Jvm, None))
    assert application.before_session(SIZE, keeps_state=None) == {}, "at once, for all can write it"


def test_executors_of_a_stateless_query_run_on_any_node() -> None:
    spec = executor_template(POD, "uid", stream(), "rpc", keeps_state=False)["spec"]
    assert "affinity" not in spec
    assert "checkpoint" not in {volume["name"] for volume in spec["volumes"]}


def test_executors_have_an_owner_and_meet_the_restricted_pod_security_standard() -> None:
    template = executor_template(POD, "uid", stream(), "numbers-rpc-1", keeps_state=False)
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
    assert mounted == {
        "spark-local-dir-1": "/tmp",
        "work": "/opt/spark/work-dir",
        "rpc": "/etc/penstock-rpc",
    }
    (rpc,) = [each for each in spec["volumes"] if each["name"] == "rpc"]
    assert rpc["secret"] == {"secretName": "numbers-rpc-1"}
    assert {volume["name"] for volume in spec["volumes"]} == set(mounted)


class Context:
    """Notes the levels that it is given, as the SparkContext of a session."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.levels: list[str] = []

    def setLogLevel(self, level: str) -> None:
        self.levels.append(level)


def test_a_log_level_is_set_once_for_each_session_and_taken_back() -> None:
    """While none is asked for nothing is set. The JVM keeps the level of the last session."""
    first, second, level = Context(), Context(), LogLevel("ERROR")
    for session, wanted in [
        (first, None),
        (first, "DEBUG"),
        (first, "DEBUG"),
        (second, "DEBUG"),
        (second, None),
        (second, None),
    ]:
        level.set(cast("SparkSession", session), wanted, 2)
    assert (first.levels, second.levels) == (["DEBUG"], ["DEBUG", "ERROR"])


def test_executors_that_have_just_registered_get_the_level() -> None:
    session, level = Context(), LogLevel("WARN")
    for executors in (0, 0, 1, 2, 2):
        level.set(cast("SparkSession", session), "INFO", executors)
    assert session.levels == ["INFO"] * 3


def test_adaptive_execution_where_spark_may_use_it() -> None:
    """Elsewhere Spark disables it itself, with a warning at each start."""
    for trigger, adaptive in ((MICRO_BATCH, "true"), (CONTINUOUS, "false")):
        conf = spark_conf(stream(trigger=trigger), POD, SIZE)
        assert conf["spark.sql.adaptive.enabled"] == adaptive
