"""The pods of the driver and of the executors."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from operator import eq, le
from typing import Annotated, Any, Literal

from pydantic import Field

from penstock.api import quantities
from penstock.api.predicates import (
    Predicate,
    ValidationRule,
    at_most,
    cel_string,
    cel_text,
    is_one_of,
    is_set,
    some,
    value_at,
)
from penstock.api.v1alpha1.base import ByteQuantity, CpuQuantity, Option, SpecObject

DRIVER_CPU = "500m"
DRIVER_MEMORY = "1536Mi"
# Of a driver that may run the tasks itself: a stream of 16 partitions with state takes 650 MiB
# (docs/capacity.md). Other drivers may have to plan for a thousand partitions.
ONE_POD_MEMORY = "1Gi"
DRIVER_OVERHEAD = "512Mi"
# Beside the heap, a driver's JVM and its Python take 230 MiB once all classes are loaded.
DRIVER_LEAST_OVERHEAD = "256Mi"
EXECUTOR_MEMORY = "1408Mi"
EXECUTOR_LEAST_OVERHEAD = "384Mi"
# Spark's factor on Kubernetes is 0.1 of the heap, and 0.4 where Python runs beside the JVM
# (spark.kubernetes.memoryOverheadFactor). As parts of the container's memory, the first rounded up:
_OVERHEAD = Decimal("0.1")
_OVERHEAD_WITH_PYTHON = Decimal("0.4") / Decimal("1.4")
# Four tasks in Python take 370 MiB beside the driver's own 230, without what they import.
_DRIVER_OVERHEAD_WITH_PYTHON = Decimal(2) / Decimal(3)

# Spark wants Runtime.maxMemory to be 1.5 times the 300 MiB that it reserves (UnifiedMemoryManager):
# with less the driver does not start, and executors fail, one after another. The serial collector,
# which small pods have, does not count a survivor space, so that 450Mi are 435 and 466Mi are 450.5
# (measured, Java 17); the rest is a margin. The parallel collector leaves out more.
LEAST_HEAP = "480Mi"
# Tasks are threads in the driver's pod, and need no core each. What bounds them is memory: a
# consumer, a producer and, in Python, a process for each.
MOST_SLOTS_IN_DRIVER = 16
MOST_SLOTS_IN_DRIVER_WITH_PYTHON = 4
_SMALL_HEAP = (
    f"the JVM's heap must be at least {LEAST_HEAP}, because Spark does not start with less. It is "
    "resources.limits.memory (default: the request) minus memoryOverhead"
)

_REQUEST, _LIMIT = "resources.requests.memory", "resources.limits.memory"

ExecutorMode = Literal["Auto", "InDriver", "Pods"]
JavaOptions = Annotated[list[Option], Field(max_length=64)]


def _request_or_limit(first: str, second: str, default: str) -> str:
    """CEL: the first of the two fields that is set, as a string."""
    return cel_text(f"self.{first}", cel_text(f"self.{second}", cel_string(default)))


def _compared(first: str, second: str, condition: str) -> str:
    """CEL: a condition on two quantities, {0} and {1}; true if one is malformed.

    A malformed quantity breaks a rule of its own, and would be an error here.
    """
    condition = condition.format(f"quantity({first})", f"quantity({second})")
    return f"!isQuantity({first}) || !isQuantity({second}) || {condition}"


def _quantities(
    first: str, second: str, test: str, holds: Callable[[Decimal, Decimal], bool]
) -> Predicate:
    """A condition on two quantities, which holds if one of them is not set."""

    def of_model(model: Any) -> bool:
        amounts = [quantities.amount(value_at(model, path)) for path in (first, second)]
        return holds(*amounts)

    cel = _compared(
        f"string(self.{first})", f"string(self.{second})", f"{{0}}.compareTo({{1}}) {test}"
    )
    return ~(is_set(first) & is_set(second)) | Predicate(cel, of_model)


def _request_within_limit(name: str) -> ValidationRule:
    return ValidationRule(
        _quantities(f"requests.{name}", f"limits.{name}", "<= 0", le),
        f"requests.{name} cannot be above limits.{name}: lower the request or raise the limit",
    )


class ResourceAmounts(SpecObject):
    """Amounts of CPU and memory."""

    cpu: CpuQuantity | None = Field(
        None, description="Cores, or thousandths of a core with the suffix m.", examples=["500m"]
    )
    memory: ByteQuantity | None = Field(
        None, description="Memory in bytes: the JVM's heap and the overhead.", examples=["2Gi"]
    )


class Resources(SpecObject):
    """Kubernetes' resources of the container."""

    rules = (_request_within_limit("cpu"), _request_within_limit("memory"))
    requests: ResourceAmounts = Field(ResourceAmounts(), description="What the scheduler reserves.")
    limits: ResourceAmounts = Field(
        ResourceAmounts(), description="What the container cannot exceed."
    )


def memory_request(pod: Driver | Executor, default: str = "") -> Decimal:
    """The container's memory request in bytes; by default its limit."""
    given = pod.resources
    set_by_user = given.requests.memory or given.limits.memory
    return quantities.in_bytes(set_by_user or default or _default_memory(pod))


