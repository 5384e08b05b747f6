"""What one of Spark's engines leaves in a checkpoint that another one cannot start from.

"Any query can be restarted with any trigger" (Structured Streaming, "Continuous Processing") holds
for Kafka, whose offsets are the same in every mode, once three things are put right (measured with
Spark 4.2):

- The continuous engine leaves the line of metadata in offsets/N empty, and the micro-batch engine
  then fails with a NullPointerException for want of a watermark (populateStartOffsets).
- With async progress tracking offsets/N has gaps, and without it a start wants offsets/(N-1) of its
  newest offsets/N ("batch N-1 doesn't exist").
- Rate and socket have offsets of their own for each engine, and cannot go on from another's.
"""

from __future__ import annotations

import re
from dataclasses import replace

from penstock.driver.checkpoint import Files, Repair, checksum_path, is_continuous, plan_repair
from penstock.driver.failures import DriverError, Trouble
from penstock.driver.triggers import Mode, is_asynchronous, mode
from penstock.stream.spec import StreamSpec

_METADATA_LINE = b'{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


def plan(files: Files, spec: StreamSpec) -> Repair:
    """The repair that a start of this spec needs, whatever ran before."""
    wanted = mode(spec)
    repair = plan_repair(files, wanted)
    gone = set(repair.delete)
    left = {
        int(path.removeprefix("offsets/")): content
        for path, content in files.items()
        if re.fullmatch(r"offsets/[0-9]+", path) and path not in gone
    }
    if repair.epoch is not None and repair.epoch in left:
        _refuse_foreign(left[repair.epoch], spec, wanted)
    if wanted is Mode.CONTINUOUS:
        return repair
    repair, left = _with_metadata(files, repair, left)
    return repair if is_asynchronous(spec) else _without_gap(files, repair, left)


def _refuse_foreign(newest: bytes, spec: StreamSpec, wanted: Mode) -> None:
    portable = spec.source.rate is None and spec.source.socket is None
    if portable or is_continuous(newest) == (wanted is Mode.CONTINUOUS):
        return
    raise DriverError(
        Trouble(
            "CheckpointOfAnotherMode",
            f"{wanted.value} cannot go on from this checkpoint: the source's offsets were written "
            f"by {'trigger.continuous' if is_continuous(newest) else 'a micro-batch engine'}, in a "
            "form of its own (Kafka's are the same in every mode). Go back to that trigger, or "
            "apply the stream under another name",
            permanent=True,
        )
    )


def _with_metadata(
    files: Files, repair: Repair, left: dict[int, bytes]
) -> tuple[Repair, dict[int, bytes]]:
    mended = {n: _mended(content) for n, content in left.items() if is_continuous(content)}
    return _writing(files, repair, mended), {**left, **mended}


def _mended(offsets: bytes) -> bytes:
    version, _, *sources = offsets.split(b"\n")
    return b"\n".join([version, _METADATA_LINE, *sources])


def _without_gap(files: Files, repair: Repair, left: dict[int, bytes]) -> Repair:
    """Makes the newest offsets have a predecessor.

    Batches that were planned and not committed are planned anew: async tracking is for stateless
    queries, where that is as good. Of a committed newest one the predecessor is read and not used.
    """
    newest = max(left, default=0)
    if newest == 0 or newest - 1 in left:
        return repair
    last = -1 if repair.epoch is None else repair.epoch
    planned = [f"offsets/{n}" for n in sorted(left, reverse=True) if n > last]
    doomed = [each for path in planned for each in (checksum_path(path), path) if each in files]
    repair = replace(repair, delete=(*repair.delete, *doomed))
    if last <= 0 or last - 1 in left:
        return repair
    before = max((n for n in left if n < last), default=last)
    return _writing(files, repair, {last - 1: left[before]})


def _writing(files: Files, repair: Repair, offsets: dict[int, bytes]) -> Repair:
    """Without their checksums, which would contradict them: Hadoop reads a file without one."""
    paths = {f"offsets/{n}": content for n, content in offsets.items()}
    known = set(repair.delete)
    sums = [each for each in map(checksum_path, paths) if each in files and each not in known]
    return replace(repair, delete=(*repair.delete, *sums), write={**repair.write, **paths})
