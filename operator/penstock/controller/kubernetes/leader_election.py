"""Lets one of several operators write at a time, by a Lease, as Kubernetes' own controllers do.

The election is the Kubernetes client's own. It times by the wall clock and waits for an answer
without a limit; the lock below adds the monotonic clock and a limit.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration, V1Lease, V1ObjectMeta
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelection import LeaderElection as ClientElection
from kubernetes.aio.leaderelection.leaderelectionrecord import LeaderElectionRecord
from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

from penstock.contract.operator_settings import ElectionTimes

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Timing:
    """Seconds of the election."""

    lease: float
    """Without a renewal for so long, another candidate takes over."""
    renew_deadline: float
    """Without a renewal for so long, the leader stops to write. Shorter than `lease`."""
    retry: float
    """Shorter than `renew_deadline`."""
    request: float
    """Until a request counts as failed."""

    @classmethod
    def of(cls, times: ElectionTimes) -> Timing:
        """With requests that end before another candidate may begin."""
        lease, renew_deadline = times.lease_duration_seconds, times.renew_deadline_seconds
        return cls(
            lease,
            renew_deadline,
            times.retry_period_seconds,
            request=0.8 * (lease - renew_deadline),
        )


@dataclass(frozen=True)
class LeaseName:
    """Which Lease the operators of one release share, and its times."""

    namespace: str
    name: str
    timing: Timing = Timing.of(ElectionTimes())  # noqa: RUF009 — a frozen value


class LeaderElection:
    """Tells whether this process may write, and takes part in the election meanwhile."""

    def __init__(
        self,
        configuration: Configuration,
        lease: LeaseName,
    ) -> None:
        self._configuration = configuration
        self._lease = lease
        self._timing = lease.timing
        self._term = Term()
        self.identity = f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"

    def leads(self) -> bool:
        """Whether this process may write now. It turns False by itself without a renewal."""
        return self._term.lasts

    @asynccontextmanager
    async def campaign(
        self, on_elected: Callable[[], None], on_lost: Callable[[], None]
    ) -> AsyncIterator[None]:
        """Takes part in the election until the block ends, and gives the lease back then."""
        # The client logs every failed attempt with its traceback.
        logging.getLogger("kubernetes.aio.leaderelection").setLevel(logging.CRITICAL)
        self._term.on_begin = partial(self._begin, on_elected)
        async with ApiClient(self._configuration) as client:
            lock = BoundedLeaseLock(self._lease, self.identity, client, self._term)
            task = asyncio.create_task(self._campaign(lock, on_lost))
            try:
                yield
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                await lock.release()

    def _begin(self, on_elected: Callable[[], None]) -> None:
        log.info("%s leads now, by the Lease %s", self.identity, self._lease.name)
        on_elected()

    async def _campaign(self, lock: BoundedLeaseLock, on_lost: Callable[[], None]) -> None:
        """Takes part in one election after another."""

        async def started() -> None:
            """The term has begun already: it may also begin anew while the client leads."""

        async def stopped() -> None:
            self._term.end()
            log.warning("%s leads no longer", self.identity)
            on_lost()

        timing = self._timing
        while True:
            config = Config(
                lock, timing.lease, timing.renew_deadline, timing.retry, started, stopped
            )
            try:
                await ClientElection(config).run()
            except Exception:
                self._term.end()
                log.exception("%s takes part in the election again", self.identity)
                await asyncio.sleep(timing.retry)


class Term:
    """Until when a leader may write.

    Slow answers of the API server can let it end and begin again between two renewals of one Lease.
    """

    def __init__(self) -> None:
        self._until = float("-inf")
        self.on_begin: Callable[[], None] = lambda: None

    @property
    def lasts(self) -> bool:
        return time.monotonic() < self._until

    def extend(self, until: float) -> None:
        """Extends the term until a moment of the monotonic clock, or begins one."""
        begins = not self.lasts
        self._until = until
        if begins and self.lasts:
            self.on_begin()

    def end(self) -> None:
        self._until = float("-inf")


class BoundedLeaseLock(LeaseLock):  # type: ignore[misc]
    """The client's lock on a Lease, whose requests end in time, and whose clock never jumps."""

    def __init__(self, lease: LeaseName, identity: str, client: ApiClient, term: Term) -> None:
        super().__init__(lease.name, lease.namespace, identity, client)
        self._term = term
        self._timing = lease.timing
        self._seen: LeaderElectionRecord | None = None
        self._seen_at = 0.0

    async def get(
        self, name: str, namespace: str
    ) -> tuple[bool, LeaderElectionRecord | Exception | None]:
        """The record in the Lease. It ends the term if another process holds the Lease."""
        exists, record = await self._answer(
            super().get(name, namespace), (False, ApiException(reason="the API server is away"))
        )
        if exists:
            self._observe(record)
        return exists, record

    async def create(
        self, name: str, namespace: str, election_record: LeaderElectionRecord
    ) -> bool:
        return await self._renew(self._create(name, namespace, election_record))

    async def _create(self, name: str, namespace: str, record: LeaderElectionRecord) -> bool:
        # The client's own passes `pretty=True`, which its typed API refuses (37.0.2).
        lease = V1Lease(metadata=V1ObjectMeta(name=name), spec=self.update_lease(record))
        try:
            await self.api_instance.create_namespaced_lease(namespace, lease)
        except ApiException as error:
            log.warning("the Lease %s was not created: %s", name, error.reason)
            return False
        return True

    async def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        """Renews the Lease, or takes it from a holder that has not renewed it for its duration."""
        if not self._is_free():
            return False
        return await self._renew(super().update(name, namespace, updated_record))

    async def release(self) -> None:
        """Gives the Lease back, so that another process need not wait for its end."""
        if not self._term.lasts:
            return
        self._term.end()
        await self.get(self.name, self.namespace)
        if self._seen is None or self._seen.holder_identity != self.identity:
            return
        self.lease_reference.spec.holder_identity = None
        replace = self.api_instance.replace_namespaced_lease(
            self.name, self.namespace, self.lease_reference
        )
        with suppress(ApiException):
            await self._answer(replace, None)

    def _observe(self, record: LeaderElectionRecord) -> None:
        seen = self._seen
        if seen is None or vars(seen) != vars(record):
            self._seen, self._seen_at = record, time.monotonic()
        if record.holder_identity != self.identity:
            self._term.end()

    def _is_free(self) -> bool:
        holder = self._seen.holder_identity if self._seen else None
        if not holder or holder == self.identity:
            return True
        return time.monotonic() - self._seen_at >= self._timing.lease

    async def _renew(self, request: Awaitable[bool]) -> bool:
        began = time.monotonic()
        renewed = await self._answer(request, False)
        if renewed:
            self._term.extend(began + self._timing.renew_deadline)
        return renewed

    async def _answer(self, request: Awaitable[T], otherwise: T) -> T:
        try:
            async with asyncio.timeout(self._timing.request):
                return await request
        except (TimeoutError, aiohttp.ClientError, OSError):
            return otherwise
