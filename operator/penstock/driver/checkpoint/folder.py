"""One stream's checkpoint folder: carries out repairs, and keeps Penstock's notes beside it."""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from penstock.api.v1alpha1 import StreamSpec
from penstock.driver.checkpoint import repair
from penstock.driver.checkpoint.batch_ids import (
    LogShape,
    newest_used_id,
    place_of,
    refuse_other_records,
    skip_ids_known_to_sink,
    wants_each_batch,
)
from penstock.driver.checkpoint.file_formats import (
    EMPTY_METADATA_LINE,
    Entry,
    Files,
    initial_offsets,
)
from penstock.driver.checkpoint.logs import Logs, Step, diff, numbers, sync_group
from penstock.driver.checkpoint.notes import (
    FOLDER,
    FileSink,
    Ledger,
    Notes,
    NotesFile,
    SinkBatches,
    Transactions,
)
from penstock.driver.checkpoint.plain_spark import imported
from penstock.driver.checkpoint.progress import ProgressReader
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.checkpoint.state_versions import StateStore, is_other_version
from penstock.driver.checkpoint.storage.files import CheckpointFiles
from penstock.driver.checkpoint.storage.write_probe import LOGS, WriteProbe
from penstock.driver.failures import CHECKPOINT_DAMAGED, CHECKPOINT_FULL, DriverError
from penstock.driver.jdbc.ledger_note import LedgerNote
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.kafka.transactions import TransactionNames, impossible

# The first file of a source's log, its checksum, and their temporary files.
_FIRST = re.compile(r"0$|\.\.?0\.")
# The step has a minute.
_REMOVING_SECONDS = 20.0
# Written and removed before each start.
_WRITE_TEST = f"{FOLDER}/probe"


@dataclass(frozen=True)
class CheckpointContents:
    """What a query must match that continues from a checkpoint."""

    sources: int
    """How often the previous query read a source: Spark wants as many again."""
    state: bool | None
    """Whether the query that has committed kept state; None: nothing is committed."""
    partitions: int | None
    """Partitions of a shuffle, and so of its state; None if the checkpoint keeps no number."""
    state_store: str | None = None
    """Spark's class that keeps the state."""
    awaited: int | None = None
    """A planned batch that has to run as it is: the sink may know it already."""
    lacks_settings: bool = False
    """It was committed by the continuous engine, which notes no settings of its session."""