def memory_limit(pod: Driver | Executor, default: str = "") -> Decimal:
    """The container's memory limit in bytes; by default its request."""
    given = pod.resources
    set_by_user = given.limits.memory or given.requests.memory
    return quantities.in_bytes(set_by_user or default or _default_memory(pod))


def memory_overhead(pod: Driver | Executor, *, python: bool = False) -> Decimal:
    """The part of the memory that is not the JVM's heap, in bytes.

    `python`: its tasks run Python, one process for each.
    """
    if pod.memory_overhead is not None:
        return quantities.in_bytes(pod.memory_overhead)
    limit = memory_limit(pod)
    if isinstance(pod, Driver):
        least = quantities.in_bytes(DRIVER_OVERHEAD)
        beside_least_heap = limit - quantities.in_bytes(LEAST_HEAP)
        part = min(limit * _DRIVER_OVERHEAD_WITH_PYTHON, beside_least_heap) if python else 0
        return max(least, Decimal(part))
    part = _OVERHEAD_WITH_PYTHON if python else _OVERHEAD
    return max(quantities.in_bytes(EXECUTOR_LEAST_OVERHEAD), limit * part)


def _default_memory(pod: Driver | Executor) -> str:
    return DRIVER_MEMORY if isinstance(pod, Driver) else EXECUTOR_MEMORY


def _heap_is_enough(default_memory: str, default_overhead: str) -> ValidationRule:
    # An executor's default overhead grows with its memory, which CEL cannot calculate. It exceeds
    # the minimum from 3840Mi on, with Python from 1344Mi on: the heap is then large enough.
    cel = _compared(
        _request_or_limit(_LIMIT, _REQUEST, default_memory),
        cel_text("self.memoryOverhead", cel_string(default_overhead)),
        f"{{0}}.sub({{1}}).compareTo(quantity('{LEAST_HEAP}')) >= 0",
    )
    least = quantities.in_bytes(LEAST_HEAP)

    def words(pod: Driver | Executor) -> str:
        overhead = memory_overhead(pod)
        heap = quantities.mebibytes(memory_limit(pod) - overhead)
        enough = -quantities.mebibytes(-(overhead + least))  # rounded up
        return (
            f"{_SMALL_HEAP}, which leaves {heap}Mi: raise the memory to {enough}Mi, or lower the "
            "overhead"
        )

    return ValidationRule(
        Predicate(cel, lambda pod: memory_limit(pod) - memory_overhead(pod) >= least),
        f"{_SMALL_HEAP}: raise the memory or lower the overhead",
        words=words,
    )


# Spark splits the options at spaces, so one entry can hold several. It refuses -Dspark in those of
# executors (SparkConf.validateSettings), and would read them as its configuration in the driver.
_NOT_JAVA_OPTIONS = r"(^|\s)-(Xm[sx]|XX:(Max|Initial)(HeapSize|RAMPercentage)|Dspark)"
HEAP_IS_DERIVED = ValidationRule(
    ~is_set("javaOptions") | ~some("javaOptions", _NOT_JAVA_OPTIONS),
    "javaOptions cannot set the heap (-Xmx, -Xms) or Spark's configuration (-Dspark): use "
    "resources.limits.memory with memoryOverhead, or sparkConf",
)

ONE_MEMORY = ValidationRule(
    _quantities(_REQUEST, _LIMIT, "== 0", eq),
    "resources.requests.memory and resources.limits.memory must be equal, because Spark gives an "
    "executor one memory for both: remove one of them",
)

POD_TEMPLATE: Any = Field(
    default_factory=dict,
    description=(
        "A PodTemplateSpec that Penstock merges under its own: labels, annotations, env, volumes, "
        "node selection, tolerations, affinity, priority... Where both set a field, Penstock's "
        "value wins; labels and annotations below penstock.dev/ are refused. The container is "
        "named `driver` or `executor`."
    ),
    examples=[{"spec": {"nodeSelector": {"disk": "ssd"}}}],
    json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
)
JAVA_OPTIONS: Any = Field(
    [],
    description="Options of the JVM, except the heap, which follows from `resources`.",
    examples=[["-XX:+UseZGC"]],
)


_OVERHEAD_IS_ENOUGH = ValidationRule(
    ~is_set("memoryOverhead")
    | Predicate(
        "!isQuantity(string(self.memoryOverhead)) || "
        "quantity(string(self.memoryOverhead))"
        f".compareTo(quantity({cel_string(DRIVER_LEAST_OVERHEAD)})) >= 0",
        lambda driver: memory_overhead(driver) >= quantities.in_bytes(DRIVER_LEAST_OVERHEAD),
    ),
    f"memoryOverhead must be at least {DRIVER_LEAST_OVERHEAD}, because JVM and Python need it "
    "beside the heap: raise it, and the memory",
)


