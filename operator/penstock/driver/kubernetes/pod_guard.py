"""Ends a driver whose pod is gone while its process still runs.

A node that is cut off, or whose kubelet has ended, runs the containers of pods that Kubernetes has
removed ("force deletions do not wait for confirmation from the kubelet": Kubernetes, "Force Delete
StatefulSet Pods"). The next driver waits for the lock of the checkpoint, which this one holds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus

from penstock.cluster.rest import ApiError
from penstock.driver.kubernetes.api import Api
from penstock.driver.logs import log_event


class Answer(Enum):
    """What the API server says about the driver's own pod."""

    EXISTS = auto()
    GONE = auto()
    UNKNOWN = auto()
    """The API server is away, or answers with an error that says nothing about the pod."""


@dataclass(frozen=True)
class PodGuard:
    """Seconds of the guard."""

    ask_interval: float = 15.0
    gone_after: float = 30.0
    """How long the pod is gone in every answer, one after another, before the driver ends: longer
    than a start of the API server, while which it may refuse a valid token. One that is away in
    between may be starting again and again."""

    def watch(self, ask: Callable[[], Answer], on_gone: Callable[[], None]) -> threading.Event:
        """Calls `on_gone` once when the pod is gone. Set the returned event to stop."""
        stopped = threading.Event()

        def run() -> None:
            gone_since: float | None = None
            while not stopped.wait(self.ask_interval):
                answer, now = ask(), time.monotonic()
                if answer is not Answer.GONE:
                    gone_since = None
                    continue
                gone_since = now if gone_since is None else gone_since
                if now - gone_since >= self.gone_after:
                    log_event("the pod of this driver is gone; the driver stops", level=40)
                    on_gone()
                    return

        threading.Thread(target=run, name="pod-guard", daemon=True).start()
        return stopped


class OwnPod:
    """Asks the API server whether the pod that this process runs in still exists."""

    def __init__(self, api: Api, name: str) -> None:
        self._api = api
        self._name = name
        self._uid: str | None = None

    def ask(self) -> Answer:
        """The first pod that is seen is this one: another pod of its name has another UID.

        A token ends with its pod ("bound service account tokens": Kubernetes, "Managing Service
        Accounts"), so the usual answer about a pod that is gone is Unauthorized.
        """
        try:
            uid = self._api.uid(self._name)
        except ApiError as error:
            gone = error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND)
            return Answer.GONE if gone else Answer.UNKNOWN
        if not uid:
            return Answer.UNKNOWN
        self._uid = self._uid or uid
        return Answer.EXISTS if uid == self._uid else Answer.GONE
