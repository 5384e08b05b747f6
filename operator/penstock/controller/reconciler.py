"""Reconciles one stream at a time: observes, decides and acts."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

from penstock.api.v1alpha1.status import StreamStatus
from penstock.cluster import kinds
from penstock.cluster.kinds import Key, Manifest
from penstock.cluster.objects import ControllerRevision, Object, owned_by
from penstock.cluster.pods import DriverPod
from penstock.cluster.rest_api import ApiError
from penstock.cluster.stream import Stream
from penstock.cluster.stream_image import StreamImage
from penstock.contract import naming
from penstock.contract.driver_report import numbers_interval
from penstock.controller import rollout
from penstock.controller.applier import Applier, Contest
from penstock.controller.children.diff import content_hash
from penstock.controller.children.revision import (
    Revision,
    controller_revision_name,
    with_earlier_spec,
)
from penstock.controller.image_rollout import ImageRollout
from penstock.controller.kubernetes.api_client import KubernetesApi, KubernetesReads
from penstock.controller.kubernetes.object_cache import ObjectCache, is_newer
from penstock.controller.metrics import OperatorMetrics
from penstock.controller.observation import observe_children, parse_stream
from penstock.controller.operator_settings import Settings
from penstock.controller.planned_changes import (
    PlannedChanges,
    changes_after_failure,
    changes_if_applied,
    changes_if_not_applied,
    reconcile,
)
from penstock.controller.situation import ObservedStream, Situation
from penstock.controller.status.conditions import reports_contest
from penstock.controller.status.planned_status import least_status, status_manifest
from penstock.controller.status.stream_events import event_manifest, image_stopped

log = logging.getLogger(__name__)
T = TypeVar("T")

_MAX_UNSENT_EVENTS = 20
# So long reports alone need no look at all the objects, and a stream is taken to exist: as long as
# a settled stream has no look at all.
_STEADY = timedelta(minutes=5)
# An event that is refused for what it says would hold up all later ones.
_NEVER_TAKEN = (400, 413, 422)
# They only wait, one for each namespace at most.
_THREADS = 64
# Specs whose document is longer stay parsed for so many streams only: they take a MiB and more.
_LARGE_CHARACTERS = 32_768
_LARGE_PARSED = 16


@dataclass(frozen=True)
class _Written:
    """A status as the server left it after the last write."""

    content: str
    contest: Contest


@dataclass
class _Known:
    """What this process remembers about one stream: nothing of another one of the same name."""

    uid: str = ""
    unsent_events: list[Manifest] = field(default_factory=list)
    written: _Written | None = None
    failing_since: datetime | None = None
    parsed: tuple[str, ObservedStream] | None = None
    """As it was parsed last, by a hash of what it was parsed from."""
    steady: tuple[str, datetime] | None = None
    """A hash of what was observed when all objects were as they should be, and until when it stands
    for that."""
    earlier: tuple[str, Revision] | None = None
    """What runs in place of a revision that was given up, by a hash of what it was made from."""
    exists_until: datetime | None = None
    """Until when the stream that the cache shows is taken to exist."""
    stops_image: bool = False
    """Whether an event says that no other stream gets the new image because of this one."""
    driver_pod: tuple[str, str] | None = None
    """The UID and the version of the driver's pod that was last read anew."""

    def has_newer(self, pod: DriverPod | None) -> bool:
        """Whether what the cache shows of the driver's pod is older than what was read, or may be:
        a report that is behind would say again that a query does not run.
        """
        if self.driver_pod is None:
            return False
        uid, version = self.driver_pod
        return pod is None or pod.uid != uid or is_newer(version, pod.version)


class StreamChanged(Exception):
    """The stream was changed or deleted while it was reconciled, so its status was not written."""

    expected = True


def utc_now() -> datetime:
    """The time in whole seconds, as Kubernetes' own timestamps have it."""
    return datetime.now(UTC).replace(microsecond=0)


