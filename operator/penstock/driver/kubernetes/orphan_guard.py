"""Ends a driver whose pod is gone while its process still runs, and only such a driver.

A node that is cut off, or whose kubelet has ended, runs the containers of pods that Kubernetes has
removed ("force deletions do not wait for confirmation from the kubelet": Kubernetes, "Force Delete
StatefulSet Pods"). The next driver waits for the lock of the checkpoint, which this one holds.

A token ends with its pod, but also with its ServiceAccount ("bound service account tokens":
Kubernetes, "Managing Service Accounts"), and the API server may reject all tokens for a while. The
answer is 401 in each case. A query needs the API server for nothing but new executors, so it keeps
running while there are signs that the pod exists.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus

from penstock.cluster.rest_api import ApiError
from penstock.contract import naming
from penstock.contract.driver_report import API_SERVER_UNAUTHORIZED
from penstock.driver.failures import Failure
from penstock.driver.kubernetes.api import Api
from penstock.driver.logs import log_event

_GONE = Failure(
    "DriverPodReplaced",
    "The API server no longer has the pod of this driver, so another driver may start, and this "
    "one ends.",
)


class Answer(Enum):
    """What the API server says about the driver's own pod."""

    EXISTS = auto()
    GONE = auto()
    UNAUTHORIZED = auto()
    """401: the pod is gone, or its ServiceAccount is another one, or no token is accepted."""
    UNKNOWN = auto()
    """The API server is away, or answers with an error that says nothing about the pod."""


@dataclass(frozen=True)
class Look:
    """What the driver can see of its own pod at one moment."""

    now: float
    """On the monotonic clock."""
    answer: Answer
    token: str = ""
    """The token in the pod's volume. The kubelet gets another one only for a pod that exists."""
    probed_at: float = 0.0
    """When the kubelet last probed the driver: it ends the processes of a pod that is gone."""
    successor_waits: bool = False
    """Whether another driver waits for the lock of the checkpoint."""
    needs_executors: bool = False
    """Whether the query is not running, and will not without the API server."""


@dataclass(frozen=True)
class Doubt:
    """Since when the answers, one after another, leave it in doubt that the pod exists."""

    token: str = ""
    since: float | None = None
    gone_since: float | None = None
    """Since the API server has said that the pod is gone, and not only that it does not know."""
    needed_since: float | None = None
    """Since when the query has needed executors."""


@dataclass(frozen=True)
class OrphanGuard:
    """Decides whether the driver must end. Times in seconds."""

    ask_interval: float = 15.0
    gone_after: float = 30.0
    """How long every answer is the same before the driver ends: longer than a start of the API
    server, while which it may refuse a valid token. One that is away in between may be starting
    again and again."""
    unprobed_after: float = 30.0
    """The kubelet probes every two seconds."""
    needed_after: float = 60.0
    """How long a query without executors waits for a token that is accepted. The driver cannot
    report meanwhile; the message with which it ends needs no token."""
    unproved_after: float = 3600.0
    """The kubelet renews a token after 48 minutes (80 % of 3607 s), so that by now it is cut off
    itself, or the pod is gone."""

    def judge(self, doubt: Doubt, look: Look) -> tuple[Doubt, Failure | None]:
        """What is in doubt now, and why the driver must end; None while it need not.

        >>> from dataclasses import replace
        >>> guard, rejected = OrphanGuard(), Look(0.0, Answer.UNAUTHORIZED, probed_at=0.0)
        >>> doubt, failure = guard.judge(Doubt(), rejected)
        >>> guard.judge(doubt, replace(rejected, now=30.0, probed_at=29.0))[1]
        >>> guard.judge(doubt, replace(rejected, now=30.0))[1].reason
        'ApiServerUnauthorized'
        """
        if look.answer in (Answer.EXISTS, Answer.UNKNOWN):
            return Doubt(look.token), None
        if look.answer is Answer.UNAUTHORIZED and look.token != doubt.token:
            doubt = Doubt(look.token)
        gone_since = doubt.gone_since
        if look.answer is Answer.GONE:
            gone_since = _earlier(gone_since, look.now)
        doubt = Doubt(
            look.token,
            _earlier(doubt.since, look.now),
            gone_since,
            _earlier(doubt.needed_since, look.now) if look.needs_executors else None,
        )
        return doubt, self._failure(doubt, look)

    def _failure(self, doubt: Doubt, look: Look) -> Failure | None:
        def lasted(since: float | None, seconds: float) -> bool:
            return since is not None and look.now - since >= seconds

        if lasted(doubt.gone_since, self.gone_after):
            return _GONE
        if not lasted(doubt.since, self.gone_after):
            return None
        if look.successor_waits:
            return unauthorized("another driver waits for the checkpoint: the pod is gone")
        if lasted(look.probed_at, self.unprobed_after):
            return unauthorized("the kubelet no longer probes the driver: the pod may be gone")
        if lasted(doubt.since, self.unproved_after):
            return unauthorized("no new token for an hour: the pod may be gone")
        if lasted(doubt.needed_since, self.needed_after):
            return unauthorized("the query needs executors")
        return None

    def watch(self, look: Callable[[], Look], on_end: Callable[[Failure], None]) -> threading.Event:
        """Calls `on_end` once when the driver must end. Set the returned event to stop."""
        stopped = threading.Event()

        def run() -> None:
            doubt = Doubt()
            while not stopped.wait(self.ask_interval):
                seen, before = look(), doubt
                doubt, failure = self.judge(doubt, seen)
                if before.since is None and doubt.since is not None:
                    log_event("the pod of this driver is in doubt", 30, answer=seen.answer.name)
                if failure is not None:
                    on_end(failure)
                    return

        threading.Thread(target=run, name="pod-guard", daemon=True).start()
        return stopped


def _earlier(since: float | None, now: float) -> float:
    return now if since is None else since


def unauthorized(why: str) -> Failure:
    """The failure of a driver whose token the API server rejects."""
    return Failure(
        API_SERVER_UNAUTHORIZED,
        f"The API server rejects the token of the driver's pod (401), and {why}. Its "
        "ServiceAccount may have been deleted and created again: then delete the pod, and the next "
        "one gets a new token. If all pods are rejected, repair the API server's authentication.",
        recoverable=True,
    )


class OwnPod:
    """Asks the API server whether the pod that this process runs in still exists."""

    def __init__(self, api: Api, name: str) -> None:
        self._api = api
        self._name = name
        self._uid: str | None = None
        self._terminating = False
        self.report: str | None = None
        """The report on the pod, when it was last seen."""

    def ask(self) -> Answer:
        """The first pod that is seen is this one: another pod of its name has another UID.

        A pod that was being deleted is gone when its token is rejected.
        """
        try:
            pod = self._api.pod(self._name)
        except ApiError as error:
            if error.code == HTTPStatus.UNAUTHORIZED:
                return Answer.GONE if self._terminating else Answer.UNAUTHORIZED
            return Answer.GONE if error.code == HTTPStatus.NOT_FOUND else Answer.UNKNOWN
        if not pod.uid:
            return Answer.UNKNOWN
        self._uid = self._uid or pod.uid
        if pod.uid != self._uid:
            return Answer.GONE
        self._terminating = pod.terminating
        self.report = pod.annotations.get(naming.ANNOTATION_REPORT)
        return Answer.EXISTS
