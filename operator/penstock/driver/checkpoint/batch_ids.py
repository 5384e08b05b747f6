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

import re
from dataclasses import dataclass, replace

from penstock.api.v1alpha1 import Sink, StreamSpec
from penstock.contract.checkpoint_repairs import RepairKind
from penstock.driver.checkpoint.file_formats import Entry, Files, initial_offsets, line_of
from penstock.driver.checkpoint.logs import COMMIT, Logs, numbers
from penstock.driver.failures import CHECKPOINT_DAMAGED, DriverError
from penstock.driver.kafka.offsets import Offsets

_SOURCE = re.compile(r"sources/([0-9]+)/")
# Formats of Spark's file sink, by their short names. The sink compacts its log with each tenth
# batch, which fails for good if one before is missing (CompactibleFileStreamLog.compact).
_FILE_SINKS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
# Of a source that a batch does not read; the next one reads it from its beginning.
_NO_OFFSETS = "-"


def keep_ids(
    files: Files, logs: Logs, spec: StreamSpec, first: Offsets | None, *, state: bool
) -> Logs:
    """`logs`, changed so that no id is used again for other records.

    `first` are the offsets of the stream's first start, if they are known; `state`: the checkpoint
    contains state. Raises CheckpointDamaged if the id cannot be kept.
    """
    last, used = max(logs.offsets, default=None), newest_used_id(files)
    if used is None or (last is not None and used <= last):
        return logs
    reached = _first_entry(files, logs, spec, first) if last is None else logs.offsets[last]
    if reached is None:
        if spec.source.rate is not None or spec.source.socket is not None:
            return logs  # cannot replay anyway
        raise _refused(
            used, "and the offsets of the stream's first start, from which to read, are not known"
        )
    if state:
        raise _refused(used, "and a query with state would count its records twice")
    commits = logs.commits
    if spec.trigger.mode.has_long_running_tasks:
        done = COMMIT if logs.epoch is None else commits[logs.epoch]
        commits = {**commits, used: done}
    kept = replace(logs, commits=commits)
    return kept.with_repaired_offsets({used: reached}, RepairKind.EMPTY_BATCH)


def place_of(sink: Sink) -> str | None:
    """Where a sink keeps what it knows of batches, as far as that shows; None: it knows nothing.

    Nothing is known of a sink of others, so it may skip a batch whose id it knows. Spark's file
    sink keeps that in its folder, and wants there each batch since the first one; Delta keeps it in
    its table's. The rest are taken for one: what they know must not be used again.
    """
    if sink.of_others is None:
        return None
    options = {name.lower(): value for name, value in sink.of_others.options.items()}
    return options.get("path", "").rstrip("/")


def wants_each_batch(sink: Sink) -> bool:
    """Whether it is Spark's file sink, which has to get each batch since the first one."""
    return sink.custom is not None and sink.custom.format.casefold() in _FILE_SINKS


@dataclass(frozen=True)
class LogShape:
    """What the logs of a query depend on."""

    reads: int
    """How often it reads its source."""
    shuffle_partitions: int
    long_running: bool
    """Its tasks never end, so it has no planned batches."""


def skip_ids_known_to_sink(logs: Logs, used: int, query: LogShape, first: Offsets | None) -> Logs:
    """The logs of a query that goes on after batch `used`, which its sink knows from elsewhere.

    From what is committed, or else from the first offsets. As above, batch `used` is planned
    without records; Spark wants the offsets before it, too.
    """
    if logs.epoch is None:
        entry, done = Entry((line_of(first) if first else _NO_OFFSETS,) * query.reads), COMMIT
    else:
        entry, done = logs.offsets[logs.epoch], logs.commits[logs.epoch]
    kept = logs.up_to(logs.last)
    committed = used if query.long_running else used - 1
    entry = entry.with_shuffle_partitions(query.shuffle_partitions)
    planned = dict.fromkeys(range(max(committed, 0), used + 1), entry)
    added = {committed: done} if committed >= 0 else {}
    return replace(logs, offsets={**kept.offsets, **planned}, commits={**kept.commits, **added})


def refuse_other_records(logs: Logs) -> None:
    """Raises if a planned batch would lose its records, for a query with state and such a sink.

    For a repaired checkpoint, before its offsets are replaced. Sink and state may have the batch.
    Spark reads its records again with the next number, which would count them twice.
    """
    newest = max(logs.offsets, default=None)
    if newest is None or newest == logs.epoch:
        return
    raise DriverError.permanent(
        "CheckpointHoldsState",
        f"Batch {newest} was planned and is not committed, and the stream no longer reads all "
        "that it may hold: topics were removed from spec.source, or Kafka has lost records. "
        "The sink and the query's state "
        "may have this batch already, and would count what is left of it twice. If it was an "
        "edit, restore the topics, let the stream commit all that it has read "
        "(trigger.availableNow ends when it has), and remove them then. Otherwise begin another "
        "checkpoint.generation, or apply the stream under another name.",
    )


def newest_used_id(files: Files) -> int | None:
    """The newest id of which there is a trace."""
    return max(numbers(files, "offsets") | numbers(files, "commits"), default=None)


def _first_entry(files: Files, logs: Logs, spec: StreamSpec, first: Offsets | None) -> Entry | None:
    """Offsets that end where the stream's first batch starts: with a Kafka source only."""
    if spec.source.kafka is None:
        return None
    known = {n: initial_offsets(content) for n, content in logs.initial.items()}
    sources = range(1 + max((int(n[1]) for n in map(_SOURCE.match, files) if n), default=0))
    missing = [n for n in sources if n not in known]
    is_known = any(offsets and offsets.keys() & (first or {}) for offsets in known.values())
    if missing and not is_known:
        if first is None or len(missing) > 1:
            return None
        known[missing[0]] = first
    by_source = [known.get(n) for n in sources]
    return Entry(
        tuple(_NO_OFFSETS if offsets is None else line_of(offsets) for offsets in by_source)
    )


def _refused(number: int, why: str) -> DriverError:
    return DriverError.permanent(
        CHECKPOINT_DAMAGED,
        f"The offsets of batch {number} are lost. The sink may have written this batch, and "
        f"may skip other records under the same number, {why}. Restore the checkpoint's "
        "volume from a snapshot, or repair it by hand (docs/checkpoints.md, 'By hand').",
    )
