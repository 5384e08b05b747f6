"""Keeps the id of a batch from being used again for other records. Pure functions.

A sink may recognise a batch by its id and skip a batch that it has already: Spark's file sink does
(FileStreamSink.addBatch), Delta's (txnAppId, txnVersion), and every foreachBatch that follows
Spark's advice. If the offsets of batch N are lost, Spark plans N anew, with more records than
before: such a sink would skip all of them (measured with Parquet, Spark 4.2).

So batch N is planned without records, from the end of N - 1 to the same end, and Spark reads the
records again as batch N + 1. The continuous engine has no planned epochs: there, N is committed
without records.

A query with state is refused. Spark commits a planned batch without records without running it, so
N + 1 would start from the state that N had left, and count its records twice (measured, Spark 4.2).
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from penstock.api.v1alpha1 import Sink, StreamSpec
from penstock.contract.checkpoint_repairs import Repair, RepairKind
from penstock.driver.checkpoint.files import Files, checksum_path, is_initial_offsets
from penstock.driver.checkpoint.repair import COMMIT, RepairPlan, entries
from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka.offsets import Offsets

EMPTY_METADATA_LINE = b'{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'

# Spark renames the checksum after its file. (A temporary file was never renamed: a stop leaves it.)
_CHECKSUM = re.compile(r"(?:offsets|commits)/\.([0-9]+)\.crc")


def may_recognise_batches(sink: Sink) -> bool:
    """Whether a sink may skip a batch whose id it knows. Nothing is known of a custom sink."""
    return sink.custom is not None


def keep_ids(
    files: Files, plan: RepairPlan, spec: StreamSpec, first: Offsets | None, *, state: bool
) -> RepairPlan:
    """The repair `plan`, completed so that no id is used again for other records.

    `first` are the offsets of the stream's first start, if they are known; `state`: the checkpoint
    contains state. Raises CheckpointDamaged if the id cannot be kept.
    """
    mode = spec.trigger.mode
    kept = {
        n: files[f"offsets/{n}"]
        for n in entries(files, "offsets")
        if f"offsets/{n}" not in plan.delete
    }
    last = max(kept, default=None)
    used = _newest_used_id(files)
    if used is None or (last is not None and used <= last):
        return plan
    if last is not None:
        reached: bytes | None = kept[last]
    else:
        reached = _first_entry(files, plan, first)
    if reached is None:
        if spec.source.rate is not None or spec.source.socket is not None:
            return plan  # cannot replay anyway
        raise _refused(
            used, "and the offsets of the stream's first start, from which to read, are not known"
        )
    if state:
        raise _refused(used, "and a query with state would count its records twice")
    return _with_empty_batch(files, plan, used, reached, committed=mode.has_long_running_tasks)


def refuse_other_records(files: Files, plan: RepairPlan) -> None:
    """Raises if a planned batch would lose its records, for a query with state and such a sink.

    For a checkpoint that `plan` has repaired, before its offsets are replaced. The sink and the
    state may have the batch already. Spark reads its records again with the next number, which
    would count them twice.
    """
    newest = max(entries(files, "offsets"), default=None)
    if newest is None or newest == plan.epoch:
        return
    raise DriverError(
        Failure(
            "CheckpointHoldsState",
            f"Batch {newest} was planned and is not committed, and the stream no longer reads all "
            "that it may hold: topics were removed from spec.source, or Kafka has lost records. "
            "The sink and the query's state "
            "may have this batch already, and would count what is left of it twice. If it was an "
            "edit, restore the topics, let the stream commit all that it has read "
            "(trigger.availableNow ends when it has), and remove them then. Otherwise apply the "
            "stream under another name.",
            permanent=True,
        )
    )


def _newest_used_id(files: Files) -> int | None:
    """The newest id of which there is a trace.

    A file can be lost and leave its checksum. A checksum with a number further ahead is not
    Spark's.
    """
    newest = max(entries(files, "offsets") | entries(files, "commits"), default=None)
    checksums = {int(found[1]) for path in files if (found := _CHECKSUM.fullmatch(path))}
    following = 0 if newest is None else newest + 1
    while following in checksums:
        newest, following = following, following + 1
    return newest


def _first_entry(files: Files, plan: RepairPlan, first: Offsets | None) -> bytes | None:
    """Offsets that end where the stream's first batch starts: a Kafka source only."""
    initial = files.get("sources/0/0")
    if initial is not None and "sources/0/0" not in plan.delete and is_initial_offsets(initial):
        line = initial.removeprefix(b"\0").split(b"\n")[1]
    elif first is not None:
        line = json.dumps(
            {topic: {str(n): at for n, at in of.items()} for topic, of in first.items()}
        ).encode()
    else:
        return None
    return b"\n".join([b"v1", EMPTY_METADATA_LINE, line])


def _with_empty_batch(
    files: Files, plan: RepairPlan, number: int, reached: bytes, *, committed: bool
) -> RepairPlan:
    path = f"offsets/{number}"
    write = {path: reached}
    delete = [deleted for deleted in plan.delete if deleted != path]
    repairs = [
        repair for repair in plan.repairs if repair != Repair(RepairKind.UNCOMMITTED_OFFSETS, path)
    ]
    if committed:
        commit = f"commits/{number}"
        write[commit] = files.get(f"commits/{plan.epoch}", COMMIT)
        delete = [deleted for deleted in delete if deleted != commit]
        if checksum_path(commit) in files and checksum_path(commit) not in delete:
            delete.append(checksum_path(commit))
    if checksum_path(path) in files and checksum_path(path) not in delete:
        delete.append(checksum_path(path))
    return replace(
        plan,
        delete=tuple(delete),
        epoch=number if committed else plan.epoch,
        write={**plan.write, **write},
        repairs=(*repairs, Repair(RepairKind.EMPTY_BATCH, path)),
        write_first={**plan.write_first, path: b""},
    )


def _refused(number: int, why: str) -> DriverError:
    return DriverError(
        Failure(
            "CheckpointDamaged",
            f"The offsets of batch {number} are lost. The sink may have written this batch, and "
            f"may skip other records under the same number, {why}. Restore the checkpoint's "
            "volume from a snapshot, or repair it by hand (docs/checkpoints.md, 'By hand').",
            permanent=True,
        )
    )
