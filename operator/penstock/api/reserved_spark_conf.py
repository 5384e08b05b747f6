"""What Penstock sets itself in Spark's configuration, and the field that says the same to it."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.api.rules import not_among

# A conf that no field says has the reason instead.
OWNED_CONFS: Mapping[str, str] = {
    "spark.app.name": "use metadata.name",
    "spark.master": "the driver always runs in client mode on Kubernetes",
    "spark.submit.deployMode": "the driver always runs in client mode",
    "spark.driver.host": "it is the driver pod's address",
    "spark.driver.bindAddress": "executors would dial it",
    "spark.driver.port": "it is fixed, so that network policies can name it",
    "spark.driver.blockManager.port": "it is fixed",
    "spark.blockManager.port": "it is fixed",
    "spark.driver.memory": "use spec.driver.memory",
    "spark.driver.memoryOverhead": "use spec.driver.memoryOverhead",
    "spark.driver.cores": "use spec.driver.cores",
    "spark.driver.extraJavaOptions": "use spec.driver.javaOptions",
    "spark.executor.cores": "use spec.executor.cores",
    "spark.executor.instances": "use spec.executor.minInstances and maxInstances",
    "spark.executor.memory": "use spec.executor.memory",
    "spark.executor.memoryOverhead": "use spec.executor.memoryOverhead",
    "spark.executor.extraJavaOptions": "use spec.executor.javaOptions",
    "spark.executor.maxNumFailures": "lost executors are replaced for ever",
    "spark.jars": "use spec.dependencies.jars",
    "spark.jars.packages": "use spec.dependencies.packages",
    "spark.kubernetes.container.image": "use spec.image",
    "spark.kubernetes.driver.container.image": "use spec.image",
    "spark.kubernetes.executor.container.image": "use spec.image",
    "spark.kubernetes.container.image.pullSecrets": "use spec.imagePullSecrets",
    "spark.kubernetes.namespace": "use metadata.namespace",
    "spark.kubernetes.authenticate.executor.serviceAccountName": "use spec.serviceAccountName",
    "spark.kubernetes.driver.pod.name": "it is the StatefulSet's pod",
    "spark.kubernetes.executor.request.cores": "use spec.executor.coreRequest",
    "spark.kubernetes.executor.podNamePrefix": "it is the stream's name",
    "spark.kubernetes.executor.podTemplateFile": "use spec.executor.podTemplate",
    "spark.kubernetes.executor.podTemplateContainerName": "use spec.executor.podTemplate",
    "spark.kubernetes.executor.disableConfigMap": "drivers may make no ConfigMaps",
    "spark.kubernetes.allocation.batch.size": "all executors are asked for at once",
    "spark.kubernetes.driver.service.deleteOnTermination": "nothing: a driver makes no Service",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "nothing: a driver makes no claims",
    "spark.kubernetes.driver.reusePersistentVolumeClaim": "nothing: a driver makes no claims",
    "spark.kubernetes.driver.waitToReusePersistentVolumeClaim": "nothing: a driver makes no claims",
    "spark.kubernetes.allocation.recoveryMode.enabled": (
        "an executor lost to memory would come back with one core"
    ),
    "spark.scheduler.minRegisteredResourcesRatio": "the driver awaits its cores itself",
    "spark.dynamicAllocation.enabled": "executors follow the partitions",
    "spark.speculation": "a continuous task never ends",
    "spark.task.maxFailures": "the driver restarts the query itself",
    "spark.ui.enabled": "see the stream's status and metrics",
    "spark.local.dir": "it is a volume of the pod",
    "spark.sql.warehouse.dir": "it is a volume of the pod",
    "spark.sql.streaming.checkpointLocation": "use spec.checkpoint",
}

NO_OWNED_CONF = not_among("self", OWNED_CONFS, "Penstock sets it itself")
