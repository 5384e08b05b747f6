"""What one of Spark's engines leaves in a checkpoint that another one cannot start from.

"Any query can be restarted with any trigger" (Structured Streaming, "Continuous Processing") holds
for Kafka, whose offsets are the same in every mode, once three things are put right (measured with
Spark 4.2):

- The continuous engine leaves the line of metadata in offsets/N empty, and the micro-batch engine
  then fails with a NullPointerException for want of a watermark (populateStartOffsets).
- With async progress tracking offsets/N has gaps, and without it a start wants offsets/(N-1) of its
  newest offsets/N ("batch N-1 doesn't exist").
- Rate and socket have offsets of their own for each engine, and cannot go on from another's.

State is another matter: the continuous engine does not look at it, and what a stateful query has
not handed on yet would be lost without a word.
"""

from __future__ import annotations

import re
from dataclasses import replace

from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.checkpoint_repairs import Repair, RepairKind
from penstock.driver.checkpoint.files import Files, checksum_path, is_continuous
from penstock.driver.checkpoint.repair import RepairPlan, plan_repair
from penstock.driver.engine import Engine, engine_of, is_asynchronous
from penstock.driver.failures import DriverError, Failure
from penstock.sql.stateful import may_keep_state

_METADATA_LINE = b'{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


def plan(files: Files, spec: StreamSpec, *, state: bool = False) -> RepairPlan:
    """The repair that a start of this spec needs, whatever ran before.

    `state`: the checkpoint holds state of the query that ran before.
    """
    wanted = engine_of(spec)
    repair = plan_repair(files, wanted)
    gone = set(repair.delete)
    left = {
        int(path.removeprefix("offsets/")): content
        for path, content in files.items()
        if re.fullmatch(r"offsets/[0-9]+", path) and path not in gone
    }
    if state and repair.epoch is not None and not may_keep_state(spec):
        _refuse_to_drop_state()
    if repair.epoch is not None and repair.epoch in left:
        _refuse_foreign(left[repair.epoch], spec, wanted)
    if wanted is Engine.CONTINUOUS:
        return repair
    repair, left = _with_metadata(files, repair, left)
    return repair if is_asynchronous(spec) else _without_gap(files, repair, left)


def _refuse_to_drop_state() -> None:
    raise DriverError(
        Failure(
            "CheckpointHoldsState",
            "the query that ran before kept state in this checkpoint, and this one keeps none: "
            "what it had counted and not yet written would be dropped without a word. Go back to "
            "the query and trigger that ran before; or apply this one under another name, where "
            "it begins at its own startingOffsets",
            permanent=True,
        )
    )


def _refuse_foreign(newest: bytes, spec: StreamSpec, wanted: Engine) -> None:
    portable = spec.source.rate is None and spec.source.socket is None
    if portable or is_continuous(newest) == (wanted is Engine.CONTINUOUS):
        return
    raise DriverError(
        Failure(
            "CheckpointOfAnotherMode",
            f"{wanted.value} cannot go on from this checkpoint: the source's offsets were written "
            f"by {'trigger.continuous' if is_continuous(newest) else 'a micro-batch engine'}, in a "
            "form of its own (Kafka's are the same in every mode). Go back to that trigger, or "
            "apply the stream under another name",
            permanent=True,
        )
    )


def _with_metadata(
    files: Files, repair: RepairPlan, left: dict[int, bytes]
) -> tuple[RepairPlan, dict[int, bytes]]:
    repaired = {n: _repaired(left[n]) for n in sorted(left) if is_continuous(left[n])}
    return _writing(files, repair, repaired, RepairKind.METADATA_LINE), {**left, **repaired}


def _repaired(offsets: bytes) -> bytes:
    version, _, *sources = offsets.split(b"\n")
    return b"\n".join([version, _METADATA_LINE, *sources])


def _without_gap(files: Files, repair: RepairPlan, left: dict[int, bytes]) -> RepairPlan:
    """Makes the newest offsets have a predecessor, which ends where the one before the gap did.

    If the newest are committed, Spark reads the predecessor and does not use it. If they are only
    planned, that batch runs again from there: all that the left-out batches had, once more.

    Spark's own way is to set the interval to 0 until two batches are committed, and then to turn
    tracking off: it needs records to come, and a driver that runs on meanwhile as it was not asked
    to. This ends in the same files, at once.
    """
    newest = max(left, default=0)
    if newest == 0 or newest - 1 in left:
        return repair
    before = max((n for n in left if n < newest), default=newest)
    # Async tracking commits no batch whose offsets it left out.
    damaged = f"commits/{newest - 1}" in files
    kind = RepairKind.MISSING_OFFSETS if damaged else RepairKind.ASYNC_GAP
    return _writing(files, repair, {newest - 1: left[before]}, kind)


def _writing(
    files: Files, repair: RepairPlan, offsets: dict[int, bytes], kind: RepairKind
) -> RepairPlan:
    """Without their checksums, which would contradict them: Hadoop reads a file without one."""
    paths = {f"offsets/{n}": content for n, content in offsets.items()}
    known = set(repair.delete)
    sums = [each for each in map(checksum_path, paths) if each in files and each not in known]
    return replace(
        repair,
        delete=(*repair.delete, *sums),
        write={**repair.write, **paths},
        repairs=(*repair.repairs, *(Repair(kind, path) for path in paths)),
    )
