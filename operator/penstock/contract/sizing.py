"""Where a stream's tasks run, how many executors it gets, and the CPU and memory of each pod. Pure.

A continuous query runs one long task for each source partition. With fewer cores than partitions,
some partitions starve without an error or a warning (Structured Streaming Programming Guide,
"Caveats"; measured in Spark 4.2), so there are always at least as many cores as partitions. In
real-time mode the stages of a query run at once: each has its tasks beside those of the others, and
Spark runs no batch for which there are too few slots (CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT).

In the driver's pod slots are threads, so there are as many as the tasks need. The tasks of a
micro-batch take turns: more threads would not make it faster, and each takes memory.
"""

import re
from dataclasses import dataclass
from decimal import Decimal

from penstock.api import quantities
from penstock.api.quantities import mebibytes
from penstock.api.reserved_spark_conf import OF_EXECUTORS
from penstock.api.v1alpha1 import Source, StreamSpec
from penstock.api.v1alpha1.driver_and_executor import (
    DRIVER_CPU,
    DRIVER_MEMORY,
    EXECUTOR_MEMORY,
    MOST_SLOTS_IN_DRIVER,
    MOST_SLOTS_IN_DRIVER_WITH_PYTHON,
    ONE_POD_MEMORY,
    Driver,
    Executor,
    ExecutorMode,
    memory_limit,
    memory_overhead,
    memory_request,
)

# Of the heap: the buffers of all producers together.
_BUFFERS_SHARE = 4
# In MiB for one: what holds some records of a megabyte, Kafka's limit, and Kafka's default.
_LEAST_BUFFER = 4
_KAFKAS_BUFFER = 32


@dataclass(frozen=True)
class Size:
    """How many executors a query gets."""

    partitions: int
    executors: int
    """Their pods; none if the tasks run in the driver's."""
    cores_per_executor: int
    slots: int
    """The tasks that run at once in a mode whose tasks keep their cores."""

    @property
    def cores(self) -> int:
        """Task slots of all executors, or of the driver."""
        return (self.executors or 1) * self.cores_per_executor

    @property
    def in_driver(self) -> bool:
        """Whether the tasks run in the driver's JVM."""
        return self.executors == 0


@dataclass(frozen=True)
class TooFewExecutorsAllowed:
    """The stream's own maximum forbids the cores that its tasks need."""

    partitions: int
    state_tasks: int
    executors_needed: int
    max_executors: int

    def __str__(self) -> str:
        return (
            f"{self.partitions} partitions{self._and_state} need {self.executors_needed} "
            f"executors, but spec.executor.maxInstances is {self.max_executors}: raise it, or "
            f"raise spec.executor.cores"
        )

    @property
    def _and_state(self) -> str:
        return f" and {self.state_tasks} tasks with state" if self.state_tasks else ""