class Reconciler:
    """Reconciles streams. What matters is in the cluster: the process may be killed any time."""

    def __init__(
        self,
        api: KubernetesApi,
        cache: ObjectCache,
        metrics: OperatorMetrics,
        settings: Settings,
        now: Callable[[], datetime] = utc_now,
        wake: Callable[[Key], None] = lambda key: None,
        is_watched: Callable[[str], bool] = lambda namespace: True,
    ) -> None:
        """`wake` has another stream reconciled soon.

        `is_watched` says whether the streams of a namespace are this operator's.
        """
        self._api = api
        self._cache = cache
        self._metrics = metrics
        self._settings = settings
        self._now = now
        self._is_watched = is_watched
        self._images = ImageRollout(
            settings.spark_image, settings.spark_image_max_unavailable, self._own_images, now, wake
        )
        metrics.show_images(self._images)
        self._applier = Applier(api, now)
        self._known: defaultdict[Key, _Known] = defaultdict(_Known)
        self._running, self._counted_at = 0, datetime.min.replace(tzinfo=UTC)
        """How many streams are Ready, and when they were counted: the others write no numbers."""
        self._parsing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By namespace; each as long as somebody waits for it or holds it."""
        self._threads = ThreadPoolExecutor(_THREADS, "parse")
        self._large: OrderedDict[Key, None] = OrderedDict()
        """The large specs that stay parsed, the last one last."""

    async def reconcile(self, key: Key) -> timedelta | None:
        """Reconciles one stream once and returns when to do it again; None if it is not its own.

        An error that prevents it is in the stream's status before it is raised.

        The cache shows whether there is something to do. If there is, all is read anew, and
        decided once more: a cache that is behind can delay a write, and never cause a wrong one.
        """
        with self._metrics.reconciling() as result, self._images.reconciling(key):
            raw = await self._find(key)
            if raw is None:
                self._forget(key)
                return None
            try:
                planned = await self._decide(key, raw)
                if planned.needs_fresh_reads:
                    fresh = await self._read_anew(key, raw)
                    if fresh is None:
                        self._forget(key)
                        return None
                    raw = fresh
                    planned = await self._decide_and_apply(key, raw)
                result.changed = not planned.changes_nothing
            except Exception as error:
                await self._report(key, raw, error)
                raise
            self._known[key].failing_since = None
            return await self._publish(key, raw, self._with_image(key, planned))

    def _with_image(self, key: Key, planned: PlannedChanges) -> PlannedChanges:
        """The changes, with an event once the stream is why no other one gets the new image."""
        known, stops = self._known[key], self._images.is_stopped_by(key)
        is_new, known.stops_image = stops and not known.stops_image, stops
        if not is_new:
            return planned
        event = image_stopped(self._settings.spark_image)
        return replace(planned, events=(*planned.events, event))

    async def _find(self, key: Key) -> Manifest | None:
        """The stream that the cache shows, or, every few minutes, the API server: a watch may be
        behind.
        """
        raw, now = await self._read(key, self._cache), self._now()
        if raw is None:
            return None
        known = self._known[key]
        known.exists_until = known.exists_until or now + _STEADY
        return raw if now < known.exists_until else await self._read_anew(key, raw)

    async def _read_anew(self, key: Key, seen: Manifest) -> Manifest | None:
        """The stream as it is now. If it is gone, so is what the cache has shown.

        That of a namespace that has just lost its labels stays, for the day when it has them again.
        """
        fresh = await self._read(key, self._api)
        if fresh is None and self._is_watched(key.namespace):
            self._cache.forget_stream(seen)
        self._known[key].exists_until = self._now() + _STEADY
        return fresh

    async def _read(self, key: Key, api: KubernetesReads) -> Manifest | None:
        """The stream; None if there is none that is this operator's."""
        if not self._is_watched(key.namespace):
            return None
        raw = await api.get(kinds.STREAM, key.namespace, key.name)
        if raw is None or Stream(raw).class_name != self._settings.class_name:
            return None
        uid = Stream(raw).uid
        if self._known[key].uid != uid:  # deleted and made again, perhaps before anybody looked
            self._forget(key)
            self._known[key].uid = uid
        return raw

    def _own_images(self) -> Sequence[tuple[Key, StreamImage]]:
        """From any thread."""
        images = self._cache.images()
        return [(key, image) for key, image in images if self._is_watched(key.namespace)]

    def _forget(self, key: Key) -> None:
        self._metrics.forget(key)
        self._images.forget(key)
        self._applier.forget(key)
        self._known.pop(key, None)

    async def _decide(self, key: Key, raw: Manifest) -> PlannedChanges:
        """Decides by the cache. A report of the driver alone costs no look at all the objects."""
        situation = await self._observe(key, raw, self._cache)
        stream, now = situation.stream, situation.now
        image = stream.desired.image if stream.desired is not None else None
        seen = content_hash([stream.without_status, image, situation.children.without_report])
        known = self._known[key]
        is_behind = known.has_newer(situation.pod)
        is_steady = known.steady is not None and known.steady[0] == seen and now < known.steady[1]
        if is_steady and not is_behind:
            return changes_if_applied(situation)
        planned = reconcile(self._applier.with_memory(key, situation))
        known.steady = (seen, now + _STEADY) if planned.steady else None
        return replace(planned, is_behind=is_behind)

    async def _observe(self, key: Key, raw: Manifest, api: KubernetesReads) -> Situation:
        stream = await self._parse(key, raw)
        if rollout.is_given_up(stream):
            if self._images.is_retry_due(key):
                stream = replace(stream, retries_given_up=True)
            else:
                stream = await self._going_back(key, stream)
        desired = stream.desired
        config = naming.config_name(desired.name, desired.pod_hash) if desired else None
        return Situation.of(stream, await observe_children(api, key, config), self._now())

    async def _going_back(self, key: Key, stream: ObservedStream) -> ObservedStream:
        """The stream with the last revision that was Ready as the desired one.

        Without a record of it, or if this operator would not run it, the newest one stays. A text
        that nobody can judge now has run before.
        """
        name = rollout.record_to_go_back_to(stream)
        source, known = content_hash([name, stream.manifest["spec"]]), self._known[key]
        if known.earlier is not None and known.earlier[0] == source:
            return replace(stream, desired=known.earlier[1], given_up=stream.desired)
        record = await self._api.get(kinds.CONTROLLER_REVISION, key.namespace, name)
        if record is None or not Object(record).is_owned_by(stream.uid):
            return stream
        earlier = with_earlier_spec(stream.manifest, record)  # which has an image
        parsed = await self._parse_anew(key, earlier, self._settings)
        if parsed.desired is None or controller_revision_name(parsed.desired) != name:
            return stream
        if parsed.judged:
            known.earlier = source, parsed.desired
        return replace(stream, desired=parsed.desired, given_up=stream.desired)

    async def _decide_and_apply(self, key: Key, raw: Manifest) -> PlannedChanges:
        """Writes the children. What the API server refuses is part of the decision."""
        situation = await self._observe(key, raw, self._api)
        stream, pod = situation.stream, situation.pod
        self._known[key].driver_pod = None if pod is None else (pod.uid, pod.version)
        if not stream.paused and rollout.is_newly_ready(situation):
            recorded = await self._record(key, stream)
            children = replace(situation.children, recorded=recorded)
            situation = replace(situation, children=children, now=self._now())
        situation = self._applier.with_memory(key, situation)
        planned = reconcile(situation)
        may_retry = self._images.may_retry_image(key, stream)
        cause = await self._applier.carry_out(
            key, situation.children, planned.apply, planned.delete, may_retry=may_retry
        )
        if cause is None or stream.terminating:
            return planned
        goes_on = planned.status if cause.only_claim else None
        begun = goes_on.rollout if goes_on is not None else None
        return changes_if_not_applied(replace(situation, now=self._now()), cause, begun=begun)

    async def _record(self, key: Key, stream: ObservedStream) -> bool:
        """Records the desired revision, and deletes the oldest record that is one too many.

        What the API server refuses, such as by a quota, is logged and tried again: the stream runs.
        """
        assert stream.desired is not None
        labels = {naming.LABEL_STREAM: key.name, naming.LABEL_COMPONENT: naming.COMPONENT_REVISION}
        try:
            manifests = await self._api.list(kinds.CONTROLLER_REVISION, key.namespace, labels)
            records = owned_by(stream.uid, map(ControllerRevision, manifests))
            record = rollout.record_to_write(
                stream.desired, records, names_image=bool(stream.image)
            )
            if record is not None:
                await self._api.apply(record, force=True)
                for ref in rollout.records_to_delete(records, Object(record).name):
                    await self._api.delete(ref)
        except ApiError as error:
            log.warning("%s: the spec that is Ready was not recorded: %s", key, error)
            return False
        return True

    async def _parse(self, key: Key, raw: Manifest) -> ObservedStream:
        """Parses a stream in a thread, which waits for the process that judges the stream's texts.

        One at a time for a namespace, so that a tenant with many slow texts delays no other.
        """
        if self._images.needs_revision(key, Stream(raw)):
            await self._in_thread(key, partial(self._images.learn_revision, key, Stream(raw)))
        default_image = self._images.image_for(key, Stream(raw))
        interval = self._numbers_interval()
        source = content_hash([ObservedStream(raw).without_status, default_image])
        before = self._known[key].parsed
        if before is not None and before[0] == source:
            return replace(before[1], manifest=raw, numbers_interval=interval)
        settings = replace(self._settings, spark_image=default_image)
        parsed = await self._parse_anew(key, raw, settings)
        parsed = replace(parsed, numbers_interval=interval)
        if parsed.desired is not None and parsed.judged:
            self._known[key].parsed = (source, replace(parsed, manifest={}))
            self._forget_large(key, parsed.desired)
        return parsed

    def _forget_large(self, key: Key, desired: Revision) -> None:
        """Of large specs, which take ten times their size, only some stay parsed."""
        self._large.pop(key, None)
        if len(desired.document) > _LARGE_CHARACTERS:
            self._large[key] = None
        while len(self._large) > _LARGE_PARSED:
            last, _ = self._large.popitem(last=False)
            self._known[last].parsed = None

    def _numbers_interval(self) -> timedelta:
        """How often one status gets new numbers: the more streams run, the rarer."""
        now = self._now()
        if now != self._counted_at:  # each second
            self._counted_at = now
            self._running = sum(image.ready for _, image in self._own_images())
        return numbers_interval(self._settings.numbers_interval, self._running)

    async def _parse_anew(self, key: Key, raw: Manifest, settings: Settings) -> ObservedStream:
        return await self._in_thread(key, partial(parse_stream, raw, settings))

    async def _in_thread(self, key: Key, work: Callable[[], T]) -> T:
        lock = self._parsing.setdefault(key.namespace, asyncio.Lock())
        async with lock:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _publish(self, key: Key, raw: Manifest, planned: PlannedChanges) -> timedelta | None:
        """Creates the events, then writes the status. Returns when to reconcile again.

        An event's name depends on the status that it follows. So one that is created again,
        because the operator died before it wrote the status, is the same event.
        """
        stream = ObservedStream(raw)
        written = self._known[key].written
        wait = written.contest.wait if written is not None else None
        if (
            wait is not None
            and planned.status is not None
            and not reports_contest(stream.status, planned.status)
        ):
            log.info("%s: another client keeps changing the status: a second operator?", key)
            return wait
        await self._create_events(key, stream, planned)
        shown = planned.status
        if planned.status_manifest is not None:
            stored, shown = await self._write_status(key, stream, planned)
            self._cache.wrote(stored)
            if planned.status is not None and planned.status.rollout != stream.status.rollout:
                self._images.count()
            if written is None:
                written = _Written("", Contest(self._now))
            elif written.content != content_hash(raw.get("status")):
                written.contest.undone()
            content = content_hash(stored.get("status"))
            self._known[key].written = replace(written, content=content)
        if shown is not None:
            self._metrics.show(key, shown, stream.commit_interval)
        return planned.requeue_after

    async def _create_events(
        self, key: Key, stream: ObservedStream, planned: PlannedChanges
    ) -> None:
        """Creates the events; those that the API server cannot take now, at the next reconcile."""
        for event in planned.events:
            log.info("%s: %s: %s", key, event.reason, event.note)
        new = [event_manifest(event, stream, self._now()) for event in planned.events]
        known = self._known[key]
        unsent, known.unsent_events = [*known.unsent_events, *new], []
        for number, manifest in enumerate(unsent):
            try:
                await self._api.create_event(manifest)
            except ApiError as error:
                log.warning("%s: no event was created: %s", key, error)
                if error.code in _NEVER_TAKEN:
                    continue
                known.unsent_events = unsent[number:][-_MAX_UNSENT_EVENTS:]
                return

    async def _write_status(
        self, key: Key, stream: ObservedStream, planned: PlannedChanges
    ) -> tuple[Manifest, StreamStatus | None]:
        """Writes the status; the least of it if the API server refuses the whole.

        Returns the object as it is then, and the status, which says so.
        """
        assert planned.status_manifest is not None
        try:
            return await self._api.apply_status(planned.status_manifest), planned.status
        except ApiError as error:
            if error.code in (404, 409):
                self._cache.forget_stream(stream.manifest)
                raise StreamChanged("the stream has changed since it was read") from error
            # A field that an older CRD does not have is an internal error of the API server.
            if not (error.refused or error.code == 500) or planned.status is None:
                raise
            log.error("%s: the API server refused the status: %s", key, error)
            least = least_status(stream, planned.status, error.message)
            stored = await self._api.apply_status(status_manifest(stream, least))
            return stored, planned.status.model_copy(update={"conditions": least.conditions})

    async def _report(self, key: Key, raw: Manifest, error: Exception) -> None:
        """Writes into the status that the stream could not be reconciled."""
        try:
            now = self._now()
            since = self._known[key].failing_since or now
            self._known[key].failing_since = since
            await self._publish(
                key, raw, changes_after_failure(ObservedStream(raw), error, now, since)
            )
        except Exception as second:
            log.warning("%s: the status could not be written: %s", key, second)
