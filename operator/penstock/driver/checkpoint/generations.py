"""Where a generation of a stream's checkpoint begins.

Each generation is a checkpoint of its own beside the others. Its first offsets are stored before
its first start, which reads them as those of any first start (start_position.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.checkpoint import StartFrom
from penstock.api.v1alpha1.status import StreamStatus
from penstock.contract.remedies import REMEDIES
from penstock.driver.checkpoint.batch_ids import place_of
from penstock.driver.checkpoint.folder import CheckpointFolder, names_of
from penstock.driver.checkpoint.left_out import LeftOut
from penstock.driver.checkpoint.repair import RepairPlan
from penstock.driver.checkpoint.start_from import (
    START_POSITION_UNKNOWN,
    Beginning,
    moves,
    offsets_in_kafka,
    start_position_unknown,
    stored_form,
)
from penstock.driver.checkpoint.storage.files import Checkpoints
from penstock.driver.failures import GENERATION_EXISTS, DriverError, Failure
from penstock.driver.kafka.offsets import Offsets, later_of_both
from penstock.driver.kafka.source_monitor import SourceMonitor
from penstock.driver.kafka.transactions import TransactionNames

# The stored startFrom while another beginning takes the place of epochs without records.
_BEGINS: Mapping[str, Any] = {}
Written = Callable[[TransactionNames], Offsets]
"""The offsets that transactions of an earlier generation have reached, all of which are over."""


class Generations:
    """The checkpoints of one stream, one of which its spec names."""

    def __init__(self, spec: StreamSpec, checkpoints: Checkpoints) -> None:
        self._spec = spec
        self._checkpoints = checkpoints
        self.current = self._folder(spec.checkpoint.generation)

    def begin(
        self, source: SourceMonitor, repair: RepairPlan, namespace: str, name: str, written: Written
    ) -> Failure | None:
        """Stores where the generation begins, until it has committed.

        `repair` is that of this start. A warning if it has begun elsewhere than the spec says, and
        continues. Raises StartPositionUnknown if what the spec names is not there.
        """
        start, folder = self._spec.checkpoint.start_from, self.current
        if start is None:
            return None
        asked, first_start = stored_form(start), repair.first_start
        notes = folder.notes.read()
        known = notes.start_from
        is_asked = asked == known
        # What a sink may know keeps its number, and so its records.
        kept = not first_start and folder.knows_ids()
        has_read = repair.continues_after is not None and known != _BEGINS and self._has_read()
        if kept or has_read:
            return None if is_asked else self._exists()
        stored = Beginning({}, {})
        if is_asked:
            stored = Beginning(notes.first_offsets or {}, notes.topic_ids)
        is_moving = moves(start, planned=not first_start)
        topics = (source.view.partitions_by_topic or {}) if first_start else {}
        is_known = is_asked and stored.offsets.keys() >= topics.keys()
        if is_known and not is_moving:
            return None
        try:
            named, left_out = self._named(start, source, namespace, name, written)
        except DriverError as error:
            if is_known and error.failure.reason == START_POSITION_UNKNOWN:
                return None
            raise
        if is_asked:
            named = stored.updated(named, source.view.topic_ids, moves=is_moving)
            if stored.includes(named):
                return None
            left_out = left_out.joined(LeftOut(notes.dead_letters))
        known_names = (notes if is_asked else notes.without_transactions()).transactions
        if repair.continues_after is None:
            folder.forget_beginning()
        else:
            folder.notes.update(
                lambda notes: replace(notes, transactions=known_names, start_from=_BEGINS)
            )
            folder.replace_offsets(dict.fromkeys(folder.next_offsets(), named.offsets))
        folder.notes.update(
            lambda notes: replace(
                notes,
                transactions=known_names,
                start_from=asked,
                first_offsets=named.offsets,
                topic_ids=named.topic_ids,
                dead_letters=left_out.letters,
            )
        )
        return None

    def _has_read(self) -> bool:
        """Whether it has come further than where it began: it may have committed no record.

        The continuous engine commits epochs without records, also of partitions that were added.
        """
        first = self.current.notes.read().first_offsets or {}
        return any(
            first.get(topic, {}).get(number, 0) != offset
            for of_source in self.current.next_offsets().values()
            for topic, of_topic in of_source.items()
            for number, offset in of_topic.items()
        )

    def _named(
        self, start: StartFrom, source: SourceMonitor, namespace: str, name: str, written: Written
    ) -> tuple[Beginning, LeftOut]:
        """Where the spec says that the generation begins, and the records left out until then."""
        if start.generation is None:
            offsets = offsets_in_kafka(start, self._spec, self.current, source)
            named, left_out = Beginning(offsets, {}), LeftOut()
        else:
            earlier = self._folder(start.generation)
            reached = self._reached(earlier)
            notes = earlier.notes.read()
            names = names_of(notes, namespace, name)
            reached = reached if names is None else later_of_both(reached, written(names))
            named, left_out = Beginning(reached, notes.topic_ids), LeftOut(notes.dead_letters)
        read = source.named_by_spec(named.offsets)
        return replace(named, offsets={topic: named.offsets[topic] for topic in read}), left_out

    def check_first_start(self, known: int | None) -> None:
        """Raises CheckpointMissing if this generation has been there before, and is gone.

        `known`: the commit of it that the stream's status knows. A new one has a higher number than
        those that are there: after a rollback the status does not know the earlier one any more.
        """
        number, location = self._spec.checkpoint.generation, self.current.files.location
        if known is not None:
            raise _missing(f"{location} holds no checkpoint, and epoch {known} was committed there")
        if self.current.notes.read().first_offsets is not None:
            return  # it has begun, and has not committed
        later = [n for n in self._checkpoints.generations() if n > number]
        begun = [n for n in later if self._folder(n).notes.read().start_from is not None]
        if begun:
            raise _missing(f"There is no generation {number}, and generation {max(begun)} is there")

    def check_begins(self) -> None:
        """Raises StartPositionUnknown if the generation to go on from does not show where it is."""
        start = self._spec.checkpoint.start_from
        if start is not None and start.generation is not None and self.current.is_new():
            try:
                self._reached(self._folder(start.generation))
            except DriverError as error:
                # What it needs would be there by now.
                raise DriverError(replace(error.failure, recoverable=False)) from error

    def _reached(self, earlier: CheckpointFolder) -> Offsets:
        """What a generation has committed; where it began, if that is nothing."""
        offsets = earlier.committed_or_first_offsets()
        if offsets is None:
            start = self._spec.checkpoint.start_from
            assert start is not None
            raise start_position_unknown(
                f"startFrom.generation is {start.generation}, and there is no checkpoint of "
                "this generation that a query with a Kafka source has used."
            )
        return offsets

    def batch_known_elsewhere(self) -> int | None:
        """The newest batch that the sink may know from another generation, if that is ahead.

        None if this generation is at least as far, or the sink does not track batches.
        """
        place = place_of(self._spec.sink)
        if place is None:
            return None
        used = [
            CheckpointFolder(files).used_batch_id(place)
            for number, files in self._checkpoints.generations().items()
            if number != self._spec.checkpoint.generation
        ]
        newest = max((number for number in used if number is not None), default=None)
        if newest is None:
            return None
        progress = self.current.progress
        # A batch is planned when the one before it is done, whether its commit was lost or not.
        done = [progress.committed_epoch(), (progress.planned_epoch() or 0) - 1]
        return newest if newest > max(n for n in done if n is not None) else None

    def _folder(self, number: int) -> CheckpointFolder:
        return CheckpointFolder(self._checkpoints.generation(number))

    def _exists(self) -> Failure:
        number = self._spec.checkpoint.generation
        return Failure(
            GENERATION_EXISTS,
            f"Generation {number} of the checkpoint exists, and began elsewhere than "
            "checkpoint.startFrom says: it is continued, and startFrom does not count. "
            f"{REMEDIES[GENERATION_EXISTS].action}",
        )


def known_commit(status: StreamStatus, generation: int) -> int | None:
    """The commit that a stream's status knows of this generation of its checkpoint."""
    effective = status.effective
    is_of_it = effective is not None and effective.checkpoint_generation == generation
    return status.epoch if is_of_it else None


def _missing(what: str) -> DriverError:
    reason = "CheckpointMissing"
    return DriverError(
        Failure(
            reason,
            f"{what}: the files were deleted, the volume is another one, or a rule of the bucket "
            f"let them expire. {REMEDIES[reason].action}",
            permanent=True,
            recoverable=True,
        )
    )
