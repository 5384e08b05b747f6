"""Reconciles while this operator leads; otherwise it only remembers what there is.

An operator that waits for its turn watches like the leader, so it takes over without a start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from penstock.cluster.kinds import Key, Kind, Manifest
from penstock.cluster.objects import Object
from penstock.cluster.stream import Stream
from penstock.controller.kubernetes.object_cache import ObjectCache
from penstock.controller.reconciler import Reconciler
from penstock.controller.work_queue import WorkQueue


class Standby:
    """Passes what the watches show to the cache, and keys to a reconciler while `leads` says so."""

    def __init__(
        self,
        make_reconciler: Callable[[], Reconciler],
        cache: ObjectCache,
        queue: WorkQueue,
        leads: Callable[[], bool],
        is_watched: Callable[[str], bool] = lambda namespace: True,
    ) -> None:
        self._make_reconciler = make_reconciler
        self._reconciler = make_reconciler()
        self._cache = cache
        self._queue = queue
        self._leads = leads
        self._is_watched = is_watched

    def stream_changed(self, stream: Manifest, *, listed: bool) -> None:
        """Queues a stream, except for what this operator has just written: the cache has that.

        What is left is an edit by somebody, or is found in a list, perhaps with an edit that no
        operator has seen. Or the watch was faster than the answer to the operator's own write,
        which is no edit: under load many are, and would fill the lane of the edits.
        """
        before = self._cache.intent(Object(stream).key)
        key = self._cache.put(stream, listed=listed)
        if key is None or not self._acts_on(key):
            return
        edit = self._cache.is_edited(key) or (not listed and self._cache.intent(key) != before)
        if listed and not edit:
            self._queue.spread([key])
        else:
            self._queue.add(key, edit=edit)

    def stream_deleted(self, stream: Manifest) -> None:
        key = self._cache.remove(stream)
        if key is not None:
            self.stream_gone(key)

    def stream_gone(self, key: Key) -> None:
        """Queues a stream that the cache has no longer, so that the rest of it is forgotten."""
        if self._acts_on(key):
            self._queue.add(key)

    def child_changed(self, key: Key) -> None:
        """Queues the stream of an object. Without one, whoever may label an object could fill the
        queue with names; a stream that comes later is queued by itself.
        """
        if self._cache.intent(key) is not None and self._acts_on(key):
            self._queue.add(key)

    def namespace_changed(self, namespace: Key) -> None:
        """Queues the streams of a namespace that is watched from now on, or no longer is."""
        if self._leads():
            streams = self._cache.streams()
            self._queue_all([key for key in streams if key.namespace == namespace.name])

    def _acts_on(self, key: Key) -> bool:
        return self._leads() and self._is_watched(key.namespace)

    async def reconcile(self, key: Key) -> timedelta | None:
        if not self._leads():
            return None
        return await self._reconciler.reconcile(key)

    def take_over(self) -> None:
        """Queues all streams, for a reconciler that remembers nothing of an earlier term."""
        self._reconciler = self._make_reconciler()
        self._queue_all(list(filter(self._acts_on, self._cache.streams())))

    def _queue_all(self, streams: Sequence[Key]) -> None:
        """Those with edits that no operator has seen come first."""
        for key in filter(self._cache.is_edited, streams):
            self._queue.add(key, edit=True)
        self._queue.spread(streams)


class ShownStreams:
    """What the watch of the streams fills."""

    def __init__(self, standby: Standby, cache: ObjectCache, class_name: str) -> None:
        self._standby = standby
        self._cache = cache
        self._class_name = class_name

    def put(self, manifest: Manifest, *, listed: bool = False) -> None:
        if Stream(manifest).class_name == self._class_name:
            self._standby.stream_changed(manifest, listed=listed)

    def remove(self, manifest: Manifest) -> None:
        if Stream(manifest).class_name == self._class_name:
            self._standby.stream_deleted(manifest)

    def retain(self, kind: Kind, namespace: str, listed: Iterable[Key]) -> Sequence[Key]:
        return self._cache.retain(kind, namespace, listed)
