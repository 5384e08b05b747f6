"""Whether a query keeps state between batches, which its executors write into the checkpoint."""

from __future__ import annotations

from penstock.api.modes import Mode, mode_of
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.triggers import AsyncProgress, MicroBatchTrigger, Trigger

_STATELESS = Trigger(micro_batch=MicroBatchTrigger(async_progress=AsyncProgress()))


def may_keep_state(spec: StreamSpec) -> bool:
    """False only where it is certain: continuous and real-time mode, and SQL without state.

    Asynchronous progress tracking takes stateless queries only, so what it would take is stateless.
    """
    if mode_of(spec) not in (Mode.MICRO_BATCH, Mode.AVAILABLE_NOW):
        return False
    transform = spec.transform
    if transform.watermark is not None or transform.python is not None:
        return True
    if transform.sql is None:
        return False
    from penstock.sql import refusals  # a parser: not for the start of a driver that needs none

    stateless = spec.model_copy(update={"trigger": _STATELESS, "output_mode": None})
    return not refusals.is_readable(transform.sql) or bool(refusals.refusals(stateless))
