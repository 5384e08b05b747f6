"""The pods of driver and executors."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator

from penstock.api import pod_template_rules
from penstock.api.quantities import mebibytes
from penstock.api.rules import Rule
from penstock.api.v1alpha1.base import Cpu, Memory, Option, SpecObject

JavaOptions = Annotated[list[Option], Field(max_length=64)]


def _sets_heap(options: list[str]) -> bool:
    return any(each.startswith(("-Xmx", "-Xms")) for each in options)


HEAP_IS_MEMORY = Rule(
    cel="!has(self.javaOptions) || "
    "!self.javaOptions.exists(o, o.startsWith('-Xmx') || o.startsWith('-Xms'))",
    message="javaOptions cannot set the heap (-Xmx, -Xms): use memory",
    holds=lambda it: not _sets_heap(it.java_options),
)

# 1.5 times the 300 MiB that Spark keeps for itself: UnifiedMemoryManager refuses less, and an
# executor would be made and would end again for ever.
LEAST_HEAP_MEBIBYTES = 450

HEAP_IS_ENOUGH = Rule(
    cel=f"!has(self.memory) || quantity(self.memory).compareTo("
    f"quantity('{LEAST_HEAP_MEBIBYTES}Mi')) >= 0",
    message=f"memory must be at least {LEAST_HEAP_MEBIBYTES}Mi: Spark starts in no smaller heap",
    holds=lambda it: mebibytes(it.memory) >= LEAST_HEAP_MEBIBYTES,
)

POD_TEMPLATE: Any = Field(
    default_factory=dict,
    description=(
        "A PodTemplateSpec laid under Penstock's own: labels, annotations, env, volumes, node "
        "selection, tolerations, affinity, priority... What Penstock sets itself wins. The "
        "container's name is `driver` or `executor`."
    ),
    examples=[{"spec": {"nodeSelector": {"disk": "ssd"}}}],
    json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
)


def _checked(template: dict[str, Any], container: str) -> dict[str, Any]:
    refusal = pod_template_rules.refusal(template, container)
    if refusal is not None:
        raise ValueError(refusal)
    return template


class Driver(SpecObject):
    """The driver's pod: it plans and coordinates, records do not pass through it."""

    rules = (HEAP_IS_MEMORY, HEAP_IS_ENOUGH)
    cores: int = Field(1, ge=1, le=64, description="Cores Spark uses. Default: 1.")
    core_request: Cpu = Field(
        "500m",
        description="CPU asked of Kubernetes; less than `cores` is fine. Default: 500m.",
        examples=["500m"],
    )
    memory: Memory = Field("1Gi", description="The JVM's heap. Default: 1Gi.", examples=["1Gi"])
    memory_overhead: Memory = Field(
        "512Mi", description="Memory beside the heap: JVM, Python. Default: 512Mi."
    )
    java_options: JavaOptions = Field(
        [], description="Options of the JVM. The heap is `memory`.", examples=[["-XX:+UseZGC"]]
    )
    pod_template: dict[str, Any] = POD_TEMPLATE

    @field_validator("pod_template")
    @classmethod
    def _ours_is_left_alone(cls, template: dict[str, Any]) -> dict[str, Any]:
        return _checked(template, "driver")


class Executor(SpecObject):
    """The executors' pods. Their number follows the source's partitions."""

    rules = (
        HEAP_IS_MEMORY,
        HEAP_IS_ENOUGH,
        Rule(
            cel="!has(self.minInstances) || !has(self.maxInstances) || "
            "self.minInstances <= self.maxInstances",
            message="minInstances cannot be above maxInstances",
            holds=lambda it: it.max_instances is None or it.min_instances <= it.max_instances,
        ),
    )
    cores: int = Field(
        1, ge=1, le=64, description="Task slots of one executor, a partition each. Default: 1."
    )
    core_request: Cpu | None = Field(
        None,
        description=(
            "CPU that one executor asks of Kubernetes. A continuous task sleeps while it waits "
            "for records, so less than `cores` is fine where records are few. Default: `cores`."
        ),
        examples=["500m"],
    )
    memory: Memory = Field("1Gi", description="The JVM's heap. Default: 1Gi.")
    memory_overhead: Memory | None = Field(
        None, description="Memory beside the heap. Default: a tenth of it, at least 384Mi."
    )
    min_instances: int = Field(
        1, ge=1, le=1000, description="Executors there are at least. Default: 1."
    )
    max_instances: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Executors there are at most. Default: as many as the partitions need.",
    )
    java_options: JavaOptions = Field(
        [], description="Options of the JVM. The heap is `memory`.", examples=[["-XX:+UseZGC"]]
    )
    pod_template: dict[str, Any] = POD_TEMPLATE

    @field_validator("pod_template")
    @classmethod
    def _ours_is_left_alone(cls, template: dict[str, Any]) -> dict[str, Any]:
        return _checked(template, "executor")
