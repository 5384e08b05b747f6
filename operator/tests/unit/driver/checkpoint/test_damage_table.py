"""Compares the table of damages with the planned repairs."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.contract.checkpoint_repairs import RepairKind
from penstock.driver.checkpoint import batch_ids
from penstock.driver.checkpoint.file_formats import Files
from penstock.driver.checkpoint.repair import RepairPlan, plan
from penstock.driver.failures import DriverError
from testkit.driver.checkpoint_damage import (
    ENGINES,
    TABLE,
    Damage,
    Engine,
    Refused,
    undamaged,
)
from testkit.driver.checkpoints import (
    apply_plan,
    with_checksums,
)
from testkit.streams.streams import (
    ASYNC,
    CONTINUOUS,
    MICRO_BATCH,
    REAL_TIME,
    kafka_sink,
    kafka_source,
    stream,
)

NEWEST = 7

COUNTING: dict[str, Any] = {"sql": "SELECT CAST(count(*) AS STRING) AS value FROM source"}

TRIGGERS: dict[Engine, dict[str, Any]] = {
    "continuous": CONTINUOUS, "microBatch": MICRO_BATCH, "async": ASYNC, "realTime": REAL_TIME,
    "parquet": MICRO_BATCH, "state": MICRO_BATCH, "twoReads": MICRO_BATCH,
}  # fmt: skip


@pytest.mark.proves("checkpoints.md#damage")
@pytest.mark.parametrize("own", [True, False], ids=["own", "plain"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("damage", TABLE, ids=lambda each: each.name)
def test_damage_is_repaired_or_refused_as_the_table_says(
    damage: Damage, engine: Engine, own: bool
) -> None:
    sink = {"custom": {"format": "parquet"}} if engine == "parquet" else kafka_sink()
    more: dict[str, Any] = (
        {"transform": COUNTING, "outputMode": "update"} if engine == "state" else {}
    )
    spec = stream(kafka_source(), sink, trigger=TRIGGERS[engine], **more).spec
    whole = undamaged(engine, range(3, NEWEST + 1))
    whole = whole if own else with_checksums(whole)

    def planned(files: Files) -> RepairPlan:
        keep_ids = batch_ids.place_of(spec.sink) is not None
        return plan(files, spec, keep_ids=keep_ids, state=engine == "state")

    files, outcome = damage.done_to(whole, NEWEST), damage.outcome(engine, own=own)
    if isinstance(outcome, Refused):
        with pytest.raises(DriverError) as raised:
            planned(files)
        assert (raised.value.failure.reason, raised.value.failure.permanent) == (
            outcome.reason, True
        )  # fmt: skip
        return
    repair = planned(files)
    assert repair.epoch == (NEWEST - outcome.back if outcome.commits else None)
    known = {each.kind for each in repair.repairs}
    # Of its own Penstock removes what is broken and of no use.
    unsaid = {RepairKind.IMPORTED, *([RepairKind.LEFTOVER_FILE] if own else [])}
    assert known - unsaid == outcome.kinds - unsaid
    assert own or RepairKind.IMPORTED in known
    again = planned(apply_plan(files, repair))
    assert (again.delete, again.epoch, again.write) == ((), repair.epoch, {})
    assert len({each.name for each in TABLE}) == len(TABLE)
