"""Reconciles while this operator leads; otherwise it only remembers which streams there are.

An operator that waits for its turn watches like the leader, so it takes over without a start.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from penstock.cluster.kinds import Key
from penstock.controller.reconciler import Reconciler


class Standby:
    """Passes keys on to a reconciler while `leads` says so."""

    def __init__(
        self,
        make_reconciler: Callable[[], Reconciler],
        enqueue: Callable[[Key], None],
        leads: Callable[[], bool],
    ) -> None:
        self._make_reconciler = make_reconciler
        self._reconciler = make_reconciler()
        self._enqueue = enqueue
        self._leads = leads
        self._known: set[Key] = set()

    def stream_changed(self, key: Key, version: str) -> None:
        """Queues a stream, except for what this operator has just written itself.

        That is half of all changes: each of them would read all objects of the stream, for nothing.
        """
        self._known.add(key)
        if not self._reconciler.has_written(key, version):
            self._enqueue(key)

    def stream_deleted(self, key: Key) -> None:
        self._known.discard(key)
        self._enqueue(key)

    def child_changed(self, key: Key) -> None:
        """Queues the stream of an object. The stream itself is seen apart, if there is one."""
        self._enqueue(key)

    async def reconcile(self, key: Key) -> timedelta | None:
        if not self._leads():
            return None
        again = await self._reconciler.reconcile(key)
        if again is None:
            self._known.discard(key)  # it was deleted while nobody watched
        return again

    def take_over(self) -> None:
        """Queues all streams, for a reconciler that remembers nothing of an earlier term."""
        self._reconciler = self._make_reconciler()
        for key in sorted(self._known):
            self._enqueue(key)
