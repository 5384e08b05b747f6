"""Spark's configuration and jars, and the SparkSession.

Comments give the fact about Spark behind each setting. "Measured" means with Spark 4.2.
"""

from __future__ import annotations

import concurrent.futures
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.api.modes import Mode, execution_of
from penstock.api.reserved_spark_conf import SHUFFLE_PARTITIONS
from penstock.api.v1alpha1.spec import Observability, StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.api.v1alpha1.triggers import SHORTEST_REAL_TIME_BATCH_MS
from penstock.contract import naming
from penstock.contract.sizing import (
    Size,
    default_parallelism,
    driver_memory,
    executor_cpu,
    executor_memory,
    task_memory,
    threads_in_driver,
)
from penstock.driver.checkpoint.storage.object_store import hadoop_settings
from penstock.driver.environment import Environment, LocalEnvironment, PodEnvironment
from penstock.driver.jvm import COMMON_OPTIONS, java_class
from penstock.driver.secret_values import file_of, values_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
_LOCAL = "local"
ADAPTIVE = "spark.sql.adaptive.enabled"
_JARS = "spark.jars"

# Partitions of state at least, in micro-batches: no more cores can work on it, and another number
# costs a pause. In the driver, whose slots are threads, so many. What each costs is in
# docs/capacity.md.
MIN_STATE_PARTITIONS = 4

# What driver/log4j2.properties says.
LOG_LEVEL = "WARN"
# pyspark logs each exception that it raises, on many lines. The driver logs it in one.
_REDUNDANT_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

# The user's sparkConf overrides these.
_DEFAULTS = {
    # Otherwise a task waits up to 3 s for the executor that had its partition before.
    "spark.locality.wait": "0s",
    # stop() must return: a query that does not stop is abandoned with its session.
    "spark.sql.streaming.stopTimeout": "20s",
    "spark.ui.showConsoleProgress": "false",
    # The web UI shows; what runs is in the stream's spec.
    "spark.ui.killEnabled": "false",
    # A stack overflow, such as of a regular expression over a long record, fails its task, and is
    # known as a record's. Otherwise Spark ends the executor, and on a laptop the driver's JVM
    # (Executor.TaskRunner; measured). A JVM without memory ends itself: ExitOnOutOfMemoryError.
    "spark.executor.killOnFatalError.depth": "0",
    # GCM also protects Spark's RPC from changes; CTR, the default, does not.
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.saslFallback": "false",
    # The level of SparkContext.setLogLevel also reaches the executors.
    "spark.executor.syncLogLevel.enabled": "true",
    # How long the shuffle of real-time mode gathers rows: nearly all of its latency.
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
    # The rows of running tasks come with it: without them a long task looks like a stuck one.
    "spark.executor.heartbeatInterval": "2s",
}

# The user's sparkConf overrides these. RocksDB keeps state outside of the JVM's heap, and writes
# what has changed. What it may take of an executor's memory is in `_state_store`.
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STATE_STORE = "spark.sql.streaming.stateStore"
_STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"
_STATE_STORE_CLASS = f"{_STATE_STORE}.providerClass"
_STATE_FORMAT = f"{_STATE_STORE}.checkpointFormatVersion"
_STATE = {
    _STATE_STORE_CLASS: ROCKSDB,
    f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    # What real-time mode needs, so that a stream can take it with the state that it has.
    _STATE_FORMAT: "2",
}
# Of an executor's memory beside the heap: threads, classes and buffers of the JVM have the rest.
_STATE_SHARE = 4

# The user's sparkConf overrides this. On a laptop a stream without Kafka has no connector/, and
# takes Spark's default, which syncs no file.
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGE = "dev.penstock.spark.checkpoint"
_DURABLE_FILES = f"{_PACKAGE}.DurableCheckpointFileManager"
# In an object store nothing else may write: of two drivers that write with Spark's own managers,
# both succeed. State has names of its own for each attempt to write it, so that a task that was
# given up overwrites nothing, and RocksDB is what has these.
_IN_OBJECT_STORE = {
    FILE_MANAGER: f"{_PACKAGE}.ObjectStoreCheckpointFileManager",
    **_STATE,
}

