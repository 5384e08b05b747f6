"""What a checkpoint needs before another engine continues from it. Pure functions.

"Any query can be restarted with any trigger" (Structured Streaming, "Continuous Processing") holds
for Kafka, whose offsets are the same in every mode, after these repairs (measured):

- The continuous engine leaves the line of metadata in offsets/N empty, and the micro-batch engine
  then fails with a NullPointerException because it finds no watermark (populateStartOffsets).
- Real-time mode refuses a checkpoint whose newest commit is of version 1, as the continuous engine
  and plain Spark write it, because of the names of state (checkpointFormatVersion, Spark 4.3).
  Without state the versions differ in an empty field.
- Async progress tracking leaves gaps in offsets/N. Without it, a start needs the predecessor of the
  newest offsets/N ("batch N-1 doesn't exist").

Rate and socket have other offsets for each engine, so such a switch is refused. So is one to the
continuous engine, which ignores state. (Whether another query in batches would drop it shows when
it is planned: spark/query.py.)
"""

from __future__ import annotations

import json
from dataclasses import replace

from penstock.api.modes import Mode
from penstock.api.v1alpha1 import StreamSpec
from penstock.contract.checkpoint_repairs import RepairKind
from penstock.driver.checkpoint.file_formats import EMPTY_METADATA_LINE, Entry
from penstock.driver.checkpoint.logs import Logs
from penstock.driver.failures import DriverError


def refuse_to_drop_state() -> None:
    """Raises CheckpointHoldsState, for a query of the continuous engine."""
    raise DriverError.permanent(
        "CheckpointHoldsState",
        "The previous query kept state in this checkpoint, and this query keeps none. Results "
        "that the previous query has not written yet would be lost. Restore the previous query "
        "and trigger; or begin a new checkpoint where this one is: another "
        "checkpoint.generation, with startFrom.generation.",
    )


def refuse_state_without_ids(commit: bytes) -> None:
    """Raises CheckpointOfAnotherMode if the newest commit names no state, as that of plain Spark.

    Spark would refuse it with the first batch (CHECKPOINT_FORMAT_V1_NOT_SUPPORTED).
    """
    if commit.startswith(b"v1\n"):
        raise DriverError.permanent(
            "CheckpointOfAnotherMode",
            "trigger.realTime cannot continue from this checkpoint: plain Spark has written the "
            "state, in a format that real-time mode does not take "
            "(spark.sql.streaming.stateStore.checkpointFormatVersion 1). Use trigger.microBatch, "
            "or begin another checkpoint.generation.",
        )


def refuse_other_format(newest: Entry, spec: StreamSpec) -> None:
    """Raises CheckpointOfAnotherMode if this spec's source has no such offsets in its mode."""
    mode = spec.trigger.mode
    portable = spec.source.rate is None and spec.source.socket is None
    if portable or newest.is_continuous == (mode is Mode.CONTINUOUS):
        return
    written_by = "trigger.continuous" if newest.is_continuous else "a micro-batch engine"
    raise DriverError.permanent(
        "CheckpointOfAnotherMode",
        f"{mode} cannot continue from this checkpoint: the offsets of this source were "
        f"written by {written_by}, in another format (only Kafka has the same format in every "
        "mode). Restore that trigger, or begin another checkpoint.generation, where the source "
        "starts anew.",
    )


def with_metadata_lines(logs: Logs) -> Logs:
    """With the line of metadata that the batch engines want in each `offsets/N`."""
    lines = {
        n: replace(entry, metadata=EMPTY_METADATA_LINE)
        for n, entry in sorted(logs.offsets.items())
        if entry.is_continuous
    }
    return logs.with_repaired_offsets(lines, RepairKind.METADATA_LINE)


def with_commit_for_real_time(logs: Logs) -> Logs:
    """With the newest commit in version 2, of a query without state."""
    epoch = logs.epoch
    if epoch is None or not logs.commits[epoch].startswith(b"v1\n"):
        return logs
    fields = json.loads(logs.commits[epoch].split(b"\n")[1]) | {"stateUniqueIds": {}}
    commit = b"v2\n" + json.dumps(fields, separators=(",", ":")).encode()
    return replace(logs, commits={**logs.commits, epoch: commit})


def without_gap(logs: Logs) -> Logs:
    """Adds the predecessor of the newest offsets, with the offsets from before the gap.

    If the newest offsets are committed, Spark reads the predecessor and does not use it. If they
    are only planned, the batch runs again from there and replays all batches of the gap.

    Spark's own way is to set the interval to 0 until two batches are committed, and then to turn
    tracking off. That needs new records, and a driver that meanwhile runs with other settings than
    its spec. This repair results in the same files at once.
    """
    newest = max(logs.offsets, default=0)
    if newest == 0 or newest - 1 in logs.offsets:
        return logs
    before = max((n for n in logs.offsets if n < newest), default=newest)
    return logs.with_repaired_offsets({newest - 1: logs.offsets[before]}, RepairKind.ASYNC_GAP)
