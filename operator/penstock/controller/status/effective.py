"""The settings that run, for a stream's status. Pure."""

from __future__ import annotations

from penstock.api.modes import Mode, execution_of, mode_of
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.status import Effective, EffectiveDriver, EffectiveExecutor, StreamStatus
from penstock.cluster.pods import DriverPod
from penstock.contract import sizing
from penstock.controller.children.desired_stream import DesiredStream

_MODE_NAMES = {
    Mode.CONTINUOUS: "Continuous",
    Mode.MICRO_BATCH: "MicroBatch",
    Mode.ASYNC: "AsyncMicroBatch",
    Mode.REAL_TIME: "RealTime",
    Mode.AVAILABLE_NOW: "AvailableNow",
}


def mode(before: StreamStatus, desired: DesiredStream | None, pod: DriverPod | None) -> str | None:
    """The name of the query's mode; the one before while the driver pod has another spec."""
    if desired is None or (pod is not None and pod.spec_hash != desired.spec_hash):
        return before.mode
    return _MODE_NAMES[mode_of(desired.stream.spec)]


def effective(
    before: StreamStatus, desired: DesiredStream | None, pod: DriverPod | None
) -> Effective | None:
    """The settings of the driver pod: until it has the desired spec, those reported before."""
    if desired is None or pod is None or pod.spec_hash != desired.spec_hash:
        return before.effective
    spec = desired.stream.spec
    return Effective(
        image=desired.image,
        revision=desired.spec_hash,
        output_mode=execution_of(spec).output_mode,
        driver=_driver(spec),
        executor=_executor(spec),
    )


def _driver(spec: StreamSpec) -> EffectiveDriver:
    memory = sizing.driver_memory(spec)
    return EffectiveDriver(
        cpu=sizing.driver_cpu(spec).request, memory=f"{memory.limit}Mi", heap=f"{memory.heap}Mi"
    )


def _executor(spec: StreamSpec) -> EffectiveExecutor:
    memory = sizing.executor_memory(spec)
    return EffectiveExecutor(
        cores=spec.executor.cores,
        cpu=sizing.executor_cpu(spec).request,
        memory=f"{memory.limit}Mi",
        heap=f"{memory.heap}Mi",
    )
