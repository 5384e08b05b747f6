"""Starts the driver's process anew in its container.

The kubelet restarts a container at once only the first time: the second time within ten minutes it
waits ten seconds, and later up to five minutes (CrashLoopBackOff). So a driver whose JVM has died
starts itself, and leaves to the kubelet what does not live for long: its pauses protect the node.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError

from penstock.api.v1alpha1.status import LastFailure
from penstock.driver.logs import log_event

_ENV = "PENSTOCK_EARLIER_PROCESSES"
_SHORT_SECONDS = 60.0
_REAP_SECONDS = 2.0
_MAX_SHORT = 3


class EarlierProcesses(BaseModel, frozen=True):
    """The processes of this driver before this one, in the same container."""

    restarts: int = 0
    """How many there were."""
    short: int = 0
    """The last ones in a row that lived for less than a minute."""
    failure: LastFailure | None = None
    """Why the last one ended."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> EarlierProcesses:
        """As the process before has left them; none in a new container."""
        try:
            return cls.model_validate_json(environment.get(_ENV, "{}"))
        except ValidationError:
            return cls()

    def after(self, lived: float, failure: LastFailure | None) -> EarlierProcesses | None:
        """With the process that ends now, after so many seconds; None: the kubelet restarts it.

        >>> earlier = EarlierProcesses(restarts=7, short=2)
        >>> earlier.after(600.0, None).short, earlier.after(9.0, None).restarts
        (0, 8)
        >>> EarlierProcesses(short=3).after(9.0, None) is None
        True
        """
        short = self.short + 1 if lived < _SHORT_SECONDS else 0
        if short > _MAX_SHORT:
            return None
        return EarlierProcesses(restarts=self.restarts + 1, short=short, failure=failure)


NO_EARLIER = EarlierProcesses()


def restart(lived: float, termination_log: Path) -> None:
    """Replaces this process by a new one, which knows why; returns if the kubelet is to do it.

    The log has this process's own message, which the kubelet would else take for that of a later
    end of the container.
    """
    failure = None
    with contextlib.suppress(OSError, ValidationError):
        failure = LastFailure.model_validate_json(termination_log.read_bytes())
    following = EarlierProcesses.of(os.environ).after(lived, failure)
    if following is None:
        return
    log_event("the process starts anew", restarts=following.restarts)
    sys.stdout.flush()
    sys.stderr.flush()
    message = failure.model_dump_json(by_alias=True) if failure is not None else ""
    _reap()
    try:
        termination_log.write_text("")
        os.environ[_ENV] = following.model_dump_json()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606
    except OSError as error:
        with contextlib.suppress(OSError):
            termination_log.write_text(message)
        log_event("the process cannot start anew", logging.WARNING, error=str(error))


def _reap() -> None:
    """Waits for the JVM that was killed: the next process does not know it, and nobody else would
    ever collect it.
    """
    deadline = time.monotonic() + _REAP_SECONDS
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.02)
