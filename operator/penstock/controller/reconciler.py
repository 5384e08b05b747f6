"""Carries decisions out: observe, decide, act; one stream at a time, and nothing remembered."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from penstock.controller import objects
from penstock.controller.decision import Decision, reconcile, refused
from penstock.controller.kubernetes_api import ApiError, Cluster
from penstock.controller.metrics import Metrics
from penstock.controller.objects import Key, Manifest
from penstock.controller.observed.state import Observed, observe
from penstock.controller.status.events import as_event

log = logging.getLogger(__name__)

_AFTER_REFUSAL = timedelta(seconds=30)


def utc_now() -> datetime:
    """The time to the second, which is what Kubernetes' own timestamps hold."""
    return datetime.now(UTC).replace(microsecond=0)


class Reconciler:
    """Reconciles streams. All that matters is in the cluster: it may be killed at any point."""

    def __init__(
        self,
        cluster: Cluster,
        metrics: Metrics,
        default_image: str,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._default_image = default_image
        self._now = now

    async def reconcile(self, key: Key) -> timedelta | None:
        """One look at a stream; the result is when to look again."""
        with self._metrics.reconciling() as result:
            raw = await self._cluster.get(objects.STREAM, key.namespace, key.name)
            if raw is None:
                self._metrics.forget(key)
                return None
            observed = await observe(self._cluster, key)
            decision = reconcile(raw, observed, self._now(), self._default_image)
            result.changed = not decision.changes_nothing
            return await self._act(key, raw, observed, decision)

    async def _act(
        self, key: Key, raw: Manifest, observed: Observed, decision: Decision
    ) -> timedelta | None:
        """Children first, status next, events last: a crash in between is made up for later."""
        again = decision.look_again_after
        try:
            await self._apply(key, decision)
        except ApiError as error:
            if not error.refused:
                raise
            log.warning("%s: %s", key, error)
            decision = refused(raw, observed, error.message, self._now())
            again = _AFTER_REFUSAL
        if decision.status is not None and not await self._write(decision.status):
            return timedelta(0)
        if decision.standing is not None:
            self._metrics.show(key, decision.standing)
        for notice in decision.notices:
            log.info("%s: %s: %s", key, notice.reason, notice.note)
            await self._cluster.create_event(as_event(notice, raw, self._now()))
        return again

    async def _write(self, status: Manifest) -> bool:
        """Writes the status, unless the stream is no longer the one it was judged from."""
        try:
            await self._cluster.apply_status(status)
        except ApiError as error:
            if error.code not in (404, 409):  # deleted, or changed: look again
                raise
            return False
        return True

    async def _apply(self, key: Key, decision: Decision) -> None:
        for manifest in decision.apply:
            log.info("%s: apply %s %s", key, manifest["kind"], manifest["metadata"]["name"])
            await self._cluster.apply(manifest)
        for ref in decision.delete:
            log.info("%s: delete %s %s", key, ref.kind.kind, ref.name)
            await self._cluster.delete(ref)
