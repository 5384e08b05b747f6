"""From the spec to Spark's configuration, and the SparkSession that it makes.

Facts about Spark stand beside the setting that answers to them; "measured" means with Spark 4.2,
in docs/architecture.md and the tests of this package.
"""

from __future__ import annotations

import concurrent.futures
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract import naming
from penstock.contract.pod_merge import laid_under
from penstock.contract.secrets import secret_mounts, secret_volumes
from penstock.contract.sizing import (
    Size,
    default_parallelism,
    driver_memory,
    executor_cpu,
    executor_memory,
)
from penstock.driver.environment import Environment, LocalEnvironment, PodEnvironment
from penstock.driver.jvm import LOG4J2_FILE
from penstock.driver.spark.dependencies import resolved_jars
from penstock.sql.stateful import may_keep_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRATCH = Path("/tmp/penstock")  # noqa: S108  the one place that is writable in the container
EXECUTOR_TEMPLATE = SCRATCH / "executor.yaml"

# pyspark logs an exception that it raises, on many lines; the driver says it in one.
_REPEATS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

# Unless the user's sparkConf says otherwise.
_DEFAULTS = {
    # Tasks would wait 3 s for an executor that "knows" their partition.
    "spark.locality.wait": "0s",
    # Streaming turns it off by itself, with a warning at each start.
    "spark.sql.adaptive.enabled": "false",
    # stop() must come back: a query that does not end is given up with its session.
    "spark.sql.streaming.stopTimeout": "20s",
    "spark.ui.showConsoleProgress": "false",
}

# Whatever the user's sparkConf says.
_FORCED = {
    # With the default of 4, a lost task is tried again by the scheduler, which a continuous reader
    # refuses (ContinuousTaskRetryException): that hides the cause and takes longer (measured).
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "false",
    "spark.ui.enabled": "false",
}

_FORCED_ON_KUBERNETES = {
    "spark.submit.deployMode": "client",
    "spark.driver.port": str(naming.DRIVER_PORT),
    "spark.driver.blockManager.port": str(naming.BLOCK_MANAGER_PORT),
    "spark.blockManager.port": str(naming.BLOCK_MANAGER_PORT),
    # The supervisor waits for the cores itself, and says meanwhile how many there are.
    "spark.scheduler.minRegisteredResourcesRatio": "0",
    # Since 4.2, an executor lost to memory comes back with one core, and the query hangs short of
    # cores without a word (measured).
    "spark.kubernetes.allocation.recoveryMode.enabled": "false",
    # No ConfigMap, Service or claim is made, so the driver needs no right to make or delete one.
    "spark.kubernetes.executor.disableConfigMap": "true",
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
    "spark.kubernetes.driver.waitToReusePersistentVolumeClaim": "false",
    # Spark would end the driver after a lifetime budget of lost executors.
    "spark.executor.maxNumFailures": "2147483647",
    "spark.kubernetes.executor.podTemplateFile": str(EXECUTOR_TEMPLATE),
    "spark.kubernetes.executor.podTemplateContainerName": "executor",
    # All at once, not five a second.
    "spark.kubernetes.allocation.batch.size": "100",
    "spark.sql.warehouse.dir": str(SCRATCH / "warehouse"),
}


def spark_conf(stream: ContinuousStream, environment: Environment, size: Size) -> dict[str, str]:
    """Spark's configuration for this stream, in this place, at this size.

    `spark.driver.bindAddress` is absent in the pod: executors would dial it (measured with
    0.0.0.0); without it Spark binds to `spark.driver.host`, the pod's own address.
    """
    spec = stream.spec
    # Of an aggregate's shuffle: 200 tasks a batch otherwise. Later starts take it from the
    # checkpoint, where the first one leaves it.
    shuffle = {"spark.sql.shuffle.partitions": str(size.cores)}
    conf = {**_DEFAULTS, **shuffle, **spec.spark_conf, **_FORCED}
    parallelism = default_parallelism(spec.source, spec.spark_conf)
    if parallelism is not None:
        conf["spark.default.parallelism"] = str(parallelism)
    conf["spark.app.name"] = stream.metadata.name
    conf["spark.driver.memory"] = f"{driver_memory(spec).heap}m"
    if isinstance(environment, LocalEnvironment):
        return conf | _local(environment, size)
    return conf | _FORCED_ON_KUBERNETES | _on_kubernetes(stream, environment, size)


def _local(environment: LocalEnvironment, size: Size) -> dict[str, str]:
    return {
        # One machine has its cores anyway: local[N] is N task slots, whatever the hardware.
        "spark.master": f"local[{size.cores}]",
        "spark.driver.host": environment.address,
        "spark.driver.bindAddress": environment.address,
        "spark.sql.warehouse.dir": str(environment.checkpoint / "warehouse"),
    }


