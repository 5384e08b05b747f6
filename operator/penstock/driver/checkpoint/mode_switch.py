"""Plans the repairs that a start with another engine of Spark needs.

"Any query can be restarted with any trigger" (Structured Streaming, "Continuous Processing") holds
for Kafka, whose offsets are the same in every mode, after two repairs (measured with Spark 4.2):

- The continuous engine leaves the line of metadata in offsets/N empty, and the micro-batch engine
  then fails with a NullPointerException because it finds no watermark (populateStartOffsets).
- Async progress tracking leaves gaps in offsets/N. Without it, a start needs the predecessor of the
  newest offsets/N ("batch N-1 doesn't exist").

Rate and socket have different offsets for each engine, so such a switch is refused. So is a switch
that would drop the state of a stateful query: the continuous engine ignores state, and the results
that the query has not written yet would silently be lost. (Whether another query in batches would
drop it shows when it is planned: spark/query.py.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from penstock.api.modes import Mode, execution_of
from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.checkpoint_repairs import Repair, RepairKind
from penstock.driver.checkpoint import batch_ids
from penstock.driver.checkpoint.batch_ids import EMPTY_METADATA_LINE
from penstock.driver.checkpoint.files import Files, checksum_path, is_continuous
from penstock.driver.checkpoint.repair import RepairPlan, plan_repair
from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka.offsets import Offsets


def plan(
    files: Files,
    spec: StreamSpec,
    *,
    state: bool = False,
    first: Offsets | None = None,
    keep_ids: bool = False,
) -> RepairPlan:
    """The repair that a start of this spec needs, with any engine before it.

    `state`: the checkpoint contains the state of the previous query. `first`: the offsets of the
    stream's first start, if they are known. `keep_ids`: a sink may recognise a batch by its id.
    """
    mode = spec.trigger.mode
    repair = plan_repair(
        files,
        mode,
        kafka=spec.source.kafka is not None,
        first_known=first is not None and not state and not keep_ids,
    )
    if state and repair.epoch is not None and not execution_of(spec).in_batches:
        _refuse_to_drop_state()
    kept = _kept_offsets(files, repair)
    if repair.epoch is not None and repair.epoch in kept:
        _refuse_other_format(kept[repair.epoch], spec, mode)
    if keep_ids:
        repair = batch_ids.keep_ids(files, repair, spec, first, state=state)
    if mode is not Mode.CONTINUOUS:
        repair = _with_metadata(files, repair, _kept_offsets(files, repair))
        if mode is not Mode.ASYNC:
            repair = _without_gap(files, repair, _kept_offsets(files, repair))
    return replace(repair, after=_read_on_after(repair, _kept_offsets(files, repair)))


def _kept_offsets(files: Files, repair: RepairPlan) -> dict[int, bytes]:
    """The offsets that a repair leaves, by number."""
    left = {path: content for path, content in files.items() if path not in set(repair.delete)}
    return {
        int(path.removeprefix("offsets/")): content
        for path, content in {**left, **repair.write}.items()
        if re.fullmatch(r"offsets/[0-9]+", path)
    }


def _read_on_after(repair: RepairPlan, kept: Mapping[int, bytes]) -> int | None:
    """The offsets that a planned batch starts from, or else those of the newest commit."""
    newest = max(kept, default=None)
    if newest is None or newest == repair.epoch:
        return newest
    return max((n for n in kept if n < newest), default=None)


def _refuse_to_drop_state() -> None:
    raise DriverError(
        Failure(
            "CheckpointHoldsState",
            "The previous query kept state in this checkpoint, and this query keeps none. Results "
            "that the previous query has not written yet would be lost. Restore the previous query "
            "and trigger; or apply this query under another name, where it starts at its own "
            "startingOffsets.",
            permanent=True,
        )
    )


def _refuse_other_format(newest: bytes, spec: StreamSpec, mode: Mode) -> None:
    portable = spec.source.rate is None and spec.source.socket is None
    if portable or is_continuous(newest) == (mode is Mode.CONTINUOUS):
        return
    written_by = "trigger.continuous" if is_continuous(newest) else "a micro-batch engine"
    raise DriverError(
        Failure(
            "CheckpointOfAnotherMode",
            f"{mode} cannot continue from this checkpoint: the offsets of this source were "
            f"written by {written_by}, in another format (only Kafka has the same format in every "
            "mode). Restore that trigger, or apply the stream under another name, where it starts "
            "at its startingOffsets.",
            permanent=True,
        )
    )


def _with_metadata(files: Files, repair: RepairPlan, kept: dict[int, bytes]) -> RepairPlan:
    repaired = {n: _repaired(kept[n]) for n in sorted(kept) if is_continuous(kept[n])}
    return _with_offsets(files, repair, repaired, RepairKind.METADATA_LINE)


def _repaired(offsets: bytes) -> bytes:
    version, _, *sources = offsets.split(b"\n")
    return b"\n".join([version, EMPTY_METADATA_LINE, *sources])


def _without_gap(files: Files, repair: RepairPlan, kept: dict[int, bytes]) -> RepairPlan:
    """Writes the predecessor of the newest offsets, with the offsets from before the gap.

    If the newest offsets are committed, Spark reads the predecessor and does not use it. If they
    are only planned, the batch runs again from there and replays all batches of the gap.

    Spark's own way is to set the interval to 0 until two batches are committed, and then to turn
    tracking off. That needs new records, and a driver that meanwhile runs with other settings than
    its spec. This repair results in the same files at once.
    """
    newest = max(kept, default=0)
    if newest == 0 or newest - 1 in kept:
        return repair
    before = max((n for n in kept if n < newest), default=newest)
    # Async tracking never commits a batch without offsets, so a commit here means damage.
    damaged = f"commits/{newest - 1}" in files
    kind = RepairKind.MISSING_OFFSETS if damaged else RepairKind.ASYNC_GAP
    return _with_offsets(files, repair, {newest - 1: kept[before]}, kind)


def _with_offsets(
    files: Files, repair: RepairPlan, offsets: dict[int, bytes], kind: RepairKind
) -> RepairPlan:
    """The repair with these offsets to write, and without their old checksums.

    Hadoop reads a file without a checksum.
    """
    paths = {f"offsets/{n}": content for n, content in offsets.items()}
    known = set(repair.delete)
    sums = [path for path in map(checksum_path, paths) if path in files and path not in known]
    return replace(
        repair,
        delete=(*repair.delete, *sums),
        write={**repair.write, **paths},
        repairs=(*repair.repairs, *(Repair(kind, path) for path in paths)),
    )
