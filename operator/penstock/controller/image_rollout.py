"""A new default image, for a few streams at a time, and for no more while too many do not run.

What is where stands in the statuses, so another operator goes on from there.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
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
from penstock.controller.children.diff import content_hash
from penstock.controller.children.revision import document
from penstock.controller.status.not_applied import IMAGE_RETRY_INTERVAL

log = logging.getLogger(__name__)

# Three thousand streams are not counted at each look at one of them.
_COUNTED_FOR = timedelta(seconds=1)
# As long as a rollout has by default: whoever is Stalled by then has another cause.
_PATIENCE = timedelta(milliseconds=milliseconds(RolloutPolicy().deadline))
# So many streams may fail with an image before it is taken for the cause, and of those with which
# it runs one of so many more.
_MAX_FAILURES = 3
_READY_FOR_EACH_FAILURE = 10


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
        self._revisions = dict[Key, tuple[str, str]]()
        """Of streams that have finished or were given up, with the image that they have; by a hash
        of what each was made from."""
        self._trying = set[Key]()
        """Streams being retried after the image could not be applied."""
        self._room = 0
        """How many more may be retried."""
        self._turns: Sequence[Key] = ()
        self._places = 0.0
        """How many queries that have finished may begin their next run with it: an image alone does
        not run them again, so they have no turn."""
        self._retried: Key | None = None
        """A stream with which it did not run, and whose turn it is once more."""
        self._stopped_by: Set[Key] = frozenset()
        self._count_at = now()

    def needs_revision(self, key: Key, stream: Stream) -> bool:
        """Whether `learn_revision` is to be called before `image_for`."""
        image = StreamImage.of(stream)
        if image.named or image.default in ("", self._image):
            return False
        known, _ = self._revisions.get(key, ("", ""))
        return (image.finished or image.failed) and known != _source(stream, image.default)

    def learn_revision(self, key: Key, stream: Stream) -> None:
        """Remembers a revision, for which a long document is written. From any thread."""
        image = StreamImage.of(stream).default
        self._revisions[key] = (_source(stream, image), _revision(stream, image))

    def image_for(self, key: Key, stream: Stream) -> str:
        """The default image for a stream: the one that it has, until it is its turn."""
        image = StreamImage.of(stream)
        if image.named or image.default in ("", self._image):
            return self._image
        _, revision = self._revisions.get(key, ("", ""))
        if image.finished and not _runs_again(stream, revision):
            self.forget(key)
            return image.default
        if key not in self._let_through:
            if self._now() >= self._count_at:
                self.count()
            if not (self._places > 0 if image.finished else key in self._turns):
                return _image_that_it_has(stream, image, revision)
            self._places -= image.finished
            self._let_through[key] = _LetThrough(image.ready, self._now())
        return self._image

    def may_retry_image(self, key: Key, stream: Stream) -> bool:
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

    def is_retry_due(self, key: Key) -> bool:
        """Whether a stream that was given up with it gets it once more: a passing cause is over."""
        if self._now() >= self._count_at:
            self.count()
        return key == self._retried

    def is_stopped_by(self, key: Key) -> bool:
        """Whether no other stream gets it, and this is one of those with which it did not run."""
        return key in self._stopped_by

    @contextmanager
    def reconciling(self, key: Key) -> Iterator[None]:
        """While a stream is: what `may_retry_image` has allowed to it holds its place."""
        try:
            yield
        finally:
            self._trying.discard(key)

    def forget(self, key: Key) -> None:
        self._let_through.pop(key, None)
        self._revisions.pop(key, None)

    def count_waiting(self) -> int:
        """How many streams have another default image yet. From any thread."""
        return sum(stream.is_behind(self._image) for _, stream in self._streams())

    def failures(self) -> tuple[Sequence[Key], bool]:
        """The streams that were Ready, and are not with this image; and whether they are so many
        that no other stream gets it. From any thread.
        """
        now, failed, ready = self._now(), list[Key](), 0
        for key, stream in self._streams():
            if stream.has(self._image):
                ready += stream.last_ready == self._image
                if stream.has_failed(now):
                    failed.append(key)
        return sorted(failed), self._may_fail(ready) <= len(failed)

    def _may_fail(self, ready: int) -> int:
        """How many may fail before it is taken for the cause, if it runs with so many streams."""
        return max(_MAX_FAILURES, self._max_unavailable) + ready // _READY_FOR_EACH_FAILURE

    def count(self) -> None:
        """Finds the streams whose turn it is, and wakes them; none while too many do not run
        because of this image.

        Namespaces take turns, those first of which fewest streams try it or have failed: so one
        tenant's outage, or intent, stops nobody else.

        Streams that were Ready and those that were not have places of their own: nobody can tell
        whether the image is why one of the latter does not run. So it keeps its place until its
        deadline, and longer while nobody has been Ready with the image.
        """
        now = self._now()
        self._count_at = now + _COUNTED_FOR
        streams = dict(self._streams())
        busy, overdue, ready = Counter[bool](), 0, 0
        failed: dict[Key, StreamImage] = {}
        waiting: dict[bool, list[Key]] = {True: [], False: []}
        at_work = Counter[str]()
        for key, was_ready in self._let_through_at_work(streams):
            busy[was_ready] += 1
            at_work[key.namespace] += 1
        for key, stream in streams.items():
            if stream.is_behind(self._image):
                if key not in self._let_through and stream.may_change(now):
                    waiting[stream.ready].append(key)
            elif not stream.has(self._image):
                continue
            elif stream.last_ready == self._image:
                ready += 1
            elif stream.has_failed(now):
                failed[key] = stream
                at_work[key.namespace] += 1
            elif stream.is_tried(now):
                busy[stream.was_ready] += 1
                at_work[key.namespace] += 1
            elif stream.until is not None:
                overdue += not stream.was_ready
        remaining = self._may_fail(ready) - len(failed)
        self._stop(failed if remaining <= 0 else ())
        busy[False] += 0 if ready else overdue
        room = max(0, min(self._max_unavailable, remaining) - busy[True])
        others = max(0, self._max_unavailable - busy[False]) if remaining > 0 else 0
        self._turns = [
            *_in_turn(waiting[True], at_work, room),
            *_in_turn(waiting[False], at_work, others),
        ]
        self._room = max(0, room - len(self._turns))
        self._places = self._room if remaining <= 0 or not ready else inf
        is_idle = not (busy[True] or self._turns)
        self._retried = _due_for_retry(failed, now) if is_idle else None
        for key in (*self._turns, *filter(None, (self._retried,))):
            self._wake(key)

    def _let_through_at_work(self, streams: Mapping[Key, StreamImage]) -> list[tuple[Key, bool]]:
        """Those of them that hold a place that no status shows, with whether they were Ready. One
        to which the image cannot be applied does not.
        """
        busy = list[tuple[Key, bool]]()
        for key, (was_ready, since) in tuple(self._let_through.items()):
            stream = streams.get(key)
            if stream is None or key in self._trying:
                busy.append((key, was_ready))
            elif stream.named or stream.stopped or stream.last_ready == self._image:
                self.forget(key)
            elif stream.default != self._image and not stream.is_not_applied:
                is_busy = not stream.stalled or self._now() < since + _PATIENCE
                busy += [(key, was_ready)] if is_busy else []
        return busy

    def _stop(self, failed: Iterable[Key]) -> None:
        """No other stream gets it because of these; each is woken, so that it says so."""
        before, self._stopped_by = self._stopped_by, frozenset(failed)
        for key in sorted(self._stopped_by - before):
            log.warning(
                "no other stream gets the image %s: %s did not run with it", self._image, key
            )
            self._wake(key)


def _in_turn(keys: Iterable[Key], at_work: Counter[str], room: int) -> Iterator[Key]:
    """So many of the keys, first those of namespaces with fewest at work; counts them there."""
    of_namespace = defaultdict[str, list[Key]](list)
    for key in keys:
        of_namespace[key.namespace].append(key)
    first = {name: nsmallest(room, waiting)[::-1] for name, waiting in of_namespace.items()}
    for _ in range(room):
        namespace = min(
            (name for name, left in first.items() if left),
            key=lambda name: (at_work[name], name),
            default=None,
        )
        if namespace is None:
            return
        at_work[namespace] += 1
        yield first[namespace].pop()


def _due_for_retry(failed: Mapping[Key, StreamImage], now: datetime) -> Key | None:
    """A stream whose failure is long ago: each for a while, since one may have an invalid spec."""
    due = sorted(
        key
        for key, stream in failed.items()
        if stream.failed_at is not None and stream.failed_at + IMAGE_RETRY_INTERVAL <= now
    )
    return due[int(now.timestamp() / _PATIENCE.total_seconds()) % len(due)] if due else None


class _LetThrough(NamedTuple):
    was_ready: bool
    since: datetime


def _image_that_it_has(stream: Stream, image: StreamImage, revision: str) -> str:
    """That of its newest revision; for an edit after one that was given up, of the last Ready."""
    is_edited = image.failed and not _is_given_up(stream, revision)
    return image.last_ready or image.default if is_edited else image.default


def _runs_again(stream: Stream, revision: str) -> bool:
    """Whether an edit runs a query again that has finished, whatever its image."""
    return not (stream.has_finished(revision) or _is_given_up(stream, revision))


def _is_given_up(stream: Stream, revision: str) -> bool:
    """Whether this revision of the spec was given up."""
    rollout = stream.status.rollout
    if rollout is None or rollout.failure is None:
        return False
    return rollout.revision == revision


def _source(stream: Stream, image: str) -> str:
    return content_hash([stream.manifest.get("spec"), image])


def _revision(stream: Stream, image: str) -> str:
    spec = dict(mapping(stream.manifest.get("spec")))
    return naming.spec_hash(document(stream.name, stream.namespace, spec, image))
