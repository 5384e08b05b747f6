"""Reconciles one stream at a time: observes, decides and acts, and keeps no state."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from penstock.controller import objects
from penstock.controller.children.settings import Settings
from penstock.controller.decision import Decision, reconcile, refused
from penstock.controller.kubernetes_api import ApiError, KubernetesApi
from penstock.controller.metrics import Metrics
from penstock.controller.objects import Key, Manifest
from penstock.controller.observed.children import ObservedChildren, observe_children
from penstock.controller.observed.stream import ObservedStream, parse_stream
from penstock.controller.status.events import event_manifest

log = logging.getLogger(__name__)

_REQUEUE_AFTER_REFUSAL = timedelta(seconds=30)


def utc_now() -> datetime:
    """The time in whole seconds, as Kubernetes' own timestamps have it."""
    return datetime.now(UTC).replace(microsecond=0)


class Reconciler:
    """Reconciles streams. All state is in the cluster: the process may be killed at any point."""

    def __init__(
        self,
        api: KubernetesApi,
        metrics: Metrics,
        settings: Settings,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._settings = settings
        self._now = now

    async def reconcile(self, key: Key) -> timedelta | None:
        """Reconciles one stream once and returns when to do it again."""
        with self._metrics.reconciling() as result:
            raw = await self._api.get(objects.STREAM, key.namespace, key.name)
            if raw is None:
                self._metrics.forget(key)
                return None
            stream = parse_stream(raw, self._settings)
            children = await observe_children(self._api, key)
            decision = reconcile(stream, children, self._now())
            result.changed = not decision.changes_nothing
            return await self._act(key, stream, children, decision)

    async def _act(
        self, key: Key, stream: ObservedStream, children: ObservedChildren, decision: Decision
    ) -> timedelta | None:
        """Writes the children, then the status, then events, so that a later reconcile can
        complete what a crash interrupts."""
        requeue_after = decision.requeue_after
        try:
            await self._apply(key, decision)
        except ApiError as error:
            if not error.refused:
                raise
            log.warning("%s: %s", key, error)
            decision = refused(stream, children, error.message, self._now())
            requeue_after = _REQUEUE_AFTER_REFUSAL
        if decision.status_manifest is not None and not await self._write(decision.status_manifest):
            return timedelta(0)
        if decision.status is not None:
            self._metrics.show(key, decision.status)
        for event in decision.events:
            log.info("%s: %s: %s", key, event.reason, event.note)
            await self._api.create_event(event_manifest(event, stream, self._now()))
        return requeue_after

    async def _write(self, status: Manifest) -> bool:
        """Writes the status, unless the stream has changed since it was read."""
        try:
            await self._api.apply_status(status)
        except ApiError as error:
            if error.code not in (404, 409):  # deleted or changed: reconcile again
                raise
            return False
        return True

    async def _apply(self, key: Key, decision: Decision) -> None:
        for manifest in decision.apply:
            log.info("%s: apply %s %s", key, manifest["kind"], manifest["metadata"]["name"])
            await self._api.apply(manifest)
        for ref in decision.delete:
            log.info("%s: delete %s %s", key, ref.kind.kind, ref.name)
            await self._api.delete(ref)