# Where executors are pods. The user's sparkConf overrides these too. They find an executor that is
# frozen, or cut off from the network, within ten to twelve seconds. Spark's own values take two to
# three minutes, and ten until the executor itself gives up. What both sides do with them is in
# HeartbeatReceiver and Executor.reportHeartBeat. A pause of the garbage collector is shorter.
_DEFAULTS_WITH_EXECUTORS = {
    # The driver: five heartbeats are missing, looked for every two seconds.
    "spark.storage.blockManagerHeartbeatTimeoutMs": "10s",
    "spark.network.timeoutInterval": "2s",
    # The executor: it exits after five heartbeats without an answer within the interval. Otherwise
    # it writes on, and all of that comes again (12,946 records in 60 s, measured).
    "spark.executor.heartbeat.maxFailures": "5",
    # The watch misses a pod that was deleted by force: its last state was Running, and the kind of
    # the event is not looked at (ExecutorPodsWatchSnapshotSource, 4.3). So long it is not replaced.
    "spark.kubernetes.executor.apiPollingInterval": "10s",
}

_PLUGINS = "spark.plugins"
_SECRETS = "dev.penstock.spark.secrets"
_OF_HADOOP = re.compile(r"^spark\.(hadoop\.|(?=hive\.))")
_REDACTION = "spark.redaction.regex"
_REDACTION_OF_SPARK = "(?i)secret|password|token|access[.]?key|credential"  # of Spark 4.3
_BATCHES = "dev.penstock.spark.RealTimeBatches"
# Where the tasks run in the driver. On a laptop a stream without Kafka has no connector/.
_RUNNING_TASKS = "dev.penstock.spark.RunningTasks"
# The user's sparkConf overrides this: of how many partitions an executor keeps the clients between
# batches (KeptClients.java).
_CONSUMERS = "spark.kafka.consumer.cache.capacity"
_LEAST_CONSUMERS = 64  # Spark's default
# MiB of the heap for one. In a backlog it holds half of that (max.partition.fetch.bytes).
_HEAP_OF_CONSUMER = 2

# The user's sparkConf cannot override these.
_FORCED = {
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "false",
    # Spark would start no query while a division of the state is unfinished; Penstock undoes such a
    # one. The look for it fails if the last epoch was of the continuous engine, which notes no
    # number of partitions, and a batch is planned (OfflineStateRepartitionUtils, 4.2).
    "spark.sql.streaming.checkUnfinishedRepartitionOnRestart": "false",
    # How often an idle query says that it has looked (query_activity.py): longer is a stall.
    "spark.sql.streaming.noDataProgressEventInterval": "10s",
}

_FORCED_IN_MODE = {
    Mode.CONTINUOUS: {
        # With the default of 4, the scheduler retries a lost task, and a continuous reader refuses
        # the retry (ContinuousTaskRetryException). That hides the cause and takes longer
        # (measured). In the other modes the retry is what saves the batch.
        "spark.task.maxFailures": "1",
    },
    Mode.REAL_TIME: {
        # The sort would wait for all rows of a batch, so Spark refuses a shuffle with it.
        "spark.sql.execution.sortBeforeRepartition": "false",
        # Otherwise a query without state commits some batches only, and late. EXCEPT, which Spark
        # takes for such a one, is then refused (measured, Spark 4.3).
        "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
        # Spark's own least is 5 s (api/v1alpha1/triggers.py).
        "spark.sql.streaming.realTimeMode.minBatchDuration": f"{SHORTEST_REAL_TIME_BATCH_MS}ms",
    },
}

_FORCED_WITH_EXECUTORS = {
    "spark.submit.deployMode": "client",
    "spark.driver.port": str(naming.DRIVER_PORT),
    "spark.driver.blockManager.port": str(naming.BLOCK_MANAGER_PORT),
    "spark.blockManager.port": str(naming.BLOCK_MANAGER_PORT),
    # The supervisor waits for the cores itself, and reports how many are registered.
    "spark.scheduler.minRegisteredResourcesRatio": "0",
    # Otherwise, since 4.2, Spark replaces an executor that ran out of memory by one with a single
    # core, and the query hangs for lack of cores without an error (measured).
    "spark.kubernetes.allocation.recoveryMode.enabled": "false",
    # Spark creates no ConfigMap, Service or claim, so the driver needs no rights for them.
    "spark.kubernetes.executor.disableConfigMap": "true",
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
    "spark.kubernetes.driver.waitToReusePersistentVolumeClaim": "false",
    # Otherwise Spark stops the driver after a fixed number of lost executors in its lifetime.
    "spark.executor.maxNumFailures": "2147483647",
    "spark.kubernetes.executor.podTemplateContainerName": "executor",
    # All executors at once instead of five per second.
    "spark.kubernetes.allocation.batch.size": "100",
    # Only pods that can read the Secret can talk to the driver and to the executors, and nobody
    # else can read what they say.
    "spark.authenticate": "true",
    # Not ...secret.executor.file: an executor asks its driver for the settings before it has an
    # environment, and that client reads this setting only (SecurityManager, Spark 4.2).
    "spark.authenticate.secret.file": f"{naming.RPC_DIR}/{naming.RPC_KEY}",
    "spark.network.crypto.enabled": "true",
}


