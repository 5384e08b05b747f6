"""Applies the objects of streams, and remembers what the API server made of them.

The memory only saves requests: without it, after a restart of the operator, an object whose fields
the API server spells differently is applied once more, which changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from penstock.cluster.kinds import Key, Manifest, Ref
from penstock.cluster.lenient_fields import at, text
from penstock.cluster.objects import Object
from penstock.cluster.rest_api import ApiError
from penstock.contract import naming
from penstock.controller.children.diff import applied_hash, content_hash
from penstock.controller.kubernetes.api_client import KubernetesApi
from penstock.controller.situation import ObservedChildren, Situation
from penstock.controller.status.not_applied import CHANGED_BY_OTHERS, NotApplied, foreign_object

log = logging.getLogger(__name__)

_FIRST_RETRY = timedelta(seconds=1)
_LAST_RETRY = timedelta(minutes=1)
# How long a write that failed before waits for its turn.
_TURN = timedelta(seconds=5)
# Others may undo a write this often before the operator takes its time.
_UNDONE = 5
_FIRST_DELAY = timedelta(seconds=4)
_LAST_DELAY = timedelta(minutes=5)
_FORGET_AFTER = timedelta(minutes=10)


@dataclass
class Contest:
    """One thing that the operator writes, and how often other clients undid that.

    Two operators that are configured differently would otherwise answer each other at full speed.
    """

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


@dataclass(frozen=True)
class _Failure:
    """A request that failed, and may be repeated when it is due."""

    since: datetime
    cause: NotApplied
    due: datetime
    count: int


@dataclass
class _Object:
    """An object as the server left it after the last apply."""

    applied: str
    content: str
    contest: Contest


class Applier:
    """Applies and deletes the objects of streams, each failure with a back-off of its own.

    The back-off holds only the writes: a stream's status is still reported meanwhile. It ends when
    another manifest is to be applied, for that is another request.
    """

    def __init__(self, api: KubernetesApi, now: Callable[[], datetime]) -> None:
        self._api = api
        self._now = now
        self._failures: dict[Key, dict[str, _Failure]] = {}
        """Those of the last time, by what was requested."""
        self._objects: dict[Key, dict[str, _Object]] = {}

    def forget(self, key: Key) -> None:
        self._failures.pop(key, None)
        self._objects.pop(key, None)

    def with_memory(self, key: Key, situation: Situation) -> Situation:
        """The situation, with those objects marked that are as the server left them."""
        children_by_uid = {child.uid: child for child in situation.children.applied()}
        known = {uid: e for uid, e in self._objects.get(key, {}).items() if uid in children_by_uid}
        self._objects[key] = known
        settled = {
            uid: entry.applied
            for uid, entry in known.items()
            if entry.content == _content(children_by_uid[uid].manifest)
        }
        return replace(situation, children=replace(situation.children, settled=settled))

    async def carry_out(
        self,
        key: Key,
        children: ObservedChildren,
        to_apply: tuple[Manifest, ...],
        to_delete: tuple[Ref, ...],
        *,
        may_retry: bool = True,
    ) -> NotApplied | None:
        """Writes in this order. Returns what failed, now or before, and holds the writes back.

        `may_retry`: what has failed before may be repeated, once it is due.
        """
        known, failures = self._failures.get(key, {}), dict[str, _Failure]()
        if not may_retry:
            soon = self._now() + _TURN
            known = {it: replace(old, due=max(old.due, soon)) for it, old in known.items()}
        self._failures[key] = failures
        held = None
        for manifest in to_apply:
            what = str(Object(manifest))
            observed = children.find(manifest)
            contested = self._contested(key, manifest, observed)
            if contested is not None:
                held = held or contested
                continue
            action = f"apply {what} {applied_hash(manifest)}"
            request = partial(self._apply, key, manifest, observed)
            failure = await self._attempt(
                key, action, what, request, known.get(action), created=observed is None
            )
            if failure is not None:
                failures[action] = failure
                held = self._until(failure.due, failure.cause)
                if not children.is_existing_claim(manifest):
                    return held
                held = replace(held, only_claim=True)
        for ref in to_delete:
            what = f"{ref.kind.kind} {ref.name}"
            action = f"delete {what} {ref.uid}"
            request = partial(self._api.delete, ref)
            failure = await self._attempt(key, action, what, request, known.get(action))
            if failure is not None:
                failures[action] = failure
                return self._until(failure.due, failure.cause)
        return held

    def _until(self, due: datetime, cause: NotApplied) -> NotApplied:
        return replace(cause, retry_in=due - self._now())

    async def _attempt(
        self,
        key: Key,
        action: str,
        what: str,
        request: Callable[[], Awaitable[None]],
        before: _Failure | None,
        *,
        created: bool = False,
    ) -> _Failure | None:
        """Sends a request, unless it failed before and its back-off lasts. Returns its failure."""
        if before is not None and before.due > self._now():
            return before
        log.info("%s: %s", key, action)
        try:
            await request()
        except ApiError as error:
            log.warning("%s: %s: %s", key, action, error)
            return self._failure(what, error, before, created=created)
        return None

    async def _apply(self, key: Key, manifest: Manifest, observed: Object | None) -> None:
        """Applies a manifest to the object that was observed, or else to none that others wrote."""
        if observed is not None:
            meta = {**manifest["metadata"], "uid": observed.uid}
            sent = {**manifest, "metadata": meta}
        else:
            sent = manifest
            await self._refuse_others(manifest)
        stored = await self._api.apply(sent, force=observed is not None)
        known = self._objects.setdefault(key, {})
        uid, applied = Object(stored).uid, applied_hash(manifest)
        entry = known.get(uid)
        if entry is None or entry.applied != applied:
            known[uid] = _Object(applied, _content(stored), Contest(self._now))
            return
        entry.content = _content(stored)
        if observed is not None and _content(observed.manifest) != entry.content:
            # It had been changed by another client, and was restored.
            entry.contest.undone()

    async def _refuse_others(self, manifest: Manifest) -> None:
        """Fails if an object exists that was not observed, such as a ConfigMap without our label.

        An apply without force would fail too, but only if both set the same field.
        """
        new = Object(manifest)
        if await self._api.get(new.kind, new.namespace, new.name) is not None:
            raise ApiError(409, "AlreadyExists", "another client created it")

    def _contested(
        self, key: Key, manifest: Manifest, observed: Object | None
    ) -> NotApplied | None:
        """Why an object is not restored yet, if another client keeps changing it."""
        entry = self._objects.get(key, {}).get(observed.uid) if observed else None
        if observed is None or entry is None or entry.applied != applied_hash(manifest):
            return None
        wait = entry.contest.wait
        if wait is None:
            return None
        since = entry.contest.since
        managers = _other_managers(observed)
        who = f" ({', '.join(managers)})" if managers else ""
        return NotApplied(
            CHANGED_BY_OTHERS,
            f"Another client{who} keeps changing the {Object(manifest)}, so the operator restores "
            f"it less and less often. Stop that client. If it is a second Penstock operator, give "
            f"each operator namespaces (watchNamespaces) or a class (className) of its own",
            retried=True,
            since=since,
            retry_in=wait,
        )

    def _failure(
        self, what: str, error: ApiError, before: _Failure | None, *, created: bool
    ) -> _Failure:
        now = self._now()
        since, count = (before.since, before.count + 1) if before else (now, 1)
        if created and error.code == 409:
            cause = foreign_object(what, f": {error.message}")
        elif error.refused:
            # Somebody may have recreated it with fields that nobody can change.
            is_immutable = not created and error.code == 422
            remedy = (
                f". If somebody has recreated the {what}, delete it. Then the operator restores it"
            )
            cause = NotApplied(
                "ApplyRefused",
                f"The API server refused the {what}. The operator retries. An earlier spec keeps "
                f"running: {error.message}{remedy if is_immutable else ''}",
                retried=False,
                since=since,
            )
        else:
            cause = NotApplied(
                "ApplyFailed",
                f"The operator could not write the {what} and retries. An earlier spec keeps "
                f"running. If this lasts, look at the API server and its admission webhooks: "
                f"{error}",
                retried=True,
                since=since,
            )
        delay = min(_LAST_RETRY, _FIRST_RETRY * 2.0 ** min(count - 1, 20))
        delay = max(delay, timedelta(seconds=error.retry_after or 0))
        return _Failure(since, cause, now + delay, count)


def _content(manifest: Manifest) -> str:
    """A hash of what a client can write of an object: without status and bookkeeping."""
    meta = {
        name: at(manifest, "metadata", name)
        for name in ("labels", "annotations", "ownerReferences")
    }
    rest = {name: manifest[name] for name in manifest if name not in ("metadata", "status")}
    return content_hash([meta, rest])


def _other_managers(observed: Object) -> list[str]:
    """The clients other than the operator that wrote more than a status of an object."""
    managers = {
        text(entry.get("manager")) for entry in observed.managed if not entry.get("subresource")
    }
    return sorted(managers - {"", naming.FIELD_MANAGER})
