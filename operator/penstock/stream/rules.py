"""Rules across fields. Each is written once and feeds the CRD's CEL, the models and the docs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.config import JsonDict


@dataclass(frozen=True)
class Rule:
    """A statement about one object of the spec.

    `cel` is what the API server checks; `holds` is the same statement about the model, and None
    for a rule about an update (`oldSelf`), which only the API server can see.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None = None

    def as_schema(self) -> JsonDict:
        """An entry of x-kubernetes-validations."""
        return {"rule": self.cel, "message": self.message}


def exactly_one_of(what: str, **fields: str) -> Rule:
    """Exactly one of the fields is set; keys are attributes, values the names people write."""
    names = list(fields.values())
    return Rule(
        cel=f"[{', '.join(f'has(self.{name})' for name in names)}].filter(x, x).size() == 1",
        message=f"{what} takes exactly one of: {', '.join(names)}",
        holds=lambda model: sum(getattr(model, field) is not None for field in fields) == 1,
    )


def not_among(field: str, names: Mapping[str, str]) -> Rule:
    """A map that may not hold some keys, each of which another field says."""
    said = "; ".join(f"{name}: {instead}" for name, instead in names.items())
    return Rule(
        cel=f"!has(self.{field}) || !self.{field}.exists(k, k in {list(names)!r})",
        message=f"{field} cannot hold what a field says ({said})",
        holds=lambda model: not set(getattr(model, field)) & set(names),
    )


def immutable(what: str, remedy: str) -> Rule:
    """A scalar that no update may change."""
    return Rule(cel="self == oldSelf", message=f"{what} cannot be changed: {remedy}")


# Confs that Penstock sets itself, and the field that says the same thing to it.
OWNED_CONFS: Mapping[str, str] = {
    "spark.app.name": "metadata.name",
    "spark.master": "nothing: the driver always runs in client mode on Kubernetes",
    "spark.submit.deployMode": "nothing: the driver always runs in client mode",
    "spark.driver.host": "nothing: it is the driver pod's address",
    "spark.driver.bindAddress": "nothing: executors would dial it",
    "spark.driver.port": "nothing: it is fixed",
    "spark.driver.blockManager.port": "nothing: it is fixed",
    "spark.driver.memory": "spec.driver.memory",
    "spark.driver.cores": "spec.driver.cores",
    "spark.executor.cores": "spec.executor.cores",
    "spark.executor.instances": "spec.executor.minInstances and maxInstances",
    "spark.executor.memory": "spec.executor.memory",
    "spark.executor.memoryOverhead": "spec.executor.memoryOverhead",
    "spark.kubernetes.container.image": "spec.image",
    "spark.kubernetes.namespace": "metadata.namespace",
    "spark.kubernetes.driver.pod.name": "nothing: it is the StatefulSet's pod",
    "spark.kubernetes.executor.request.cores": "spec.executor.coreRequest",
    "spark.kubernetes.executor.podNamePrefix": "nothing: it is the stream's name",
    "spark.kubernetes.allocation.recoveryMode.enabled": (
        "nothing: an executor lost to memory would come back with one core"
    ),
    "spark.dynamicAllocation.enabled": "nothing: executors follow the partitions",
    "spark.speculation": "nothing: a continuous task never ends",
    "spark.task.maxFailures": "nothing: the driver restarts the query itself",
    "spark.sql.streaming.checkpointLocation": "spec.checkpoint",
}

NO_OWNED_CONF = Rule(
    cel=f"!self.exists(k, k in [{', '.join(repr(name) for name in OWNED_CONFS)}])",
    message=(
        "Penstock sets this conf itself; use the field of the spec that says the same: "
        "spec.image, spec.driver, spec.executor, spec.checkpoint"
    ),
)
