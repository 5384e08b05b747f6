"""Tells whether a query keeps state between batches; its executors write that to the checkpoint."""

from __future__ import annotations

from penstock.api.modes import Mode
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.triggers import Trigger

_STATELESS = Trigger.model_validate({"microBatch": {"asyncProgress": {}}})


def may_keep_state(spec: StreamSpec) -> bool:
    """False only where that is certain: in continuous and real-time mode, and for stateless SQL.

    SQL is stateless if asynchronous progress tracking, which allows no state, would support it.
    """
    if spec.trigger.mode not in (Mode.MICRO_BATCH, Mode.AVAILABLE_NOW):
        return False
    transform = spec.transform
    if (transform.watermark or transform.python or transform.java) is not None:
        return True
    if transform.sql is None:
        return False
    from penstock.sql.judge import judge_sql  # imports a parser, which most drivers do not need

    stateless = spec.model_copy(update={"trigger": _STATELESS, "output_mode": None})
    return bool(judge_sql(stateless))