def size(partitions: int, spec: StreamSpec, state_tasks: int = 0) -> Size | TooFewExecutorsAllowed:
    """The executors for a source with this many partitions; 0 partitions count as one.

    `state_tasks` are those of all stages with state that run beside the stage that reads.

    >>> spec = StreamSpec.model_validate({
    ...     "source": {"rate": {"rowsPerSecond": 1}}, "sink": {"noop": {}},
    ...     "trigger": {"continuous": {"checkpointInterval": "1s"}},
    ...     "executor": {"cores": 2, "maxInstances": 3},
    ... })
    >>> size(5, spec)
    Size(partitions=5, executors=3, cores_per_executor=2, slots=5)
    >>> size(7, spec).executors_needed
    4
    >>> str(size(3, spec, state_tasks=4)).partition(",")[0]
    '3 partitions and 4 tasks with state need 4 executors'
    """
    executor = spec.executor
    slots = max(partitions, 1) + state_tasks
    mode = executor_mode(spec)
    if mode == "InDriver" or (mode == "Auto" and slots <= most_slots_in_driver(spec)):
        return in_driver(partitions, spec, slots)
    needed = -(-slots // executor.cores)
    if executor.max_instances is not None and needed > executor.max_instances:
        return TooFewExecutorsAllowed(partitions, state_tasks, needed, executor.max_instances)
    return Size(partitions, max(needed, executor.min_instances), executor.cores, slots)


def in_driver(partitions: int, spec: StreamSpec, slots: int) -> Size:
    """The size for tasks that run in the driver."""
    takes_turns = not spec.trigger.mode.has_long_running_tasks
    threads = min(slots, most_slots_in_driver(spec)) if takes_turns else slots
    return Size(partitions, 0, threads, slots)


def executor_mode(spec: StreamSpec) -> ExecutorMode:
    """Where the tasks run, with the default applied."""
    if spec.executor.mode is not None:
        return spec.executor.mode
    asks_for_pods = spec.executor.describes_pods or any(
        re.search(OF_EXECUTORS, name) for name in spec.spark_conf
    )
    return "Pods" if asks_for_pods else "Auto"


def may_run_in_driver(spec: StreamSpec) -> bool:
    """Whether the tasks run in the driver's pod, at least while there are few of them."""
    return executor_mode(spec) != "Pods"


def most_slots_in_driver(spec: StreamSpec) -> int:
    """How many tasks run in the driver's pod before executors take them, with mode Auto."""
    return MOST_SLOTS_IN_DRIVER_WITH_PYTHON if executors_run_python(spec) else MOST_SLOTS_IN_DRIVER


def threads_in_driver(spec: StreamSpec, size: Size) -> int:
    """The task slots of a session whose tasks run in the driver: some are for partitions to come,
    and cost nothing until then.
    """
    return max(size.cores, most_slots_in_driver(spec))


def default_parallelism(source: Source, conf: dict[str, str]) -> int | None:
    """The value of spark.default.parallelism that this source needs; None if any will do.

    The socket source makes as many partitions as the session's default parallelism, which would
    otherwise be the number of all cores (TextSocketContinuousStream, TextSocketMicroBatchStream).
    """
    if source.socket is None:
        return None
    own = conf.get("spark.default.parallelism", "")
    return int(own) if own.isdecimal() and int(own) > 0 else 1


def stated_partitions(source: Source, conf: dict[str, str]) -> int:
    """The partitions of a source whose number the spec states (every source but Kafka)."""
    if source.rate is not None:
        return source.rate.num_partitions
    if source.custom is not None:
        return source.custom.num_partitions
    return default_parallelism(source, conf) or 1


@dataclass(frozen=True)
class Memory:
    """The memory of one container in MiB; heap and overhead add up to the limit."""

    request: int
    limit: int
    overhead: int
    heap: int


@dataclass(frozen=True)
class Cpu:
    """The CPU of one container, as Kubernetes quantities; no limit is None."""

    request: str
    limit: str | None


def driver_memory(spec: StreamSpec) -> Memory:
    """The memory of the driver's container, with the defaults applied."""
    driver, in_driver = spec.driver, may_run_in_driver(spec)
    python = spec.sink.python is not None or (in_driver and executors_run_python(spec))
    is_small = in_driver and not python and driver.memory_overhead is None
    default = ONE_POD_MEMORY if is_small else DRIVER_MEMORY
    return _memory(driver, memory_overhead(driver, python=python), default)


def executor_memory(spec: StreamSpec) -> Memory:
    """The memory of one executor's container, with the defaults applied."""
    overhead = memory_overhead(spec.executor, python=executors_run_python(spec))
    return _memory(spec.executor, overhead, EXECUTOR_MEMORY)


def task_memory(spec: StreamSpec, size: Size) -> Memory:
    """The memory of a container in which tasks run."""
    return driver_memory(spec) if size.in_driver else executor_memory(spec)


def producer_buffer(spec: StreamSpec, size: Size) -> int:
    """Bytes of the heap for what a task's own producer has not sent yet (buffer.memory).

    A broker that is slow fills those of all tasks, by Kafka's default with 32 MiB for each.
    """
    share = task_memory(spec, size).heap // _BUFFERS_SHARE // size.cores_per_executor
    return min(max(share, _LEAST_BUFFER), _KAFKAS_BUFFER) << 20


def executors_run_python(spec: StreamSpec) -> bool:
    """Whether they may: what a function in Python gives to Spark shows only in a plan.

    A data source in Python is named module:Class.
    """
    custom = (spec.source.custom, spec.sink.custom)
    return bool(spec.python_functions) or any(it and ":" in it.format for it in custom)


def driver_cpu(spec: StreamSpec) -> Cpu:
    """The CPU of the driver's container, with the defaults applied."""
    return _cpu(spec.driver, DRIVER_CPU)


def executor_cpu(spec: StreamSpec) -> Cpu:
    """The CPU of one executor's container, with the defaults applied."""
    return _cpu(spec.executor, str(spec.executor.cores))


def _memory(pod: Driver | Executor, overhead: Decimal, default: str) -> Memory:
    in_bytes = memory_limit(pod, default)
    limit, heap = mebibytes(in_bytes), mebibytes(in_bytes - overhead)
    return Memory(mebibytes(memory_request(pod, default)), limit, limit - heap, heap)


def _cpu(pod: Driver | Executor, default: str) -> Cpu:
    request, limit = pod.resources.requests.cpu, pod.resources.limits.cpu
    if request is None:
        amounts = [default] if limit is None else [default, limit]
        request = min(amounts, key=quantities.in_cores)
    return Cpu(request, limit)
