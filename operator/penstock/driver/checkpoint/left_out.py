"""The records that a stream goes on without, because they are in its dead-letter topic.

The list is in the notes beside the checkpoint. A record is in it only once the topic has it, and a
query that starts leaves it out: so a crash at any moment may copy a record twice, and skips none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.driver.kafka.offsets import Offsets, is_before
from penstock.driver.record_position import Position

_MINUTE = 60.0
# A record of a transaction may be followed by the transaction's marker.
_MARKED = 2


@dataclass(frozen=True)
class DeadLetter:
    """One record in the dead-letter topic."""

    position: Position
    topic_id: str | None
    """Of its topic, which a topic that is created again does not have; None for old brokers."""
    at: float
    """When it was copied, in seconds since 1970."""

    def is_of(self, other: DeadLetter) -> bool:
        """Whether both are copies of one record."""
        return (self.position, self.topic_id) == (other.position, other.topic_id)


@dataclass(frozen=True)
class LeftOut:
    """Those that may be read again, and those that count for the limit.

    >>> first = DeadLetter(Position("in", 0, 7), "a", at=100.0)
    >>> left = LeftOut().adding(first, {"in": {0: 7}})
    >>> left.positions({"in": "a"}), left.positions({"in": "b"})
    ([Position(topic='in', partition=0, offset=7)], [])
    >>> later = DeadLetter(Position("in", 0, 9), "a", at=130.0)
    >>> both = left.adding(later, {"in": {0: 8}})
    >>> both.count_for_limit(Position("in", 0, 50), {}, None, now=140.0)
    2
    >>> left.count_for_limit(Position("in", 0, 8), {"in": "a"}, {"in": {0: 90}}, now=900.0)
    1
    >>> left.count_for_limit(Position("in", 5, 8), {"in": "a"}, {"in": {0: 8}}, now=900.0)
    1
    """

    letters: tuple[DeadLetter, ...] = ()
    row: int = 0
    """How many became dead letters, one after the other, while no other record was committed. It is
    not stored: a new process counts anew."""
    row_began: Offsets = field(default_factory=dict)
    """What was committed then; for a partition that came later, at the next one of the row."""

    def positions(self, topic_ids: Mapping[str, str]) -> list[Position]:
        """Those in the topics that now have these ids."""
        return [
            letter.position
            for letter in self.letters
            if letter.topic_id == topic_ids.get(letter.position.topic)
        ]

    def count_for_limit(
        self,
        record: Position | None,
        topic_ids: Mapping[str, str],
        committed: Offsets | None,
        now: float,
    ) -> int:
        """How many count for the limit when a query fails over a record.

        Those that were copied within the last minute; or, if they are more, those before it while
        no other record was committed, in the stream or right before it in its partition: each may
        have taken long, where restarts are slow.
        """
        recent = sum(now - _MINUTE < letter.at <= now for letter in self.letters)
        if record is None:
            return recent
        in_partition = len(self._right_before(record, topic_ids.get(record.topic)))
        return max(recent, in_partition, 0 if self._row_is_over(committed) else self.row)

    def in_row_of(self, other: LeftOut) -> LeftOut:
        """The same letters, in the row that the other list has counted."""
        return replace(self, row=other.row, row_began=other.row_began)

    def _row_is_over(self, committed: Offsets | None) -> bool:
        """Whether a record that is no dead letter was committed since the row began."""
        return any(
            not 0 <= at - began <= _MARKED * self._letters_from(topic, number, began)
            for topic, of_topic in self.row_began.items()
            for number, began in of_topic.items()
            if (at := (committed or {}).get(topic, {}).get(number)) is not None
        )

    def _letters_from(self, topic: str, partition: int, offset: int) -> int:
        return sum(
            letter.position[:2] == (topic, partition) and letter.position.offset >= offset
            for letter in self.letters
        )

    def _right_before(self, record: Position, topic_id: str | None) -> set[Position]:
        """With one offset between two of them at most, as of a transaction's marker."""
        in_topic = {letter.position for letter in self.letters if letter.topic_id == topic_id}
        right_before, at = set[Position](), record
        while True:
            near = {at._replace(offset=at.offset - n) for n in (1, 2)} & in_topic
            if not near:
                return right_before
            right_before |= near
            at = min(near)

    def joined(self, other: LeftOut) -> LeftOut:
        """With those of another list, each record once."""
        own = {letter.position for letter in self.letters}
        return LeftOut((*self.letters, *(it for it in other.letters if it.position not in own)))

    def adding(self, letter: DeadLetter, committed: Offsets | None) -> LeftOut:
        """With one more, and without those that count no more and are never read again."""
        row = 0 if self._row_is_over(committed) else self.row
        began = _with_new_partitions(self.row_began if row else {}, committed or {})
        in_row = self.letters[len(self.letters) - row :]
        in_partition = self._right_before(letter.position, letter.topic_id)
        kept = [
            earlier
            for earlier in self.letters
            if earlier.position != letter.position
            and (
                letter.at - earlier.at <= _MINUTE
                or earlier.position in in_partition
                or earlier in in_row
                or not is_before(earlier.position, committed)
            )
        ]
        row += all(earlier.position != letter.position for earlier in in_row)
        return LeftOut((*kept, letter), row, began)


def _with_new_partitions(offsets: Offsets, newer: Offsets) -> Offsets:
    return {
        topic: {**newer.get(topic, {}), **offsets.get(topic, {})} for topic in {**newer, **offsets}
    }
