"""Shows the cache all objects of a kind: a list in pages, then the changes, for ever."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable

from penstock.cluster.kinds import Key, Kind
from penstock.cluster.lenient_fields import at, text
from penstock.cluster.objects import Object
from penstock.cluster.rest import ApiError
from penstock.controller.kubernetes.api_client import KubernetesApiClient
from penstock.controller.kubernetes.object_cache import ObjectCache

log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 20.0


class Watch:
    """The watch of one kind, in one namespace or (empty) in all."""

    def __init__(
        self,
        api: KubernetesApiClient,
        cache: ObjectCache,
        kind: Kind,
        namespace: str,
        selector: str,
        on_change: Callable[[Key], None],
    ) -> None:
        self.kind = kind
        self.listed = asyncio.Event()
        """Set once the cache has everything."""
        self._heard = time.monotonic()
        self._api, self._cache, self._on_change = api, cache, on_change
        self._namespace, self._selector = namespace, selector

    @property
    def age(self) -> float:
        """For how many seconds the API server has sent nothing. From any thread."""
        return time.monotonic() - self._heard

    async def run(self) -> None:
        """Watches for ever. What fails is tried again: a right may be missing for a while only."""
        version, failures = "", 0
        while True:
            try:
                if not version:
                    version = await self._list()
                version = await self._follow(version)
                failures = 0
            except ApiError as error:
                if error.code == 410:
                    version = ""  # what is known stays, so that only what differs is looked at
                failures += 1
                wait = min(_LAST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 5))
                wait = max(wait, error.retry_after or 0.0)
                log.warning("watching %s: %s; again in %.0f s", self.kind.plural, error, wait)
                await asyncio.sleep(random.uniform(wait / 2, wait))  # noqa: S311 - spreads load

    async def _list(self) -> str:
        version, keys = "", set[Key]()
        async for page, since in self._api.pages(self.kind, self._namespace, self._selector):
            version = since
            self._heard = time.monotonic()
            for manifest in page:
                keys.add(Object(manifest).key)
                self._changed(self._cache.put(manifest, listed=True))
            await asyncio.sleep(0)  # a large cluster has many pages, and others wait
        for stream in self._cache.retain(self.kind, self._namespace, keys):
            self._changed(stream)
        self.listed.set()
        return version

    async def _follow(self, version: str) -> str:
        """Takes the changes after a version, and returns up to which one."""
        events = self._api.events(self.kind, self._namespace, self._selector, version)
        try:
            async for change, found in events:
                self._heard = time.monotonic()
                version = text(at(found, "metadata", "resourceVersion")) or version
                if change in ("ADDED", "MODIFIED"):
                    self._changed(self._cache.put(found))
                elif change == "DELETED":
                    self._changed(self._cache.remove(found))
        except ApiError as error:
            if error.code:
                raise
            # The connection broke, or was silent: the rest comes over another one.
            log.info("watching %s: %s", self.kind.plural, error)
            await asyncio.sleep(random.uniform(0.5, 1))  # noqa: S311 - spreads load
        return version

    def _changed(self, stream: Key | None) -> None:
        if stream is not None:
            self._on_change(stream)