def _on_kubernetes(
    stream: ContinuousStream, environment: PodEnvironment, size: Size
) -> dict[str, str]:
    spec, name = stream.spec, stream.metadata.name
    memory, cpu = executor_memory(spec), executor_cpu(spec)
    log4j2 = f"-Dlog4j2.configurationFile={LOG4J2_FILE.as_uri()}"
    user_options = " ".join(
        [
            spec.spark_conf.get("spark.executor.extraJavaOptions", ""),
            *map(_quoted, spec.executor.java_options),
        ]
    )
    conf = {
        "spark.master": f"k8s://{environment.api_server}",
        "spark.driver.host": environment.address,
        "spark.executor.instances": str(size.executors),
        "spark.executor.cores": str(size.cores_per_executor),
        "spark.executor.memory": f"{memory.heap}m",
        "spark.executor.memoryOverhead": f"{memory.overhead}m",
        "spark.executor.extraJavaOptions": f"{log4j2} {user_options}".strip(),
        "spark.kubernetes.namespace": environment.namespace,
        "spark.kubernetes.container.image": spec.image or "",
        "spark.kubernetes.executor.podNamePrefix": name,
        "spark.kubernetes.executor.request.cores": cpu.request,
        "spark.kubernetes.authenticate.executor.serviceAccountName": (
            spec.service_account_name or naming.driver_name(name)
        ),
    }
    if cpu.limit is not None:
        conf["spark.kubernetes.executor.limit.cores"] = cpu.limit
    for label, value in naming.stream_labels(name, naming.COMPONENT_EXECUTOR).items():
        conf[f"spark.kubernetes.executor.label.{label}"] = value
    return conf


def _quoted(option: str) -> str:
    """Spark splits the options as a shell would (Utils.splitCommandString)."""
    return f'"{option}"' if " " in option else option


def executor_template(pod_name: str, pod_uid: str, stream: ContinuousStream) -> dict[str, Any]:
    """What Spark cannot say about an executor's pod, over what the spec's own template says.

    The driver's pod as its owner, so that it goes when that goes. Spark would set that itself,
    given spark.kubernetes.driver.pod.name, but then it waits a second for this pod to be Ready
    before it asks for executors (measured), and the pod is not Ready before they work.

    The restricted Pod Security Standard.

    A volume whose name begins with spark-local-dir- is taken for local storage (Running Spark on
    Kubernetes, "Local Storage"), so Spark mounts no further one.
    """
    spec = stream.spec
    ours: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": pod_name,
                    "uid": pod_uid,
                    "controller": True,
                }
            ]
        },
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "executor",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "readOnlyRootFilesystem": True,
                    },
                    "volumeMounts": [
                        {"name": "spark-local-dir-1", "mountPath": "/tmp"},  # noqa: S108
                        {"name": "work", "mountPath": naming.WORK_DIR},
                        *secret_mounts(spec),
                    ],
                }
            ],
            "volumes": [
                {"name": "spark-local-dir-1", "emptyDir": {}},
                {"name": "work", "emptyDir": {}},
                *secret_volumes(spec),
            ],
        },
    }
    if spec.image_pull_secrets:
        ours["spec"]["imagePullSecrets"] = [{"name": it.name} for it in spec.image_pull_secrets]
    if may_keep_state(spec):
        _add_checkpoint(ours["spec"], stream.metadata.name)
    return laid_under(spec.executor.pod_template, ours)


def _add_checkpoint(pod: dict[str, Any], name: str) -> None:
    """Executors write a query's state into the checkpoint themselves.

    The volume can be mounted on one node only (ReadWriteOnce), so they have to be on the driver's.
    """
    claim = {"claimName": naming.checkpoint_claim_name(name)}
    pod["volumes"].append({"name": "checkpoint", "persistentVolumeClaim": claim})
    mount = {"name": "checkpoint", "mountPath": naming.CHECKPOINT_DIR}
    pod["containers"][0]["volumeMounts"].append(mount)
    pod["securityContext"] |= {
        "fsGroup": naming.RUN_AS_USER,
        "fsGroupChangePolicy": "OnRootMismatch",
    }
    driver = {"matchLabels": naming.stream_labels(name, naming.COMPONENT_DRIVER)}
    beside = [{"labelSelector": driver, "topologyKey": "kubernetes.io/hostname"}]
    pod["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": beside}}


def write_executor_template(pod_name: str, pod_uid: str, stream: ContinuousStream) -> None:
    """Leaves the template where Spark is told to look for it."""
    EXECUTOR_TEMPLATE.parent.mkdir(parents=True, exist_ok=True)
    EXECUTOR_TEMPLATE.write_text(yaml.safe_dump(executor_template(pod_name, pod_uid, stream)))


def start(gateway: Any, conf: dict[str, str]) -> SparkSession:
    """A SparkSession in the gateway's JVM; blocks until Spark is up."""
    from pyspark import SparkConf, SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    for name in _REPEATS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    settings = SparkConf(loadDefaults=False).setAll(
        [*conf.items(), *resolved_jars(gateway).items()]
    )
    # In a thread of its own: in the main one, pyspark would put its own handler of Ctrl-C in the
    # place of the driver's, which cancels all jobs and raises wherever it is.
    with concurrent.futures.ThreadPoolExecutor(1, "spark") as pool:
        context = pool.submit(SparkContext, conf=settings, gateway=gateway).result()
    return SparkSession(context)
