"""What a case does to the checkpoint between two runs: event time goes on, a commit gets lost.

Each leaves what Spark itself leaves, at another moment.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from penstock.driver.checkpoint.file_formats import EMPTY_METADATA_LINE, Entry
from penstock.driver.kafka.offsets import Offsets

_WATERMARK, _CLOCK = "batchWatermarkMs", "batchTimestampMs"


def newest_epoch(checkpoint: Path) -> int:
    """The newest commit; -1 before the first."""
    return max(_numbers(checkpoint / "commits"), default=-1)


def advance_watermark(checkpoint: Path, milliseconds: int) -> str | None:
    """Plans the batch without records that Spark itself plans when the watermark has come so far.

    Returns why it cannot.
    """
    newest = newest_epoch(checkpoint)
    entry = _entry(checkpoint, newest)
    if entry is None:
        return "nothing has been read before: let a step with records come first"
    if entry.is_continuous:
        return "continuous mode has no event time: choose another of modes"
    metadata = json.loads(entry.metadata or EMPTY_METADATA_LINE)
    if max(metadata[_WATERMARK], _next_watermark(checkpoint, newest)) > milliseconds:
        return "event time has come further already, by the records of earlier steps"
    metadata |= {_WATERMARK: milliseconds, _CLOCK: round(time.time() * 1000)}
    planned = replace(entry, metadata=json.dumps(metadata, separators=(",", ":")))
    (checkpoint / "offsets" / str(newest + 1)).write_bytes(planned.content)
    return None


def undo_last_batch(checkpoint: Path, before: int) -> bool:
    """Leaves what a driver leaves that is killed when the last batch with records is written and
    not committed. False if there is none after the commit `before`.
    """
    newest = newest_epoch(checkpoint)
    for epoch in range(newest, before, -1):
        entry, previous = _entry(checkpoint, epoch), _entry(checkpoint, epoch - 1)
        if entry is None:
            return False
        # The topics of a case begin at offset 0.
        is_first = previous is None and any(of for of in map(_records, entry.kafka))
        if is_first or (previous is not None and entry.sources != previous.sources):
            break
    else:
        return False
    for later in _numbers(checkpoint / "commits"):
        if later >= epoch:
            (checkpoint / "commits" / str(later)).unlink()
    for later in _numbers(checkpoint / "offsets"):
        if later > epoch:
            (checkpoint / "offsets" / str(later)).unlink()
    return True


def _next_watermark(checkpoint: Path, number: int) -> int:
    """What a commit says of the batch after it; CommitLog's format has it from version 1 on."""
    _, _, line = (checkpoint / "commits" / str(number)).read_text().partition("\n")
    return int(json.loads(line or "{}").get("nextBatchWatermarkMs", 0))


def _records(offsets: Offsets | None) -> int:
    return sum(sum(of_topic.values()) for of_topic in (offsets or {}).values())


def _entry(checkpoint: Path, number: int) -> Entry | None:
    file = checkpoint / "offsets" / str(number)
    return Entry.parse(file.read_bytes()) if file.is_file() else None


def _numbers(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.glob("*") if file.name.isdecimal()]