class CheckpointFolder:
    """A checkpoint, on a volume or in an object store."""

    def __init__(self, files: CheckpointFiles) -> None:
        self.files = files
        self.notes = NotesFile(files)
        self.progress = ProgressReader(files)
        self.write_probe = WriteProbe(files)

    def repair(self, spec: StreamSpec) -> RepairPlan:
        """Repairs what a crash or another engine left behind. Only while no query runs.

        State without a commit goes: Spark would hold another query to the schema of its keys and to
        its operators (StateSchemaCompatibilityChecker, OperatorStateMetadataUtils).
        """
        self._check_writable()
        self.check_sink(spec)
        notes = self._with_sink(self.notes.read(), spec)
        keep_ids = notes.sink_batches is not None
        with self.files.errors():
            if keep_ids:
                self._undo_interrupted_beginning(notes)
            files, partitions = self._read(), list(self._partitions_of_state())
            stores = self._state_stores(partitions)
            plan = self._plan(files, spec, notes, stores)
            self._remove_leftover_partitions(files, partitions)
            self.files.check_writable(_WRITE_TEST)
            self._execute(plan.steps)
            if plan.epoch is None and plan.continues_after is None:
                self.files.remove_folder("state")
        return plan

    def _check_writable(self) -> None:
        try:
            self.write_probe.check()
        except DriverError as error:
            if error.failure.reason != CHECKPOINT_FULL:
                raise
            with self.files.errors():  # by partitions that no batch has
                self._remove_leftover_partitions(self._read(), list(self._partitions_of_state()))
            self.write_probe.check()

    def _state_stores(self, partitions: Iterable[str]) -> list[StateStore]:
        """The stores of the state; none if they are in another format than is known here."""
        stores = []
        for partition in sorted(partitions):
            for path in (partition, *(f"{partition}/{n}" for n in self.files.folders(partition))):
                names = self.files.names(path)
                if any(map(is_other_version, names)):
                    return []
                stores.append(StateStore(path, names))
        return stores

    def _remove_leftover_partitions(self, files: Files, partitions: Iterable[str]) -> None:
        """Removes partitions of the state that no batch has, or has any more.

        A repartition leaves them, one that was interrupted too, and Spark cleans only what it has
        loaded (RocksDBFileManager.deleteOldVersions). What takes long is left to the next start.
        """
        partition_count = Logs.read(files).most_partitions
        if partition_count is None:
            return
        until = time.monotonic() + _REMOVING_SECONDS
        for partition in partitions:
            if int(partition.rpartition("/")[2]) >= partition_count:
                if time.monotonic() > until:
                    return
                self.files.remove_folder(partition)

    def _partitions_of_state(self) -> Iterator[str]:
        for operator in filter(str.isdecimal, self.files.folders("state")):
            for partition in filter(str.isdecimal, self.files.folders(f"state/{operator}")):
                yield f"state/{operator}/{partition}"

    def check_sink(self, spec: StreamSpec) -> None:
        """Raises DriverError if the sink would lack batches; a query may run."""
        if not wants_each_batch(spec.sink):
            return
        notes, epoch = self.notes.read(), self.progress.committed_epoch()
        if epoch is None:
            return
        known, of_kafka = notes.sink_batches, spec.source.kafka is not None
        if of_kafka and known is None and notes.first_offsets is None and not notes.topic_ids:
            return  # the checkpoint of a query that Spark has run alone
        file_sink = None if known is None else known.file_sink
        is_it = file_sink is not None and file_sink.path == place_of(spec.sink)
        if file_sink is None or not is_it or file_sink.until not in (None, epoch):
            raise DriverError.permanent(
                "UnsupportedOperation",
                "Spark's file sink needs each batch since the first one in its folder, and this "
                "checkpoint has committed batches with another sink or path. Restore that one; or "
                "begin another checkpoint.generation, with startFrom.generation and a new path.",
            )

    def check_continues(self, spec: StreamSpec) -> None:
        """Raises DriverError if this spec's mode cannot continue from here; a query may run."""
        with self.files.errors():
            self._plan(self._read(), spec, self.notes.read())

    def _plan(
        self, files: Files, spec: StreamSpec, notes: Notes, stores: Sequence[StateStore] = ()
    ) -> RepairPlan:
        whole_batches = spec.sink.exactly_once and _holds_batches(notes)
        if whole_batches and spec.trigger.mode.has_long_running_tasks:
            if self.progress.committed_epoch() is not None:
                raise impossible(
                    f"The transactions of this checkpoint hold batches, and {spec.trigger.mode} "
                    "has none: use trigger.microBatch, or begin another checkpoint.generation.",
                    recoverable=False,
                )
            whole_batches = False  # another query, which begins under other names
        return repair.plan(
            files,
            spec,
            state=self._holds_state(),
            first=notes.first_offsets,
            keep_ids=notes.sink_batches is not None or whole_batches or notes.ledger is not None,
            whole_batches=whole_batches,
            stores=stores,
        )

    def _undo_interrupted_beginning(self, notes: Notes) -> None:
        """Removes what `continue_after` has written, if a crash came before its commit."""
        begins_after = notes.sink_batches and notes.sink_batches.begins_after
        if begins_after:
            files = self._read()
            is_all = max(numbers(files, "offsets"), default=0) <= begins_after
            if is_all and not numbers(files, "commits"):
                self._execute(tuple((path, None) for path in files if path.startswith("offsets/")))

    def knows_ids(self) -> bool:
        """Whether this stream's sink may recognise batches by their ids, or one before an edit."""
        notes = self.notes.read()
        known = notes.sink_batches is not None or notes.ledger is not None
        return known or _holds_batches(notes)

    def _with_sink(self, notes: Notes, spec: StreamSpec) -> Notes:
        """With what this stream's sink may know of batches from now on, which is stored."""
        known, place = notes.sink_batches, place_of(spec.sink)
        if known is None and place is None:
            return notes
        known = known or SinkBatches()
        if place is not None and place not in known.places:
            known = replace(known, places=(*known.places, place))
        if place is not None and wants_each_batch(spec.sink):
            known = replace(known, file_sink=FileSink(place))
        elif known.file_sink is not None and known.file_sink.until is None:
            epoch = self.progress.committed_epoch()
            until = -1 if epoch is None else epoch
            known = replace(known, file_sink=replace(known.file_sink, until=until))
        return self.notes.update(lambda notes: replace(notes, sink_batches=known))

    def contents(self) -> CheckpointContents | None:
        """What the newest batch or epoch has left; None before the first."""
        newest = self.progress.planned_epoch()
        if newest is None:
            return None
        committed = self.progress.committed_epoch()
        with self.files.errors():
            content = self.files.content("offsets", newest)
            entry = None if content is None else Entry.parse(content)
            if entry is None:
                return None
            state = None if committed is None else self._holds_state()
            is_awaited = state is not False and newest != committed and self.knows_ids()
            return CheckpointContents(
                len(entry.sources),
                state,
                entry.shuffle_partitions,
                state_store=entry.state_store if state else None,
                awaited=newest if is_awaited else None,
                lacks_settings=newest == committed and entry.metadata == EMPTY_METADATA_LINE,
            )

    def note_settings(self, line: str) -> None:
        """Notes the settings of the session with the newest batch, as Spark does with its own.

        Else Spark warns of each that it looks for there. Only while no query runs, and if the batch
        lacks them.
        """
        with self.files.errors():
            files = self._read()
            logs = Logs.read(files)
            newest = max(logs.offsets)
            noted = {newest: replace(logs.offsets[newest], metadata=line)}
            target = replace(logs, offsets={**logs.offsets, **noted})
            self._execute(diff(files, logs, target))

    def has_undivided_state(self) -> bool:
        """Whether an operator has state in its first partition only."""
        with self.files.errors():
            operators = Counter(path.rpartition("/")[0] for path in self._partitions_of_state())
        return 1 in operators.values()

    def _holds_state(self) -> bool:
        return self.files.holds_files("state")

    def replace_offsets(self, offsets: Mapping[int, Offsets]) -> None:
        """Makes Kafka sources read on from these offsets, by source, once the rest is repaired.

        Only while no query runs. Raises CheckpointHoldsState if a batch could be counted twice.
        """
        with self.files.errors():
            files = self._read()
            logs = Logs.read(files)
            if self.knows_ids() and self._holds_state():
                refuse_other_records(logs)
            self._execute(diff(files, logs, repair.with_offsets(logs, offsets)))

    def drop_plan(self) -> None:
        """Removes a batch that is planned and not committed: its records are read again.

        Only while no query runs, and not where the sink may know it.
        """
        with self.files.errors():
            stores = self._state_stores(self._partitions_of_state())
            self._execute(repair.without_plan(self._read(), stores))

    def forget_beginning(self) -> None:
        """Makes Kafka sources begin anew, at other first offsets than those of an earlier start.

        Only while no query runs, before a commit, and not where the sink may know a batch.
        """
        with self.files.errors():
            files = self._read()
            logs = Logs.read(files)
            others = {n: it for n, it in logs.initial.items() if initial_offsets(it) is None}
            self.files.remove_folder("state")
            self._execute(diff(files, logs, replace(logs, offsets={}, initial=others)))

    def next_offsets(self) -> dict[int, Offsets]:
        """From where each Kafka source reads on, once the rest is repaired."""
        with self.files.errors():
            return Logs.read(self._read()).next_offsets

    def planned_ends(self) -> dict[int, Offsets]:
        """Where a batch ends that is planned and not committed, by source; empty if none is."""
        with self.files.errors():
            return Logs.read(self._read()).planned_ends

    def is_new(self) -> bool:
        """Whether nothing was ever planned or committed here."""
        with self.files.errors():
            return repair.is_new(self._read())

    def committed_or_first_offsets(self) -> Offsets | None:
        """What a query with a Kafka source has committed; where it began, if that is nothing.

        None if there is neither. Raises CheckpointDamaged if the logs do not show it.
        """
        with self.files.errors():
            files = imported(self._read())
        logs = Logs.read(files)
        if logs.epoch is not None:
            return logs.offsets[logs.epoch].offsets
        repair.refuse_to_start_over(files)
        return self.notes.read().first_offsets

    def used_batch_id(self, place: str) -> int | None:
        """The newest id that a sink at this place may know from here."""
        try:
            known = self.notes.read().sink_batches
        except DriverError as error:
            if error.failure.reason != CHECKPOINT_DAMAGED:
                raise
            known = SinkBatches((place,))
        if known is None or place not in known.places:
            return None
        with self.files.errors():
            return newest_used_id(imported(self._read()))

    def continue_after(self, used: int, query: LogShape) -> None:
        """Makes the next batch the one after `used`, which the sink knows from elsewhere.

        Only while no query runs, once the rest is repaired; see `batch_ids.skip_ids_known_to_sink`.
        """
        with self.files.errors():
            files = self._read()
        logs = Logs.read(files)
        notes = self.notes.read()
        if logs.epoch is None:
            known = replace(notes.sink_batches or SinkBatches(), begins_after=used)
            self.notes.update(lambda notes: replace(notes, sink_batches=known))
        target = skip_ids_known_to_sink(logs, used, query, notes.first_offsets)
        with self.files.errors():
            self._execute(diff(files, logs, repair.with_metadata(target)))

    def transaction_names(self, namespace: str, name: str) -> TransactionNames:
        """The names of the stream's transactions with this checkpoint; raises CheckpointDamaged.

        The first question makes them.
        """
        new = Transactions(uuid.uuid4().hex[:12])
        notes = self.notes.update(
            lambda notes: replace(notes, transactions=notes.transactions or new)
        )
        names = names_of(notes, namespace, name)
        assert names is not None
        return names

    def note_whole_batches(self, spec: StreamSpec, tasks: int) -> None:
        """From now on a transaction of each of so many tasks holds its part of a batch."""
        notes = self.notes.read()
        known = notes.transactions
        assert known is not None
        most = max(tasks, known.batch_tasks or 0)
        noted = replace(known, batch_tasks=most, query=_fingerprint(spec))
        self.notes.update(lambda notes: replace(notes, transactions=noted))

    def forget_whole_batches(self) -> None:
        """Makes the transactions have other names, if they hold batches: a number of a batch means
        other records from now on.
        """
        self.notes.update(
            lambda notes: replace(notes, transactions=None) if _holds_batches(notes) else notes
        )

    def holds_batches_of_another_query(self, spec: StreamSpec) -> bool:
        """Whether a query that is not this spec's has written batches whole."""
        notes = self.notes.read()
        known = notes.transactions
        return _holds_batches(notes) and known is not None and known.query != _fingerprint(spec)

    def ledger(self) -> Ledger:
        """What is noted of the database that the stream writes; the first question makes it."""
        new = Ledger(uuid.uuid4().hex[:12])
        ledger = self.notes.update(lambda notes: replace(notes, ledger=notes.ledger or new)).ledger
        assert ledger is not None
        return ledger

    def note_row(self, row: str, note: LedgerNote) -> None:
        """From now on the row of the ledger with this id may have the token that is pending."""

        def noted(notes: Notes) -> Notes:
            known = notes.ledger
            if known is None:  # the stream was edited to write elsewhere, and a late call ends
                return notes
            return replace(notes, ledger=replace(known, rows={**known.rows, row: note}))

        self.notes.update(noted)

    def forget_ledger(self) -> None:
        """Another sink gets the batches from now on."""
        self.notes.update(lambda notes: replace(notes, ledger=None))

    def _read(self) -> dict[str, bytes]:
        paths = [f"{log}/{name}" for log in LOGS for name in self.files.names(log)]
        for source in self.files.folders("sources"):
            # Of a source's log the first file, which a source of files adds without bounds to.
            first_files = filter(_FIRST.match, self.files.names(f"sources/{source}"))
            paths += [f"sources/{source}/{name}" for name in first_files]
        paths += [name for name in self.files.names("") if "metadata" in name]
        return self.files.read(paths)

    def _execute(self, steps: tuple[Step, ...]) -> None:
        """Keeps their order also across a power cut: syncs some steps before the next."""
        for (folder, _), some in groupby(steps, key=sync_group):
            for name, content in some:
                if content is None:
                    self.files.remove(name)
                else:
                    self.files.write(name, content)
            self.files.sync(folder)
        self.progress.forget_offsets()


def names_of(notes: Notes, namespace: str, name: str) -> TransactionNames | None:
    """Of the transactions that the stream has used with a checkpoint; None if it has used none."""
    known = notes.transactions
    if known is None:
        return None
    names = TransactionNames.of(namespace, name, known.checkpoint, known.offsets)
    return replace(names, batch_tasks=known.batch_tasks)


def _holds_batches(notes: Notes) -> bool:
    return notes.transactions is not None and notes.transactions.batch_tasks is not None


def _fingerprint(spec: StreamSpec) -> str:
    """Of what decides which rows a batch makes, and where they go."""
    topic = spec.sink.kafka and spec.sink.kafka.topic
    text = "\n".join(
        [
            spec.transform.model_dump_json(),
            spec.dependencies.model_dump_json(),
            f"{spec.output_mode} {spec.image} {topic} {spec.trigger.mode.has_long_running_tasks}",
        ]
    )
    return hashlib.sha256(text.encode()).hexdigest()[:12]
