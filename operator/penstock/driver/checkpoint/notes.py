"""What Penstock notes beside Spark's checkpoint: one document, replaced as a whole."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter

from penstock.driver.checkpoint.left_out import DeadLetter
from penstock.driver.checkpoint.storage.files import CheckpointFiles
from penstock.driver.failures import CHECKPOINT_DAMAGED, DriverError, Failure
from penstock.driver.jdbc.ledger_note import LedgerNote
from penstock.driver.kafka.offsets import FirstLook, Offsets

FOLDER = "penstock"
"""Where Penstock's own files are, below the checkpoint."""
_FILE = f"{FOLDER}/notes.json"
_NOTES, _CHECKSUM = "notes", "crc32"


@dataclass(frozen=True)
class FileSink:
    """The folder of Spark's file sink, which has to get each batch."""

    path: str
    until: int | None = None
    """The last commit that it got, once another sink has taken its place; -1: none."""


@dataclass(frozen=True)
class SinkBatches:
    """What sinks may know of the batches of this checkpoint (batch_ids.py)."""

    places: tuple[str, ...] = ()
    """Where they keep it."""
    begins_after: int | None = None
    """The batch of another generation after which this one begins."""
    file_sink: FileSink | None = None


@dataclass(frozen=True)
class Transactions:
    """The names of the stream's transactions in Kafka (kafka/transactions.py)."""

    checkpoint: str
    """Tells this checkpoint from another of the same stream."""
    offsets: int = 1
    """How often offsets that transactions have reached stopped to count, and one."""
    batch_tasks: int | None = None
    """How many tasks at most have written their part of a batch whole; None if each writes what it
    has read."""
    query: str | None = None
    """Tells the query that wrote the first batch so from another one."""


@dataclass(frozen=True)
class Ledger:
    """The row in a database that has the newest batch of this checkpoint (jdbc/sink_table.py)."""

    checkpoint: str
    """Tells this checkpoint from another of the same stream."""
    rows: Mapping[str, LedgerNote] = field(default_factory=dict)
    """By their ids: a stream may have been edited to write another database, and back."""


@dataclass(frozen=True)
class Notes:
    """Everything that Penstock must know of a checkpoint, and Spark does not keep."""

    first_offsets: Offsets | None = None
    """Those of the stream's first start. Spark's continuous engine resolves "latest" again at each
    start until there is a commit, and would skip the records in between."""
    start_from: Mapping[str, Any] | None = None
    """What spec.checkpoint.startFrom said then (start_from.py); None if it was not set."""
    first_look: FirstLook | None = None
    """What the source had when a stream that could not start first looked."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Of the topics that the offsets belong to, which recreated topics do not have."""
    sink_batches: SinkBatches | None = None
    """None if no sink of this stream ever recognised batches by their ids."""
    transactions: Transactions | None = None
    """None if the stream has never written exactly once into Kafka."""
    ledger: Ledger | None = None
    """None if the stream does not write a table."""
    dead_letters: tuple[DeadLetter, ...] = ()
    """The records that the query leaves out (left_out.py)."""
    history: Mapping[str, Any] | None = None
    """What the supervisor must know of earlier processes (supervision/history.py)."""

    def without_transactions(self) -> Notes:
        """The offsets of the checkpoint hold from now on, not those of earlier transactions.

        The transactional ids remain: a new owner still ends what an earlier one has left.
        """
        known = self.transactions
        if known is None:
            return self
        return replace(self, transactions=replace(known, offsets=known.offsets + 1))


_ADAPTER = TypeAdapter(Notes)


class NotesFile:
    """The document of one checkpoint. A crash leaves the old one or the new one."""

    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files
        # A call to a database that was given up may note what it did while a query starts.
        self._lock = threading.Lock()

    def read(self) -> Notes:
        """Empty notes if there are none yet.

        Raises CheckpointDamaged if the file is not as Penstock wrote it.
        """
        with self._files.errors():
            content = self._files.read([_FILE]).get(_FILE)
        if content is None:
            return Notes()
        try:
            document = json.loads(content)
            notes = document[_NOTES]
            if document[_CHECKSUM] == _checksum(notes):
                return _ADAPTER.validate_python(notes)
        except (ValueError, KeyError, TypeError):  # torn, not JSON, or not Penstock's
            pass
        raise DriverError(
            Failure(
                CHECKPOINT_DAMAGED,
                f"{_FILE} is damaged: it is not as Penstock wrote it. It holds where the stream "
                "began, the ids of its topics, its transactions and its dead letters. Restore the "
                "file, or begin another generation of the checkpoint at the offsets in "
                "status.committedOffsets (docs/how-to/rewind.md). The driver looks again every "
                "half minute.",
                permanent=True,
                recoverable=True,
            )
        )

    def update(self, change: Callable[[Notes], Notes]) -> Notes:
        """The notes after this change, which survive a power cut. Raises as `read`."""
        with self._lock:
            notes = self.read()
            changed = change(notes)
            if changed != notes:
                self._write(changed)
        return changed

    def _write(self, notes: Notes) -> None:
        plain = _ADAPTER.dump_python(notes, mode="json", exclude_defaults=True)
        document = {_CHECKSUM: _checksum(plain), _NOTES: plain}
        with self._files.errors():
            self._files.write(_FILE, json.dumps(document).encode())
            self._files.sync(FOLDER)


def _checksum(value: Any) -> int:
    return zlib.crc32(json.dumps(value, sort_keys=True).encode())
