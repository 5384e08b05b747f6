"""A new default image, for a few streams at a time, and for no more while it does not run.

What is where stands in the statuses, so another operator goes on from there.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from heapq import nsmallest
from math import inf
from typing import NamedTuple

from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1.rollout import RolloutPolicy
from penstock.cluster.kinds import Key
from penstock.cluster.lenient_fields import mapping
from penstock.cluster.stream import Stream
from penstock.cluster.stream_image import StreamImage
from penstock.contract import naming
from penstock.controller.children.revision import document

log = logging.getLogger(__name__)

# Three thousand streams are not counted at each look at one of them.
_COUNTED_FOR = timedelta(seconds=1)
# As long as a rollout has by default: whoever is Stalled by then has another cause.
_PATIENCE = timedelta(milliseconds=milliseconds(RolloutPolicy().deadline))


class ImageRollout:
    """Says which streams that name no image get the operator's default image now."""

    def __init__(
        self,
        image: str,
        max_unavailable: int,
        streams: Callable[[], Iterable[tuple[Key, StreamImage]]],
        now: Callable[[], datetime],
        wake: Callable[[Key], None],
    ) -> None:
        """`wake` has a stream reconciled soon."""
        self._image = image
        self._max_unavailable = max_unavailable
        self._streams = streams
        self._now = now
        self._wake = wake
        self._let_through = dict[Key, _LetThrough]()
        """Those that were not Ready with it yet."""
        self._trying = set[Key]()
        """Those of them to which it could not be applied, while they are reconciled with it."""
        self._room = 0
        """How many more of them may be."""
        self._turns: Sequence[Key] = ()
        self._places = 0.0
        """How many queries that have finished may begin their next run with it: an image alone does
        not run them again, so they have no turn."""
        self._count_at = now()
        self._culprit: Key | None = None

    def image_for(self, key: Key, stream: Stream) -> str:
        """The default image for a stream: the one that it has, until it is its turn."""
        found = StreamImage.of(stream)
        if found.named or found.default in ("", self._image):
            return self._image
        if found.finished and not _runs_again(stream, found.default):
            self.forget(key)
            return found.default
        if key not in self._let_through:
            if self._now() >= self._count_at:
                self.count()
            if not (self._places > 0 if found.finished else key in self._turns):
                return _image_that_it_has(stream, found)
            self._places -= found.finished
            self._let_through[key] = _LetThrough(found.ready, self._now())
        return self._image

    def may_try_again(self, key: Key, stream: Stream) -> bool:
        """Whether it may be applied now to a stream to which it could not be, for the stream runs.

        Nobody waits for such a stream. What has refused the image, such as a policy, may have done
        so for all, so not all are to have it at once when it no longer does.
        """
        if key not in self._let_through or not StreamImage.of(stream).is_not_applied:
            return True
        if self._now() >= self._count_at:
            self.count()
        if self._room <= 0:
            return False
        self._room -= 1
        self._trying.add(key)
        return True

    @contextmanager
    def reconciling(self, key: Key) -> Iterator[None]:
        """While a stream is: what `may_try_again` has allowed to it holds its place."""
        try:
            yield
        finally:
            self._trying.discard(key)

    def forget(self, key: Key) -> None:
        self._let_through.pop(key, None)

    def count_waiting(self) -> int:
        """How many streams have another default image yet. From any thread."""
        return sum(stream.is_behind(self._image) for _, stream in self._streams())

    def count(self) -> None:
        """Finds the streams whose turn it is, and wakes them; none while one does not run because
        of this image.

        Streams that were Ready and those that were not have places of their own: nobody can tell
        whether the image is why one of the latter does not run. So it keeps its place until its
        deadline, and longer while nobody has been Ready with the image.
        """
        now = self._now()
        self._count_at = now + _COUNTED_FOR
        streams = dict(self._streams())
        busy, overdue, runs = self._let_through_at_work(streams), 0, False
        waiting: dict[bool, list[Key]] = {True: [], False: []}
        self._turns, self._places, self._room = (), 0, 0
        for key, stream in streams.items():
            if stream.is_behind(self._image):
                if key not in self._let_through and stream.may_change(now):
                    waiting[stream.ready].append(key)
            elif stream.named or stream.stopped or stream.default != self._image:
                continue
            elif stream.last_ready == self._image:
                runs = True
            elif stream.has_failed(now):
                self._stop_at(key)
                return
            elif stream.is_tried(now):
                busy[stream.was_ready] += 1
            elif stream.until is not None:
                overdue += not stream.was_ready
        self._culprit = None
        busy[False] += 0 if runs else overdue
        self._turns = [
            key
            for ready, keys in waiting.items()
            for key in nsmallest(max(0, self._max_unavailable - busy[ready]), keys)
        ]
        self._room = self._max_unavailable - busy[True] - len(self._turns)
        self._places = inf if runs else self._room
        for key in self._turns:
            self._wake(key)

    def _let_through_at_work(self, streams: Mapping[Key, StreamImage]) -> Counter[bool]:
        """How many of them hold a place that no status shows, by whether they were Ready. One to
        which the image cannot be applied does not.
        """
        busy = Counter[bool]()
        for key, (was_ready, since) in tuple(self._let_through.items()):
            stream = streams.get(key)
            if stream is None or key in self._trying:
                busy[was_ready] += 1
            elif stream.named or stream.stopped or stream.last_ready == self._image:
                self.forget(key)
            elif stream.default != self._image and not stream.is_not_applied:
                busy[was_ready] += not stream.stalled or self._now() < since + _PATIENCE
        return busy

    def _stop_at(self, key: Key) -> None:
        if key != self._culprit:
            log.warning(
                "no other stream gets the image %s: %s did not run with it", self._image, key
            )
        self._culprit = key


class _LetThrough(NamedTuple):
    was_ready: bool
    since: datetime


def _image_that_it_has(stream: Stream, found: StreamImage) -> str:
    """That of its newest revision; for an edit after one that was given up, of the last Ready."""
    is_edited = found.failed and not _is_given_up(stream, found.default)
    return found.last_ready or found.default if is_edited else found.default


def _runs_again(stream: Stream, image: str) -> bool:
    """Whether an edit runs a query again that has finished, whatever its image."""
    return not (stream.has_finished(_revision(stream, image)) or _is_given_up(stream, image))


def _is_given_up(stream: Stream, image: str) -> bool:
    """Whether the spec was given up with this image."""
    rollout = stream.status.rollout
    if rollout is None or rollout.failure is None:
        return False
    return rollout.revision == _revision(stream, image)


def _revision(stream: Stream, image: str) -> str:
    spec = dict(mapping(stream.manifest.get("spec")))
    return naming.spec_hash(document(stream.name, stream.namespace, spec, image))