def spark_conf(stream: ContinuousStream, environment: Environment, size: Size) -> dict[str, str]:
    """Spark's configuration for this stream, environment and number of executors."""
    spec = stream.spec
    shuffle = {SHUFFLE_PARTITIONS: _shuffle_partitions(spec, size)}
    # Spark uses it for stateless micro-batches (4.2). For all others it turns it off itself, with
    # a warning at each start.
    adaptive = {ADAPTIVE: str(not spec.trigger.mode.has_long_running_tasks).lower()}
    with_executors = {} if size.in_driver else _DEFAULTS_WITH_EXECUTORS
    defaults = {
        **_DEFAULTS,
        **adaptive,
        **with_executors,
        **shuffle,
        **_state_store(spec, size),
        _CONSUMERS: str(_consumers(spec, size)),
    }
    secret_conf = values_of(spec.secret_spark_conf, environment.secrets)
    conf = {**defaults, **secret_conf, **spec.spark_conf, **_FORCED}
    if conf[_STATE_STORE_CLASS] != ROCKSDB:
        del conf[_STATE_FORMAT]  # which no other class has
    conf |= _observability(spec.observability)
    conf |= _FORCED_IN_MODE.get(spec.trigger.mode, {})
    if spec.trigger.mode is Mode.REAL_TIME:
        conf |= _with(conf, _PLUGINS, _BATCHES)
    if refs := spec.secret_value_refs:
        conf |= _with_secrets(conf, spec, [file_of(ref, environment.secrets) for ref in refs])
    parallelism = default_parallelism(spec.source, spec.spark_conf)
    if parallelism is not None:
        conf["spark.default.parallelism"] = str(parallelism)
    if (store := spec.checkpoint.object_store) is not None:
        location = store.location_of(stream.metadata.namespace, stream.metadata.name)
        settings = hadoop_settings(store, location, environment.secrets)
        conf |= _IN_OBJECT_STORE | {f"spark.hadoop.{name}": it for name, it in settings.items()}
    conf["spark.app.name"] = stream.metadata.name
    conf["spark.driver.memory"] = f"{driver_memory(spec).heap}m"
    local = isinstance(environment, LocalEnvironment)
    scratch = environment.checkpoint if local else environment.scratch
    conf["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
    if size.in_driver:
        address = environment.address if local else _LOOPBACK
        return conf | _in_driver(address, threads_in_driver(spec, size))
    assert isinstance(environment, PodEnvironment)
    return conf | _FORCED_WITH_EXECUTORS | _with_executors(stream, environment, size)


def _consumers(spec: StreamSpec, size: Size) -> int:
    room = task_memory(spec, size).heap // _HEAP_OF_CONSUMER
    return max(_LEAST_CONSUMERS, min(size.partitions, room))


def _state_store(spec: StreamSpec, size: Size) -> dict[str, str]:
    beside_heap = task_memory(spec, size).overhead
    return _STATE | {
        f"{_STATE_STORE}.rocksdb.boundedMemoryUsage": "true",
        f"{_STATE_STORE}.rocksdb.maxMemoryUsageMB": str(beside_heap // _STATE_SHARE),
    }


def _observability(settings: Observability) -> dict[str, str]:
    conf = {"spark.ui.enabled": str(settings.ui).lower()}
    if settings.event_log is not None:
        conf |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": settings.event_log}
    return conf


def _with_secrets(conf: dict[str, str], spec: StreamSpec, files: list[Path]) -> dict[str, str]:
    """What keeps the values of these files out of pages and logs."""
    # Hadoop's and Hive's settings are shown under their own names, the rest under Spark's.
    names = [_OF_HADOOP.sub("", name) for name in spec.secret_spark_conf]
    redacted = "|".join([conf.get(_REDACTION, _REDACTION_OF_SPARK), *map(re.escape, names)])
    return {
        **_with(conf, _PLUGINS, f"{_SECRETS}.RedactionPlugin"),
        **_with(conf, "spark.ui.filters", f"{_SECRETS}.RedactingFilter"),
        "spark.penstock.secretFiles": "\n".join(map(str, files)),
        _REDACTION: redacted,
    }


def _with(conf: dict[str, str], name: str, one: str) -> dict[str, str]:
    """A setting that is a list, with one more."""
    others = conf.get(name, "")
    return {name: f"{others},{one}" if others else one}


def _in_driver(address: str, threads: int) -> dict[str, str]:
    return {
        # So many slots, whatever number of cores the machine has. A task is tried once: none is
        # lost with another pod, and the driver restarts the query for what else fails it.
        "spark.master": f"{_LOCAL}[{threads}]",
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
    }


def _with_executors(
    stream: ContinuousStream, environment: PodEnvironment, size: Size
) -> dict[str, str]:
    """No `spark.driver.bindAddress`, because executors would connect to it (measured with 0.0.0.0).

    Without it, Spark binds to `spark.driver.host`, the pod's address.
    """
    spec, name, address = stream.spec, stream.metadata.name, environment.address
    memory, cpu = executor_memory(spec), executor_cpu(spec)
    java_options = [*COMMON_OPTIONS, *map(_quoted, spec.executor.java_options)]
    conf = {
        "spark.master": f"k8s://{environment.api_server}",
        # Spark takes an address of IPv6 only in brackets (Utils.checkHost).
        "spark.driver.host": f"[{address}]" if ":" in address else address,
        "spark.executor.instances": str(size.executors),
        "spark.executor.cores": str(size.cores_per_executor),
        "spark.executor.memory": f"{memory.heap}m",
        "spark.executor.memoryOverhead": f"{memory.overhead}m",
        "spark.executor.extraJavaOptions": " ".join(java_options),
        "spark.kubernetes.namespace": environment.namespace,
        "spark.kubernetes.container.image": spec.image or "",
        "spark.kubernetes.executor.podTemplateFile": str(environment.executor_template),
        "spark.authenticate.secret.driver.file": str(environment.rpc_secret),
        "spark.kubernetes.executor.podNamePrefix": name,
        "spark.kubernetes.executor.request.cores": cpu.request,
        "spark.kubernetes.authenticate.executor.serviceAccountName": (
            spec.service_account_name or naming.driver_name(name)
        ),
    }
    if cpu.limit is not None:
        conf["spark.kubernetes.executor.limit.cores"] = cpu.limit
    labels = naming.stream_labels(name, naming.COMPONENT_EXECUTOR, spec.class_name)
    for label, value in labels.items():
        conf[f"spark.kubernetes.executor.label.{label}"] = value
    return conf


def _quoted(option: str) -> str:
    """An option in quotes if necessary: Spark splits like a shell (Utils.splitCommandString)."""
    return f'"{option}"' if " " in option else option


def start(gateway: Any, conf: dict[str, str]) -> SparkSession:
    """A SparkSession in the gateway's JVM; blocks until Spark is up."""
    from pyspark import SparkConf, SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    # One that ended by itself, or whose start failed halfway: pyspark would refuse another one.
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    for name in _REDUNDANT_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    if failed_write(gateway) is not None:
        conf = {FILE_MANAGER: _DURABLE_FILES, **conf}
        if conf["spark.master"].startswith(_LOCAL):
            conf |= _with(conf, _PLUGINS, _RUNNING_TASKS)
    settings = SparkConf(loadDefaults=False).setAll(
        list({**conf, **_resolved_jars(gateway)}.items())
    )
    # Not in the main thread, where pyspark would replace the driver's handler of Ctrl-C by its own,
    # which cancels all jobs and raises an exception at any point.
    with concurrent.futures.ThreadPoolExecutor(1, "spark") as pool:
        context = pool.submit(SparkContext, conf=settings, gateway=gateway).result()
    return SparkSession(context)


def child(session: SparkSession) -> SparkSession:
    """A session beside this one, whose query is over, for the query that takes its place.

    Spark registers a listener of queries for each session that starts one, and removes none: each
    would hear every event of the application (StreamingQueryManager, Spark 4.2).
    """
    successor = session.newSession()
    queries = session._jsparkSession.streams()
    field = queries.getClass().getDeclaredField("listenerBus")
    field.setAccessible(True)
    session.sparkContext._jsc.sc().listenerBus().removeListener(field.get(queries))
    return successor


def end_batch(gateway: Any) -> None:
    """Ends the batch of real-time mode that runs, which is committed then; no later one reads."""
    java_class(gateway, _BATCHES).endForGood()


def rows_of_running_tasks(spark_context: Any) -> tuple[int, int, int]:
    """How many rows the tasks that run in the driver have read, shuffled and written.

    Zeros where they run in executors, whose heartbeats say it.
    """
    if _RUNNING_TASKS not in spark_context.getConf().get(_PLUGINS, ""):
        return 0, 0, 0
    rows = java_class(spark_context._gateway, _RUNNING_TASKS).rows().split()
    return int(rows[0]), int(rows[1]), int(rows[2])


def failed_write(gateway: Any) -> Any | None:
    """The Java class that knows of failed writes; None on a laptop without Kafka."""
    from py4j.protocol import Py4JJavaError

    name = f"{_PACKAGE}.FailedWrite"
    try:
        gateway.jvm.java.lang.Class.forName(name)
    except Py4JJavaError:
        return None
    return java_class(gateway, name)


def shuffle_partitions(session: SparkSession) -> int:
    return int(session.conf.get(SHUFFLE_PARTITIONS) or 1)


def settings_line(gateway: Any, session: SparkSession) -> str:
    """What Spark notes of the session with each batch that it plans, as it writes it."""
    package = "org.apache.spark.sql.execution.streaming.checkpointing"
    noted = java_class(gateway, f"{package}.OffsetSeqMetadata")
    # The query's own session has it, from where it is noted (MicroBatchExecution, 4.2).
    session.conf.set(_STATE_PARTITIONS, shuffle_partitions(session))
    try:
        return str(noted.apply(0, 0, session._jsparkSession.conf()).json())
    finally:
        session.conf.unset(_STATE_PARTITIONS)


def set_shuffle_partitions(session: SparkSession, spec: StreamSpec, size: Size) -> None:
    """Sets them for a query that follows another one, of another size, in its session."""
    if SHUFFLE_PARTITIONS not in spec.spark_conf:
        session.conf.set(SHUFFLE_PARTITIONS, _shuffle_partitions(spec, size))


def _shuffle_partitions(spec: StreamSpec, size: Size) -> str:
    """The shuffle of an aggregate would have 200 tasks per batch otherwise.

    Later starts use the value that the first start wrote into the checkpoint, until the state is
    repartitioned.
    """
    if spec.checkpoint.state_partitions is not None:
        return str(spec.checkpoint.state_partitions)
    if spec.trigger.mode is Mode.REAL_TIME:  # each is a task that keeps its core
        return str(max(2, min(size.partitions, MIN_STATE_PARTITIONS)))
    least = MIN_STATE_PARTITIONS if execution_of(spec).in_batches else 1
    return str(least if size.in_driver else max(size.cores, least))


def submit_arguments(spec: StreamSpec, scratch: Path) -> list[str]:
    """spec.dependencies as arguments of SparkSubmit; empty if the stream has none.

    Spark itself only passes `spark.jars` on to executors. SparkSubmit also adds the classes to the
    driver and resolves Maven coordinates (SparkSubmit.prepareSubmitEnvironment). So the JVM of a
    stream with dependencies starts through SparkSubmit's class, which takes a little longer.
    """
    dependencies = spec.dependencies
    own = {name: value for name, value in spec.spark_conf.items() if name.startswith(_JARS)}
    if not (dependencies.jars or dependencies.packages or own):
        return []
    # Ivy's default folder is in the home directory, which a read-only container does not have.
    conf = {"spark.jars.ivy": str(scratch / "ivy"), **own}
    arguments = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    if dependencies.jars:
        arguments += ["--jars", ",".join(dependencies.jars)]
    if dependencies.packages:
        arguments += ["--packages", ",".join(dependencies.packages)]
    return arguments


def _resolved_jars(gateway: Any) -> dict[str, str]:
    """The jars that SparkSubmit resolved, for the executors; empty in a JVM without SparkSubmit."""
    jars = gateway.jvm.java.lang.System.getProperty("spark.jars")
    return {"spark.jars": str(jars)} if jars else {}


class LogLevel:
    """The level of the root logger, which outlives a session in the driver and not in executors.

    While nobody asks for a level nothing is set: Spark writes a line that is no JSON when it is.
    """

    def __init__(self, default: str) -> None:
        self._default = default
        self._known: tuple[SparkSession, str, int] | None = None

    def set(self, session: SparkSession, asked: str | None, executors: int) -> None:
        """Gives the session the level, if it does not have it. None: the level before any was set.

        `executors`: how many have registered. With spark.executor.syncLogLevel.enabled Spark sends
        the level to these, and gives it to those that ask for their settings later. One that has
        asked and not registered misses it (seen with 4.2.0), so it is sent again when their number
        changes.
        """
        level = asked or (None if self._known is None else self._default)
        if level is None or self._known == (session, level, executors):
            return
        session.sparkContext.setLogLevel(level)
        self._known = (session, level, executors)
