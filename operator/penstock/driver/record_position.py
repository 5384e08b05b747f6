"""The position of a record: `payments/3@1234`, in messages, options and arguments."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """Topic, partition and offset.

    >>> str(Position("payments", 3, 1234))
    'payments/3@1234'
    """

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}@{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Raises ValueError for another text.

        >>> Position.parse("payments/3@1234").offset
        1234
        """
        topic, slash, rest = text.rpartition("/")
        partition, at, offset = rest.partition("@")
        if not (topic and slash and at and partition.isdecimal() and offset.isdecimal()):
            raise ValueError(f"not a record's position, such as payments/3@1234: {text}")
        return cls(topic, int(partition), int(offset))
