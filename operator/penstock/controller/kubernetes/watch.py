"""Shows the cache all objects of a kind: a list in pages, then the changes, for ever."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from penstock.cluster.kinds import Key, Kind, Manifest
from penstock.cluster.lenient_fields import at, text
from penstock.cluster.objects import Object
from penstock.cluster.rest_api import ApiError
from penstock.controller.kubernetes.api_client import KubernetesApiClient

log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 20.0
# The API server ends an answer after minutes. A shorter one is a failure.
_SHORT_SECONDS = 1.0
# The version is too old, or what follows it is too large: a list is past it.
_LIST_ANEW = (410, 413)


class ShownObjects(Protocol):
    """What a watch fills. Each method returns what is to be looked at again."""

    def put(self, manifest: Manifest, *, listed: bool = False) -> Key | None: ...

    def remove(self, manifest: Manifest) -> Key | None: ...

    def retain(self, kind: Kind, namespace: str, listed: Iterable[Key]) -> Sequence[Key]: ...


class Watch:
    """The watch of one kind, in one namespace or (empty) in all."""

    def __init__(
        self,
        api: KubernetesApiClient,
        shown: ShownObjects,
        kind: Kind,
        namespace: str,
        selector: str,
        on_change: Callable[[Key], None],
    ) -> None:
        self.kind = kind
        self.listed = asyncio.Event()
        """Set once the cache has everything."""
        self._heard = time.monotonic()
        self._version = ""
        """Up to which version the cache has everything; empty before a list."""
        self._failures = 0
        """In a row, since the last event or bookmark."""
        self._api, self._shown, self._on_change = api, shown, on_change
        self._namespace, self._selector = namespace, selector

    @property
    def age(self) -> float:
        """For how many seconds the API server has sent nothing. From any thread."""
        return time.monotonic() - self._heard

    async def run(self) -> None:
        """Watches for ever. What fails is tried again: a right may be missing for a while only."""
        while True:
            try:
                if not self._version:
                    await self._list()
                begun = time.monotonic()
                await self._follow()
                if time.monotonic() - begun < _SHORT_SECONDS:
                    await self._pause("the answer ended at once")
            except ApiError as error:
                if error.code in _LIST_ANEW:
                    self._version = ""  # what is known stays: only what differs is looked at
                await self._pause(error, error.retry_after or 0.0)
            except Exception as error:  # one object must not end the operator
                self._version = ""
                log.exception("watching %s", self.kind.plural)
                await self._pause(type(error).__name__)

    async def _pause(self, cause: object, least: float = 0.0) -> None:
        """Waits after a failure, the longer the more there were since the last event."""
        wait = min(_LAST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2.0 ** min(self._failures, 5))
        wait = max(wait, least)
        self._failures += 1
        log.warning("watching %s: %s; again in %.0f s", self.kind.plural, cause, wait)
        await asyncio.sleep(random.uniform(wait / 2, wait))  # noqa: S311 - spreads load

    async def _list(self) -> None:
        version, keys = "", set[Key]()
        async for page, since in self._api.pages(self.kind, self._namespace, self._selector):
            version = since
            self._heard = time.monotonic()
            for manifest in page:
                keys.add(Object(manifest).key)
                self._changed(self._shown.put(manifest, listed=True))
            await asyncio.sleep(0)  # a large cluster has many pages, and others wait
        for key in self._shown.retain(self.kind, self._namespace, keys):
            self._changed(key)
        self.listed.set()
        self._version = version

    async def _follow(self) -> None:
        """Takes the changes after the version, until the answer ends."""
        events = self._api.events(self.kind, self._namespace, self._selector, self._version)
        async for change, manifest in events:
            self._heard, self._failures = time.monotonic(), 0
            if change in ("ADDED", "MODIFIED"):
                self._changed(self._shown.put(manifest))
            elif change == "DELETED":
                self._changed(self._shown.remove(manifest))
            self._version = text(at(manifest, "metadata", "resourceVersion")) or self._version

    def _changed(self, key: Key | None) -> None:
        if key is not None:
            self._on_change(key)