class Driver(SpecObject):
    """The driver's pod. It plans and coordinates, and runs the tasks if there are no executors."""

    rules = (
        HEAP_IS_DERIVED,
        _heap_is_enough(DRIVER_MEMORY, DRIVER_OVERHEAD),
        _OVERHEAD_IS_ENOUGH,
    )
    resources: Resources = Field(
        Resources(),
        description=(
            f"CPU and memory of the container. The CPU request defaults to {DRIVER_CPU}, or to the "
            "CPU limit if that is lower. There is no CPU limit by default. The memory request "
            "defaults to the memory limit, and the limit to the request. Default of both: "
            f"{DRIVER_MEMORY}, and {ONE_POD_MEMORY} if the tasks may run in the driver's pod, none "
            "of them in Python, and `memoryOverhead` is not set. Other resources belong in "
            "`podTemplate`."
        ),
        examples=[{"requests": {"cpu": "500m", "memory": "2Gi"}}],
    )
    memory_overhead: ByteQuantity | None = Field(
        None,
        description=(
            "The part of the memory limit for everything but the JVM's heap, such as the JVM "
            f"itself, Python and state. The heap is the rest. At least {DRIVER_LEAST_OVERHEAD}. "
            f"Default: {DRIVER_OVERHEAD}; if tasks in Python or the function of a sink may run in "
            "the driver's pod, two thirds of the memory."
        ),
    )
    java_options: JavaOptions = JAVA_OPTIONS
    pod_template: dict[str, Any] = POD_TEMPLATE


# Only pods of executors have these fields.
_OF_PODS = (
    "cores",
    "resources",
    "memoryOverhead",
    "minInstances",
    "maxInstances",
    "javaOptions",
    "podTemplate",
)
_IN_DRIVER_ALONE = ValidationRule(
    ~(is_set("mode") & is_one_of("mode", "InDriver"))
    | Predicate(
        f"!({' || '.join(f'has(self.{name})' for name in _OF_PODS)})",
        lambda executor: not executor.describes_pods,
    ),
    "with mode InDriver there are no executors' pods: remove the other fields of executor (memory "
    "and CPU are those of driver.resources), or set mode to Pods",
)


class Executor(SpecObject):
    """The executors, which run the query's tasks: in the driver's pod, or in pods of their own,
    whose number follows the source's partitions.
    """

    rules = (
        _IN_DRIVER_ALONE,
        HEAP_IS_DERIVED,
        _heap_is_enough(EXECUTOR_MEMORY, EXECUTOR_LEAST_OVERHEAD),
        ONE_MEMORY,
        ValidationRule(
            ~is_set("minInstances")
            | ~is_set("maxInstances")
            | at_most("minInstances", "maxInstances"),
            "minInstances cannot be above maxInstances",
        ),
    )
    mode: ExecutorMode | None = Field(
        None,
        description=(
            "InDriver: the tasks run in the driver's pod, which is the only one then, and the "
            "other fields of `executor` are not allowed. Pods: they run in pods of their own. "
            "Auto: in the driver's pod as long as the query has at most "
            f"{MOST_SLOTS_IN_DRIVER} tasks at once ({MOST_SLOTS_IN_DRIVER_WITH_PYTHON} in Python), "
            "else in pods. Default: Pods if the stream sets another field of `executor`, or "
            "executors' settings in `sparkConf`; else Auto."
        ),
    )
    cores: int = Field(
        1,
        ge=1,
        le=64,
        description="Task slots of one executor; each runs one partition. Default: 1.",
    )
    resources: Resources = Field(
        Resources(),
        description=(
            "CPU and memory of one executor's container. The CPU request defaults to `cores`, or "
            "to the CPU limit if that is lower. A continuous task sleeps while it waits for "
            "records, so a request below `cores` is enough for few records. There is no CPU limit "
            "by default. Memory is one amount, as request or as limit. Default: "
            f"{EXECUTOR_MEMORY}. Other resources belong in `podTemplate`."
        ),
        examples=[{"requests": {"cpu": "500m", "memory": "2Gi"}}],
    )
    memory_overhead: ByteQuantity | None = Field(
        None,
        description=(
            "The part of the memory for everything but the JVM's heap, such as the JVM itself and "
            "Python. The heap is the rest. Spark adds spark.memory.offHeap.size and "
            "spark.executor.pyspark.memory, if sparkConf sets them, to the memory of `resources`. "
            f"Default: a tenth of the memory, at least {EXECUTOR_LEAST_OVERHEAD}; with "
            "transform.python, or a source or sink in Python, two sevenths, which is 40% of the "
            "heap, as Spark takes for Python."
        ),
    )
    min_instances: int = Field(1, ge=1, le=1000, description="Minimum of executors. Default: 1.")
    max_instances: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Maximum of executors. Default: as many as the partitions need.",
    )
    java_options: JavaOptions = JAVA_OPTIONS
    pod_template: dict[str, Any] = POD_TEMPLATE

    @property
    def describes_pods(self) -> bool:
        """Whether the spec says how executors' pods are to be."""
        return bool(self.model_fields_set - {"mode"})
