"""Notices that another client keeps undoing what the operator writes, and slows the operator down.

Two operators that are configured differently would otherwise answer each other at full speed. In
memory only: an operator that restarts notices again after a few writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

# Others may undo a write this often before the operator takes its time.
_UNDONE = 5
_FIRST_DELAY = timedelta(seconds=4)
_LAST_DELAY = timedelta(minutes=5)
_FORGET_AFTER = timedelta(minutes=10)


@dataclass
class Contest:
    """One thing that the operator writes, and how often others undid that."""

    now: Callable[[], datetime]
    _undone: list[datetime] = field(default_factory=list)
    _due: datetime | None = None

    def undone(self) -> None:
        """Notes that the operator wrote again what another client had changed."""
        recent = self.now() - _FORGET_AFTER
        self._undone = [*(each for each in self._undone if each > recent), self.now()]
        excess = len(self._undone) - _UNDONE
        if excess >= 0:
            delay = min(_LAST_DELAY, _FIRST_DELAY * 2.0 ** min(excess, 20))
            self._due = self.now() + delay

    @property
    def since(self) -> datetime:
        """When it was first undone, of late."""
        return self._undone[0] if self._undone else self.now()

    @property
    def wait(self) -> timedelta | None:
        """How long the operator should wait before it writes again; None if not at all."""
        if self._due is None or self._due <= self.now():
            return None
        return self._due - self.now()
