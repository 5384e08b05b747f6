"""The Spark configuration that Penstock sets itself, and what the user can set instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.api.predicates import (
    Predicate,
    ValidationRule,
    cel_string,
    is_one_of,
    is_set,
    not_among,
    some,
)

_RPC = "Spark's RPC is always authenticated"
_NO_CLAIMS = "a driver creates no PersistentVolumeClaims"

# The field to use instead, or why there is none.
RESERVED_CONFS: Mapping[str, str] = {
    "spark.app.name": "use metadata.name",
    "spark.app.id": "two drivers with one id would delete each other's executors",
    "spark.master": "the driver always runs in client mode on Kubernetes",
    "spark.submit.deployMode": "the driver always runs in client mode",
    "spark.driver.host": "it is the driver pod's address",
    "spark.driver.bindAddress": "executors would connect to it",
    "spark.driver.port": "it is fixed, so that network policies can name it",
    "spark.driver.blockManager.port": "it is fixed",
    "spark.blockManager.port": "it is fixed",
    "spark.driver.memory": "use spec.driver.resources",
    "spark.driver.memoryOverhead": "use spec.driver.memoryOverhead",
    "spark.driver.cores": "it has no effect in client mode; use spec.driver.resources",
    "spark.driver.extraJavaOptions": "use spec.driver.javaOptions",
    "spark.executor.cores": "use spec.executor.cores",
    "spark.executor.instances": "use spec.executor.minInstances and maxInstances",
    "spark.executor.memory": "use spec.executor.resources",
    "spark.executor.memoryOverhead": "use spec.executor.memoryOverhead",
    "spark.executor.extraJavaOptions": "use spec.executor.javaOptions",
    "spark.executor.maxNumFailures": "lost executors are always replaced",
    "spark.jars": "use spec.dependencies.jars",
    "spark.jars.packages": "use spec.dependencies.packages",
    "spark.kubernetes.container.image": "use spec.image",
    "spark.kubernetes.driver.container.image": "use spec.image",
    "spark.kubernetes.executor.container.image": "use spec.image",
    "spark.kubernetes.container.image.pullSecrets": "use spec.imagePullSecrets",
    "spark.kubernetes.namespace": "use metadata.namespace",
    "spark.kubernetes.authenticate.executor.serviceAccountName": "use spec.serviceAccountName",
    "spark.kubernetes.driver.pod.name": "it is the StatefulSet's pod",
    "spark.kubernetes.executor.request.cores": "use spec.executor.resources.requests.cpu",
    "spark.kubernetes.executor.limit.cores": "use spec.executor.resources.limits.cpu",
    "spark.kubernetes.executor.podNamePrefix": "it is the stream's name",
    "spark.kubernetes.executor.podTemplateFile": "use spec.executor.podTemplate",
    "spark.kubernetes.executor.podTemplateContainerName": "use spec.executor.podTemplate",
    "spark.kubernetes.executor.disableConfigMap": "drivers have no right to create ConfigMaps",
    "spark.kubernetes.allocation.batch.size": "all executors are requested at once",
    "spark.kubernetes.driver.service.deleteOnTermination": "a driver creates no Service",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": _NO_CLAIMS,
    "spark.kubernetes.driver.reusePersistentVolumeClaim": _NO_CLAIMS,
    "spark.kubernetes.driver.waitToReusePersistentVolumeClaim": _NO_CLAIMS,
    "spark.kubernetes.allocation.recoveryMode.enabled": (
        "an executor that ran out of memory would come back with one core"
    ),
    "spark.scheduler.minRegisteredResourcesRatio": "the driver waits for its cores itself",
    "spark.dynamicAllocation.enabled": "the number of executors follows the partitions",
    "spark.speculation": "a continuous task never ends",
    "spark.task.maxFailures": "the driver restarts the query itself",
    "spark.sql.streaming.noDataProgressEventInterval": "an idle query shows by it that it works",
    "spark.ui.enabled": "use spec.observability.ui",
    "spark.eventLog.enabled": "use spec.observability.eventLog",
    "spark.eventLog.dir": "use spec.observability.eventLog",
    "spark.local.dir": "it is a volume of the pod",
    "spark.sql.warehouse.dir": "it is a volume of the pod",
    "spark.sql.streaming.checkUnfinishedRepartitionOnRestart": (
        "the driver undoes an unfinished division of state itself"
    ),
    "spark.sql.streaming.offsetLog.formatVersion": "the driver reads and repairs version 1",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": (
        "it is 2, which real-time mode and object stores need"
    ),
    "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": (
        "each batch is committed"
    ),
    "spark.sql.streaming.realTimeMode.dangerouslyAllowCheckpointV1.enabled": (
        "a batch that runs again could lose data"
    ),
    "spark.sql.streaming.realTimeMode.minBatchDuration": "use trigger.realTime.batchDuration",
    "spark.sql.execution.sortBeforeRepartition": "real-time mode runs no sort before a shuffle",
    "spark.sql.streaming.unsupportedOperationCheck": "Spark would give wrong results",
    "spark.sql.streaming.checkpointLocation": "use spec.checkpoint",
    "spark.kubernetes.executor.deleteOnTermination": "a driver may not edit its executors' pods",
    "spark.authenticate": _RPC,
    "spark.authenticate.secret": _RPC,
    "spark.authenticate.secret.driver.file": _RPC,
    "spark.authenticate.secret.file": _RPC,
    "spark.network.crypto.enabled": _RPC,
}

# With an object store.
RESERVED_IN_OBJECT_STORE = (
    "spark.sql.streaming.checkpointFileManagerClass",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
)
_IN_OBJECT_STORE = "|".join(map(re.escape, RESERVED_IN_OBJECT_STORE))
# A rule of the whole spec.
RESERVED_IN_OBJECT_STORE_RULE = ValidationRule(
    ~is_set("checkpoint.objectStore")
    | ~is_set("sparkConf")
    | ~some("sparkConf", f"^({_IN_OBJECT_STORE})$"),
    "with checkpoint.objectStore, sparkConf cannot set how checkpoints and state are written ("
    + ", ".join(RESERVED_IN_OBJECT_STORE)
    + "): remove these",
)

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
# A rule of the whole spec.
STATE_PARTITIONS_RULE = ValidationRule(
    ~is_set("checkpoint.statePartitions")
    | ~is_set("sparkConf")
    | ~some("sparkConf", f"^{re.escape(SHUFFLE_PARTITIONS)}$"),
    f"checkpoint.statePartitions and {SHUFFLE_PARTITIONS} in sparkConf are the same number: "
    "remove the latter",
)

# What it says of executors means nothing where there are none.
OF_EXECUTORS = r"^spark\.(executor|kubernetes\.|memory\.offHeap\.)"
# A rule of the whole spec.
NO_EXECUTORS_RULE = ValidationRule(
    ~(is_set("executor.mode") & is_one_of("executor.mode", "InDriver"))
    | ~is_set("sparkConf")
    | ~some("sparkConf", OF_EXECUTORS),
    "with executor.mode InDriver there are no executors' pods: remove spark.executor..., "
    "spark.kubernetes... and spark.memory.offHeap... from sparkConf, or set mode to Pods",
)

_OF_OTHERS = r"^spark\.(hadoop|hive|sql\.catalog)\."
_SPARKS_OWN_CONF = (
    r"^spark\.(acls|admin|api|app|archives|auth.*|barrier|blacklist|block.*|broadcast|buffer|checkpoint"
    r"|cleaner|closure|cores|decommission|default|deploy|diskStore|driver|dynamicAllocation|eventLog"
    r"|excludeOnFailure|executor|executorEnv|extraListeners|files|history|io|jars|kafka|kryo.*|kubernetes"
    r"|launcher|local|locality|log|logConf|logLineage|master|max.*|memory|metrics|modify|network|park"
    r"|penstock|plugins|port|pyspark|python|r|rapids|rdd|redaction|reducer|repl|resource.*|rolledLog"
    r"|rpc|scheduler|security|serializer|shuffle|speculation|sql|ssl|stage|standalone|storage"
    r"|streaming|submit|task|ui|unsafe|user|worker|yarn)(\.|$)|\.port$"
)


def takes_secret(name: str) -> bool:
    """Whether the value of a setting may come from a Secret: Spark itself makes no use of it.

    >>> [takes_secret(f"spark.{name}") for name in ("mongodb.connection.uri", "ssl.keyPassword")]
    [True, False]
    """
    is_own = re.search(_SPARKS_OWN_CONF, name) is not None
    return re.search(_OF_OTHERS, name) is not None or (name.startswith("spark.") and not is_own)


# Rules of the whole spec.
SECRET_CONF_RULES = (
    ValidationRule(
        ~is_set("secretSparkConf")
        | Predicate(
            f"self.secretSparkConf.all(k, k.matches({cel_string(_OF_OTHERS)}) || "
            f"k.startsWith('spark.') && !k.matches({cel_string(_SPARKS_OWN_CONF)}))",
            lambda spec: all(map(takes_secret, spec.secret_spark_conf)),
        ),
        "secretSparkConf takes what Hadoop, catalogs and data sources read: spark.hadoop..., "
        "spark.sql.catalog..., and other names that are not Spark's own. Put Spark's own settings "
        "into sparkConf, and an environment variable into podTemplate, as env with valueFrom",
    ),
    ValidationRule(
        Predicate(
            "!has(self.sparkConf) || !has(self.secretSparkConf) || "
            "!self.sparkConf.exists(k, k in self.secretSparkConf)",
            lambda spec: not set(spec.spark_conf) & set(spec.secret_spark_conf),
        ),
        "a setting is in sparkConf and in secretSparkConf: keep the one in secretSparkConf",
    ),
)

NO_RESERVED_CONF = not_among("self", RESERVED_CONFS, "Penstock sets some of these keys itself")
